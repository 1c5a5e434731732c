"""Problems that together reach every branch of the fused kernels."""

import os

import torch

from invariance.partition import log_partition, log_partitions, row_sums
from invariance.partition import two_sided_log_partition as two_sided

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
# ragged for any tile; interpreted, two or three tiles a side are all that is affordable
N, M = (40, 37) if INTERPRETED else (1000, 777)
IDS = torch.arange(N, device=DEVICE) // 2


def unit(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    return torch.nn.functional.normalize(x).to(DEVICE)


def learned(value):
    return torch.tensor(value, dtype=torch.float64, device=DEVICE)


def same_sample(**more):
    return {"row_ids": IDS, "column_ids": IDS, **more}


def crossed(**more):
    return {"row_ids": IDS, "column_ids": IDS[:M], **more}


def softmax_cases():
    """Name -> a function of leaves (and how), and the leaves, in float64."""
    x, y = unit(N, 24), unit(M, 24, seed=1)
    wide = unit(N, 300), unit(M, 300, seed=1)
    band = {"low": -0.3, "high": torch.linspace(0, 0.5, N, device=DEVICE)}
    scrambled = torch.randperm(N, generator=torch.Generator().manual_seed(0)) // 3
    scrambled = {name: scrambled.to(DEVICE) for name in ("row_ids", "column_ids")}
    return {
        "symmetric": (
            lambda x, **how: log_partition(x, x, scale=10.0, **same_sample(**how)),
            [x],
        ),
        "scattered ids": (
            lambda x, **how: log_partition(x, x, scale=3.0, **scrambled, **how),
            [x],
        ),
        "rectangle": (
            lambda x, y, **how: log_partition(x, y, scale=10.0, **how),
            [x, y],
        ),
        "few rows": (
            lambda x, y, **how: log_partition(x, y, scale=10.0, **how),
            [y[:7], x],
        ),
        "one pair": (
            lambda x, y, **how: log_partition(x, y, scale=2.0, **how),
            [x[:1], x[:1]],
        ),
        "ids and bands": (
            lambda x, y, **how: log_partition(
                x, y, scale=5.0, **crossed(**band, **how)
            ),
            [x, y],
        ),
        "rows without a pair": (
            lambda x, y, **how: log_partition(x, y, scale=5.0, low=0.4, **how),
            [x, y],
        ),
        "rows and columns": (
            lambda x, y, **how: two_sided(x, y, scale=10.0, **crossed(**how)),
            [x, y],
        ),
        "three scales": (
            lambda x, **how: log_partitions(
                x, x, scales=[5.0, -2.0, 3.0], **same_sample(**how)
            ),
            [x],
        ),
        "a learned scale": (
            lambda x, s, **how: log_partition(x, x, scale=s, **same_sample(**how)),
            [x, learned(7.0)],
        ),
        "learned scales": (
            lambda x, y, s, **how: log_partitions(x, y, scales=[s, 2 * s], **how),
            [x, y, learned(7.0)],
        ),
        "temperature 0.01": (
            lambda x, **how: log_partition(x, x, scale=100.0, **same_sample(**how)),
            [x],
        ),
        "beyond a shared shift": (
            lambda x, y, **how: two_sided(x, y, scale=1.0, **how),
            [100 * x, 3 * y],
        ),
        "width 129": (
            lambda x, **how: log_partition(x, x, scale=10.0, **same_sample(**how)),
            [unit(N, 129)],
        ),
        "wide symmetric": (
            lambda x, **how: log_partition(x, x, scale=10.0, **same_sample(**how)),
            [wide[0]],
        ),
        "wide rows and columns": (
            lambda x, y, **how: two_sided(x, y, scale=10.0, **crossed(**how)),
            [*wide],
        ),
        "wide, beyond a shared shift": (
            lambda x, y, **how: two_sided(x, y, scale=300.0, **how),
            [*wide],
        ),
        "wide, low, learned": (
            lambda x, y, s, **how: log_partition(x, y, scale=s, low=-0.1, **how),
            [*wide, learned(4.0)],
        ),
    }


def sum_cases():
    """The same for other functions of the scores."""
    x, y, ids = unit(N, 24), unit(M, 24, seed=1), torch.arange(N, device=DEVICE)
    others = {"softplus": (0.0, 0.0), "log": (2.0, 1.0), "imq": (2.0, 1.0)}
    cases = {}
    for name, (parameter, offset) in {**others, "riesz": (-1.0, 1.0)}.items():
        settings = {"function": name, "parameter": parameter, "offset": offset}
        cases[f"{name}, symmetric"] = (
            lambda x, settings=settings, **how: row_sums(
                x, x, **settings, row_ids=ids, column_ids=ids, **how
            ),
            [x],
        )
        cases[f"{name}, rectangle"] = (
            lambda x, y, settings=settings, **how: row_sums(x, y, **settings, **how),
            [x, y],
        )
    cases["softplus, wide"] = (
        lambda x, y, **how: row_sums(x, y, "softplus", **how),
        [4 * unit(N, 300), unit(M, 300, seed=1)],
    )
    return cases


def value_and_gradients(function, leaves, dtype, **how):
    """The value and its gradients against fixed weights, in float64."""
    leaves = [x.detach().to(dtype).requires_grad_() for x in leaves]
    out = function(*leaves, **how)
    out = torch.cat(out) if isinstance(out, tuple) else out
    weights = torch.linspace(-1, 2, out.numel(), dtype=out.dtype, device=out.device)
    finite = out.masked_fill(out == -torch.inf, 0.0)
    total = (finite * weights.reshape(out.shape)).sum()
    return [t.double() for t in (out.detach(), *torch.autograd.grad(total, leaves))]


def relative_error(got, want):
    """Size of the difference over the size; infinities must agree."""
    assert (got.isfinite() == want.isfinite()).all()
    assert (got == want)[~want.isfinite()].all()
    got, want = (t.nan_to_num(0.0, 0.0, 0.0) for t in (got, want))
    return float((got - want).norm() / want.norm().clamp_min(1e-6))
