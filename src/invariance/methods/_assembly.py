"""How each kind of learner is put together from what the four choices gave."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..encoders import Encoder, Head, build_head
from ..errors import SettingError
from ..negatives import (
    IN_TIME,
    NEGATIVES,
    Bank,
    NegativeSource,
    Prototypes,
    Queue,
    Vocabulary,
)
from ..objectives import Objective
from ._cpc import PredictiveCoding
from ._dim import DeepInfoMax
from ._learned_critic import LEARNED, make_critic
from ._learner import JointEmbedding, Learner, SelfPrediction
from ._masked_token import MaskedToken, require_tower
from ._method import Method
from ._nearest_neighbor import NearestNeighbor
from ._options import keeps_every_sample
from ._remembering import Remembering, make_prototypes
from ._two_towers import TwoTowers


@dataclass(frozen=True)
class Parts:
    """What a learner is put together from."""

    method: Method
    encoder: Encoder
    other: Encoder | None
    """Of a pair's second side."""
    own_head: Head | None
    """None where a learner makes its heads itself."""
    objective: Objective
    settings: Mapping[str, Mapping[str, Any]]
    """Of the parts that are still to be made, by their names."""
    n_samples: int | None
    seed: int

    @property
    def head(self) -> Head:
        """On the encoder."""
        assert self.own_head is not None
        return self.own_head

    @property
    def twin(self) -> Mapping[str, Any]:
        """How the momentum twin follows, where there is one."""
        follows = self.method.encoder == "momentum twin"
        return self.settings["twin"] if follows else {"momentum": None}


def choose_assembly(method: Method) -> Callable[[Parts], Learner]:
    """How learners of this kind are put together."""
    by_positives: dict[str, Callable[[Parts], Learner]] = {
        "future": assemble_predictive_coding,
        "places": assemble_deep_infomax,
        "neighbors": assemble_nearest_neighbor,
        "tokens": assemble_masked_token,
    }
    if method.positives in by_positives:
        return by_positives[method.positives]
    if method.negatives in NEGATIVES:
        return assemble_remembering
    if method.encoder in ("one", "two"):
        return assemble_joint_embedding
    return assemble_self_prediction


def assemble_predictive_coding(parts: Parts) -> Learner:
    """Windows of a sequence, and those that come after them."""
    method = parts.method
    return PredictiveCoding(
        parts.encoder,
        parts.objective,
        IN_TIME[method.negatives],
        head=method.head,
        hidden=method.hidden,
        **parts.settings["learner"],
    )


def assemble_deep_infomax(parts: Parts) -> Learner:
    """Places of an image and its summary."""
    heads = partial(make_head, parts.method, parts.encoder)
    how = {**parts.settings["learner"], "seed": parts.seed}
    return DeepInfoMax(parts.encoder, heads, parts.objective, **how)


def assemble_nearest_neighbor(parts: Parts) -> Learner:
    """Positives are the nearest of the rows that a queue keeps."""
    head = parts.head
    kept = {**parts.settings["negatives"], "width": head.width}
    support = make(Queue, kept, "support of neighbors")
    hidden = parts.method.hidden
    return NearestNeighbor(parts.encoder, head, parts.objective, support, hidden)


def assemble_masked_token(parts: Parts) -> Learner:
    """Hidden tokens, which are looked for among all that the tower knows."""
    n_tokens = require_tower(parts.encoder).table.num_embeddings
    kept = parts.settings["negatives"]
    kept = {**kept, "n_tokens": n_tokens, "seed": parts.seed}
    vocabulary = make(Vocabulary, kept, "vocabulary")
    return MaskedToken(parts.encoder, parts.head, parts.objective, vocabulary)


def assemble_remembering(parts: Parts) -> Learner:
    """Negatives are rows of earlier steps."""
    method, head, n_samples = parts.method, parts.head, parts.n_samples
    if n_samples is None and keeps_every_sample(method):
        raise SettingError(
            f"Negatives from {method.negatives!r} keep one row per sample: pass "
            "n_samples, the size of the data set."
        )
    source, prototypes = build_source(
        method, parts.settings["negatives"], n_samples, head.width, parts.seed
    )
    how = {**parts.twin, **parts.settings["learner"], "prototypes": prototypes}
    return Remembering(parts.encoder, head, parts.objective, source, **how)


def assemble_joint_embedding(parts: Parts) -> Learner:
    """Views of a batch, compared with each other, by one encoder or by two."""
    method, head, other = parts.method, parts.head, parts.other
    learner: Learner = JointEmbedding(parts.encoder, head, parts.objective)
    if other is not None:
        other_head = make_head(method, other)
        learner = TwoTowers(parts.encoder, head, parts.objective, other, other_head)
    if method.critic in LEARNED:
        sizes = without_prefix("critic", parts.settings)
        either = other is None  # then either view may come first
        learner.critic = make_critic(method.critic, head.width, sizes, symmetric=either)
    return learner


def assemble_self_prediction(parts: Parts) -> Learner:
    """A predictor, and what it predicts, without negatives."""
    method, objective = parts.method, parts.objective
    if objective.takes != "targets":
        raise SettingError(
            f"A {method.encoder} needs an objective with targets, byol or sim_siam, or "
            f"negatives from a queue: got {method.objective} with negatives from the "
            f"{method.negatives}."
        )
    # SimSiam's predictor narrows, BYOL's widens
    narrow = max(method.hidden // 4, 32)
    hidden = narrow if method.encoder == "predictor" else method.hidden
    return SelfPrediction(
        parts.encoder, parts.head, objective, hidden=hidden, **parts.twin
    )


def make_head(method: Method, encoder: Encoder, n_inputs: int | None = None) -> Head:
    """The method's head on an encoder's features, or on so many other numbers."""
    width = method.width
    if method.positives == "tokens":  # a place is compared with rows of the table
        width = require_tower(encoder).table.embedding_dim
    return build_head(
        method.head,
        encoder.width if n_inputs is None else n_inputs,
        method.hidden,
        width,
        last_batch_norm=method.last_batch_norm,
    )


def build_source(
    method: Method,
    settings: Mapping[str, Any],
    n_samples: int | None,
    width: int,
    seed: int,
) -> tuple[NegativeSource, list[Prototypes]]:
    """The source of negatives, on a bank of its own where it needs one."""
    settings, name = dict(settings), method.negatives
    if name == "queue" and method.positives != "prototypes":
        return make(Queue, {**settings, "width": width}, name), []
    of_bank = {"momentum": settings.pop("bank_momentum", 0.5), "seed": seed}
    if name == "bank":
        of_bank |= settings
    bank = make(Bank, {"n_samples": n_samples, "width": width, **of_bank}, "bank")
    if name == "bank":
        return bank, []
    if name != "queue":
        return make(NEGATIVES[name], {**settings, "bank": bank}, name), []
    clusters = {k: v for k, v in settings.items() if k != "size"}
    prototypes = make(make_prototypes, {**clusters, "bank": bank}, "prototypes")
    return make(Queue, {"size": settings["size"], "width": width}, name), prototypes


def without_prefix(part: str, parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of a part as it calls them itself."""
    return {name.removeprefix(f"{part}_"): v for name, v in parts[part].items()}


def make(kind: Callable[..., Any], settings: Mapping[str, Any], name: str) -> Any:
    """Call with settings; ones it does not know are refused in words."""
    try:
        return kind(**settings)
    except TypeError as cause:
        raise SettingError(
            f"The {name} cannot be made from {dict(settings)}: {cause}."
        ) from None
