r"""Weighted nearest neighbors: what the embeddings know without any fitting.

$$\hat y = \arg\max_c \sum_{j\in N_k(x)} \mathbb 1[y_j = c]\; e^{\cos(x, x_j)/T}$$

over the k training rows of highest cosine. Where a row may be of several classes, a
class is guessed by its share of the votes. The quickest honest score of an encoder: no
optimizer, no seed, nothing tuned. Customary k: 200 on CIFAR, 20 on smaller sets.
"""

import torch
from jaxtyping import Float, Integer, Shaped
from torch import Tensor
from torch.nn.functional import normalize

from ..checked_rows import above_zero, score_chunks
from ..errors import SettingError
from ._labeled import Labeled
from ._predictions import Targets, judge
from ._score import Score


def knn(
    train_h: Float[Tensor, "n e"],
    train_labels: Shaped[Tensor, "n *c"],
    test_h: Float[Tensor, "m e"],
    test_labels: Shaped[Tensor, "m *c"],
    *,
    k: int = 20,
    temperature: float | int = 0.1,
) -> Score:
    """Accuracy of a cosine-weighted vote of the ``k`` nearest training rows.

    Memory is linear in the rows. Equally near neighbors are taken in the order of the
    training rows, and equal votes go to the smallest label, so a score is repeatable.
    A class without a vote is no guess, also where ``top5`` has guesses to spare. Labels
    with a column per class give the mean average precision instead.

    >>> import torch
    >>> h, labels = torch.eye(4), torch.tensor([3, 3, 8, 8])
    >>> knn(h, labels, h + 0.1, labels, k=1).accuracy
    1.0
    """
    if k < 1:
        raise SettingError(f"k is a number of neighbors, at least 1: got {k}.")
    temperature = above_zero(temperature, "temperature")
    data = Labeled.of(train_h, train_labels, test_h, test_labels)
    notes, n = data.notes, len(data.train_h)
    if k > n:
        notes += (f"k={k} is more than the {n} training rows: all {n} vote.",)
        k = n
    train, test = normalize(data.train_h, dim=1), normalize(data.test_h, dim=1)
    votes = (
        _vote(scores, data.train_y, k, temperature, data.n_classes)
        for _, scores in score_chunks(test, train)
    )
    settings = {"k": k, "temperature": temperature, "n_train": n}
    return judge("knn", votes, data.test_y, settings, notes)


def _vote(
    scores: Float[Tensor, "c n"],
    labels: Targets,
    k: int,
    temperature: float | int,
    n_classes: int,
) -> Float[Tensor, "c n_classes"]:
    """What each class is given by the neighbors; -inf where nobody voted for it."""
    weights, nearest = find_nearest(scores, k, temperature)
    votes = scores.new_zeros(len(scores), n_classes)
    rows = torch.arange(len(scores), device=scores.device)
    if labels.ndim == 2:
        for j in range(k):
            votes += weights[:, j, None] * (labels[nearest[:, j]] == 1)
        return votes / weights.sum(1, keepdim=True)
    for j in range(k):  # one neighbor at a time: no two additions meet, on any device
        votes[rows, labels[nearest[:, j]]] += weights[:, j]
    return votes.masked_fill(votes == 0, -torch.inf)


def find_nearest(
    scores: Float[Tensor, "c n"], k: int, temperature: float | int
) -> tuple[Float[Tensor, "c k"], Integer[Tensor, "c k"]]:
    """What the nearest rows weigh, the nearest of all 1, and which they are."""
    cosines, nearest = _top(scores, k)
    return torch.exp((cosines - cosines[:, :1]) / temperature), nearest


def _top(
    scores: Float[Tensor, "c n"], k: int
) -> tuple[Float[Tensor, "c k"], Integer[Tensor, "c k"]]:
    """The ``k`` highest scores of each row; among equals the first columns."""
    values, columns = scores.topk(min(k + 1, scores.shape[1]), dim=1)
    if values.shape[1] > k:
        # topk may pick any of several equals: where some were left out, sort in full
        tied = values[:, k - 1] == values[:, k]
        if tied.any():
            order = scores[tied].sort(dim=1, descending=True, stable=True)
            columns[tied, :k] = order.indices[:, :k]
    return values[:, :k], columns[:, :k]
