"""An objective of your own on the one primitive: InfoNCE that survives wrong pairs.

    python examples/own_objective.py
    python examples/own_objective.py --wrong 0.3

Every softmax objective compares two numbers of an anchor: the logit s of its partner
and the log-partition P over its negatives. ``inv.log_partition`` sums P up without ever
holding the n x n matrix of scores, so your objective does not hold it either.

    InfoNCE          l = softplus(P - s), which grows without end
    this one         (1 - exp(-q l)) / q, which does not: 1 / q at most

Here half of the training pairs are wrong. InfoNCE bends everything to fit them; a loss
that is bounded gives up on them, as generalized cross-entropy does with wrong labels.
"""

import torch
import tyro
from torch import Tensor, nn
from torch.nn.functional import normalize, softplus

import invariance as inv


def bounded_nce(
    u: Tensor, v: Tensor, *, temperature: float = 0.1, q: float = 1.0
) -> Tensor:
    """InfoNCE in which no pair costs more than 1 / q."""
    u, v = normalize(u, dim=1), normalize(v, dim=1)
    ids, scale = torch.arange(len(u), device=u.device), 1 / temperature
    positive = scale * (u * v).sum(1)
    # rows of equal ids are left out: a partner is no negative
    negative = inv.log_partition(u, v, scale=scale, row_ids=ids, column_ids=ids)
    return (-torch.expm1(-q * softplus(negative - positive)) / q).mean()


def train(objective, x: Tensor, y: Tensor, *, steps: int) -> list[nn.Module]:
    """An encoder for each of two sensors, trained by this objective."""
    torch.manual_seed(0)
    encoders = [
        nn.Sequential(nn.Linear(x.shape[1], 128), nn.ReLU(), nn.Linear(128, 32))
        for _ in range(2)
    ]
    weights = [weight for encoder in encoders for weight in encoder.parameters()]
    optimizer = torch.optim.Adam(weights, lr=3e-3)
    for _ in range(steps):
        batch = torch.randint(len(x), (256,))
        loss = objective(encoders[0](x[batch]), encoders[1](y[batch]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return encoders


@torch.no_grad()
def find_partners(encoders: list[nn.Module], x: Tensor, y: Tensor) -> float:
    """The share of samples whose partner is the nearest of all."""
    u, v = (normalize(f(side), dim=1) for f, side in zip(encoders, (x, y), strict=True))
    return ((u @ v.T).argmax(1) == torch.arange(len(x))).float().mean().item()


def main(n: int = 4096, steps: int = 300, wrong: float = 0.5) -> dict[str, float]:
    """Train by both objectives; give the recall of each on pairs that are right."""
    pairs = inv.estimators.correlated_gaussian(16, nats=12)  # 16 numbers per sensor
    x, y = pairs.sample(n + 500, generator=torch.Generator().manual_seed(0))
    n_wrong = int(wrong * n)
    y[:n_wrong] = y[:n_wrong].roll(1, 0)
    recall = {}
    for objective in (inv.InfoNCE(temperature=0.1, symmetric=False), bounded_nce):
        name = getattr(objective, "__name__", "InfoNCE")
        encoders = train(objective, x[:n], y[:n], steps=steps)
        recall[name] = find_partners(encoders, x[n:], y[n:])
        print(f"{name}: {recall[name]:.1%} find their partner")
    return recall


if __name__ == "__main__":
    tyro.cli(main)
