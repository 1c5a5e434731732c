"""A critic trained by InfoNCE is the log density ratio, up to a term c(x).

The difference of two candidates' scores for one context has no c(x) in it, and shows
how near the critic is to the ratio. The mean difference from the ratio over candidates
is c(x) itself, which InfoNCE leaves free and a Jensen-Shannon critic does not.
"""

from ...estimators import correlated_gaussian, estimate_mi, rho_of
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_lines
from .._spread import Spread
from ._known_pairs import exact_critic, show_one_seed

WIDTH, NATS = 2, 1.0
PAIRS = correlated_gaussian(WIDTH, nats=NATS)
TESTED = 500  # fresh pairs that the critic is compared on
ENOUGH = 0.9


def measure(cell: Cell) -> Values:
    """How near a trained critic is to the log ratio on fresh pairs."""
    generator = cell.generator()
    x, y = PAIRS.sample(cell["n"], generator=generator)
    estimate = estimate_mi(
        x,
        y,
        estimator=cell["objective"],
        base="none",
        margins="raw",
        seed=cell.seed,
        max_steps=cell["steps"],
        check_every=max(10, cell["steps"] // 5),
        max_candidates=256,  # only the critic is wanted, not what it reads
    )
    x, y = PAIRS.sample(TESTED, generator=generator)
    assert estimate.trained_critic is not None
    trained = estimate.trained_critic(x, y).double()
    exact = exact_critic(rho_of(NATS, WIDTH), WIDTH)(x.double(), y.double())
    contrasts = [g.diagonal() - g.roll(1, 1).diagonal() for g in (trained, exact)]
    left = (contrasts[0] - contrasts[1]).square().sum()
    # strangers that nobody meets in training say nothing about c(x)
    met = exact > -3
    level = ((trained - exact) * met).sum(1) / met.sum(1)
    return {
        "r2": float(1 - left / contrasts[1].square().sum()),
        "level_deviation": float(level.std()),
    }


def judge(rows: Rows) -> Verdict:
    """The ratio is found, and the level is free."""
    if unknown := show_one_seed(rows):
        return unknown
    steps = max(rows["steps"])
    trained = rows.where(steps=steps)
    ours, other = (trained.where(objective=o) for o in ("info_nce", "jsd"))
    fit, level = Spread.of(ours["r2"]), Spread.of(ours["level_deviation"])
    because = (
        f"After {steps} steps the critic explains {fit} of the differences between log "
        f"ratios. Its level c(x) has a deviation of {level} nats over x; with a "
        f"Jensen-Shannon critic that is {Spread.of(other['level_deviation'])}."
    )
    if fit.low > ENOUGH:
        return Verdict("holds", because)
    return Verdict("does not hold" if fit.high < ENOUGH else "not decided", because)


def draw(rows: Rows, figure: Figure) -> None:
    """What the critic explains, and how far its level varies, by steps."""
    left, right = figure.subplots(1, 2)
    labels = {"info_nce": "InfoNCE", "jsd": "Jensen-Shannon"}
    for axes, value, title in (
        (left, "r2", "differences of log ratios explained"),
        (right, "level_deviation", "deviation of c(x), nats"),
    ):
        plot_lines(axes, rows, x="steps", y=value, by="objective", labels=labels)
        axes.set(xscale="log", xlabel="training steps", ylabel=title, ylim=(0, None))
    left.set_ylim(min(0, *rows["r2"]), 1.02)
    left.axhline(1, color="black", linewidth=1)
    left.annotate("the log ratio", (max(rows["steps"]), 0.94), va="top", ha="right")


ABOUT = About(
    where="theorem 7",
    says="The critic that maximizes InfoNCE is the log density ratio plus any function "
    "of the context.",
    run=f"Neural critics trained on {WIDTH}-dimensional Gaussians that share {NATS:g} "
    "nat, compared with the exact log ratio on fresh pairs. Critics trained by the "
    "Jensen-Shannon objective, which leaves no term free, are shown for comparison.",
    refuted_if=f"Trained critics that explain less than {100 * ENOUGH:.0f} % of the "
    "differences between two candidates' log ratios.",
    sizes=plan(
        objective=("info_nce", "jsd"),
        tiny={"n": 400, "steps": (10,), "seeds": 2},
        quick={"n": 4000, "steps": (10, 30, 100, 300), "seeds": 3},
        full={"n": 20000, "steps": (10, 30, 100, 300, 1000), "seeds": 8},
    ),
    columns={
        "objective": "objective",
        "steps": "steps",
        "R² of differences": "r2",
        "deviation of c(x)": "level_deviation",
    },
    correction=r"""
    The result is right; steps 2 and 3 of the printed proof are not. Step 3 sets the
    ratio $p(x|c)/p(x)$ equal to the expectation of a softmax, which is at most 1, while
    ratios above 1 are what the critic is to find. A valid proof: given c and the set of
    candidates, in any order, the loss is a cross-entropy of naming the positive among
    them. It is smallest where the softmax is the true posterior, which by Bayes'
    rule is $\frac{p(x_i|c)/p(x_i)}{\sum_j p(x_j|c)/p(x_j)}$. So
    $e^{s(c,x)}\propto p(x|c)/p(x)$ with a factor that may depend on c, and only on c.
    """,
)
