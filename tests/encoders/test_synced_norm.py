"""Batch norms over processes, with unequal shares, are those of one with all rows."""

import io
from functools import partial

import pytest
import torch
import torch.distributed as dist
from tests.processes import on_processes
from timm.layers import BatchNormAct2d
from torch import nn

from invariance.encoders import keep_norms, synchronize_norms
from invariance.partition import gather_rows

CPU = torch.device("cpu")
SHARES = (5, 1, 0, 4)  # one process has a single row, and one none


def make_network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3),
        nn.BatchNorm2d(6, momentum=None),
        nn.GELU(),
        nn.Conv2d(6, 4, 3),
        BatchNormAct2d(4),
        nn.Flatten(),
        nn.Linear(16, 5),
        nn.BatchNorm1d(5, affine=False),
        nn.Linear(5, 4),
    ).double()


def make_rows(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(sum(SHARES), 3, 6, 6, generator=generator).double() + step


def loss_of(z):
    return (z @ z.T).logsumexp(1).mean()


def learn(rank, network):
    """Two steps over all rows, or over this process's share of them."""
    network.zero_grad()
    for step in range(2):
        rows = make_rows(step)
        if rank is not None:
            rows = rows.split(SHARES)[rank]
        rows.requires_grad_()
        loss_of(gather_rows(network(rows))).backward()
    return rows.grad


def compare(one, whole, rank):
    two = synchronize_norms(make_network(), CPU)
    own = learn(rank, two) / len(SHARES)  # as averaging over the processes undoes
    close = partial(torch.testing.assert_close, rtol=1e-12, atol=1e-12)
    close(own, whole.split(SHARES)[rank])
    for mine, its in zip(two.parameters(), one.parameters(), strict=True):
        dist.all_reduce(mine.grad)
        close(mine.grad / len(SHARES), its.grad)
    assert two.state_dict().keys() == one.state_dict().keys()
    for mine, its in zip(two.buffers(), one.buffers(), strict=True):
        close(mine, its)
    two.eval(), one.eval()
    close(two(make_rows(3)), one(make_rows(3)))  # no process waits for another


def test_statistics_gradients_and_running_averages(tmp_path):
    one = make_network()
    whole = learn(None, one)
    on_processes(len(SHARES), partial(compare, one, whole), tmp_path)


def test_alone_it_is_the_norm_that_it_was():
    one, two = make_network(), synchronize_norms(make_network(), CPU)
    assert torch.equal(one(make_rows(0)), two(make_rows(0)))
    assert isinstance(two[1], nn.BatchNorm2d)


def test_on_a_gpu_an_activation_is_kept():
    network = synchronize_norms(make_network(), torch.device("cuda"))
    assert isinstance(network[1], nn.SyncBatchNorm)
    assert isinstance(network[4], nn.SyncBatchNorm)
    assert isinstance(network[4].act, nn.ReLU)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_network_gets_its_own_norms_back(device):
    network = make_network()
    before = [type(part) for part in network.modules()]
    with keep_norms(network):
        trained = synchronize_norms(network, torch.device(device))
        assert [type(part) for part in trained.modules()] != before
        for norm in (trained[1], trained[4], trained[7]):
            norm.running_mean = norm.running_mean + 3  # as when it moves to a device
    assert [type(part) for part in network.modules()] == before
    assert all((network[k].running_mean == 3).all() for k in (1, 4, 7))
    torch.save(network, io.BytesIO())


def too_few(rank):
    norm = synchronize_norms(nn.BatchNorm1d(3), CPU)
    with pytest.raises(ValueError, match="more than one number per channel"):
        norm(torch.zeros(1 if rank == 0 else 0, 3))


def test_a_single_row_in_all(tmp_path):
    on_processes(2, too_few, tmp_path)
