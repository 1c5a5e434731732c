r"""Prototypes (PCL): cluster centers as candidates, each with its own temperature.

$$\phi_c = \frac{\mathrm{mean}_{j\in c}\lVert M_j - c\rVert}{\log(n_c + 10)},\qquad
s_{ic} = u_i\cdot c/\phi_c$$

Tight, large clusters have a small $\phi$ and so weigh more. The $\phi$ are clipped to
their 10th and 90th percentile and scaled to the objective's temperature on average. An
anchor's positive is the center of its own sample's cluster, its negatives are all the
other centers: the released code instead draws them, and lists the positive's column
again for every sample of the same cluster in the batch, marked as a negative.

The bank is clustered before each epoch, once the warm-up is over.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ._bank import Bank
from ._clustered import Clustered, cluster_bank
from ._kmeans import Clusters
from ._source import (
    Anchors,
    Candidates,
    Ids,
    Number,
    PerAnchor,
    PerScale,
    Scales,
)

ROWS_PER_CLUSTER = 100
LEAST_CONCENTRATION = 0.1  # of the mean
SMOOTHING = 10  # members added to a cluster's size: few members say little


class Prototypes(Clustered):
    """Centers of one clustering of a bank.

    Settings:
        n_clusters (2 or more): Of a clustering; none: one for every 100 rows.
        warmup (0 to 1): Share of training before the first clustering.

    >>> centers = Prototypes(Bank(101, width=8), n_clusters=4)
    >>> centers.refresh(0.5)  # before each epoch: at half of training, cluster anew
    >>> centers
    Prototypes(
      4 clusters
      (bank): Bank(101 rows, width 8, momentum 0.5)
    )
    """

    labels: Tensor
    centers: Tensor
    concentration: Tensor
    ids: Tensor

    def __init__(
        self, bank: Bank, *, n_clusters: int | None = None, warmup: float | int = 0.1
    ) -> None:
        super().__init__(bank, n_clusters, ROWS_PER_CLUSTER, warmup)
        n_clusters = self.n_clusters
        self.register_buffer("labels", torch.zeros(len(bank), dtype=torch.long))
        self.register_buffer("centers", torch.zeros(n_clusters, bank.z.shape[1]))
        self.register_buffer("concentration", torch.ones(n_clusters))
        self.register_buffer("ids", torch.arange(n_clusters), persistent=False)

    def extra_repr(self) -> str:
        """How many centers there are."""
        return f"{self.n_clusters:,} clusters{self.tell_warmup()}"

    def cluster(self) -> None:
        """Cluster the bank, and see how concentrated each cluster is."""
        labels, centers = cluster_bank(self.bank, self.n_clusters)
        self.labels.copy_(labels)
        self.centers.copy_(centers)
        clusters = Clusters(self.labels, self.centers)
        self.concentration.copy_(concentration(self.bank.z, clusters))

    @property
    def host_state(self) -> tuple[Any, ...]:
        """Whether there are centers."""
        return (self.clustered,)

    @property
    def n_negatives(self) -> int:
        """The centers of the other clusters."""
        return self.n_clusters - 1

    def candidates(self, u: Anchors, ids: Ids) -> Candidates:
        """All centers, longer where concentrated: scaling them scales their logits."""
        return Candidates(self.centers / self.concentration[:, None], self.ids)

    def negative(self, u: Anchors, ids: Ids, *, scales: Scales) -> PerScale:
        """Log-partitions over the centers of other clusters."""
        return super().negative(u, self.labels[ids], scales=scales)

    def positive(
        self, u: Anchors, v: Anchors | None, ids: Ids, *, scale: Number
    ) -> PerAnchor:
        """Logits of the anchors with their own clusters' centers."""
        self.bank.check(u, ids)
        return scale * (u * self.candidates(u, ids).z[self.labels[ids]]).sum(1)

    def remember(self, z: Anchors, ids: Ids) -> None:
        """The bank may serve several clusterings; whoever owns it tells it."""

    def _load_from_state_dict(self, state: Any, prefix: str, *how: Any) -> None:
        if f"{prefix}centres" in state:  # as it was spelled before 0.1.0
            state[f"{prefix}centers"] = state.pop(f"{prefix}centres")
        super()._load_from_state_dict(state, prefix, *how)


def concentration(z: Anchors, clusters: Clusters) -> Float[Tensor, " k"]:
    """Relative temperature of each cluster, mean 1: small where tight and large."""
    labels, centers = clusters
    k = len(centers)
    distance = torch.linalg.vector_norm(z - centers[labels], dim=1)
    sizes = torch.bincount(labels, minlength=k)
    spread = distance.new_zeros(k).index_add(0, labels, distance)
    phi = spread / sizes.clamp_min(1) / (sizes + SMOOTHING).to(z).log()
    # a single member lies on its center and would seem infinitely concentrated
    phi = torch.where(sizes > 1, phi, phi.max())
    ends = torch.quantile(phi, phi.new_tensor([0.1, 0.9]))
    phi = phi.clamp(ends[0], ends[1])
    # equal rows, as in a collapse, have no spread at all
    phi = phi.clamp_min(LEAST_CONCENTRATION * phi.mean())
    return phi / phi.mean() if phi.mean() > 0 else torch.ones_like(phi)
