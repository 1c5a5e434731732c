"""MoCo with our queue: many negatives for small batches, in a loop of your own.

    python examples/moco.py                           # a minute or so on two CPU cores
    python examples/moco.py --size 4096 --batch-size 32

The first view asks; a slowly moving twin of the network answers for the second, and its
answers stay in a queue, where they serve as negatives for the next steps. A row in the
queue keeps the number of its image, so an image never meets an older answer of its own
as a negative. The queue is a module: ``state_dict`` has its rows.
"""

import math

import torch
import tyro
from torch import Tensor, nn

import invariance as inv
from invariance.evaluation import knn

Labeled = tuple[Tensor, Tensor]


def score(encoder: nn.Module, train: Labeled, test: Labeled) -> float:
    """The share of test images whose nearest training images have their class."""
    known, asked = inv.embed(encoder, train), inv.embed(encoder, test)
    return knn(known.features, known.labels, asked.features, asked.labels).accuracy


def main(
    n: int = 6000, epochs: int = 6, batch_size: int = 64, size: int = 2048
) -> tuple[float, float, float]:
    """Train; give the last epoch's loss, and the score before and after.

    Args:
        n: Images, generated.
        epochs: Passes over them.
        batch_size: Images per step.
        size: Rows that the queue keeps.
    """
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train, test = inv.data.shapes(n), inv.data.shapes(n // 6, split="test")
    images = train[0].to(device)  # yours: uint8, one image per row (n, 3, h, w)

    encoder = inv.encoders.build_encoder("tiny")
    head = nn.Sequential(nn.Linear(encoder.width, 512), nn.ReLU(), nn.Linear(512, 128))
    network = nn.Sequential(encoder, head).to(device)
    twin = inv.encoders.MomentumTwin(network, momentum=0.99, rising=False)
    queue = inv.Queue(size, width=128).to(device)
    views = inv.views.ViewSet(inv.views.RECIPES["shapes"](32))  # photographs: "simclr"
    objective = inv.InfoNCE(temperature=0.2)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)

    before = score(encoder, train, test)
    for epoch in range(epochs):
        losses = []
        for ids in torch.randperm(n, device=device).split(batch_size):
            u, v = views(images[ids], samples=ids, seed=0, epoch=epoch)
            keys = twin(v)
            if len(queue):  # the very first keys have nothing to be compared with
                loss = objective.against(network(u), keys, queue, ids)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                twin.follow(network)
                losses.append(loss.detach())
            queue.remember(keys, ids)  # after use, never before
        mean, chance = torch.stack(losses).mean().item(), math.log(len(queue) + 1)
        print(f"epoch {epoch + 1}: loss {mean:.3f}, chance {chance:.3f}; {queue}")
    after = score(encoder, train, test)
    print(f"kNN before: {before:.1%}, after: {after:.1%}")
    return mean, before, after


if __name__ == "__main__":
    tyro.cli(main)
