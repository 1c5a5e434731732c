"""Algorithm S2 turns the temperature the wrong way: as printed it runs away."""

import torch

from ...objectives import FlatNCE
from ...training import Ess, EssController
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._spread import Spread

N, WIDTH, RATE = 32, 32, 0.01  # the paper's rate
CLOSE = 0.05


def measure(cell: Cell) -> Values:
    """The ESS over many steps of one rule, the rows staying as they are."""
    u, v = torch.randn(2, N, WIDTH, generator=cell.generator())
    objective = FlatNCE(temperature=1 / cell["start"], negatives="cross")
    controller = EssController(objective, Ess(target=cell["target"], rate=RATE))
    ess = 0.0
    for _ in range(cell["steps"]):
        ess = objective.shares(u, v).mean().item()
        if cell["rule"] == "corrected":
            controller.update(ess, progress=0.0)
        else:  # algorithm S2: a large ESS makes beta smaller
            factor = 1 - RATE if ess > cell["target"] else 1 + RATE
            objective.temperature /= factor
    return {"end": ess, "inverse_temperature": 1 / objective.temperature}


def judge(rows: Rows) -> Verdict:
    """How far from its target each rule ends."""
    off = {
        rule: Spread.of([abs(r["end"] - r["target"]) for r in rows.where(rule=rule)])
        for rule in ("printed", "corrected")
    }
    nearest = min(abs(r["end"] - r["target"]) for r in rows.where(rule="printed"))
    farthest = max(abs(r["end"] - r["target"]) for r in rows.where(rule="corrected"))
    because = (
        f"As printed, the ESS ends {off['printed'].mean:.2f} away from its target on "
        f"average and never nearer than {nearest:.2f}; with the comparison turned "
        f"around, it ends at most {farthest:.3f} away."
    )
    if nearest > CLOSE > farthest:
        return Verdict("formula is wrong", because)
    if off["printed"].mean < CLOSE:
        return Verdict("holds", because)
    return Verdict("not decided", because)


def draw(rows: Rows, figure: Figure) -> None:
    """Where each rule ends, against the target."""
    panels = figure.subplots(1, 2, sharey=True)
    titles = {"printed": "as printed", "corrected": "comparison turned around"}
    starts = list(dict.fromkeys(rows["start"]))
    for axes, (rule, title) in zip(panels, titles.items(), strict=True):
        axes.plot([0, 1], [0, 1], "k-", linewidth=1)
        for start, marker in zip(starts, "ov^", strict=False):
            part = rows.where(rule=rule, start=start)
            label = f"inverse temperature {start:g}"
            axes.plot(part["target"], part["end"], marker, alpha=0.5, label=label)
        axes.set(title=title, xlabel="target ESS", xlim=(0, 1), ylim=(0, 1.03))
    panels[0].set(ylabel="ESS in the end")
    panels[1].legend(frameon=False, title="started from")


ABOUT = About(
    where="algorithm S2",
    says="To hold the effective sample size at a target, make the inverse temperature "
    "1 % smaller when it is above the target, and 1 % larger otherwise.",
    run=f"{N} random pairs in {WIDTH} dimensions that stay as they are, started from "
    "an inverse temperature of 1 and of 50, with the rule as printed and with this "
    "library's.",
    refuted_if="The ESS moves away from its target.",
    sizes=plan(
        rule=("printed", "corrected"),
        start=(1.0, 50.0),
        tiny={"target": (0.3,), "steps": 200, "seeds": 1},
        quick={"target": (0.15, 0.4, 0.7), "steps": 500, "seeds": 3},
        full={
            "target": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
            "steps": 1000,
            "seeds": 10,
        },
    ),
    columns={
        "rule": "rule",
        "inverse temperature at the start": "start",
        "target": "target",
        "ESS at the end": "end",
        "inverse temperature at the end": "inverse_temperature",
    },
    correction=r"""
    With weights $w_j \propto e^{\beta s_j}$ the effective sample size falls as $\beta$
    grows: $\beta = 0$ makes all weights equal (ESS 1), a large $\beta$ leaves one. So
    an ESS above its target asks for a *larger* $\beta$:

        if ESS > target: beta = (1 + gamma) * beta
        else:            beta = (1 - gamma) * beta

    Algorithm S2 has them the other way round, so every step leads further away. Its
    body also never multiplies the scores by $\beta$.
    """,
)
