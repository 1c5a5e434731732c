r"""A batch size from what a step costs and how noisy its gradient is.

A step of b samples takes $a + c\,b$ seconds, and its gradient's noise falls as 1/b:
with N the batch at which signal and noise are equally long, training takes about
$1 + N/b$ times as many steps as with no noise at all (McCandlish et al. 2018). So

$$\min_b\; (1 + N/b)(a + c\,b)\quad\text{at}\quad b^* = \sqrt{N a / c}$$

The more a step costs whatever its size (a), the larger the batch; far below N or far
above it, time or samples are wasted.

What this leaves out: negatives from the batch. Their partition has a relative error of
$\sqrt{(1/\mathrm{ESS} - 1)/K}$ with K of them, and more of them change the loss itself,
not only its noise. The error is reported beside the proposal, and is not weighed
against seconds, since no one knows what a share of it costs in accuracy.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import SettingError


@dataclass(frozen=True)
class BatchProposal:
    """A batch size, and what it follows from."""

    batch_size: int
    """The power of two nearest to the best."""
    noise_batch: float
    """At which signal and noise of the gradient are equally long."""
    fixed_seconds: float
    """Of a step, whatever its size."""
    seconds_per_sample: float
    partition_error: float | None = None
    """Relative, of an anchor's partition over the other samples of such a batch."""

    @property
    def sentence(self) -> str:
        """The proposal in words."""
        error = ""
        if self.partition_error is not None:
            share = f"{100 * self.partition_error:.0f} %"
            error = (
                f" An anchor's partition over such a batch is known to within {share}."
            )
        return (
            f"Batches of {self.batch_size}: signal and noise of the gradient are "
            f"equally long at {self.noise_batch:,.0f} samples, and a step takes "
            f"{1000 * self.fixed_seconds:.3g} ms plus "
            f"{1000 * self.seconds_per_sample:.3g} ms per sample.{error}"
        )

    def __str__(self) -> str:
        return self.sentence


def weigh_batch_sizes(
    seconds: Mapping[int, float | int],
    *,
    noise_batch: float | int,
    ess: float | int | None = None,
    most: int | None = None,
) -> BatchProposal:
    """The batch size with which training takes least time.

    Args:
        seconds: Of a step, by its number of samples; two sizes or more.
        noise_batch: b / SNR^2, with the signal to noise ratio of gradients of batches
            of b (``gradient_signal_to_noise``).
        ess: Effective share of the negatives, for the error of their partition.
        most: Samples that a batch can have.

    >>> weigh_batch_sizes({64: 0.012, 256: 0.024}, noise_batch=1000).batch_size
    256
    """
    if len(seconds) < 2 or not all(b > 1 and s > 0 for b, s in seconds.items()):
        raise SettingError(
            "What a step costs is known from two batch sizes or more, each with its "
            f"seconds above 0: got {dict(seconds)}."
        )
    if not noise_batch > 0:
        raise SettingError(f"noise_batch is above 0: got {noise_batch}.")
    n = len(seconds)
    mean_b, mean_s = sum(seconds) / n, sum(seconds.values()) / n
    spread = sum((b - mean_b) ** 2 for b in seconds)
    slope = sum((b - mean_b) * (s - mean_s) for b, s in seconds.items()) / spread
    each = max(slope, 1e-3 * mean_s / mean_b)  # timing noise may make it fall
    fixed = max(mean_s - each * mean_b, 0.0)
    # of a step without fixed cost, the smallest batch is best: that of a pair
    best = max(math.sqrt(noise_batch * fixed / each), 2.0)
    if most is not None:
        best = min(best, most)
    size = 2 ** round(math.log2(best)) if math.isfinite(best) else max(seconds)
    if most is not None and size > most:
        size //= 2
    error = None if ess is None else math.sqrt(max(1 / ess - 1, 0.0) / (size - 1))
    return BatchProposal(size, float(noise_batch), fixed, each, error)
