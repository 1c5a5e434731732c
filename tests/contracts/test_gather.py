"""``gather=True`` on several processes equals one process with the whole batch."""

import multiprocessing
import os
import socket

import pytest
import torch
import torch.distributed as dist
from torch.autograd import grad

from .cases import CASES

N = 6


def part_of(case, inputs, rank, n_processes):
    """The rows of one process; prototypes, which are parameters, are everyone's."""
    rows = torch.arange(rank * N // n_processes, (rank + 1) * N // n_processes)
    return case.permuted(inputs, rows)


def value_and_gradients(case, inputs, **settings):
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    value = case.function()(*inputs, **settings)
    rows = [x for x in inputs if x.requires_grad]
    return value.item(), [g.numpy() for g in grad(value, rows)]


def work(rank, n_processes, port, queue):
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=n_processes)
    for number, case in enumerate(CASES):
        inputs = part_of(case, case.inputs(N, 4), rank, n_processes)
        queue.put((number, rank, *value_and_gradients(case, inputs, gather=True)))
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module", params=[2, 3])
def several(request):
    """What each process gets, for every case."""
    context, n_processes = multiprocessing.get_context("fork"), request.param
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    queue = context.Queue()
    processes = [
        context.Process(target=work, args=(rank, n_processes, port, queue))
        for rank in range(n_processes)
    ]
    for process in processes:
        process.start()
    answers = [queue.get(timeout=60) for _ in range(n_processes * len(CASES))]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    return n_processes, {(number, rank): rest for number, rank, *rest in answers}


@pytest.mark.parametrize("number", range(len(CASES)), ids=[c.id for c in CASES])
def test_value_and_gradient_are_those_of_the_whole_batch(number, several):
    case, (n_processes, answers) = CASES[number], several
    inputs = case.inputs(N, 4)
    value, gradients = value_and_gradients(case, inputs)
    gradients = [torch.from_numpy(g) for g in gradients]
    for rank in range(n_processes):
        theirs, parts = answers[number, rank]
        assert theirs == pytest.approx(value, rel=1e-9, abs=1e-9)
        parts = [torch.from_numpy(g) for g in parts]
        if case.prototypes:  # a parameter's gradient is the same on every process
            torch.testing.assert_close(parts.pop(), gradients[-1])
        whole = part_of(case, gradients, rank, n_processes)
        for part, expected in zip(parts, whole, strict=False):
            # data-parallel training averages what passes through the rows
            torch.testing.assert_close(part / n_processes, expected)
