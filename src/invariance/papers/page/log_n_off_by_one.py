"""With N negatives the ceiling is log(N + 1) nats, not log N bits."""

import math

import torch

from ...estimators import correlated_gaussian
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import mark_sizes

NATS, WIDTH = 8.0, 4
PAIRS = correlated_gaussian(WIDTH, nats=NATS)


def measure(cell: Cell) -> Values:
    """The loss of picking the positive among N negatives, with the exact critic."""
    generator, n = cell.generator(), cell["n"] + 1
    losses = []
    for _ in range(cell["batches"]):
        x, y = PAIRS.sample(n, generator=generator)
        scores = PAIRS.log_ratio(x.repeat_interleave(n, 0), y.repeat(n, 1)).view(n, n)
        each = torch.nn.functional.cross_entropy(scores, torch.arange(n))
        losses.append(each.item())
    loss = sum(losses) / len(losses)
    return {"loss": loss, "nats": math.log(n) - loss}


def judge(rows: Rows) -> Verdict:
    """Some number of negatives must certify more than its logarithm."""
    spreads = rows.spreads("n", "nats")
    over = {n: s.low - math.log(n) for n, s in spreads.items() if s.low > math.log(n)}
    too_much = [n for n, s in spreads.items() if s.low > min(NATS, math.log(n + 1))]
    if too_much:
        return Verdict(
            "does not hold",
            f"With {too_much[0]} negatives the bound reads "
            f"{spreads[too_much[0]].mean:.2f} nats: more than log(N + 1), or more than "
            f"the {NATS:g} there are.",
        )
    largest = max(spreads)
    if not over:
        undecided = any(math.isinf(s.half_width) for s in spreads.values())
        return Verdict(
            "not decided" if undecided else "holds",
            f"Nothing above log N was certified: {spreads[largest].mean:.2f} nats with "
            f"{largest} negatives.",
        )
    few = min(over)
    bits = spreads[largest].mean / math.log(2)
    return Verdict(
        "formula is wrong",
        f"With N = {few} the loss certifies {spreads[few].mean:.2f} of {NATS:g} nats, "
        f"which is above log N = {math.log(few):.2f} and at most log(N + 1) = "
        f"{math.log(few + 1):.2f}. The same holds for {len(over)} of the "
        f"{len(spreads)} values of N. The {spreads[largest].mean:.2f} nats at N = "
        f"{largest} are {bits:.2f} bits.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """What is certified, between the two ceilings."""
    axes = figure.subplots()
    axes.plot(rows["n"], rows["nats"], "o", color="C0", alpha=0.6, label="certified")
    sizes = list(dict.fromkeys(rows["n"]))
    for shift, style, label in ((1, "-", "log(N + 1)"), (0, "--", "log N, as printed")):
        ceiling = [math.log(n + shift) for n in sizes]
        axes.plot(sizes, ceiling, style, color="black", linewidth=1, label=label)
    mark_sizes(axes, sizes, "negatives N")
    axes.set(ylabel="information, nats")
    axes.legend(frameon=False)


ABOUT = About(
    where="InfoNCE as mutual information lower bound",
    says="With N negatives, the mutual information is at least log N minus the loss, "
    "so at most log N bits can be recovered.",
    run="The loss of picking the positive among 1 to 255 negatives, with the exact "
    f"critic of {WIDTH}-dimensional Gaussians that share {NATS:g} nats.",
    refuted_if="A loss that certifies more than log N, and never more than log(N + 1).",
    sizes=plan(
        tiny={"n": (1, 7), "batches": 50, "seeds": 2},
        quick={"n": (1, 2, 3, 7, 15, 63, 255), "batches": 200, "seeds": 5},
        full={"n": (1, 2, 3, 7, 15, 63, 255, 1023), "batches": 500, "seeds": 10},
    ),
    columns={"negatives": "n", "loss": "loss", "log(N + 1) - L, nats": "nats"},
    correction=r"""
    The loss is a softmax over N + 1 candidates, the positive and N negatives. Guessing
    gives $\log(N+1)$, so the bound is $I \ge \log(N+1) - L$ and its ceiling
    $\log(N+1)$. The printed $\log N - L$ is also a bound, but a lower one, by
    $\log\frac{N+1}{N}$: with one negative it never certifies anything. With natural
    logarithms the unit is the nat; a bit is $\log 2 = 0.693$ nats, so 255 negatives
    have a ceiling of 5.55 nats, which are 8 bits.
    """,
)
