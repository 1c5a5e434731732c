"""What a contrast of two views sees: how often, how much, and with whose help.

Row i of ``u`` and row i of ``v`` are two views of one sample. Rows are normalized here;
scores are computed a few rows at a time, so memory is linear in the rows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from ..checked_rows import (
    above_zero,
    as_pair,
    exact_product,
    score_chunks,
    unit_pair,
)
from ..errors import SettingError, choose
from ..partition import (
    log_partition,
    shares_in_batch,
)
from ..thresholds import (
    is_saturated,
    is_temperature_bound,
    reachable_information,
)
from ._sphere import uniform_sphere_uniformity

NEGATIVES = {
    "cross": "the n - 1 other samples in the other view",
    "all": "the n - 1 other samples in both views",
    "within": "the n - 1 other samples in the anchor's own view",
}
POOL_FACTOR = 100
TEMPERATURES = (0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
HISTOGRAM_ROWS = 2000  # whose cosines with each other are counted


def contrastive_accuracy(u: Float[Tensor, "n d"], v: Float[Tensor, "n d"]) -> float:
    r"""How often an anchor finds its partner.

    $$\mathrm{accuracy} = \frac1n\sum_i
      \frac{\mathbb 1[\,u_i\cdot v_i = \max_j u_i\cdot v_j\,]}
           {|\{j : u_i\cdot v_j = \max_k u_i\cdot v_k\}|}$$

    Anchors are the rows of u, candidates all n rows of v. Partners that tie for the
    first place share the point, so a collapsed encoder reads chance, 1/n. At 1 the
    batch has become too easy to teach anything.

    >>> import torch
    >>> contrastive_accuracy(torch.eye(4), torch.eye(4).roll(1, 0))
    0.0
    >>> contrastive_accuracy(torch.ones(4, 3), torch.ones(4, 3))    # collapsed
    0.25
    """
    return find_partners(*unit_pair(u, v, at_least=2)).double().mean().item()


def find_partners(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n e"],
    score: Callable[[Tensor, Tensor], Tensor] = exact_product,
) -> Float[Tensor, " n"]:
    """1 for each row of u whose partner scores highest of all; shared among equals.

    Rows are taken as they are; nothing waits for a device.

    Args:
        u: Anchors.
        v: Their partners, row by row, and each other's rivals.
        score: Of some rows of u with all of v; else their inner products.
    """
    points = []
    for rows, scores in score_chunks(u, v, score):
        best = scores == scores.amax(1, keepdim=True)
        partner = best.diagonal(rows.start)
        points.append(torch.where(partner, 1 / best.sum(1), 0))
    return torch.cat(points)


def similarity_histograms(
    u: Float[Tensor, "n d"], v: Float[Tensor, "n d"], *, bins: int = 50
) -> dict[str, list[float]]:
    """How similar partners (u_i·v_i) and strangers (u_i·v_j, i ≠ j) are.

    The bins' "edges" from -1 to 1, and the densities "positive" and "negative", which
    sum to 1 over the width of the bins; the further apart the two, the better.

    >>> import torch
    >>> similarity_histograms(torch.eye(3), torch.eye(3), bins=2)
    {'edges': [-1.0, 0.0, 1.0], 'positive': [0.0, 1.0], 'negative': [0.0, 1.0]}
    """
    if bins < 1:
        raise SettingError(f"bins must be at least 1: got {bins}.")
    u, v = unit_pair(u, v, at_least=2)
    positive = (u * v).sum(1)
    u, v = u[:HISTOGRAM_ROWS], v[:HISTOGRAM_ROWS]
    counts = torch.zeros(bins, dtype=torch.double)
    for rows, scores in score_chunks(u, v):
        partner = torch.zeros_like(scores, dtype=torch.bool)
        partner.diagonal(rows.start).fill_(True)
        counts += _count(scores[~partner], bins)
    return {
        "edges": torch.linspace(-1, 1, bins + 1, dtype=torch.double).tolist(),
        "positive": _density(_count(positive, bins)),
        "negative": _density(counts),
    }


def _count(cosines: Float[Tensor, " m"], bins: int) -> Float[Tensor, " b"]:
    """How many fall into each bin; rounding may not push one out."""
    kept = cosines.detach().float().cpu().clamp(-1, 1)
    return torch.histc(kept, bins, -1, 1).double()


def _density(counts: Float[Tensor, " b"]) -> list[float]:
    """Counts divided so that the bins, each 2 / b wide, hold 1 together."""
    return (counts / counts.sum() * len(counts) / 2).tolist()


def effective_sample_size(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: float | int,
    negatives: str = "cross",
) -> float:
    r"""The share of the negatives that does the teaching.

    $$\mathrm{ESS}_i = \frac{1}{m\sum_j w_{ij}^2},\quad
      w_{ij} = \operatorname{softmax}_{j}(s_{ij}),\quad s_{ij} = z_i\cdot c_j/\tau$$

    over the m negatives c of anchor i. The value is the mean over the anchors, which
    are the rows of both views. What an objective's own negatives read is the mean of
    its ``shares``.

    Between 1/m (one negative takes all the weight) and 1 (all weigh the same). It falls
    with the temperature. Below 0.05 a few negatives do all the teaching; the FlatNCE
    paper advises 0.15 to 0.4.

    Args:
        u: One view.
        v: The other view.
        temperature: Of the softmax over the negatives.
        negatives: "cross", the n - 1 other samples in the other view, "within", those
            in the anchor's own view, or "all", both.

    >>> import torch
    >>> round(effective_sample_size(torch.eye(5), torch.eye(5), temperature=0.1), 4)
    1.0
    """
    scale = 1 / above_zero(temperature, "temperature")
    choose(NEGATIVES, negatives, "choice of negatives")
    u, v = unit_pair(u, v, at_least=2)
    shares = shares_in_batch(torch.stack([u, v]), scale=scale, negatives=negatives)
    return shares.mean().item()


@dataclass(frozen=True)
class InformationBound:
    """A lower bound of the mutual information of two views."""

    nats: float
    """The bound; below 0 it certifies nothing."""
    ceiling: float
    """The most this number of rows can show: log n."""
    reachable: float
    """The most that cosines of so many rows can show at this temperature."""
    saturated: bool
    """So near that limit that the information may be far larger (``is_saturated``)."""
    sentence: str
    """The reading in words."""

    def __str__(self) -> str:
        return self.sentence


def mutual_information_bound(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: float | int,
    held_out: bool = True,
    normalize: bool = True,
    precision: str = "auto",
) -> InformationBound:
    r"""The information two views certifiably share, in nats.

    $$I(U;V) \ge \log n - \frac1n\sum_i
      \mathrm{softplus}\Big(\log\sum_{j\ne i} e^{s_{ij}} - s_{ii}\Big),
      \qquad s_{ij} = u_i\cdot v_j/\tau$$

    This is InfoNCE in one direction with the positive kept among the n candidates of
    the other view: a lower bound in expectation, for any encoder and temperature, when
    rows are independent samples that the encoder was not fitted to (held-out data).
    Values that drop the positive, or add negatives from the anchor's own view, are no
    such bound. It never exceeds log n, nor what a temperature allows, which is less:
    ``reachable_information``.

    Args:
        u: One view.
        v: The other view.
        temperature: What the cosines are divided by.
        held_out: Whether the encoder was fitted to other samples. If not, nothing is
            certified, and the sentence says so.
        normalize: Divide rows by their length; False takes them as they are.
        precision: Of fused kernels' tiles, as in ``log_partition``.

    >>> import torch
    >>> z = torch.eye(8).repeat(4, 1)            # every row four times
    >>> print(mutual_information_bound(z, z, temperature=0.1))
    The views share at least 2.08 nats (of at most log 32 = 3.47).
    >>> round(mutual_information_bound(z, z, temperature=0.5).reachable, 2)
    1.87
    """
    temperature = above_zero(temperature, "temperature")
    u, v = as_pair(u, v, at_least=2, unit=normalize)
    n, scale = len(u), 1 / temperature
    ids = torch.arange(n, device=u.device)
    positive = scale * (u * v).sum(1)
    others = log_partition(
        u, v, scale=scale, row_ids=ids, column_ids=ids, precision=precision
    )
    loss = softplus(others - positive).mean().item()
    return _bound(loss, n, temperature if normalize else None, held_out=held_out)


def _bound(
    info_nce: float, n: int, temperature: float | None, *, held_out: bool = True
) -> InformationBound:
    """What a loss of n candidates says; no temperature where scores are no cosines."""
    ceiling = reachable = math.log(n)
    if temperature is not None:
        reachable = reachable_information(n, temperature)
    nats = ceiling - info_nce
    saturated = is_saturated(nats, ceiling, reachable)
    limit = f"log {n} = {ceiling:.2f}"
    if temperature is not None and ceiling - reachable >= 0.005:  # two digits differ
        limit = (
            f"{reachable:.2f} at temperature {temperature:g}; log {n} is {ceiling:.2f}"
        )
    claim = f"The views share at least {nats:.2f} nats"
    if not held_out:
        claim = f"The views seem to share {nats:.2f} nats"
    if nats <= 0:
        sentence = (
            f"No shared information is certified: the bound is {nats:.2f} nats "
            f"(of at most {limit}). Another temperature may show more."
        )
    elif not saturated:
        sentence = f"{claim} (of at most {limit})."
    elif is_temperature_bound(ceiling, reachable):
        sentence = (
            f"{claim}, close to the most that cosines can show ({limit}): lower the "
            "temperature to see more."
        )
    else:
        sentence = (
            f"{claim}, close to the most that {n} rows can show ({limit}): pass more "
            "rows to see more."
        )
    if nats > 0 and not held_out:
        sentence += " Rows from training certify nothing."
    return InformationBound(nats, ceiling, reachable, saturated, sentence)


@dataclass(frozen=True)
class InfoNCEParts:
    """InfoNCE as the sum of what pulls partners together and what spreads rows."""

    alignment: float
    """Mean of -s_ii: minus the partners' cosine over the temperature."""
    uniformity: float
    """Mean of the logarithm of the partition, the positive in it."""
    even_uniformity: float
    """What that is when partners agree and rows cover the sphere evenly."""
    temperature: float

    @property
    def loss(self) -> float:
        """InfoNCE: both parts together."""
        return self.alignment + self.uniformity


def split_info_nce(
    u: Float[Tensor, "n d"], v: Float[Tensor, "n d"], *, temperature: float | int
) -> InfoNCEParts:
    r"""InfoNCE of two views, split exactly into alignment and uniformity.

    $$L = \underbrace{-\frac1n\sum_i s_{ii}}_{\text{alignment}}
      + \underbrace{\frac1{2n}\sum_i\Big(\log\sum_j e^{s_{ij}}
      + \log\sum_j e^{s_{ji}}\Big)}_{\text{uniformity}},\qquad
      s_{ij} = u_i\cdot v_j/\tau$$

    With A the ``alignment`` of unit rows (mean squared distance of partners), the first
    part is (A/2 - 1) / tau: from -1/tau, where partners agree, to 1/tau. The second
    lies within 1/tau of log n, and is low where rows are spread. As n grows, it tends
    to log n plus the log-mean of e^s, which Wang and Isola (2020) showed an even cover
    to minimize; among n candidates the positive adds e^{s_ii} to the sum, so the parts
    are not independent: what pulls partners together raises the second.

    >>> import torch
    >>> parts = split_info_nce(torch.eye(4), torch.eye(4), temperature=0.5)
    >>> round(parts.alignment, 4), round(parts.uniformity, 4), round(parts.loss, 4)
    (-2.0, 2.3408, 0.3408)
    """
    temperature = above_zero(temperature, "temperature")
    u, v = unit_pair(u, v, at_least=2)
    (n, d), scale = u.shape, 1 / temperature
    alignment = -scale * (u * v).sum(1).double().mean().item()
    sides = [log_partition(*pair, scale=scale) for pair in ((u, v), (v, u))]
    uniformity = torch.stack(sides).double().mean().item()
    mean = uniform_sphere_uniformity(d, scale / 2) + scale  # log E e^(x.y/tau)
    others = math.log(n - 1) + mean
    even = max(scale, others) + math.log1p(math.exp(-abs(scale - others)))
    return InfoNCEParts(alignment, uniformity, even, temperature)


@dataclass(frozen=True)
class PooledInformation:
    """What a mini-batch shows, and what a large pool shows."""

    batch_size: int
    batch_nats: float
    """Mean over the disjoint mini-batches."""
    batch_ceiling: float
    """log of the batch size: no mini-batch shows more."""
    batch_reachable: float
    """What this temperature allows of it: ``reachable_information``."""
    n_pool: int
    pool_nats: float
    pool_ceiling: float
    pool_reachable: float
    temperature: float
    sentence: str
    """The reading in words."""

    def __str__(self) -> str:
        return self.sentence


def information_by_pool(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: float | int,
    batch_size: int,
    factor: int = POOL_FACTOR,
) -> PooledInformation:
    r"""The information of a batch beside that of a pool ``factor`` times as large.

    $$\hat I_K = \log K - \frac1K\sum_i \mathrm{softplus}\Big(
      \log\sum_{j\ne i} e^{s_{ij}} - s_{ii}\Big)$$

    at K = n, a mini-batch, and at K = 100 n (or at all rows, if there are fewer), where
    the ceiling log K is 4.6 nats higher: the FlatNCE paper takes the large pool for the
    truth that the mini-batch estimate is compared with. Both are lower bounds in
    expectation (see ``mutual_information_bound``); what the pool shows beyond the batch
    is what the batch cannot see.

    >>> import torch
    >>> read = information_by_pool(torch.eye(40), torch.eye(40), temperature=0.05,
    ...                            batch_size=4, factor=10)
    >>> round(read.batch_nats, 2), round(read.pool_nats, 2)     # log 4 and log 40
    (1.39, 3.69)
    """
    temperature = above_zero(temperature, "temperature")
    u, v = unit_pair(u, v, at_least=2)
    if not 2 <= batch_size <= len(u) or factor < 1:
        raise SettingError(
            f"batch_size lies between 2 and the {len(u)} rows, factor is at least 1: "
            f"got {batch_size} and {factor}."
        )
    n_pool = min(len(u), factor * batch_size)
    whole = n_pool // batch_size * batch_size
    parts = zip(u[:whole].split(batch_size), v[:whole].split(batch_size), strict=True)
    nats = [mutual_information_bound(*p, temperature=temperature).nats for p in parts]
    pool = mutual_information_bound(u[:n_pool], v[:n_pool], temperature=temperature)
    batch, reachable = (
        sum(nats) / len(nats),
        reachable_information(batch_size, temperature),
    )
    hidden = pool.nats - batch
    verdict = (
        f"a batch of {batch_size} hides {hidden:.2f} nats"
        if hidden > 0.05
        else f"a batch of {batch_size} shows all of it"
    )
    sentence = (
        f"{pool.nats:.2f} nats with {n_pool:,} candidates (of at most "
        f"{pool.reachable:.2f} at temperature {temperature:g}; their logarithm is "
        f"{pool.ceiling:.2f}), {batch:.2f} with {batch_size} (of at most "
        f"{reachable:.2f}): {verdict}."
    )
    return PooledInformation(
        batch_size=batch_size,
        batch_nats=batch,
        batch_ceiling=math.log(batch_size),
        batch_reachable=reachable,
        n_pool=n_pool,
        pool_nats=pool.nats,
        pool_ceiling=pool.ceiling,
        pool_reachable=pool.reachable,
        temperature=temperature,
        sentence=sentence,
    )


def sharpest_temperature(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    grid: tuple[float, ...] = TEMPERATURES,
) -> float:
    """The temperature whose bound is highest on these rows; read it off on others.

    A bound holds at every temperature, but the one trained at is rarely the tightest.

    >>> import torch
    >>> sharpest_temperature(torch.eye(8), torch.eye(8))
    0.03
    """
    if not grid:
        raise SettingError("grid needs at least one temperature.")
    u, v = unit_pair(u, v, at_least=2)
    nats = [mutual_information_bound(u, v, temperature=t).nats for t in grid]
    return grid[int(torch.tensor(nats).argmax())]
