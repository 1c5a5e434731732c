"""Instance discrimination is InfoNCE with a memory bank: the same loss and gradient."""

import math
from typing import Any

import torch
from torch.nn.functional import cross_entropy, normalize

from ...negatives import Bank
from ...objectives import InfoNCE, info_nce
from .._claim import About, Cell, Figure, Rows, Values, Verdict, grid
from .._figures import plot_values

WIDTH, SAME = 16, 1e-9  # a difference that float64 explains


def measure(cell: Cell) -> Values:
    """Loss and gradient of equation 6, of the bank, and of InfoNCE between rows."""
    n, tau, generator = cell["images"], cell["temperature"], cell.generator(1)
    bank, ids = Bank(n, WIDTH, seed=cell.seed).double(), torch.arange(n)
    bank.z /= bank.z.norm(dim=1, keepdim=True)  # its rows were float32 at first
    noise = torch.randn(n, WIDTH, generator=generator, dtype=torch.float64)
    rows = normalize(bank.z + 0.3 * noise, dim=1)  # views are near their images' rows

    def differentiate(loss_of: Any) -> tuple[float, torch.Tensor]:
        u = rows.clone().requires_grad_()
        loss = loss_of(u)
        (gradient,) = torch.autograd.grad(loss, u)
        return loss.item(), gradient

    printed, slope = differentiate(
        lambda u: cross_entropy(normalize(u, dim=1) @ bank.z.T / tau, ids)
    )
    ways = (
        lambda u: InfoNCE(temperature=tau).against(
            normalize(u, dim=1), None, bank, ids
        ),
        lambda u: info_nce(u, bank.z, temperature=tau, symmetric=False),
    )
    losses, slopes = zip(*map(differentiate, ways), strict=True)
    return {
        "loss_error": max(abs(loss - printed) for loss in losses),
        "gradient_error": max(
            ((other - slope).norm() / slope.norm()).item() for other in slopes
        ),
        "nats": math.log(n) - printed,
        "ceiling": math.log(n),
    }


def judge(rows: Rows) -> Verdict:
    """Equal as far as float64 can tell, and below the ceiling of InfoNCE."""
    loss, gradient = max(rows["loss_error"]), max(rows["gradient_error"])
    below = all(row["nats"] <= row["ceiling"] for row in rows)
    text = (
        f"Losses differ by at most {loss:.0e} nats and gradients by {gradient:.0e} of "
        "their length"
    )
    if loss > SAME or gradient > SAME or not below:
        return Verdict("does not hold", f"{text}.")
    return Verdict(
        "holds",
        f"{text}; log N minus the loss never exceeds log N. What the theorem passes "
        "over: the N - 1 negatives are the other images of the set, each once, not "
        "independent draws, and I(X; X) is infinite for continuous images.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """How much information the loss can tell, and the error of the identity."""
    left, right = figure.subplots(1, 2)
    hot = rows.where(temperature=rows[0]["temperature"])
    plot_values(
        left, hot, x="images", lines={"ceiling": "log N", "nats": "log N - loss"}
    )
    left.set(xscale="log", xlabel="images N", ylabel="nats", ylim=(0, None))
    labels = {"loss_error": "loss, nats", "gradient_error": "gradient, relative"}
    plot_values(right, rows, x="images", lines=labels)
    right.axhline(SAME, color="0.6", linestyle=":")
    right.set(
        xscale="log", yscale="log", xlabel="images N", ylabel="largest difference"
    )
    for axes in (left, right):
        sizes = sorted(set(rows["images"]))
        axes.set_xticks(sizes, [str(n) for n in sizes], minor=False)
        axes.minorticks_off()


ABOUT = About(
    where="theorem 5.1",
    says="The objective of Instance Discrimination is InfoNCE between a view and the "
    "memory bank's row, up to the constant log N.",
    run="Random banks of 32 to 512 rows and views near them, at temperatures 0.07 and "
    "1 (at full size up to 2,048 rows, and 0.2 too): the paper's equation 6, compared "
    "with InfoNCE with a bank as its source of negatives, and with InfoNCE between "
    "views and rows.",
    refuted_if="A loss or gradient that differs by more than rounding.",
    sizes={
        "tiny": grid(temperature=(0.07, 1.0), images=(32,), seed=range(2)),
        "quick": grid(temperature=(0.07, 1.0), images=(32, 128, 512), seed=range(5)),
        "full": grid(
            temperature=(0.07, 0.2, 1.0), images=(32, 128, 512, 2048), seed=range(10)
        ),
    },
    columns={
        "temperature": "temperature",
        "images N": "images",
        "loss differs by": "loss_error",
        "gradient differs by": "gradient_error",
        "log N - loss, nats": "nats",
    },
)
