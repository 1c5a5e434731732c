"""The fused kernels on the share of one process, over two of them.

Interpreted on a CPU (TRITON_INTERPRET=1, as ``make test`` does).
"""

import pytest
import torch
from tests.processes import on_processes
from torch.autograd import grad

from invariance.partition import (
    log_partitions,
    row_sums,
    share_rows,
    two_sided_log_partition,
)

from .cases import INTERPRETED, relative_error, unit

D, SIZES = 24, (21, 16)
# (value, gradient), as in test_kernels
TOLERANCE = {"half": (5e-4, 3e-3), "exact": (2e-6, 2e-5)}


def one_matrix(x, y, ids, **how):
    scales = [x.new_tensor(10.0).requires_grad_(), 5.0]
    out = log_partitions(x, x, scales=scales, row_ids=ids, column_ids=ids, **how)
    return out, scales[:1]


def both_sides(x, y, ids, **how):
    kinds = {"row_ids": ids, "column_ids": ids, "longest": 1.0}
    return torch.stack(two_sided_log_partition(x, y, scale=5.0, **kinds, **how)), []


def other_sums(x, y, ids, **how):
    kinds = {"row_ids": ids, "column_ids": ids}
    return row_sums(x, x, "log", 2.0, offset=1.0, **kinds, **how), []


CASES = (one_matrix, both_sides, other_sums)


def value_and_gradients(case, x, y, ids, **how):
    x, y = x.clone().requires_grad_(), y.clone().requires_grad_()
    out, parameters = case(x, y, ids, **how)
    weight = torch.linspace(-1, 1, out.shape[-1], dtype=out.dtype)
    leaves = [x, y] if case is both_sides else [x]
    gradients = grad((out * weight).sum(), [*leaves, *parameters])
    return [out.detach(), *gradients], len(leaves)


def check(rank, sizes):
    found, n = {}, sum(sizes)
    own = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    x, y, ids = unit(n, D), unit(n, D, seed=1), torch.arange(n) // 2
    for case in CASES:
        whole, n_leaves = value_and_gradients(case, x, y, ids, backend="dense")
        for precision, (most_value, most_gradient) in TOLERANCE.items():
            rows = x[own].float(), y[own].float(), ids[own]
            share = share_rows(rows[0], ring=precision == "exact")
            how = {"backend": "triton", "precision": precision, "share": share}
            (value, *gradients), _ = value_and_gradients(case, *rows, **how)
            errors = [relative_error(value, whole[0]) / most_value]
            for i, (ours, theirs) in enumerate(zip(gradients, whole[1:], strict=True)):
                if i < n_leaves:
                    ours, theirs = ours / len(sizes), theirs[own]
                errors.append(relative_error(ours, theirs) / most_gradient)
            wrong = "" if max(errors) < 1 else f"errors over tolerance: {errors}"
            found[f"{case.__name__}, {precision}"] = wrong
    return found


@pytest.mark.skipif(not INTERPRETED, reason="two processes would share one GPU")
def test_a_share_in_fused_kernels_is_that_of_the_whole_batch(tmp_path):
    for answers in on_processes(len(SIZES), lambda rank: check(rank, SIZES), tmp_path):
        assert len(answers) == len(CASES) * len(TOLERANCE)
        assert not {name: said for name, said in answers.items() if said}
