"""A loss on several devices: every process contrasts its share with the whole batch.

    torchrun --nproc-per-node 2 examples/ddp.py
    python examples/ddp.py        # one process: the same numbers

A contrast needs the rows of all processes. ``gather=True`` fetches them, and value and
gradients are those of the whole batch: two processes with 128 samples each train as one
process with 256. Without it, each would see half as many negatives. It works on CPUs
(gloo) and on GPUs (nccl).
"""

import os

import torch
import torch.distributed as dist
import tyro
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.parallel import DistributedDataParallel

import invariance as inv


class TwoSensors(nn.Module):
    """An encoder for each of two sensors: DDP wraps one module with all weights."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (
            nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, 32))
            for _ in range(2)
        )

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of both sensors."""
        return self.first(x), self.second(y)


@torch.no_grad()
def find_partners(network: nn.Module, x: Tensor, y: Tensor) -> float:
    """The share of samples whose partner is the nearest of all."""
    u, v = (normalize(z, dim=1) for z in network(x, y))
    right = (u @ v.T).argmax(1) == torch.arange(len(x), device=x.device)
    return right.float().mean().item()


def main(n: int = 4096, steps: int = 150, batch_size: int = 256) -> tuple[float, float]:
    """Train, and give the last loss and the recall on held-out samples."""
    if "RANK" in os.environ:  # torchrun says who we are
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    started = dist.is_initialized()
    rank, n_processes = (dist.get_rank(), dist.get_world_size()) if started else (0, 1)
    gpu = f"cuda:{os.environ.get('LOCAL_RANK', 0)}"  # one per process of a machine
    device = gpu if torch.cuda.is_available() else "cpu"

    pairs = inv.estimators.correlated_gaussian(16, nats=12)  # 16 numbers per sensor
    data = pairs.sample(n + 500, generator=torch.Generator().manual_seed(0))
    x, y = (side.to(device) for side in data)
    torch.manual_seed(0)  # the same order of samples everywhere
    network = TwoSensors(width=16).to(device)
    wrapped = DistributedDataParallel(network) if started else network
    objective = inv.InfoNCE(temperature=0.1, gather=True)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(steps):
        batch = torch.randint(n, (batch_size,))
        mine = batch[rank::n_processes]  # this process's share
        loss = objective(*wrapped(x[mine], y[mine]))
        optimizer.zero_grad()
        loss.backward()  # DDP averages the gradients, as it should
        optimizer.step()
    recall = find_partners(network, x[n:], y[n:])
    print(f"process {rank} of {n_processes}: loss {loss:.4f}, partners {recall:.1%}")
    return loss.item(), recall


if __name__ == "__main__":
    tyro.cli(main)
    if dist.is_initialized():
        dist.destroy_process_group()
