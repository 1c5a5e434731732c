r"""The linear probe: how well a linear classifier reads the frozen embeddings.

$$\min_{W,b}\ \frac1n\sum_i -\log\operatorname{softmax}(W^\top x_i + b)_{y_i}
  + \frac\lambda2\lVert W\rVert^2$$

on features standardized with the training rows' mean and deviation. The problem is
convex and solved to convergence, so the score has no learning rate, no
schedule and no lucky epoch. lambda is ``l2`` (scikit-learn's C is 1 / (n lambda)); it
is chosen on a stratified part of the training rows held out for that, then everything
is refitted. The test rows are touched once. Where a row may be of several classes there
is a binary problem per class instead of the softmax, with the same penalty.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from ..errors import SettingError
from ._labeled import Labeled
from ._logistic import GRADIENT_TOLERANCE, Fit, Logistic
from ._predictions import Targets, judge, prediction_loss
from ._score import Score, Setting

L2_GRID = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
PATIENCE = 2  # strengths tried beyond the best one
ROWS_AT_ONCE = 4096  # test rows whose logits are held at one time


def linear_probe(
    train_h: Float[Tensor, "n e"],
    train_labels: Shaped[Tensor, "n *c"],
    test_h: Float[Tensor, "m e"],
    test_labels: Shaped[Tensor, "m *c"],
    *,
    seed: int = 0,
    l2: float | int | None = None,
    grid: Sequence[float | int] = L2_GRID,
    validation_share: float = 0.2,
    max_steps: int = 1000,
) -> Score:
    """Test accuracy of a multinomial logistic regression on frozen embeddings.

    Args:
        train_h: training embeddings; only these choose and fit the classifier.
        train_labels: their classes, any integers; or a 0 or 1 per row and class, which
            gives the mean average precision of one classifier per class.
        test_h: test embeddings, of the same encoder.
        test_labels: their classes.
        seed: of the split that chooses ``l2``.
        l2: strength of the penalty, 0 for none; None chooses it from ``grid``.
        grid: the strengths tried.
        validation_share: part of each class held out to choose ``l2``.
        max_steps: most steps of one fit, each a pass over the rows; a note says if they
            ran out.

    >>> import torch
    >>> h, labels = torch.eye(4).repeat(5, 1), torch.arange(4).repeat(5)
    >>> linear_probe(h, labels, h, labels).accuracy
    1.0
    """
    data = Labeled.of(train_h, train_labels, test_h, test_labels)
    probe, settings, notes = fit_probe(
        data,
        seed=seed,
        l2=l2,
        grid=grid,
        validation_share=validation_share,
        max_steps=max_steps,
    )
    parts = probe.narrow(data.test_h).split(ROWS_AT_ONCE)
    logits = (probe.fit.logits(part) for part in parts)
    return judge("linear", logits, data.test_y, settings, data.notes + notes)


def fit_probe(
    data: Labeled,
    *,
    seed: int = 0,
    l2: float | int | None = None,
    grid: Sequence[float | int] = L2_GRID,
    validation_share: float = 0.2,
    max_steps: int = 1000,
) -> tuple["Probe", dict[str, Setting], tuple[str, ...]]:
    """The classifier of ``linear_probe``, its settings, and notes; no test row enters.

    The arguments are those of ``linear_probe``.
    """
    if not 0 < validation_share < 1:
        raise SettingError(
            f"validation_share must lie between 0 and 1: got {validation_share}."
        )
    if max_steps < 1:
        raise SettingError(f"max_steps must be at least 1: got {max_steps}.")
    if l2 is None and len(grid) == 0:
        raise SettingError("grid needs at least one strength, or pass l2.")
    strengths = grid if l2 is None else [l2]
    if not all(0 <= strength < float("inf") for strength in strengths):
        raise SettingError(f"l2 must be 0 or more and finite: got {l2 or list(grid)}.")
    path = sorted({float(strength) for strength in strengths}, reverse=True)
    notes: tuple[str, ...] = ()
    settings: dict[str, Setting] = {"n_train": len(data.train_h), "seed": seed}
    if l2 is not None:  # another question than which one is best, which "l2" answers
        settings["fixed_l2"] = float(l2)
    strength = path[len(path) // 2]
    if len(path) > 1:
        held_out = _hold_out_rows(data.train_y, validation_share, seed)
        # where rows may be of several classes, those held out may be of none
        if held_out.any() and (
            data.train_y.ndim == 1 or (data.train_y[held_out] == 1).any()
        ):
            strength, chosen_by = _choose(data, held_out, path, max_steps)
            settings[f"validation_{chosen_by.metric}"] = chosen_by.value
        else:
            notes += (
                f"No class has two of {len(data.train_y)} labeled samples, so the "
                f"probe's penalty could not be tuned: l2={strength:g}, the middle of "
                "the grid, was used.",
            )
    scaler = Scaler.of(data.train_h)
    x = scaler(data.train_h)
    basis = find_basis(x)
    x = x if basis is None else x @ basis
    (fit,) = Logistic(x, data.train_y, data.n_classes).fit([strength], max_steps)
    if not fit.slope <= 100 * GRADIENT_TOLERANCE:  # or it is NaN
        notes += (
            f"The fit stopped short of its minimum (a slope of {fit.slope:.1g} is "
            "left): raise max_steps, or l2.",
        )
    return Probe(scaler, basis, fit), {"l2": strength, **settings}, notes


@dataclass(frozen=True)
class Scaler:
    """Standardizes features; one that never changes is only centered."""

    mean: Float[Tensor, " e"]
    deviation: Float[Tensor, " e"]

    @classmethod
    def of(cls, h: Float[Tensor, "n e"]) -> "Scaler":
        h = _precise(h)
        # squares of any scale stay finite, and dividing by a power of 2 rounds nothing
        largest = h.abs().amax(0)
        unit = largest.log2().floor().exp2().where(largest > 0, 1.0)
        deviation, mean = torch.std_mean(h / unit, 0, correction=0)
        constant = deviation <= 1e-7 * mean.abs()
        return cls(mean * unit, (deviation * unit).masked_fill(constant, 1.0))

    def __call__(self, h: Float[Tensor, "k e"]) -> Float[Tensor, "k e"]:
        return (_precise(h) - self.mean) / self.deviation


@dataclass(frozen=True)
class Probe:
    """A linear classifier of features, which gradients can go back through."""

    scaler: Scaler
    basis: Float[Tensor, "e r"] | None
    fit: Fit

    def narrow(self, h: Float[Tensor, "k e"]) -> Float[Tensor, "k r"]:
        """Features in the coordinates of the fit."""
        x = self.scaler(h)
        return x if self.basis is None else x @ self.basis

    def logits(self, h: Float[Tensor, "k e"]) -> Float[Tensor, "k c"]:
        """A number per row and class, the higher the likelier."""
        return self.fit.logits(self.narrow(h))


def find_basis(x: Float[Tensor, "n e"]) -> Float[Tensor, "e r"] | None:
    """Coordinates, as many as rows, that serve a penalized fit as well as all do.

    The minimum lies in the span of the rows it is fitted to, so fewer rows than
    features need an orthonormal basis of that span; None where rows are not fewer.
    """
    return None if len(x) >= x.shape[1] else torch.linalg.qr(x.T).Q


def _precise(h: Float[Tensor, "k e"]) -> Float[Tensor, "k e"]:
    """Float64, in which a line search does not stall, where the device has it."""
    return h if h.device.type == "mps" else h.double()


def _choose(
    data: Labeled,
    held_out: Bool[Tensor, " n"],
    path: Sequence[float],
    max_steps: int,
) -> tuple[float, Score]:
    """The strength of highest held-out score, then of lowest loss, and that score."""
    scaler = Scaler.of(data.train_h[~held_out])
    x, x_held = scaler(data.train_h[~held_out]), scaler(data.train_h[held_out])
    if (basis := find_basis(x)) is not None:
        x, x_held = x @ basis, x_held @ basis
    y, y_held = data.train_y[~held_out], data.train_y[held_out]
    problem, tried, scores = Logistic(x, y, data.n_classes), [], {}
    for l2, fit in problem.walk(path, max_steps):
        logits = fit.logits(x_held)
        scores[l2] = judge("linear", [logits], y_held, {})
        loss = prediction_loss(logits, y_held).item()
        tried.append((scores[l2].value, -loss, l2))
        if max(tried) not in tried[-PATIENCE - 1 :]:
            break  # ever weaker penalties fit ever slower, and have stopped helping
    best = max(tried)[-1]
    return best, scores[best]


def _hold_out_rows(y: Targets, share: float, seed: int) -> Bool[Tensor, " n"]:
    """Which rows are held out: ``share`` of each class, and at least one row stays.

    Rows that may be of several classes are held out by the first they have.
    """
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(len(y), generator=generator)
    if y.ndim == 2:
        y = torch.where((y == 1).any(1), (y == 1).int().argmax(1), y.shape[1])
    labels = y.cpu()[shuffled]
    order = shuffled[labels.argsort(stable=True)]
    held = torch.zeros(len(y), dtype=torch.bool)
    for rows in order.split(labels.bincount().tolist()):
        n_held = min(max(round(share * len(rows)), 1), len(rows) - 1)
        held[rows[:n_held]] = True
    return held.to(y.device)
