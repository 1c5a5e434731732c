"""``auto``: look at the data, run what suits them, and weigh the answers.

Few values on both sides are counted. Labels on one side are predicted by classifiers,
each row by those that have not seen it. Else several looks are taken at columns made
normal (which changes no information): a Gaussian copula on all rows; a critic that
starts from that copula's and learns what it misses, read on rows it has not seen; and
those of ``_looks``, which assume no distribution. If they find nothing beyond the
copula, its number stands. If they do, the largest of theirs stands, as held-out critics
and neighbors err downwards.

The interval is what the answer may be off by: its sampling error, where the looks
disagree, and what more rows would still add. Where the rows are too few to show a
product of columns, nothing rules out more than was found, and the upper end is
infinite. Only where dependence would have shown is an interval around zero called
independence (``conclusive``).
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..critics import Residual, gaussian_critic, lifted_gaussian_critic
from ..errors import DataError
from ._classical import (
    ROWS_PER_CELL,
    break_ties,
    canonical_correlations,
    classical_estimate,
    draw_few,
    gaussian_estimate,
    has_ties,
    histogram_estimate,
    map_margins,
)
from ._cross_fit import predict_labels, split_folds
from ._estimate import Z95, Estimate
from ._fit import LEAST_ROWS, Parts, fit
from ._looks import CLEAR, FOLDS, Look, look_around
from ._models import SCALES, Classifier, jackknife
from ._request import Request
from ._samples import Rows
from ._score_bounds import info_nce
from ._trained import train_critic

ROWS_PER_PRODUCT = 5
"""Rows for each product of two columns that let dependence on products show: chance
then explains a fifth of what is predicted."""
ROWS_PER_COLUMN = 100
"""Rows for each column that let classifiers find what is there to find: a linear one
learns 1/200 nats by heart, per class."""
LEAST_FOR_NETWORK = 400
"""Rows from which a network is tried among the classifiers: a tenth of four fifths of
them, 32, is what it stops by."""
FEW_FOLDS = 2
REPEATS = 4
"""Times that few rows are cut into folds, as one cut is a matter of luck."""

# Margins that no formula gives were set on the distributions of
# benchmarks/auto_information.py --tuning; the others there, and benchmarks/few_rows.py,
# tell whether the intervals hold.
SURE_GAIN, LEAST_GAIN = 2.5, 0.01  # errors, and nats, that a critic must gain
BEYOND_COPULA = 0.02  # nats, on top of CLEAR errors and of the look's slack
CONTRADICTION = 0.1  # nats, and share of them, that a copula may claim too much
START_ERRORS = 4.5  # errors that count where the start of a critic contradicts it
SHORT_OF_ROWS = 0.5  # share of a critic's nats by which seen rows may exceed unseen
COPULA_MARGIN = 0.01  # nats, and share of them, around a copula that stands


def auto_estimate(request: Request) -> Estimate:
    """The estimate of whatever suits the samples; ``reason`` says what and why."""
    s = request.samples
    n, columns = len(s), s.x.shape[1] + s.y.shape[1]
    if s.x_label is not None and s.y_label is not None:
        cells = len(torch.unique(torch.stack([s.x_label, s.y_label]), dim=1).T)
        if cells <= n / ROWS_PER_CELL or n < LEAST_ROWS:
            why = (
                f"both variables have few values ({cells} pairs in {n} rows), so "
                "they were counted"
            )
            counted = replace(
                histogram_estimate(request), estimator="auto (histogram)", reason=why
            )
            return replace(counted, conclusive=cells <= n / ROWS_PER_CELL)
    if s.x_label is not None or s.y_label is not None:
        return _estimate_from_labels(request)
    if n < columns + 3:
        raise DataError(
            f"{n} rows of {columns} columns are too few to say anything about their "
            "information: bring several times more rows, or fewer columns."
        )
    return _estimate_continuous(request)


# ------------------------------------------------------------------------ labels


def _estimate_from_labels(request: Request) -> Estimate:
    r"""Classifiers, cross-fitted on four fifths of the rows and on half of them.

    What a model of n rows lacks falls like 1/n if its kind is right, and more slowly if
    it is not: the number adds what the first law says is missing, the upper end what
    n^(-1/2) says. Nothing learned rules nothing out, unless there are many rows per
    column.
    """
    s = request.samples
    label = s.y_label if s.y_label is not None else s.x_label
    x, values = (s.x, s.x_label) if s.y_label is not None else (s.y, s.y_label)
    assert label is not None
    if values is not None:
        x = torch.nn.functional.one_hot(values).double()
    n, classes = len(label), int(label.max()) + 1
    generator = request.generator()

    network = _NetworkOf(request, classes) if n >= LEAST_FOR_NETWORK else None
    repeats = 1 if network else REPEATS

    def read(count: int) -> np.ndarray:
        splits = [split_folds(n, count, generator) for _ in range(repeats)]
        return np.mean([predict_labels(x, label, f, network) for f in splits], 0)

    most, half = read(FOLDS), read(FEW_FOLDS)
    known = 1 - 1 / FOLDS, 1 - 1 / FEW_FOLDS
    nats, error = _mean(most)
    # the entropy of labels is known to a chi-square's spread only
    error = math.hypot(error, math.sqrt((classes - 1) / 2) / n)
    gain, gain_error = _mean(most - half)
    of_labels, labels_error = _mean(-torch.log(label.bincount()[label] / n).numpy())
    bias = (classes - 1) / (2 * n)  # Miller and Madow's, of the labels' entropy
    nats, top = nats + bias, of_labels + bias + Z95 * labels_error
    held_out = nats

    def still_missing(gain: float, power: float) -> float:
        lack = [k**-power for k in known]
        return max(0.0, gain) * lack[0] / (lack[1] - lack[0])

    nats = min(max(0.0, nats + still_missing(gain, 1.0)), top)
    high = held_out + Z95 * error + still_missing(gain + Z95 * gain_error, 0.5)
    learned = held_out > Z95 * error + bias
    many = n >= ROWS_PER_COLUMN * x.shape[1]
    if not learned and not many:
        high = top
    why = (
        f"one variable has {classes} values; classifiers predict them from the other "
        f"variable on rows they have not seen, which shows {held_out:.3f} ± "
        f"{error:.3f} nats"
    )
    if learned:
        why += f"; the second half of the rows added {gain:+.3f}, so more may be there"
    elif not many:
        why += (
            ", so nothing was found; this does not show that there is nothing, as "
            f"{n} rows of {x.shape[1]} columns are few to learn from"
        )
    return replace(
        classical_estimate("auto (classifiers)", nats, error, s, n, s.notes),
        interval=(
            min(max(0.0, held_out - Z95 * error), nats),
            max(nats, min(high, top)),
        ),
        ceiling=of_labels + bias,
        conclusive=many,
        reason=why,
    )


def _keep_rows(x: Rows, y: Rows) -> tuple[Tensor, Tensor]:
    return torch.as_tensor(x), torch.as_tensor(y)


def _mean(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std()) / math.sqrt(len(values))


@dataclass(frozen=True)
class _NetworkOf:
    """A perceptron trained as ``request`` says: a tenth of the rows stops it early."""

    request: Request
    classes: int

    def __call__(self, x: Tensor, label: Tensor, other: Tensor) -> Tensor:
        asked = self.request.training
        options = replace(
            asked,
            check_every=min(asked.check_every, 50),
            patience=min(asked.patience, 4),
        )
        request = replace(self.request, training=options, progress=None)
        order = torch.randperm(len(x), generator=request.generator())
        stop, train = order.tensor_split([len(x) // 10])
        a, b = x.float().to(request.device), other.float().to(request.device)
        y = label[:, None].float().to(request.device)
        parts = Parts((a[train], y[train]), (a[stop], y[stop]), (b, y[:0]), _keep_rows)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(request.seed)
            model = Classifier(x.shape[1], torch.arange(self.classes))
            fit(model, parts, request)
        with torch.no_grad():
            return model.logits(b).log_softmax(1).cpu()


# -------------------------------------------------------------------- continuous


@dataclass(frozen=True)
class _Critic:
    """A held-out InfoNCE critic, and what it gains on the copula it starts from."""

    estimate: Estimate
    gain: float
    gain_error: float
    start: float
    """The held-out value of the copula's own critic."""
    error_of_start: float
    expected: float
    """The same for Gaussian rows with the copula's information."""

    def finds_more_than(self, nats: float) -> bool:
        """Whether it gains surely, and shows more where it was trained, at least.

        Few rows of many columns spoil the start, and undoing that is a gain, too.
        """
        gains = self.gain > max(SURE_GAIN * self.gain_error, LEAST_GAIN)
        return gains and (self.estimate.in_sample or 0.0) > nats

    @property
    def floor(self) -> float:
        return self.estimate.nats - Z95 * self.estimate.std_error


def _estimate_continuous(request: Request) -> Estimate:
    s = request.samples
    n, columns = len(s), s.x.shape[1] + s.y.shape[1]
    copula = gaussian_estimate(
        replace(request, training=replace(request.training, margins="normal"))
    )
    x, y = map_margins(s, "normal")
    if has_ties(x) or has_ties(y):
        x, y = (break_ties(z, request.generator()) for z in (x, y))
    dice = request.generator()
    rows = draw_few(n, columns, dice)
    raw = map_margins(s, "standard")
    looks = look_around(x[rows], y[rows], (raw[0][rows], raw[1][rows]), dice)
    critic = _train_on_the_copula(request, copula.nats) if n >= LEAST_ROWS else None
    reasons = [f"a Gaussian copula gives {copula.nats:.3f}"]
    if critic is not None:
        looks["critic"] = _look_of(critic)
        reasons.append(looks["critic"].words)
    reasons += [f"{q.words} {q.nats:.3f}" for k, q in looks.items() if k != "critic"]
    beyond = critic is not None and critic.finds_more_than(copula.nats)
    for name, look in looks.items():
        clear = CLEAR * math.hypot(look.error, copula.std_error) + BEYOND_COPULA
        clear += look.slack * max(0.0, copula.nats)
        if name != "critic" and look.nats - copula.nats > clear:
            beyond = True
    if not looks or not (beyond or _contradicts(copula, looks, critic)):
        pick, value, error = "gaussian", copula.nats, copula.std_error
        low, high = _around_the_copula(copula, looks, critic)
        reasons.append("no check finds more than the copula, so its number is used")
    else:
        pick = max(looks, key=lambda k: looks[k].nats)
        value, error = looks[pick].nats, looks[pick].error
        low = looks[pick].low
        high = max(look.high for look in looks.values()) + looks[pick].missing
        reasons.append(
            "there is more than the copula shows, so the largest of the others "
            f"({pick}) is used"
        )
    value = max(0.0, value)  # information is never negative
    notes = list(s.notes)
    enough = n >= ROWS_PER_PRODUCT * columns * (columns + 3) / 2
    if math.isinf(copula.interval[1]):
        high = math.inf
        notes += copula.notes[-1:]
    elif not enough:
        high = math.inf
        notes.append(
            f"{n} rows of {columns} columns are too few to rule out more information "
            "than was found"
        )
    if critic is not None:
        if pick != "gaussian":
            low = max(low, critic.floor)
        notes.append(f"certified lower bound: {critic.estimate.sentence}")
        if critic.estimate.saturated and pick == "critic":
            notes.append(
                "near the ceiling of what held-out rows can show: there may be more"
            )
            high = math.inf
    trained = critic.estimate if critic is not None else None
    return replace(
        classical_estimate(f"auto ({pick})", value, error, s, n, tuple(notes)),
        interval=(min(max(0.0, low), value), max(high, value)),
        conclusive=enough,
        steps=trained.steps if trained else 0,
        critic=trained.critic if trained else None,
        history=trained.history if trained else (),
        in_sample=trained.in_sample if trained else None,
        reason="; ".join(reasons),
    )


@torch.no_grad()
def _train_on_the_copula(request: Request, nats: float) -> _Critic:
    """Train a critic from the copula's; the gain is read on the same rows as its start.

    As one difference on the same rows, so that their noise cancels. Where columns are
    too many for a network, a Gaussian critic of columns times the row's length may do
    better on validation rows, and takes its place. What the start shows is compared
    with what it would show if the copula were right.
    """
    request = replace(
        request, training=replace(request.training, base="gaussian", margins="normal")
    )
    with torch.enable_grad():
        estimate, model, parts = train_critic("info_nce", request)
    assert isinstance(model.critic, Residual)
    base, lifted = model.critic.base, lifted_gaussian_critic(*parts.train)
    # all as bold as validation rows allow, so that the gain is of learning alone
    bold = {g: _calibrate(g(*parts.validation)) for g in (base, lifted)}
    scores = torch.stack([model.scale * model.critic(*parts.test), base(*parts.test)])
    if bold[lifted][1] > info_nce(model.scale * model.critic(*parts.validation)).item():
        scale = bold[lifted][0]
        scores[0] = scale * lifted(*parts.test)
        shown, error = jackknife(info_nce, scores[0])
        seen = lifted(*(z[: len(parts.test[0])] for z in parts.train))
        estimate = replace(
            estimate,
            nats=shown,
            std_error=error,
            in_sample=info_nce(scale * seen).item(),
        )
    gain, error = jackknife(
        lambda s: info_nce(s[0]) - info_nce(bold[base][0] * s[1]), scores
    )
    start, start_error = jackknife(info_nce, scores[1])
    sizes = len(parts.train[0]), len(parts.test[0])
    twin = _draw_twin(*map_margins(request.samples, "normal"), nats, sum(sizes))
    train, test = zip(*(z.split(sizes) for z in twin), strict=True)
    expected = info_nce(gaussian_critic(*train)(*test)).item()
    return _Critic(estimate, gain, error, start, start_error, expected)


def _calibrate(scores: Tensor) -> tuple[float, float]:
    """The scale at which the scores of these rows show most, and how much."""
    shown = {scale: info_nce(scale * scores).item() for scale in SCALES}
    best = max(shown, key=lambda scale: shown[scale])
    return best, shown[best]


def _draw_twin(x: Tensor, y: Tensor, nats: float, n: int) -> tuple[Tensor, Tensor]:
    """Gaussian rows with canonical correlations like those of [x, y] that share nats.

    Few rows make correlations look stronger; those of the twin are weakened together.
    """
    rho = canonical_correlations(x, y)
    each = -0.5 * (1 - rho.square()).clamp(min=1e-12).log()
    rho = (1 - (-2 * each * max(0.0, nats) / each.sum().clamp(min=1e-12)).exp()).sqrt()
    dice = torch.Generator().manual_seed(0)
    a = torch.randn(n, x.shape[1], generator=dice, dtype=torch.float64)
    b = torch.randn(n, y.shape[1], generator=dice, dtype=torch.float64)
    k = len(rho)
    b[:, :k] = rho * a[:, :k] + (1 - rho.square()).sqrt() * b[:, :k]
    return a, b


def _look_of(critic: _Critic) -> Look:
    """The critic's number lies between unseen rows (too low) and seen ones (too high).

    Where they are far apart the critic is short of rows, and what it lacks is unknown.
    """
    e = critic.estimate
    seen = max(e.in_sample or e.nats, e.nats)
    middle = (e.nats + seen) / 2
    words = (
        f"a critic that starts from it gains {critic.gain:+.3f} ± "
        f"{critic.gain_error:.3f} on unseen rows ({e.nats:.3f} there, {seen:.3f} on "
        "training rows)"
    )
    missing = (seen - e.nats) / 2 + max(0.0, critic.gain) / 2
    if seen - e.nats > SHORT_OF_ROWS * max(0.2, e.nats):
        missing = math.inf
    slack = (middle - critic.floor) / middle if middle > 0 else 0.0
    return Look(words, middle, e.std_error, max(0.0, slack), missing)


def _contradicts(
    copula: Estimate, looks: dict[str, Look], critic: _Critic | None
) -> bool:
    """Whether the copula claims clearly more than neighbors or unseen rows show."""
    if math.isinf(copula.interval[1]):
        return False  # neighbors see no more than ranks do
    if "ksg" in looks:
        look = looks["ksg"]
        error = math.hypot(look.error, copula.std_error)
        least = CONTRADICTION * (1 + max(0.0, look.nats)) + CLEAR * error
        return copula.nats - look.nats > least
    if critic is None:
        return False
    least = CONTRADICTION * (1 + max(0.0, critic.start))
    least += START_ERRORS * critic.error_of_start
    return critic.expected - critic.start > least


def _around_the_copula(
    copula: Estimate, looks: dict[str, Look], critic: _Critic | None
) -> tuple[float, float]:
    """The copula's error, widened by what the others leave open."""
    margin = Z95 * copula.std_error + COPULA_MARGIN * (1 + copula.nats)
    low, high = copula.nats - margin, max(copula.nats + margin, copula.interval[1])
    if "ksg" in looks:
        high = max(high, looks["ksg"].high)
    elif critic is not None:
        high += max(0.0, critic.gain + Z95 * critic.gain_error)
    return low, high
