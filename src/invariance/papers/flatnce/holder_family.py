"""Hölder means of the contrasts: FlatNCE at another temperature, and its limits."""

import math
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ...objectives import flat_nce
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._spread import Spread
from ._made_scores import gradient, relative_error

N, WIDTH, TEMPERATURE, TOLERANCE = 16, 8, 0.2, 1e-8
LIMITS = {"mean": "geometric mean", "max": "maximum", "min": "minimum"}


def flat(u: Tensor, v: Tensor, temperature: float, gamma: float = 1.0) -> Tensor:
    """FlatNCE over the other view's rows."""
    return flat_nce(u, v, temperature=temperature, gamma=gamma, negatives="cross")


def pool(u: Tensor, v: Tensor, limit: str) -> Tensor:
    """What is left of the objective in a limit: a pooled difference of scores."""
    scores = normalize(u, dim=1) @ normalize(v, dim=1).mT / TEMPERATURE
    outside = {"mean": 0.0, "max": -math.inf, "min": math.inf}[limit]
    eye = torch.eye(len(u), dtype=torch.bool)
    losses = []
    for each in (scores, scores.mT):
        others = each.masked_fill(eye, outside)
        pooled = {
            "mean": others.sum(1) / (len(u) - 1),
            "max": others.amax(1),
            "min": others.amin(1),
        }[limit]
        losses.append((pooled - each.diagonal()).mean())
    return torch.stack(losses).mean()


def measure(cell: Cell) -> Values:
    """Proposition S9's error, and the distance from each limit."""
    gamma = cell["gamma"]
    u, v = torch.randn(2, N, WIDTH, generator=cell.generator(), dtype=torch.double)
    holder = gradient(lambda u: flat(u, v, TEMPERATURE, gamma), u)
    # a negative factor on the scores is a positive one on those of -u
    sign, warmth = math.copysign(1.0, gamma), TEMPERATURE / abs(gamma)
    annealed = gradient(lambda u: flat(sign * u, v, warmth), u) / gamma
    distances = {
        f"from_{limit}": relative_error(
            holder, gradient(partial(pool, v=v, limit=limit), u)
        )
        for limit in LIMITS
    }
    return {"error": relative_error(annealed, holder), **distances}


def judge(rows: Rows) -> Verdict:
    """The identity up to rounding, and each limit within a twentieth."""
    worst = max(rows["error"])
    nearest = min(rows["gamma"], key=abs)
    ends = {"mean": nearest, "max": max(rows["gamma"]), "min": min(rows["gamma"])}
    left = {
        limit: Spread.of(rows.where(gamma=gamma)[f"from_{limit}"]).mean
        for limit, gamma in ends.items()
    }
    shown = ", ".join(
        f"{value:.1%} from that of the {LIMITS[limit]} at gamma = {ends[limit]:,g}"
        for limit, value in left.items()
    )
    because = (
        f"The gradient is 1/gamma times FlatNCE's at gamma times the scores, to within "
        f"{worst:.0e}; it is {shown}."
    )
    fails = worst > TOLERANCE or max(left.values()) > 0.05
    return Verdict("does not hold" if fails else "holds", because)


def draw(rows: Rows, figure: Figure) -> None:
    """The distance from each limit by gamma."""
    axes = figure.subplots()
    for k, (limit, label) in enumerate(LIMITS.items()):
        spreads = rows.spreads("gamma", f"from_{limit}")
        means = [max(spread.mean, 1e-6) for spread in spreads.values()]
        axes.plot(list(spreads), means, "-", color=f"C{k}", label=f"the {label}")
        seeds = [max(value, 1e-6) for value in rows[f"from_{limit}"]]
        axes.plot(rows["gamma"], seeds, ".", color=f"C{k}", alpha=0.4)
    axes.axvline(1, color="black", linewidth=1, linestyle=":")
    axes.annotate(" FlatNCE", (1, 2e-6))
    axes.set_xscale("symlog", linthresh=0.01)
    axes.set_xticks([-1e5, -100, -1, 0, 1, 100, 1e5])
    axes.set(yscale="log", xlabel="gamma", ylim=(1e-6, 1.5))
    axes.set(ylabel="relative distance of the gradient")
    axes.legend(frameon=False, title="from that of")


ABOUT = About(
    where="definition S8, proposition S9",
    says="The gradient of FlatNCE over a Hölder mean of exponent gamma is that of "
    "FlatNCE at gamma times the scores, divided by gamma; with gamma the mean goes "
    "from the minimum over the geometric mean to the maximum of the contrasts.",
    run=f"Gradients at {N} random pairs in {WIDTH} dimensions, temperature "
    f"{TEMPERATURE:g}, double precision, gamma from -100,000 to 100,000.",
    refuted_if=f"A relative error of the identity above {TOLERANCE:g}, or, at the "
    "ends, a gradient more than 5 % away from that of the limit.",
    sizes=plan(
        tiny={"gamma": (-100_000.0, 0.001, 1.0, 100_000.0), "seeds": 1},
        quick={
            "gamma": (
                *(-100_000.0, -100.0, -30.0, -10.0, -3.0, -1.0, -0.1, -0.01, -0.001),
                *(0.001, 0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 100_000.0),
            ),
            "seeds": 5,
        },
        full={
            "gamma": (-100_000.0, -10.0, -1.0, -0.01, 0.01, 1.0, 10.0, 100_000.0),
            "seeds": 20,
        },
    ),
    columns={
        "gamma": "gamma",
        "error of proposition S9": "error",
        "from the minimum": "from_min",
        "from the geometric mean": "from_mean",
        "from the maximum": "from_max",
    },
)
