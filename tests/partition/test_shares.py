"""Sums over the rows of all processes are those of one process with the whole batch."""

import warnings
from functools import partial
from itertools import product, starmap
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from tests.contracts.cases import CASES as OBJECTIVE_CASES
from tests.processes import on_processes
from torch.autograd import grad
from torch.utils.flop_counter import FlopCounterMode

import invariance as inv
from invariance.partition import (
    log_partitions,
    row_sums,
    share_rows,
    two_sided_log_partition,
)

D = 5
GROUPS = ((7, 6), (4, 3, 2), (0, 3, 2, 4))
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


def check_sums(rank, sizes):
    """All cases, on one matrix of rows and on one of rows and columns."""
    found, n = {}, sum(sizes)
    start = sum(sizes[:rank])
    own = slice(start, start + sizes[rank])
    x, y, ids = rows(n, 0), rows(n, 1), ids_of(n)
    low = torch.linspace(-3, 0, n, dtype=x.dtype)
    weight = rows(n, 2)[:, 0]
    shares = [share_rows(x[own], ring=ring) for ring in (False, True)]
    for name, symmetric in product(CASES, (True, False)):
        compute, how = CASES[name]
        if name == "both sides" and symmetric:
            continue
        whole = compute_all(compute, how, x, y, ids, symmetric, weight)
        for share in shares:
            shared = compute_all(
                *(compute, {**how, "share": share}, x[own], y[own], ids[own]),
                *(symmetric, weight),
            )
            key = f"{sizes} {name}, {'one' if symmetric else 'two'}, {share}"
            found[key] = compare(whole, shared, own, len(sizes))
    whole = compute_all(banded, {"low": low}, x, y, ids, True, weight)
    for share in shares:
        how = {"low": low[own], "share": share}
        part = compute_all(banded, how, x[own], y[own], ids[own], True, weight)
        found[f"{sizes} bands, {share}"] = compare(whole, part, own, len(sizes))
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


# ---------------------------------------------------------------- objectives


def objective_loss(case, inputs, **settings):
    """Value, gradients of rows, gradients of what is no row."""
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    learned = []
    if case.softmax:
        learned = [torch.tensor(0.4, dtype=torch.float64, requires_grad=True)]
        settings["temperature"] = learned[0]
    if case.name == "sig_lip":
        bias = torch.tensor(-1.0, dtype=torch.float64, requires_grad=True)
        learned, settings["bias"] = [bias], bias
    value = case.function()(*inputs, **settings)
    leaves = [x for x in inputs if x.requires_grad]
    gradients = grad(value, [*leaves, *learned])
    n_rows = len(leaves) - case.prototypes
    return value.detach(), gradients[:n_rows], gradients[n_rows:]


def check_objectives(rank, sizes):
    """Every objective: rows in a ring, and gathered in a share that is known."""
    found, n = {}, sum(sizes)
    own = torch.arange(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    for case in OBJECTIVE_CASES:
        inputs = case.inputs(n, 4)
        whole = objective_loss(case, inputs, gather=False)
        views = [x.transpose(0, 1) if case.stack else x for x in whole[1]]
        part = case.permuted(inputs, own)
        share = share_rows(own)
        for gather in ("ring", share):
            value, rows, parameters = objective_loss(case, part, gather=gather)
            rows = [x.transpose(0, 1) if case.stack else x for x in rows]
            answer = compare(
                *((whole[0], views, whole[2]), (value, rows, parameters)),
                *(own, len(sizes)),
            )
            found[f"{sizes} {case.id}, {str(gather)[:5]}"] = answer
    return found


def check_others(rank, sizes):
    """Warnings, explanations, work, and what else is said of processes."""
    return {
        f"{sizes} {check.__name__}": check(rank, sizes)
        for check in (
            warn_once,
            explain_shares,
            share_work,
            circulate_what_is_large,
            compute_while_rows_travel,
        )
    }


def warn_once(rank, sizes) -> str:
    u, v = rows(6, 0), rows(6, 1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        inv.nt_xent(u, v, gather=False)
        inv.NTXent(gather=True)(u, v)
        silent = len(told)
        inv.InfoNCE()(u, v)
        inv.vicreg(u, v)
    messages = [str(w.message) for w in told if w.category is UserWarning]
    right = silent == 0 and len(messages) == 1 and "pass gather=True" in messages[0]
    return "" if right else f"{silent} {messages}"


def explain_shares(rank, sizes) -> str:
    n = sizes[rank]
    u, v = rows(n, 0), rows(n, 1)
    (plan,) = inv.explain(inv.nt_xent, u, v, gather=True)
    (ring,) = inv.explain(inv.nt_xent, u, v, gather="ring")
    said = f"process {rank} computes its {2 * n} of {2 * sum(sizes)} rows"
    right = said in str(plan) and "gathered once" in str(plan)
    right = right and plan.shape[:2] == (2 * n, 2 * sum(sizes))
    return "" if right and "circulate" in str(ring) else str(plan)


def share_work(rank, sizes) -> str:
    """Counted in multiplications; one process has 1, P at best 1/P each."""
    pairs, n_processes = 1024, len(sizes)  # enough that one process keeps no scores
    u, v = rows(pairs, 0), rows(pairs, 1)
    n = pairs // n_processes
    own = slice(rank * n, (rank + 1) * n)
    problems = []
    for loss in (inv.nt_xent, inv.info_nce, inv.sig_lip, inv.dhel):
        counts = []
        for x, y, gather in ((u, v, False), (u[own], v[own], "equal")):
            with FlopCounterMode(display=False) as counter:
                x = x.clone().requires_grad_()
                grad(loss(x, y.clone().requires_grad_(), gather=gather), x)
            counts.append(counter.get_total_flops())
        if counts[1] > 1.4 / n_processes * counts[0]:
            problems.append(f"{loss.__name__} {counts}")
    return "; ".join(problems)


def circulate_what_is_large(rank, sizes) -> str:
    x = rows(sizes[rank], 0)
    share = share_rows(x)
    where = "invariance.partition._processes"
    ids = torch.arange(len(x)) + share.own_rows.start
    kinds = {"scale": 1.0, "row_ids": ids, "column_ids": ids, "share": share}
    plans = []
    for free in (1, 2**40):  # of the first process alone: all decide alike
        free = free if rank == 0 else 2**40
        with (
            mock.patch(f"{where}.free_bytes", return_value=free),
            mock.patch(f"{where}.GATHERED_FREELY", 0),
        ):
            plans += inv.explain(inv.log_partition, x, x, **kinds)
    rings = [plan.share.ring for plan in plans]
    return "" if rings == [True, False] else str(plans)


def compute_while_rows_travel(rank, sizes) -> str:
    """A ring sends a block, computes one, and so on: it never holds all of them."""
    events, send, x = [], dist.batch_isend_irecv, rows(sizes[rank], 0)
    operation = "invariance.partition._operations.log_partitions.run"

    def note_send(*args):
        events.append("send")
        return send(*args)

    def note_sum(z, *args):
        events.append("sum")
        return torch.zeros(1, len(z), dtype=z.dtype), None

    how = {"scale": 1.0, "share": share_rows(x, ring=True)}
    with (
        mock.patch("torch.distributed.batch_isend_irecv", note_send),
        mock.patch(operation, note_sum),
    ):
        inv.log_partition(x, rows(sizes[rank], 1), **how)
    n = len(sizes)
    right = ["send", "sum"] + ["send", "sum"] * (n - 2) + ["sum"]
    return "" if events == right else str(events)


def check_group(rank, sizes):
    """All of it."""
    found = check_sums(rank, sizes)
    if len(sizes) == 4:
        found |= check_objectives(rank, sizes)
    if 0 not in sizes:
        found |= check_others(rank, sizes)
    return found


@pytest.mark.parametrize("sizes", GROUPS, ids=str)
def test_every_loss_and_sum_is_that_of_the_whole_batch(sizes, tmp_path):
    answers = on_processes(len(sizes), lambda rank: check_group(rank, sizes), tmp_path)
    wrong = [item for answer in answers for item in answer.items() if item[1]]
    assert not wrong, wrong[0]
    assert min(map(len, answers)) > 30


def test_what_is_wrong_on_one_process_is_said_on_all(tmp_path, our_errors):
    answers = on_processes(2, lambda rank: [*starmap(refuse, refused(rank))], tmp_path)
    few, sizes, widths, dtypes, *own = zip(*answers, strict=True)
    assert all("at least 2 rows among them" in said for said in few)
    assert all("as many rows: they have 4, 5 (process 0" in said for said in sizes)
    assert all("need one width: theirs have 5, 6 " in said for said in widths)
    assert all("dtype: theirs are torch.float64, torch.flo" in said for said in dtypes)
    assert all("process 1 refused its rows" in first for first, _ in own)
    assert all("NaN or infinite numbers in 1 of" in said for _, said in own[:5])
    assert all("expected (4,), got (3,)" in said for _, said in own[5:7])
    assert "u and v need one row per sample" in own[7][1]


def refused(rank):
    """Losses and rows for what one of two processes must not hand over."""
    x, n = rows(4, 0), 4 - rank
    broken, labels, queue = x.clone(), torch.tensor([0, 0, 1, 1]), inv.Queue(8, width=D)
    broken[0] = torch.nan if rank else 0.0
    queue.remember(rows(4, 1).float(), labels + 9)
    against, swav = inv.InfoNCE(gather=True).against, inv.SwAV(D, 3, gather=True)
    both = partial(inv.nt_xent, gather=True)
    return (
        (both, x[: 1 - rank], x[: 1 - rank]),
        (partial(inv.nt_xent, gather="equal"), *[rows(4 + rank, 0)] * 2),
        (both, *[torch.zeros(4, 5 + rank)] * 2),
        (both, *[x.float() if rank else x] * 2),
        (both, x, broken),
        (partial(inv.sup_con, gather=True), broken, labels),
        (partial(inv.multi_view, gather="ring"), torch.stack([x, broken])),
        (against, x, broken, queue, labels),
        (swav.terms_of_views, [x, broken]),
        (against, x, x, queue, labels[:n]),
        (partial(inv.sup_con, gather=True), x, labels[:n]),
        (both, x, x[:n]),
    )


def refuse(loss, *inputs) -> str:
    with pytest.raises(inv.InvarianceError) as error:
        loss(*inputs)
    return str(error.value)


def test_what_gather_may_be():
    u = rows(4, 0)
    with pytest.raises(inv.InvarianceError, match="Did you mean 'ring'"):
        inv.nt_xent(u, u, gather="rings")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = inv.nt_xent(u, u)  # there is nobody else
    for gather in (True, False, "equal", "ring"):
        assert inv.nt_xent(u, u, gather=gather) == alone
