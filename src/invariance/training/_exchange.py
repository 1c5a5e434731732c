"""What leaves a client in a round, and what stays there; said before anything runs.

A client gets and sends all that its learner holds, a momentum twin, a predictor and the
running statistics of batch norms too, but for its memories: a queue stays, as do the
samples, the labels and the optimizer.
"""

from typing import Any

from torch import Tensor

from ..data import Source
from ..methods import Learner, is_memory
from ..words import join_words
from ._clients import Rounds
from ._privacy import describe_privacy, privacy_budget

MB = 2**20
Weights = dict[str, Tensor]


def sent_of(learner: Learner) -> Weights:
    """What a client sends, by name: all that is learned or averaged."""
    return {k: v for k, v in learner.state_dict().items() if not is_memory(k)}


def memories_of(learner: Learner) -> dict[str, Any]:
    """What a client keeps of its learner: rows of past batches."""
    return {k: v for k, v in learner.state_dict().items() if is_memory(k)}


def find_variances(learner: Learner) -> list[str]:
    """The names of the running variances of batch norms."""
    return [
        f"{name}.running_var"
        for name, part in learner.named_modules()
        if isinstance(getattr(part, "running_var", None), Tensor)
    ]


def describe_federation(
    rounds: Rounds, learner: Learner, source: Source
) -> dict[str, Any]:
    """Clients, what leaves them and what stays, in values and in sentences."""
    sent, word = sent_of(learner), source.kind.word
    parts = {name.split(".")[0]: 0 for name in sent}
    for name, value in sent.items():
        parts[name.split(".")[0]] += value.numel() * value.element_size()
    stays = [f"{word}s", "optimizer"]
    labeled = source.labels is not None or source.quantities is not None
    stays += ["labels"] * labeled
    stays += ["queue of past rows"] * bool(memories_of(learner))
    names, sizes = rounds.clients.names, rounds.clients.sizes
    active = set(rounds.active)
    budget = privacy_budget(rounds)
    about = {
        "clients": [
            {
                "name": names[c],
                "samples": sizes[c],
                "batch": batch if c in active else 0,
                "steps": rounds.steps_of(c) if c in active else 0,
            }
            for c, batch in enumerate(rounds.batches)
        ],
        "labels": rounds.clients.count_labels(source.labels),
        "classes": name_classes(source),
        "per_round": rounds.per_round,
        "sent": parts,
        "tensors": len(sent),
        "bytes_per_round": 2 * rounds.per_round * sum(parts.values()),
        "batch_norm_statistics": bool(find_variances(learner)),
        "stays": stays,
        "budget": budget,
    }
    privacy = describe_privacy(
        rounds.settings,
        budget,
        n_numbers=sum(v.numel() for v in sent.values() if v.is_floating_point()),
        per_round=rounds.per_round,
    )
    sentences = [
        rounds.describe(word),
        *rounds.describe_small(word),
        say_exchange(about),
        *([privacy] if privacy else []),
    ]
    return {**about, "sentences": sentences}


def name_classes(source: Source) -> list[str]:
    """What the classes are called, in the order in which they are counted."""
    if source.labels is None:
        return []
    labels, names = source.labels.unique().tolist(), source.class_names
    return [names[k] if 0 <= k < len(names) else f"class {k}" for k in labels]


def say_exchange(about: dict[str, Any]) -> str:
    """What leaves a client, in a sentence."""
    parts = [f"{name} {size / MB:.2f} MB" for name, size in about["sent"].items()]
    statistics = (
        "running statistics of batch norms are among them"
        if about["batch_norm_statistics"]
        else "there are no running statistics of batch norms"
    )
    return (
        f"sent: in each round, a client receives and returns {join_words(parts)}: "
        f"{about['tensors']} tensors ({statistics}), "
        f"{about['bytes_per_round'] / MB:.2f} MB per round over all clients, both "
        f"ways; {join_words(about['stays'])} stay at the client"
    )
