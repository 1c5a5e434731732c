"""Critic and encoder as a game: the encoder must maximize as well."""

import math

import torch

from ...estimators import correlated_gaussian, donsker_varadhan, rho_of
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_lines
from .._spread import Spread
from ._known_pairs import exact_critic

NATS = 1.0


def measure(cell: Cell) -> Values:
    """The best critic's value for an encoder that keeps one direction of two."""
    generator, angle = cell.generator(), math.radians(cell["angle"])
    x, y = correlated_gaussian(1, nats=NATS).sample(
        cell["n"], generator=generator, dtype=torch.float64
    )
    nuisance = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    h = math.cos(angle) * x + math.sin(angle) * nuisance
    rho = rho_of(NATS, 1) * math.cos(angle)
    value = donsker_varadhan(exact_critic(rho, 1)(h, y))
    return {"value": float(value), "kept": -math.log1p(-(rho**2)) / 2}


def judge(rows: Rows) -> Verdict:
    """What is left of the information where the value is smallest, and largest."""
    values = rows.spreads("angle", "value")
    worst = min(values, key=lambda angle: values[angle].mean)
    best = max(values, key=lambda angle: values[angle].mean)
    kept = {angle: rows.where(angle=angle)[0]["kept"] for angle in (worst, best)}
    because = (
        f"The value is smallest, {round(values[worst].mean, 2) + 0:.2f} nats, for the "
        f"encoder that keeps {kept[worst]:.2f} of the {NATS:g} nat, and largest, "
        f"{values[best].mean:.2f} nats, for the one that keeps {kept[best]:.2f}."
    )
    if values[worst].high >= values[best].low:
        return Verdict("not decided", because)
    wrong = kept[worst] < kept[best]
    return Verdict("formula is wrong" if wrong else "holds", because)


def draw(rows: Rows, figure: Figure) -> None:
    """The value by what the encoder looks at."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="angle", y="value")
    kept = Spread.of(rows.where(angle=0)["value"]).mean
    axes.annotate("maximized: all is kept", (2, kept), va="bottom")
    axes.annotate("minimized, as printed: nothing is kept", (90, 0.35), ha="right")
    axes.set(xlabel="angle from the shared direction to the noise, degrees")
    axes.set(ylabel="value at the best critic, nats")


ABOUT = About(
    where="section 7.8",
    says="Encoder and critic play a game: the critic maximizes, and the encoder "
    r"minimizes, $\mathbb E_p[s] - \log\mathbb E_q[e^s]$.",
    run="An encoder that keeps one direction of a plane, with its best critic. One "
    f"direction of the plane holds all the {NATS:g} nat that is shared, the other is "
    "noise.",
    refuted_if="The value is smallest for an encoder that keeps less than others.",
    sizes=plan(
        angle=(0, 30, 60, 75, 90),
        tiny={"n": 64, "seeds": 2},
        quick={"n": 1024, "seeds": 5},
        full={"n": 4096, "seeds": 20},
    ),
    columns={"angle": "angle", "value": "value", "information kept": "kept"},
    correction=r"""
    The largest value over critics is the information that the encoded view keeps. To
    minimize that over encoders is to throw everything away: it is 0 for an encoder that
    is constant. Both must maximize, $\max_f\max_s$. It would be a game if views were
    chosen against the encoder, to make the task hard.
    """,
)
