r"""k-means on the sphere: clusters of unit rows by their cosine.

Faiss does it where it is installed, a few lines of torch otherwise; both start from
rows drawn by the seed. The assignment goes chunk by chunk, so the n x k matrix is never
held. A cluster that runs empty starts anew at the row its own center suits worst.
"""

import importlib.util
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from ..errors import SettingError, choose

CHUNK_ELEMENTS = 2**22  # of scores at a time
BACKENDS = {"auto": "", "torch": "", "faiss": ""}
FAISS_WORTHWHILE = 2**31  # n k d from which its speed matters more than its start-up


class Clusters(NamedTuple):
    """Which cluster each row is in, and the clusters' unit centers."""

    labels: Int[Tensor, " n"]
    centers: Float[Tensor, "k d"]

    def __repr__(self) -> str:
        return f"Clusters({len(self.labels):,} rows in {len(self.centers):,})"


@torch.no_grad()
def kmeans(
    z: Float[Tensor, "n d"],
    k: int,
    *,
    seed: int = 0,
    n_iterations: int = 10,
    backend: str = "auto",
) -> Clusters:
    """K clusters of unit rows.

    Args:
        z: Rows of unit length.
        k: Number of clusters, at most n.
        seed: Of the rows it starts from.
        n_iterations: Rounds of assigning rows and moving centers.
        backend: "torch", "faiss", or "auto": faiss for large sets if installed.

    >>> z = torch.eye(4).repeat(3, 1)
    >>> labels, _ = kmeans(z, 4, seed=1)
    >>> len(set(labels.tolist())), bool((labels[:4] == labels[8:]).all())
    (4, True)
    """
    if not 1 <= k <= len(z):
        raise SettingError(
            f"k-means finds 1 to {len(z)} clusters of {len(z)} rows: got {k}."
        )
    choose(BACKENDS, backend, "backend of k-means")
    if backend == "auto":
        large = len(z) * k * z.shape[1] >= FAISS_WORTHWHILE and z.device.type == "cpu"
        installed = importlib.util.find_spec("faiss") is not None
        backend = "faiss" if large and installed else "torch"
    if backend == "faiss":
        return _with_faiss(z, k, seed, n_iterations)
    generator = torch.Generator().manual_seed(seed)
    centers = z[torch.randperm(len(z), generator=generator)[:k].to(z.device)]
    for _ in range(n_iterations):
        labels, scores = nearest(z, centers)
        centers = _move_centers(z, labels, scores, k)
    return Clusters(nearest(z, centers)[0], centers)


def nearest(
    z: Float[Tensor, "n d"], centers: Float[Tensor, "k d"]
) -> tuple[Int[Tensor, " n"], Float[Tensor, " n"]]:
    """Each row's best center, and its score with it."""
    step = max(CHUNK_ELEMENTS // len(centers), 1)
    best = [(part @ centers.T).max(1) for part in z.split(step)]
    return torch.cat([b.indices for b in best]), torch.cat([b.values for b in best])


def _move_centers(z: Tensor, labels: Tensor, scores: Tensor, k: int) -> Tensor:
    sums = torch.zeros(k, z.shape[1], dtype=z.dtype, device=z.device)
    sums.index_add_(0, labels, z)
    sizes = torch.bincount(labels, minlength=k)
    empty = (sizes == 0).nonzero().flatten()
    if len(empty):
        sums[empty] = z[scores.topk(len(empty), largest=False).indices]
    return normalize(sums, dim=1)


def _with_faiss(z: Tensor, k: int, seed: int, n_iterations: int) -> Clusters:
    if importlib.util.find_spec("faiss") is None:
        raise SettingError(
            'faiss is not installed: pip install "invariance[faiss]", or leave the '
            "backend at auto."
        )
    import faiss

    rows = z.float().cpu().contiguous().numpy()
    search = faiss.Kmeans(
        rows.shape[1],
        k,
        niter=n_iterations,
        seed=seed,
        spherical=True,
        min_points_per_centroid=1,
        max_points_per_centroid=256,
    )
    search.train(rows)
    centers = torch.tensor(search.centroids).to(z)
    return Clusters(nearest(z, centers)[0], centers)
