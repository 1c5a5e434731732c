"""KCL's gradient is unbiased at any batch size; what a small batch costs is noise."""

import torch
from torch import Tensor

from ...diagnostics import gradient_signal_to_noise
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import mark_sizes, plot_lines
from ._embedding_descent import OBJECTIVES, Loss
from .kcl_batch_free import WIDTH, draw_pairs

NAMES = ("KCL", "DHEL", "InfoNCE")
LARGE = 512  # the batch whose gradient is taken for the true one
SMALL_BIAS = 0.05  # of the length of the gradient


def mean_gradient(loss: Loss, u: Tensor, v: Tensor, n: int) -> Tensor:
    """Of a linear layer on top of the embeddings, over batches of n."""
    layer = torch.eye(WIDTH, dtype=u.dtype, requires_grad=True)
    batches = list(zip(u.split(n), v.split(n), strict=True))
    total = torch.stack([loss(a @ layer, b @ layer) for a, b in batches]).mean()
    (gradient,) = torch.autograd.grad(total, layer)
    return gradient


def measure(cell: Cell) -> Values:
    """Squared bias over squared length, and signal to noise of one batch.

    Two halves of the samples have independent errors, so the product of their
    differences is right on average, whatever the noise.
    """
    loss, n = OBJECTIVES[cell["objective"]], cell["n"]
    u, v = draw_pairs(2 * cell["samples"], cell.generator())
    halves = list(zip(u.chunk(2), v.chunk(2), strict=True))
    small = [mean_gradient(loss, *half, n) for half in halves]
    large = [mean_gradient(loss, *half, LARGE) for half in halves]
    bias = ((small[0] - large[0]) * (small[1] - large[1])).sum()
    signal = gradient_signal_to_noise(u, v, loss, batch_size=n, max_batches=200)
    return {
        "bias": (bias / (large[0] * large[1]).sum()).item(),
        "signal": signal,
        "samples_for_one": n / signal**2 if signal > 0 else 1e6,
    }


def judge(rows: Rows) -> Verdict:
    """KCL's gradient may have no bias at any batch, and must lose signal."""
    kernel = rows.where(objective="KCL")
    bias, signal = kernel.spreads("n", "bias"), kernel.spreads("n", "signal")
    small, large = min(bias), max(bias)
    worst = max(bias, key=lambda n: bias[n].mean)
    if bias[worst].low > 0 and bias[worst].mean > SMALL_BIAS**2:
        return Verdict(
            "does not hold",
            f"With batches of {worst}, the bias of KCL's gradient is "
            f"{bias[worst].mean ** 0.5:.2f} of its length.",
        )
    most = max(spread.high for spread in bias.values())
    if not most < SMALL_BIAS**2:
        return Verdict(
            "not decided", "The mean of KCL's gradient is not known well enough."
        )
    other = rows.where(objective="InfoNCE").spreads("n", "bias")[small]
    enough = [n for n in signal if signal[n].mean >= 1]
    threshold = (
        f"from batches of {min(enough)} on" if enough else "at none of these sizes"
    )
    need = kernel.spreads("n", "samples_for_one")
    return Verdict(
        "holds",
        f"The bias of KCL's gradient is below {max(most, 0) ** 0.5:.1g} of its length "
        f"at every batch size (95 %; InfoNCE at {small}: "
        f"{max(other.mean, 0) ** 0.5:.2f}). The signal is "
        f"{signal[small].mean:.2f} times the noise with {small} samples and "
        f"{signal[large].mean:.1f} times with {large}, and outweighs it {threshold}. "
        f"For the same certainty, averaging batches of {small} needs "
        f"{need[small].mean / need[large].mean:.1f} times as many samples as averaging "
        f"batches of {large}.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Bias and signal to noise by batch size."""
    left, right = figure.subplots(1, 2)
    plot_lines(left, rows, x="n", y="bias", by="objective")
    left.set(ylabel="squared bias over squared length of the gradient")
    left.axhline(0, color="black", linewidth=1)
    plot_lines(right, rows, x="n", y="signal", by="objective")
    right.axhline(1, color="black", linewidth=1)
    right.set(ylabel="signal to noise of one batch's gradient", yscale="log")
    for axes in (left, right):
        mark_sizes(axes, rows["n"], "batch size")
    right.set_yticks([0.25, 0.5, 1, 2, 4], ["0.25", "0.5", "1", "2", "4"])
    right.minorticks_off()
    right.get_legend().remove()


ABOUT = About(
    where="open question 1",
    says="KCL's gradient is unbiased at every batch size; a small batch only makes it "
    "noisier.",
    run="The gradient of a linear layer on top of drawn embeddings, for batches of 2 "
    f"to 128, compared with that of batches of {LARGE}: its bias, and the length of "
    "the mean gradient over the noise of one batch.",
    refuted_if="A bias of KCL's gradient above "
    f"{100 * SMALL_BIAS:.0f} % of its length, beyond chance.",
    sizes=plan(
        objective=NAMES,
        tiny={"n": (64, 256), "samples": LARGE, "seeds": 1},
        quick={"n": (2, 8, 32, 128), "samples": 2048, "seeds": 5},
        full={"n": (2, 4, 8, 16, 32, 64, 128, 256), "samples": 16384, "seeds": 10},
    ),
    columns={
        "objective": "objective",
        "batch size": "n",
        "squared bias, of the gradient": "bias",
        "signal to noise": "signal",
        "samples for signal = noise": "samples_for_one",
    },
)
