"""Do larger batches, with a learning rate in proportion, converge faster?

That depends on what is counted. Per step a larger batch sees more images; per epoch it
takes fewer steps.
"""

from ...training import Optim
from .._claim import EVERY_SIZE, About, Cell, Cells, Figure, Rows, Values, Verdict
from .._figures import mark_batches, mark_untrained, plot_lines
from .._small_runs import SMALLER, read_accuracy, read_untrained, train_small
from .._spread import Spread, compare

BUDGETS = {"steps": "the same number of steps", "epochs": "the same number of epochs"}


def measure(cell: Cell) -> Values:
    """Accuracy at the end of a whole run, its warm-up and decay included."""
    run = train_small(
        cell,
        method="flatclr",
        batch_size=cell["batch"],
        optim=Optim(lr_scaling="linear"),
    )
    return {"accuracy": read_accuracy(cell, run), "untrained": read_untrained(cell)}


def judge(rows: Rows) -> Verdict:
    """The largest batch against the smallest, by either count."""
    small, large = min(rows["batch"]), max(rows["batch"])
    gain: dict[str, Spread] = {}
    for budget in BUDGETS:
        part = rows.where(budget=budget)
        ends = part.by("batch", "accuracy")
        gain[budget] = compare(ends[large], ends[small])
    because = (
        f"Batch {large} is ahead of batch {small} by {gain['steps']} points after "
        f"{BUDGETS['steps']}, and by {gain['epochs']} points after {BUDGETS['epochs']}."
    )
    if gain["steps"].is_above_zero:
        if gain["epochs"].is_above_zero:
            return Verdict("holds", because)
        return Verdict(
            "holds within limits",
            f"{because} It is faster where the images of a step are processed at once, "
            "not for the same amount of work.",
        )
    if gain["steps"].is_below_zero:
        return Verdict("does not hold", because)
    return Verdict("not decided", because)


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy by batch size, by either count."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="batch", y="accuracy", by="budget", labels=BUDGETS)
    axes.get_legend().set_title("after")
    mark_untrained(axes, rows, x="batch")
    mark_batches(axes, rows, "batch")
    axes.set(ylabel="kNN accuracy, %")


def cells(seeds: int, batches: tuple[int, ...], samples: int, epochs: int) -> Cells:
    """The largest batch makes all epochs; for as many steps, others make fewer."""
    return [
        {
            "budget": budget,
            "batch": batch,
            "samples": samples,
            "epochs": epochs * batch // max(batches) if budget == "steps" else epochs,
            "seed": seed,
        }
        for budget in BUDGETS
        for batch in batches
        for seed in range(seeds)
    ]


ABOUT = About(
    where="figures 4 and S2",
    says="With a learning rate that grows in proportion to the batch, larger batches "
    "converge faster.",
    run="FlatCLR at the end of whole runs, with the same number of steps and with the "
    f"same number of epochs. {SMALLER} The paper trains on CIFAR-10, and notes that "
    "with a ResNet-50 a batch of 256 learned fastest at first.",
    refuted_if="After the same number of steps, the largest batch is behind the "
    "smallest.",
    sizes={
        "tiny": cells(1, (16, 32), 64, 2),
        "quick": cells(5, (32, 128), 2048, 8),
        "full": cells(5, (32, 64, 128, 256), 8192, 24),
    },
    toy=EVERY_SIZE,
    columns={
        "counted by": "budget",
        "batch size": "batch",
        "epochs": "epochs",
        "kNN accuracy, %": "accuracy",
        "untrained, %": "untrained",
    },
)
