"""Mutual information of two files: how much one says about the other, how surely.

    python examples/information.py                                  # generated files
    python examples/information.py left.csv right.parquet
    python examples/information.py table.csv:height,weight table.csv:age

Row i of one file belongs to row i of the other. A *certified lower bound* holds for any
critic, on rows it was not fitted to; an *estimate* may be closer, and may be too high.
Each number says which of the two it is.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
import tyro

import invariance as inv

ESTIMATORS = ("ksg", "gaussian", "info_nce", "nwj", "smile")


def write_files(folder: Path, n: int, nats: float) -> tuple[str, str]:
    """Two sensors that share so many nats, the second bent out of shape."""
    pairs = inv.estimators.correlated_gaussian(3, nats=nats)
    x, y = pairs.sample(n, generator=torch.Generator().manual_seed(0))
    files = str(folder / "left.npy"), str(folder / "right.csv")
    np.save(files[0], x)
    bent = torch.sinh(2 * y)  # an increasing map of each column: nothing is lost
    np.savetxt(files[1], bent, delimiter=",", header="a,b,c", comments="")
    return files


def main(
    left: tyro.conf.Positional[str | None] = None,
    right: tyro.conf.Positional[str | None] = None,
    n: int = 4000,
    nats: float = 2.0,
    steps: int = 1500,
) -> dict[str, inv.Estimate]:
    """Read both files, and ask several estimators what they share.

    Args:
        left: A .npy, .npz, .csv or .parquet file; after a colon, which columns.
        right: The other file, one row for each of the first.
        n: Rows of the generated files.
        nats: What the generated files share.
        steps: Training steps of a critic, at most.
    """
    if left is None or right is None:
        left, right = write_files(Path(tempfile.mkdtemp()), n, nats)
        print(f"Two generated files that share exactly {nats} nats.")
    first, second = map(inv.estimators.read_variable, (left, right))
    x, y, how = inv.estimators.pair_rows(first, second)
    print(f"{len(x)} pairs of {x.shape[1:]} and {y.shape[1:]} numbers {how}")

    estimates = {}
    for name in ESTIMATORS:
        trained = inv.ESTIMATORS[name].trained
        settings = {"max_steps": steps} if trained else {}
        estimates[name] = inv.estimate_mi(x, y, estimator=name, **settings)
        print(f"{name:>9}: {estimates[name]}")

    nwj = estimates["nwj"]  # its critic also speaks about single pairs
    share = nwj.pointwise(x, y)
    odd = share.argsort()[:3].tolist()
    print(f"pairs that go together least: rows {odd}, nats {share[odd].tolist()}")
    return estimates


if __name__ == "__main__":
    tyro.cli(main)
