"""However many processes: the parameters' gradient is that of the whole batch."""

import multiprocessing
import os
import socket

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from invariance.encoders import Encoder, build_head
from invariance.methods import JointEmbedding
from invariance.objectives import OBJECTIVES

N, NAMES = 12, ("nt_xent", "info_nce", "dcl", "dhel", "kcl", "vicreg", "sup_con")
LABELS = torch.arange(N) % 4


def learner(name):
    """Without batch norm, whose statistics would be each process's own."""
    torch.manual_seed(0)
    encoder = Encoder(nn.Sequential(nn.Linear(5, 8), nn.Tanh()), input_shape=(5,))
    head = build_head("linear", 8, out=6)
    return JointEmbedding(encoder, head, OBJECTIVES[name]()).double()


def views():
    generator = torch.Generator().manual_seed(1)
    return list(torch.randn(2, N, 5, generator=generator, dtype=torch.float64))


def gradients(module):
    return {k: p.grad.clone() for k, p in module.named_parameters()}


def work(rank, n_processes, port, queue):
    """One process: its share of the rows, gradients averaged by DDP."""
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=n_processes)
    rows = slice(rank * N // n_processes, (rank + 1) * N // n_processes)
    for name in NAMES:
        one = learner(name)
        several = DistributedDataParallel(one)
        step = several([v[rows] for v in views()], LABELS[rows])
        step.loss.backward()
        found = {k: g.numpy() for k, g in gradients(one).items()}
        queue.put((name, rank, step.loss.item(), len(step.u), found))
    dist.barrier()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.parametrize("n_processes", [2, 3])
def test_gradients_are_those_of_the_whole_batch(n_processes):
    context = multiprocessing.get_context("fork")
    queue, port = context.Queue(), free_port()
    processes = [
        context.Process(target=work, args=(rank, n_processes, port, queue))
        for rank in range(n_processes)
    ]
    for process in processes:
        process.start()
    told = [queue.get(timeout=60) for _ in range(n_processes * len(NAMES))]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert {name for name, *_ in told} == set(NAMES)
    for name, _, loss, n_rows, found in told:
        alone = learner(name)
        step = alone(views(), LABELS)
        step.loss.backward()
        assert n_rows == N
        assert loss == pytest.approx(step.loss.item(), abs=1e-12)
        for k, expected in gradients(alone).items():
            ours = torch.from_numpy(found[k])
            torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)
