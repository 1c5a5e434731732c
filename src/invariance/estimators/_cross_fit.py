r"""Cross-fitting: every row is read by a model that has not seen it.

The rows are cut into folds, and each fold is predicted by models that were trained on
all others. For labels the answer is Barber and Agakov's bound,

$$I(X;Y) \ge H(Y) + E\log q(y\mid x),$$

whose q mixes several classifiers and the bare frequencies of the labels; the weights of
the mixture are learned on other folds, too. A mixture that nothing helps is the bare
frequencies, and reads zero. Columns of numbers are predicted by ridge regression on
their products.
"""

import math
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

from ._normal_scores import fit_normal_scores

STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0)
NEIGHBORS = (5, 20)
MOST_PRODUCTS = 300
RIDGES = np.logspace(-3, 4, 15)
LEAST_PROBABILITY = 1e-6
FREQUENCIES = "frequencies"

Network = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Trains on rows and their labels; returns log-probabilities for other rows."""


def split_folds(n: int, count: int, generator: torch.Generator) -> list[Tensor]:
    """The rows of each fold, in random order."""
    return list(torch.randperm(n, generator=generator).tensor_split(count))


def multiply_columns(z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n q"]:
    """The columns with all their products; only squares where those are too many."""
    d = z.shape[1]
    i, j = (
        np.triu_indices(d) if d * (d + 3) / 2 <= MOST_PRODUCTS else [np.arange(d)] * 2
    )
    return np.concatenate([z, z[:, i] * z[:, j]], 1)


def predict_labels(
    x: Float[Tensor, "n d"],
    label: Int[Tensor, " n"],
    folds: list[Tensor],
    network: Network | None = None,
) -> Float[np.ndarray, " n"]:
    """Log q(y|x) - log p(y) of each row, by classifiers that learned from other folds.

    The mean is a lower bound, but for the bias of H(Y).

    Args:
        x: What labels are predicted from.
        label: Numbers of classes, from 0 on.
        folds: The rows of each fold.
        network: A network to train beside the other classifiers.
    """
    n, classes = len(label), int(label.max()) + 1
    frequency = label.bincount(minlength=classes).double().numpy() / n
    truth = label.numpy()
    scores: dict[str, np.ndarray] = {}
    for fold in folds:
        rows = fold.numpy()
        rest = np.setdiff1d(np.arange(n), rows)
        scale = fit_normal_scores(x[rest])
        a, b = scale(x[rest]), scale(x[rows])
        counts = np.bincount(truth[rest], minlength=classes) + 0.5
        models = {FREQUENCIES: counts / counts.sum()}
        models |= _classify(a.numpy(), truth[rest], b.numpy(), classes)
        if network is not None:
            models["network"] = network(a, label[rest], b).double().exp().numpy()
        for name, p in models.items():
            whole = np.broadcast_to(p, (len(rows), classes))
            read = scores.setdefault(name, np.full(n, np.nan))
            read[rows] = whole[np.arange(len(rows)), truth[rows]]
    # where the other folds were too few for a classifier, the frequencies stand for it
    both = [np.where(np.isnan(p), scores[FREQUENCIES], p) for p in scores.values()]
    likely = np.stack(both).clip(min=LEAST_PROBABILITY)
    mixed = np.empty(n)
    for fold in folds:
        rows = fold.numpy()
        rest = np.setdiff1d(np.arange(n), rows)
        mixed[rows] = _weigh(likely[:, rest]) @ likely[:, rows]
    return np.log(mixed) - np.log(frequency[truth])


def _classify(
    x: np.ndarray, label: np.ndarray, other: np.ndarray, classes: int
) -> Iterator[tuple[str, np.ndarray]]:
    """The name and the probabilities for ``other`` of every classifier."""
    present = np.unique(label)

    def spread(p: np.ndarray) -> np.ndarray:
        whole = np.zeros((len(other), classes))
        whole[:, present] = p
        return whole

    if len(present) < 2:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit cut short is judged by what it predicts
        wide = min(x.shape[1], len(x) - len(present) - 1)
        if wide >= 1:
            shrunk = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
            yield "gaussian classes", spread(shrunk.fit(x, label).predict_proba(other))
        inputs = {"logistic": (x, other)}
        if x.shape[1] * (x.shape[1] + 3) / 2 <= MOST_PRODUCTS:
            inputs["logistic of products"] = (
                multiply_columns(x),
                multiply_columns(other),
            )
        for name, (a, b) in inputs.items():
            model = LogisticRegression(tol=1e-3, max_iter=200, warm_start=True)
            for strength in STRENGTHS:
                model.set_params(C=strength)
                yield (
                    f"{name}, {strength:g}",
                    spread(model.fit(a, label).predict_proba(b)),
                )
        for k in NEIGHBORS:
            if k < len(x):
                near = KNeighborsClassifier(k).fit(x, label).predict_proba(other)
                yield f"{k} neighbors", spread((k * near + 1 / len(present)) / (k + 1))


def _weigh(scores: Float[np.ndarray, "m n"], steps: int = 300) -> np.ndarray:
    """Weights of the mixture with the best mean log-probability, by EM."""
    weight = np.full(len(scores), 1 / len(scores))
    for _ in range(steps):
        share = weight[:, None] * scores
        weight = (share / share.sum(0)).mean(1)
    least = 1 / scores.shape[1]  # what one more row could have asked for
    weight[0] = max(weight[0], least)  # the frequencies keep every logarithm finite
    return weight / weight.sum()


def predict_columns(
    x: Float[Tensor, "n d"], y: Float[Tensor, "n e"], folds: list[Tensor]
) -> Float[Tensor, "n e"]:
    """Predict the columns of y by ridge regressions on columns of x and products.

    The ridge of each column, and whether products help it, is chosen by generalized
    cross-validation within the training rows.
    """
    a, b, out = x.double().numpy(), y.double().numpy(), np.empty(y.shape)
    for fold in folds:
        rows = fold.numpy()
        rest = np.setdiff1d(np.arange(len(a)), rows)
        best = np.full(b.shape[1], math.inf)
        for lift in (np.asarray, multiply_columns):
            features = lift(a)
            mean, spread = features[rest].mean(0), features[rest].std(0) + 1e-12
            features = (features - mean) / spread
            level = b[rest].mean(0)
            u, size, v = np.linalg.svd(features[rest], full_matrices=False)
            inner, others = u.T @ (b[rest] - level), features[rows] @ v.T
            total = ((b[rest] - level) ** 2).sum(0)
            for ridge in RIDGES:
                slope = size / (size**2 + ridge)
                keep = size * slope
                error = total - ((2 * keep - keep**2)[:, None] * inner**2).sum(0)
                score = error / (1 - (keep.sum() + 1) / len(rest)) ** 2
                better = (score < best) & (keep.sum() + 1 < len(rest))
                best = np.where(better, score, best)
                guess = others @ (slope[:, None] * inner)
                out[np.ix_(rows, better)] = (guess + level)[:, better]
    return torch.from_numpy(out)
