r"""Regression: how much of a number per sample the embeddings tell.

$$R^2 = 1 - \frac{\sum_i (y_i - \hat y_i)^2}{\sum_i (y_i - \bar y)^2}$$

over the test rows, whose mean is ȳ: 1 says all, 0 is what guessing the mean scores, and
below 0 are guesses that are worse. ``ridge`` is a linear map of standardized features;
its penalty is the one that predicts training rows best which it was not fitted to, each
left out in turn. ``knn_regression`` is the mean of the k nearest training rows by their
cosines, weighted as in ``knn``: nothing is fitted. ``mae`` is the mean error without
its sign, in the number's own unit.

The interval of R² is that of a ratio of two means, to first order.
"""

from collections.abc import Iterable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from ..checked_rows import above_zero, as_rows, score_chunks
from ..errors import DataError, SettingError, ShapeError
from ._knn import find_nearest
from ._score import Z95, Interval, Score, Setting

PENALTIES = np.logspace(-2, 5, 15)


def ridge(
    train_h: Float[Tensor, "n e"],
    train_values: Float[Tensor, " k"],
    test_h: Float[Tensor, "m e"],
    test_values: Float[Tensor, " l"],
    *,
    l2: float | int | None = None,
) -> Score:
    """R² of a ridge regression.

    Args:
        train_h: features, standardized here.
        train_values: a number for each.
        test_h: features to predict from.
        test_values: what is to be predicted.
        l2: strength of the penalty; None: chosen on the training rows.

    >>> import torch
    >>> h = torch.linspace(-1, 1, 20)[:, None]
    >>> round(ridge(h, 3 * h[:, 0] + 1, h, 3 * h[:, 0] + 1, l2=0).value, 6)
    1.0
    """
    from sklearn.linear_model import RidgeCV
    from sklearn.preprocessing import StandardScaler

    check_values(train_h, train_values, test_h, test_values)
    train, test = (as_rows(h, "h").double().cpu().numpy() for h in (train_h, test_h))
    scaler = StandardScaler().fit(train)
    grid = PENALTIES if l2 is None else [max(float(l2), 1e-12)]
    model = RidgeCV(grid).fit(scaler.transform(train), train_values.double().cpu())
    guesses = torch.from_numpy(model.predict(scaler.transform(test)))
    settings: dict[str, Setting] = {"l2": float(model.alpha_), "n_train": len(train)}
    return judge_values("ridge", guesses, test_values, settings)


def knn_regression(
    train_h: Float[Tensor, "n e"],
    train_values: Float[Tensor, " k"],
    test_h: Float[Tensor, "m e"],
    test_values: Float[Tensor, " l"],
    *,
    k: int = 20,
    temperature: float | int = 0.1,
) -> Score:
    """R² of the weighted mean of the ``k`` nearest training rows.

    >>> import torch
    >>> h, values = torch.eye(4), torch.arange(4.0)
    >>> knn_regression(h, values, h + 0.1, values, k=1).value
    1.0
    """
    if k < 1:
        raise SettingError(f"k is a number of neighbors, at least 1: got {k}.")
    temperature = above_zero(temperature, "temperature")
    check_values(train_h, train_values, test_h, test_values)
    train, test = (normalize(as_rows(h, "h"), dim=1) for h in (train_h, test_h))
    k, n = min(k, len(train)), len(train)
    known = train_values.double().to(train.device)

    def guess() -> Iterable[Tensor]:
        for _, scores in score_chunks(test.to(train), train):
            weights, nearest = find_nearest(scores, k, temperature)
            votes = weights.double() * known[nearest]
            yield votes.sum(1) / weights.double().sum(1)

    settings: dict[str, Setting] = {"k": k, "temperature": temperature, "n_train": n}
    return judge_values("knn_regression", torch.cat([*guess()]), test_values, settings)


def check_values(
    train_h: Tensor, train_values: Tensor, test_h: Tensor, test_values: Tensor
) -> None:
    """Raise unless there is a finite number per row, and test numbers that differ."""
    if len(train_h) != len(train_values) or len(test_h) != len(test_values):
        raise ShapeError(
            "A regression needs a number per row: got "
            f"{len(train_h)} training rows with {len(train_values)} and {len(test_h)} "
            f"test rows with {len(test_values)}."
        )
    both = torch.cat([train_values.cpu(), test_values.cpu()])
    if not both.isfinite().all() or not can_regress(train_values, test_values):
        raise DataError(
            "A regression needs finite numbers, and at least two different ones among "
            "the training rows and among the test rows."
        )


def can_regress(train_values: Tensor | None, test_values: Tensor | None) -> bool:
    """Whether both parts have numbers that differ."""
    given = train_values, test_values
    return all(x is not None and len(x.unique()) > 1 for x in given)


def judge_values(
    name: str,
    guesses: Float[Tensor, " m"],
    truth: Float[Tensor, " m"],
    settings: dict[str, Setting],
) -> Score:
    """R² of guesses, and their mean absolute error."""
    y = truth.double().cpu()
    errors, spread = (y - guesses.double().cpu()) ** 2, (y - y.mean()) ** 2
    ratio = float(errors.mean() / spread.mean())
    value = 1 - ratio
    score = Score(
        name,
        value,
        len(y),
        find_interval(value, (errors - ratio * spread) / spread.mean()),
        settings,
        metric="r2",
    )
    sizes = errors.sqrt()
    mean = float(sizes.mean())
    score.also["mae"] = mean, find_interval(mean, sizes - mean)
    return score


def find_interval(value: float, parts: Float[Tensor, " m"]) -> Interval | None:
    """The 95 % interval of a mean whose rows differ from it by ``parts``."""
    if len(parts) < 2:
        return None
    half = Z95 * float(parts.square().sum() / (len(parts) - 1)) ** 0.5
    half /= len(parts) ** 0.5
    return value - half, value + half
