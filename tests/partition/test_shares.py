"""Sums over the rows of all processes are those of one process with the whole batch."""

import itertools

import pytest
import torch
from torch.autograd import grad

from invariance.partition import (
    log_partitions,
    row_sums,
    share_rows,
    two_sided_log_partition,
)

from .company import run_in_company

D = 5
GROUPS = ((7, 6), (5, 0), (4, 3, 2), (3, 5, 1, 4), (0, 6, 0, 3))
TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}


def rows(n, seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, D, generator=generator, dtype=torch.float64).to(dtype)


def ids_of(n):
    return torch.arange(n) * 3 % max(n - 2, 1)  # some samples have several rows


def partitions(x, y, ids, how):
    scale = x.new_tensor(0.7, requires_grad=True)
    learned = [scale, 2 * scale] if how.pop("learned", False) else [0.7, -1.3, 0.0]
    kinds = {"row_ids": ids, "column_ids": ids}
    out = log_partitions(x, y, scales=learned, **kinds, **how)
    return out, [scale] if learned[0] is scale else []


def one_sum(x, y, ids, how):
    kinds = {"row_ids": ids, "column_ids": ids}
    return log_partitions(x, y, scales=[1.1], **kinds, **how), []


def both_sides(x, y, ids, how):
    scale = x.new_tensor(0.7, requires_grad=True)
    kinds = {"row_ids": ids, "column_ids": ids}
    out = two_sided_log_partition(x, y, scale=scale, **kinds, **how)
    return torch.stack(out), [scale]


def other_sums(x, y, ids, how):
    kinds = {"row_ids": ids, "column_ids": ids}
    function = how.pop("function")
    return row_sums(x, y, function, 0.8, offset=0.1, **kinds, **how), []


def banded(x, y, ids, how):
    n = len(x)
    low = how.pop("low")
    return partitions(x, y, ids, {**how, "low": low[:n], "high": 1.5})


CASES = {
    "several scales": (partitions, {}),
    "learned scales": (partitions, {"learned": True}),
    "one scale": (one_sum, {}),
    "known length": (one_sum, {"longest": 9.0}),
    "both sides": (both_sides, {}),
    "softplus": (other_sums, {"function": "softplus"}),
    "imq": (other_sums, {"function": "imq"}),
    "dense": (one_sum, {"backend": "dense"}),
}


def check_group(rank, sizes):
    """All cases, on one matrix of rows and on one of rows and columns."""
    found, n = {}, sum(sizes)
    start = sum(sizes[:rank])
    own = slice(start, start + sizes[rank])
    x, y, ids = rows(n, 0), rows(n, 1), ids_of(n)
    low = torch.linspace(-3, 0, n, dtype=x.dtype)
    weight = rows(n, 2)[:, 0]
    cases = itertools.product(CASES, (True, False), (False, True))
    for name, symmetric, ring in cases:
        compute, how = CASES[name]
        if name == "both sides" and symmetric:
            continue
        whole = compute_all(compute, how, x, y, ids, symmetric, weight)
        share = share_rows(x[own], ring=ring)
        shared = compute_all(
            *(compute, {**how, "share": share}, x[own], y[own], ids[own]),
            *(symmetric, weight),
        )
        key = f"{sizes} {name}, {'one' if symmetric else 'two'}, ring {ring}"
        found[key] = compare(whole, shared, own, len(sizes))
    for ring in (False, True):
        share = share_rows(x[own], ring=ring)
        whole = compute_all(banded, {"low": low}, x, y, ids, True, weight)
        how = {"low": low[own], "share": share}
        part = compute_all(banded, how, x[own], y[own], ids[own], True, weight)
        found[f"{sizes} bands, ring {ring}"] = compare(whole, part, own, len(sizes))
    return found


def compute_all(compute, how, x, y, ids, symmetric, weight):
    """Value, gradients of rows, gradients of scales."""
    x, y = x.clone().requires_grad_(), y.clone().requires_grad_()
    out, parameters = compute(x, x if symmetric else y, ids, dict(how))
    finite = out.masked_fill(out.isinf(), 0.0)
    loss = (finite.sin() * weight).sum()
    leaves = [x] if symmetric else [x, y]
    gradients = grad(loss, [*leaves, *parameters])
    return out.detach(), gradients[: len(leaves)], gradients[len(leaves) :]


def compare(whole, shared, own, n_processes) -> str:
    """What is not as it should be, in words; nothing where all is."""
    try:
        torch.testing.assert_close(shared[0], whole[0], **TOLERANCE)
        for ours, theirs in zip(shared[1], whole[1], strict=True):
            torch.testing.assert_close(ours / n_processes, theirs[own], **TOLERANCE)
        for ours, theirs in zip(shared[2], whole[2], strict=True):
            torch.testing.assert_close(ours, theirs, **TOLERANCE)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def answers():
    return run_in_company(check_group, GROUPS)


def test_every_sum_is_that_of_the_whole_batch(answers):
    wrong = {name: said for name, said in answers.items() if any(said)}
    assert not wrong, next(iter(wrong.items()))
    assert len(answers) > 100
