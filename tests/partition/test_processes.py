"""Rows of all processes: in order, of any number, with the whole batch's gradient."""

import multiprocessing
import os
import socket

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import invariance as inv

N, D = 7, 3
DTYPES = (torch.float32, torch.float16, torch.float64)


def batch():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, N, D, generator=generator, dtype=torch.float64)


def network():
    torch.manual_seed(1)
    return torch.nn.Linear(D, 4).double()


def loss(module, rows, *, equal):
    """Of all rows, on every process; the network sees this process's rows alone."""
    z = module(rows.flatten(0, 1)).unflatten(0, (2, -1))
    if not equal:
        return inv.nt_xent(*z, gather=True)
    u, v = (inv.gather_rows(x, equal=True) for x in z)
    return inv.nt_xent(u, v)


def work(rank, splits, equal, port, queue):
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=len(splits))
    rows = batch()[:, : sum(splits)].split(splits, 1)[rank]
    model = network()
    averaged = DistributedDataParallel(model)  # held until its hooks have run
    value = loss(averaged, rows, equal=equal)
    value.backward()
    labels = inv.gather_rows(torch.full((splits[rank],), rank))  # integers
    refusals = []
    for other in (torch.zeros(2, 3 + rank), torch.zeros(2, 3).to(DTYPES[rank])):
        try:
            inv.gather_rows(other)
        except inv.InvarianceError as why:
            refusals.append(str(why))
    queue.put((value.item(), model.weight.grad.numpy(), labels.tolist(), refusals))
    dist.barrier()
    dist.destroy_process_group()


def run(splits, equal):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    processes = [
        context.Process(target=work, args=(rank, splits, equal, port, queue))
        for rank in range(len(splits))
    ]
    for process in processes:
        process.start()
    results = [queue.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    return results


@pytest.mark.parametrize(
    ("splits", "equal"),
    [((4, 3), False), ((2, 5), False), ((3, 3), True), ((2, 4, 1), False)],
)
def test_the_gradient_is_that_of_the_whole_batch(splits, equal):
    model, rows = network(), batch()[:, : sum(splits)]
    want = loss(model, rows, equal=True)
    want.backward()
    for value, gradient, labels, refusals in run(splits, equal):
        assert value == pytest.approx(want.item(), abs=1e-12)
        torch.testing.assert_close(
            torch.from_numpy(gradient), model.weight.grad, rtol=1e-10, atol=1e-10
        )
        assert labels == [rank for rank, n in enumerate(splits) for _ in range(n)]
        # every process says so, and goes on
        assert len(refusals) == 2 and "one width and one dtype" in refusals[0]


def test_one_process_gathers_nothing():
    x = torch.randn(3, 2)
    assert inv.gather_rows(x) is inv.gather(x) is x
