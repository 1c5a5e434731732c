"""A loss in plain PyTorch: SimCLR in one loop, and what it was good for.

    python examples/plain_pytorch.py                  # a minute or so on two CPU cores
    python examples/plain_pytorch.py --epochs 20

No part of this needs the others: use the objective in your own loop, or the views, or
the encoder. Labels are used only for the score, before and after: the class of a test
image by the vote of its nearest training images.
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
    n: int = 6000, epochs: int = 6, batch_size: int = 128
) -> tuple[float, float, float]:
    """Train, and give the last epoch's loss, and the score before and after."""
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train, test = inv.data.shapes(n), inv.data.shapes(n // 6, split="test")
    images = train[0].to(device)  # yours: uint8, one image per row (n, 3, h, w)

    encoder = inv.encoders.build_encoder("tiny").to(device)  # or any network of yours
    head = nn.Sequential(nn.Linear(encoder.width, 512), nn.ReLU(), nn.Linear(512, 128))
    network = nn.Sequential(encoder, head).to(device)
    views = inv.views.ViewSet(inv.views.RECIPES["shapes"](32))  # photographs: "simclr"
    objective = inv.NTXent(temperature=0.5)  # or inv.DCL(), inv.DHEL(), ...

    steps = epochs * (n // batch_size)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    before = score(encoder, train, test)
    chance = math.log(2 * batch_size - 1)
    print(f"kNN before: {before:.1%}; a loss of {chance:.2f} is chance")
    for epoch in range(epochs):
        losses = []
        for ids in torch.randperm(n, device=device).split(batch_size):
            if len(ids) < batch_size:  # a short batch has fewer negatives
                continue
            u, v = views(images[ids], samples=ids, seed=0, epoch=epoch)
            z = network(torch.cat([u, v]))  # one pass: one set of batch statistics
            loss = objective(*z.chunk(2))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.detach())
        mean = torch.stack(losses).mean().item()
        print(f"epoch {epoch + 1}: loss {mean:.3f}")
    after = score(encoder, train, test)
    print(f"kNN after: {after:.1%}")
    return mean, before, after


if __name__ == "__main__":
    tyro.cli(main)
