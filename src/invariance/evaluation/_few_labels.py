r"""Few labels: what the embeddings are worth when labels are dear.

Of each class c with n_c rows, max(1, round(share n_c)) are drawn, so every class is
there however small the share; the rest of the training part stays unlabeled. The
draw is a function of (labels, share, seed, draw) alone. Several draws show how much
the luck of the draw decides.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from ..checked_rows import as_labels
from ..errors import SettingError
from ._labeled import one_class_each
from ._linear_probe import linear_probe
from ._score import Score, Setting

SHARES = (0.01, 0.1)
DRAWS = 3


def list_shares(shares: float | Sequence[float]) -> list[float]:
    """One share of the labels or several, as several."""
    return [shares] if isinstance(shares, int | float) else list(shares)


def few_labels(
    labels: Integer[Tensor, " n"], share: float | int, *, seed: int = 0, draw: int = 0
) -> Integer[Tensor, " k"]:
    """Row numbers, in ascending order, of a stratified share of the labels.

    >>> import torch
    >>> labels = torch.arange(1000) % 10
    >>> rows = few_labels(labels, 0.01)
    >>> labels[rows].unique(return_counts=True)[1].tolist()
    [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    """
    if not 0 < share <= 1:
        raise SettingError(f"share is a part of the labels, 0 to 1: got {share}.")
    one_class_each(labels, "A draw of few labels")
    y = as_labels(labels, len(labels)).cpu()
    generator = torch.Generator().manual_seed(seed * 100_003 + draw)
    shuffled = torch.randperm(len(y), generator=generator)
    _, numbers = y[shuffled].unique(return_inverse=True)
    order = shuffled[numbers.argsort(stable=True)]
    kept = [
        rows[: max(1, round(share * len(rows)))]
        for rows in order.split(numbers.bincount().tolist())
    ]
    return torch.cat(kept).sort().values


def few_labels_linear(
    train_h: Float[Tensor, "n e"],
    train_labels: Integer[Tensor, " n"],
    test_h: Float[Tensor, "m e"],
    test_labels: Integer[Tensor, " m"],
    *,
    share: float | int,
    draws: int = DRAWS,
    seed: int = 0,
    l2: float | int | None = None,
) -> list[Score]:
    """Linear probes that see a share of the training labels, one score per draw.

    ``l2`` is that of ``linear_probe``.

    >>> import torch
    >>> h, labels = torch.eye(4).repeat(25, 1), torch.arange(4).repeat(25)
    >>> for s in few_labels_linear(h, labels, h, labels, share=0.1, draws=2):
    ...     print(s.accuracy, s.settings["n_labels"])
    1.0 8
    1.0 8
    """
    scores = []
    for draw in range(draws):
        rows = few_labels(train_labels, share, seed=seed, draw=draw)
        rows = rows.to(train_h.device)
        labels = train_labels.to(train_h.device)[rows]
        score = linear_probe(
            train_h[rows], labels, test_h, test_labels, seed=seed, l2=l2
        )
        scores.append(mark_draw("few_labels_linear", score, share, draw))
    return scores


def mark_draw(name: str, score: Score, share: float | int, draw: int) -> Score:
    """A score of any protocol, marked as one draw of few labels."""
    n = int(score.settings["n_train"])
    settings: dict[str, Setting] = {"share": float(share), "draw": draw, "n_labels": n}
    return replace(score, name=name, settings=settings | score.settings)
