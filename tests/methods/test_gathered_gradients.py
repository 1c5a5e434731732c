"""However many processes: the parameters' gradient is that of the whole batch."""

import multiprocessing
import os
import socket

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from invariance.encoders import Encoder, build_head, shuffle_batches
from invariance.methods import JointEmbedding, build, customize
from invariance.objectives import OBJECTIVES

N, NAMES = 12, ("nt_xent", "info_nce", "dcl", "dhel", "kcl", "vicreg", "sup_con")
# methods whose memory all processes keep alike, with what fits two dozen samples
REMEMBERS = {
    "moco": {"size": 30},
    "ir_sampled": {"n_draws": 9},
    "ir_nce": {"n_draws": 9},
    "annulus": {"outer": 0.5},
    "la": {"k": 0.5, "n_clusters": 3, "warmup": 0},
    "vince_plus": {"n_proposals": 9},
    "pcl": {"size": 30, "n_clusters": 3, "warmup": 0},
}
LABELS = torch.arange(N) % 4
IDS = torch.arange(N) * 2 % 23


def learner(name):
    """Without batch norm, whose statistics would be each process's own."""
    torch.manual_seed(0)
    encoder = Encoder(nn.Sequential(nn.Linear(5, 8), nn.Tanh()), input_shape=(5,))
    if name in REMEMBERS:
        method = customize(name, head="linear", width=6)
        return build(method, encoder, n_samples=24, **REMEMBERS[name]).double()
    head = build_head("linear", 8, out=6)
    return JointEmbedding(encoder, head, OBJECTIVES[name]()).double()


def two_steps(one, module, rows):
    """Losses of two steps, the second with what the first has left in memory."""
    losses = []
    for done in range(2):
        one.before_epoch(done / 2)
        step = module([v[rows] for v in views()], LABELS[rows], IDS[rows])
        one.zero_grad()
        step.loss.backward()
        one.after_step((done + 1) / 2)
        losses.append(step.loss.item())
    return losses, step


def views():
    generator = torch.Generator().manual_seed(1)
    return list(torch.randn(2, N, 5, generator=generator, dtype=torch.float64))


def gradients(module):
    found = {k: p.grad for k, p in module.named_parameters()}
    return {k: g.clone() for k, g in found.items() if g is not None}


def rows_held(module):
    kept = (
        "negatives.z",
        "negatives.bank.z",
        "negatives.labels",
        "prototypes.0.bank.z",
    )
    return {k: v.numpy() for k, v in module.state_dict().items() if k in kept}


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
    for name in REMEMBERS:
        one = learner(name)
        losses, _ = two_steps(one, DistributedDataParallel(one), rows)
        found = {k: g.numpy() for k, g in gradients(one).items()}
        queue.put((name, rank, losses, rows_held(one), found))
    dist.barrier()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run_processes(work, n_processes, n_told):
    """What the processes tell."""
    context = multiprocessing.get_context("fork")
    queue, port = context.Queue(), free_port()
    processes = [
        context.Process(target=work, args=(rank, n_processes, port, queue))
        for rank in range(n_processes)
    ]
    for process in processes:
        process.start()
    told = [queue.get(timeout=60) for _ in range(n_told)]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    return told


@pytest.mark.parametrize("n_processes", [2, 3])
def test_gradients_are_those_of_the_whole_batch(n_processes):
    n_told = n_processes * (len(NAMES) + len(REMEMBERS))
    told = run_processes(work, n_processes, n_told)
    assert {name for name, *_ in told} == {*NAMES, *REMEMBERS}
    for name, _, losses, held, found in (t for t in told if t[0] in REMEMBERS):
        alone = learner(name)
        expected, _ = two_steps(alone, alone, slice(None))
        assert losses == pytest.approx(expected, abs=1e-10)
        compare(found, gradients(alone))
        compare(held, rows_held(alone))
    for name, _, loss, n_rows, found in (t for t in told if t[0] in NAMES):
        alone = learner(name)
        step = alone(views(), LABELS)
        step.loss.backward()
        assert n_rows == N
        assert loss == pytest.approx(step.loss.item(), abs=1e-12)
        compare(found, gradients(alone))


def compare(found, expected):
    assert found.keys() == expected.keys() and found
    for k, theirs in expected.items():
        ours = torch.from_numpy(found[k])
        torch.testing.assert_close(ours, torch.as_tensor(theirs), rtol=1e-9, atol=1e-9)


class Company(nn.Module):
    """Writes down who was in the batch; its batch norm is never called."""

    def __init__(self):
        super().__init__()
        self.norm, self.seen = nn.BatchNorm1d(2), []

    def forward(self, x):
        self.seen.append(x[:, 0].tolist())
        return torch.stack([x[:, 0] * 10, x.sum(1)], 1)


def deal(rank, n_processes, port, queue):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=n_processes)
    torch.manual_seed(rank)  # one of them decides
    network, mine = Company(), torch.arange(4.0)[:, None] + 4 * rank
    for _ in range(3):
        back = shuffle_batches(network)(mine.repeat(1, 2))
        queue.put((rank, network.seen[-1], back.tolist()))
    plain = nn.Linear(2, 2)
    assert shuffle_batches(plain) is plain
    synchronised = nn.SyncBatchNorm(2)
    assert shuffle_batches(synchronised) is synchronised
    dist.barrier()
    dist.destroy_process_group()


def test_shuffled_rows_come_back_in_order():
    told = run_processes(deal, 2, 6)
    own = [[float(x) for x in range(4 * rank, 4 * rank + 4)] for rank in (0, 1)]
    for rank, _, back in told:
        assert back == [[10 * x, 2 * x] for x in own[rank]]
    everyone = sorted(x for _, company, _ in told for x in company)
    assert everyone == sorted(3 * (own[0] + own[1]))  # each seen once a round
    mixed = [set(company) & set(own[0]) for _, company, _ in told]
    assert any(0 < len(part) < 4 for part in mixed)


def test_one_process_shuffles_nothing():
    network = Company()
    assert shuffle_batches(network) is network
