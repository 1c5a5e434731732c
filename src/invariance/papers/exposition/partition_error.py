"""The error of a partition that is estimated from K draws."""

import math

import torch
from scipy.special import hyp0f1

from ...negatives import monte_carlo_partition
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_lines
from .._spread import Spread
from ._views_on_sphere import draw_unit_rows

WIDTH, ANCHORS = 32, 64
STEEP = (-0.6, -0.4)  # slopes that count as one over the square root


def partition_of(temperature: float) -> float:
    """Z of an anchor among rows that cover the sphere evenly, exactly."""
    return float(hyp0f1(WIDTH / 2, 1 / (2 * temperature) ** 2))


def find_constant(temperature: float) -> float:
    """C where the error is C / sqrt(K): the relative deviation of one draw."""
    z, second = partition_of(temperature), partition_of(temperature / 2)
    return math.sqrt(second / z**2 - 1)


def measure(cell: Cell) -> Values:
    """What 95 % of the errors of log Z stay below, over anchors and draws."""
    generator, temperature = cell.generator(), cell["temperature"]
    u = draw_unit_rows(ANCHORS, WIDTH, generator)
    errors = torch.cat(
        [
            monte_carlo_partition(
                u @ draw_unit_rows(cell["n"], WIDTH, generator).mT / temperature
            )
            for _ in range(cell["draws"])
        ]
    ) - math.log(partition_of(temperature))
    return {
        "error": float(errors.abs().quantile(0.95)),
        "bias": float(errors.mean()),
        "predicted": 1.96 * find_constant(temperature) / math.sqrt(cell["n"]),
    }


def find_slopes(rows: Rows) -> dict[float, Spread]:
    """By temperature: how the log of the error falls with the log of K, per seed."""
    slopes = {}
    for t in dict.fromkeys(rows["temperature"]):
        part = rows.where(temperature=t)
        slopes[t] = Spread.of([_fit(part.where(seed=s)) for s in set(part["seed"])])
    return slopes


def _fit(rows: Rows) -> float:
    x = torch.tensor(rows["n"]).double().log()
    y = torch.tensor(rows["error"]).double().log()
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / x.square().sum())


def judge(rows: Rows) -> Verdict:
    """Slopes of -1/2, at each temperature."""
    slopes = find_slopes(rows)
    fits = {t: STEEP[0] < s.low and s.high < STEEP[1] for t, s in slopes.items()}
    shown = ", ".join(f"{s.mean:.2f} at {t:g}" for t, s in slopes.items())
    because = f"By temperature, the error of log Z falls as K to the power {shown}."
    if not any(fits.values()):
        other = all(s.high < STEEP[0] or s.low > STEEP[1] for s in slopes.values())
        return Verdict("does not hold" if other else "not decided", because)
    most, least = max(slopes), min(slopes)
    slower = ", ".join(f"{t:g}" for t, fit in fits.items() if not fit)
    if slower:
        because += f" The power is not yet -0.5 at {slower}: K must be far above C^2."
    return Verdict(
        "holds within limits",
        f"{because} This holds after subtracting log K, by which the loss grows. And C "
        f"is {find_constant(most):.2g} at temperature {most:g}, but "
        f"{find_constant(least):.2g} at {least:g}.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Errors on logarithmic axes, with those that theory predicts dashed."""
    axes = figure.subplots()
    labels = {t: f"{t:g}" for t in rows["temperature"]}
    for k, t in enumerate(labels):
        predicted = rows.where(temperature=t).spreads("n", "predicted")
        means = [spread.mean for spread in predicted.values()]
        axes.plot(list(predicted), means, "--", color=f"C{k}", linewidth=1)
    plot_lines(axes, rows, x="n", y="error", by="temperature", labels=labels)
    axes.legend(
        frameon=False,
        title="temperature\n(dashed: 1.96 C / sqrt K)",
        ncols=2,
        loc="lower left",
    )
    axes.set(xscale="log", yscale="log", xlabel="draws K")
    axes.set(ylabel="95 % of the errors of log Z are below, nats")


ABOUT = About(
    where="theorems 10 and 11, section 8.6",
    says=r"With high probability the loss with K negatives is within $C/\sqrt K$ of "
    "its limit, where C depends on the variance of the exponentiated scores.",
    run=f"Anchors and draws spread evenly over the sphere in {WIDTH} dimensions, where "
    "the partition is known exactly, at five temperatures.",
    refuted_if="Errors that fall as one over the square root of K at no temperature.",
    sizes=plan(
        temperature=(1.0, 0.5, 0.2, 0.1, 0.05),
        tiny={"n": (16, 64, 256), "draws": 4, "seeds": 2},
        quick={"n": (16, 64, 256, 1024, 4096), "draws": 40, "seeds": 4},
        full={"n": (16, 64, 256, 1024, 4096, 16384), "draws": 100, "seeds": 10},
    ),
    columns={
        "temperature": "temperature",
        "K": "n",
        "95 % of errors": "error",
        "1.96 C / sqrt K": "predicted",
        "bias": "bias",
    },
    correction=r"""
    As printed there is no limit to approach: the loss with a sum over K negatives grows
    as log K for any fixed critic. What converges is $L_K - \log K$. Its error is that
    of $\log\hat Z$, and $\log\hat Z - \log Z \approx (\hat Z - Z)/Z$, whose standard
    deviation is $C/\sqrt K$ with $C = \sqrt{\mathrm{Var}(e^s)}/Z$. That is the relative
    spread, which explodes as the temperature falls. The logarithm adds a bias of about
    $-C^2/2K$, so estimates of log Z lean low. Averaged over anchors with draws of their
    own the noise cancels, but the bias does not.
    """,
)
