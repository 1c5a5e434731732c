"""Sources that look at clusters of their bank, found anew before each epoch."""

from abc import abstractmethod
from typing import Any

import torch

from ..errors import SettingError
from ..partition import from_first_process
from ._bank import Bank
from ._kmeans import Clusters, kmeans
from ._source import NegativeSource


def count_clusters(n_rows: int, n_clusters: int | None, rows_per_cluster: int) -> int:
    """How many clusters a bank is put into; None: one for so many rows."""
    if n_clusters is None:
        n_clusters = max(n_rows // rows_per_cluster, 2)
    if not 1 < n_clusters <= n_rows:
        raise SettingError(
            f"A bank of {n_rows} rows has 2 to {n_rows} clusters: got "
            f"n_clusters = {n_clusters}."
        )
    return n_clusters


def cluster_bank(bank: Bank, n_clusters: int) -> Clusters:
    """Clusters of the bank as it is now, the same on all processes."""
    clusters = kmeans(bank.z, n_clusters, seed=bank.draw_seed())
    return Clusters(*map(from_first_process, clusters))


class Clustered(NegativeSource):
    """A source that starts to cluster its bank when a warm-up is over."""

    def __init__(
        self,
        bank: Bank,
        n_clusters: int | None,
        rows_per_cluster: int,
        warmup: float | int,
    ) -> None:
        super().__init__(bank)
        self.n_clusters = count_clusters(len(bank), n_clusters, rows_per_cluster)
        if not 0 <= warmup <= 1:
            raise SettingError(
                f"warmup is a share of training, from 0 to 1: got {warmup}."
            )
        self.warmup = warmup
        self.clustered = False

    def refresh(self, progress: float | int) -> None:
        """Cluster the bank anew, once the warm-up is over."""
        if progress >= self.warmup:
            self.cluster()
            self.clustered = True

    @abstractmethod
    def cluster(self) -> None:
        """Find the clusters, and keep what is needed of them."""

    def tell_warmup(self) -> str:
        """When clusters come, if there are none yet."""
        return "" if self.clustered else f" after a warm-up of {self.warmup:g}"

    def get_extra_state(self) -> Any:
        """Whether the warm-up is over."""
        return torch.tensor(self.clustered)

    def set_extra_state(self, state: Any) -> None:
        """Go on from a checkpoint."""
        self.clustered = bool(state)
