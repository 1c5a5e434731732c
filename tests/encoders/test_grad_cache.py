"""GradCache: a batch in pieces gives what the whole batch gives, in less memory."""

import contextlib
import copy
import random
import weakref
from collections import namedtuple
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processes import on_processes
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import invariance as inv
from invariance.encoders import synchronize_norms
from invariance.errors import (
    InvarianceError,
    SettingError,
    ShapeError,
    TrainingError,
)

DOUBLE = torch.float64


def network_with(*layers, width=16):
    torch.manual_seed(0)
    first, last = nn.Linear(5, width), nn.Linear(width, 4)
    return nn.Sequential(first, *layers, nn.GELU(), last).double()


def in_one_graph(network, x, micro_batch):
    """The same pieces, with all that their gradient needs: the slow twin."""
    n_pieces = -(-len(x) // micro_batch)
    edges = [len(x) * k // n_pieces for k in range(n_pieces + 1)]
    return torch.cat([network(x[a:b]) for a, b in pairwise(edges)])


def gradients(module):
    return {name: p.grad for name, p in module.named_parameters()}


def assert_same(mine, theirs, atol=1e-10):
    assert mine.keys() == theirs.keys()
    for name, x in mine.items():
        torch.testing.assert_close(x, theirs[name], atol=atol, rtol=0)


def test_4096_in_pieces_of_64_are_the_plain_step():
    plain = network_with(nn.LayerNorm(16))
    cached = copy.deepcopy(plain)
    x, y = torch.randn(2, 4096, 5, dtype=DOUBLE)
    losses = []
    for network, encode in (
        (plain, plain),
        (cached, inv.GradCache(cached, micro_batch=64)),
    ):
        objective = inv.InfoNCE(temperature="learned", symmetric=False).double()
        losses.append(objective(encode(x), encode(y)))
        losses[-1].backward()
        network.register_module("objective", objective)  # its gradients are wanted too
    torch.testing.assert_close(*losses, atol=1e-10, rtol=0)
    assert_same(gradients(cached), gradients(plain))


@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(4, 40),
    micro_batch=st.integers(2, 45),
    momentum=st.sampled_from([0.1, None]),
)
def test_dropout_and_batch_norm_are_those_of_the_pieces(n, micro_batch, momentum):
    """Ghost batch norm: statistics per piece, running averages moved once for each."""
    if n // -(-n // micro_batch) < 2:
        micro_batch = n  # a batch norm needs two rows
    plain = network_with(nn.BatchNorm1d(16, momentum=momentum), nn.Dropout(0.3))
    cached = copy.deepcopy(plain)
    encode = inv.GradCache(cached, micro_batch=micro_batch)
    x, y = torch.randn(2, n, 5, dtype=DOUBLE)
    after = []
    for forward in (lambda x: in_one_graph(plain, x, micro_batch), encode):
        torch.manual_seed(7)
        inv.info_nce(forward(x), forward(y)).backward()
        after.append(torch.get_rng_state())
    assert_same(gradients(cached), gradients(plain))
    assert_same(dict(cached.named_buffers()), dict(plain.named_buffers()), atol=0)
    assert torch.equal(*after)


def test_the_peak_of_memory_is_that_of_a_piece():
    network = network_with(*(nn.ReLU() for _ in range(6)), width=1024)
    pairs = torch.randn(4096, 2, 5, dtype=DOUBLE)

    def peak(encode, n):
        with LiveBytes() as memory:
            inv.vicreg(*encode(pairs[:n]).unbind(1)).backward()
        network.zero_grad()
        return memory.peak

    piece = peak(network, 64)
    assert peak(inv.GradCache(network, micro_batch=64), 4096) < 1.3 * piece
    assert peak(network, 1024) > 8 * piece  # else there would be nothing to save


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of tensors that were made here and are still there."""

    def __init__(self):
        super().__init__()
        self.live = self.peak = 0
        self.known = {}  # reference and size of each storage

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if not isinstance(tensor, torch.Tensor):
                continue
            storage = tensor.untyped_storage()
            key, n = storage._cdata, storage.nbytes()
            if key not in self.known:
                forget = weakref.ref(storage, lambda _, k=key: self.drop(k))
                self.known[key] = forget, n
                self.live += n
                self.peak = max(self.peak, self.live)
        return made

    def drop(self, key):
        self.live -= self.known.pop(key)[1]


def test_towers_and_inputs_and_structures():
    """Several inputs, by place and by name; several outputs; gradients of inputs."""
    Pair = namedtuple("Pair", "rows marks")

    class Tower(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = nn.Parameter(torch.randn(5, 4, dtype=DOUBLE))

        def forward(self, x, scale, *, mask, how):
            assert how == "as it is"
            z = x["pixels"] * mask[:, None] @ self.weights * scale
            return {"pair": Pair(z, mask > 0.5), "more": [z.sum(1)]}

    torch.manual_seed(0)
    x = torch.randn(10, 5, dtype=DOUBLE, requires_grad=True)
    mask, tower = torch.rand(10, dtype=DOUBLE), Tower()
    results = []
    for encode in (tower, inv.GradCache(tower, micro_batch=3)):
        tower.zero_grad()
        x.grad = None
        out = encode({"pixels": x}, torch.tensor(2.0), mask=mask, how="as it is")
        assert isinstance(out["pair"], Pair) and not out["pair"].marks.requires_grad
        (out["pair"].rows.exp().sum() * out["more"][0].std()).backward()
        made = {"z": out["pair"].rows.detach(), "marks": out["pair"].marks.double()}
        results.append(made | {"x": x.grad, "weights": tower.weights.grad})
    assert_same(*results)


def test_generators_of_numpy_and_python_repeat_too():
    class Noisy(nn.Module):
        def forward(self, x):
            return x * (random.random() + np.random.rand()) * torch.rand(())

    network = network_with(Noisy())
    encode = inv.GradCache(network, micro_batch=3)
    inv.info_nce(*map(encode, torch.randn(2, 9, 5, dtype=DOUBLE))).backward()
    # nothing was raised: both passes agree


def test_without_gradients_there_is_one_pass():
    calls = []
    network = network_with(nn.BatchNorm1d(16))
    network.register_forward_hook(lambda *_: calls.append(1))
    encode = inv.GradCache(network, micro_batch=4)
    x = torch.randn(8, 5, dtype=DOUBLE)
    with torch.no_grad():
        assert encode(x).shape == (8, 4)
    network.requires_grad_(False)
    assert not encode(x).requires_grad and len(calls) == 4


def test_a_second_backward_pass_gives_the_same():
    network = network_with(nn.Dropout())
    encode = inv.GradCache(network, micro_batch=4)
    loss = inv.nt_xent(*map(encode, torch.randn(2, 8, 5, dtype=DOUBLE)))
    loss.backward(retain_graph=True)
    first = {name: g.clone() for name, g in gradients(network).items()}
    loss.backward()
    assert_same(gradients(network), {name: 2 * g for name, g in first.items()})


def test_a_second_derivative_is_refused_in_words():
    network = network_with()
    x = torch.randn(8, 5, dtype=DOUBLE, requires_grad=True)
    loss = inv.GradCache(network, micro_batch=4)(x).sum()
    (slope,) = torch.autograd.grad(loss, x, create_graph=True)
    torch.testing.assert_close(slope, torch.autograd.grad(network(x).sum(), x)[0])
    with pytest.raises(InvarianceError, match="differentiated once, not twice"):
        slope.square().sum().backward()


def test_a_step_of_the_optimizer_comes_after_the_backward_pass():
    network = network_with()
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    x = torch.randn(8, 5, dtype=DOUBLE)
    network(x).square().mean().backward()
    loss = inv.GradCache(network, micro_batch=4)(x).square().mean()
    optimizer.step()
    with pytest.raises(TrainingError, match="optimizer's step after the backward"):
        loss.backward()


def test_half_precision_adds_pieces_up_in_float32():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 64), nn.GELU(), nn.Linear(64, 4))
    x, y = torch.randn(2, 1024, 5)
    found = {}
    for name, encode in {
        "float32": network,
        "plain": network,
        "cached": inv.GradCache(network, micro_batch=4),
    }.items():
        network.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=name != "float32"):
            z = encode(x), encode(y)
        assert z[0].dtype == (torch.float32 if name == "float32" else torch.bfloat16)
        inv.nt_xent(*z).backward()
        found[name] = torch.cat([p.grad.flatten() for p in network.parameters()])

    def error(name):
        return float((found[name] - found["float32"]).norm() / found["float32"].norm())

    assert error("cached") < 1.5 * error("plain")


class Counts(nn.Module):
    n = 0

    def forward(self, x):
        self.n += 1
        return x + self.n


class WithLoss(nn.Module):
    def forward(self, x):
        return x, {"loss": x.square().mean()}


def hidden_weights():
    hidden = torch.ones((), dtype=DOUBLE, requires_grad=True)
    network = network_with()
    network.forward = lambda x: hidden * nn.Sequential.forward(network, x)
    return network


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: network_with(Counts()), TrainingError, r"the second time gives other"),
        (hidden_weights, SettingError, r"also uses a tensor \(\) that is neither"),
        (
            lambda: nn.Sequential(network_with(), nn.Flatten(0)),
            ShapeError,
            "one row of",
        ),
        (
            lambda: nn.Sequential(network_with(), WithLoss()),
            ShapeError,
            "return one value per row, and average outside",
        ),
    ],
)
def test_a_network_that_cannot_be_cut_is_refused(make, error, message):
    network = make()
    encode = inv.GradCache(network, micro_batch=4)
    with pytest.raises(error, match=message):
        encode(torch.randn(8, 5, dtype=DOUBLE)).square().mean().backward()
    assert all(p.grad is None for p in network.parameters())


def test_bad_arguments_are_refused(our_errors):
    network = network_with()
    for wrong in (0, 2.5, "8", None, True):
        with pytest.raises(SettingError, match=f"number, 1 or more: got {wrong!r}"):
            inv.GradCache(network, micro_batch=wrong)
    assert inv.GradCache(network, micro_batch=np.int64(4)).micro_batch == 4
    encode = inv.GradCache(network, micro_batch=4)
    unequal = torch.ones(8, 5), torch.ones(6, 5)
    for inputs, lengths in (((), "no rows"), (unequal, "6 and 8")):
        with pytest.raises(ShapeError, match=lengths):
            encode(*inputs)
    with pytest.raises(ShapeError, match=r"numpy's ndarray: .*as_tensor"):
        encode(np.ones((8, 5)))


def test_processes_share_one_gradient(tmp_path):
    """DistributedDataParallel exchanges it once, also when batches are accumulated."""
    x, y = torch.randn(2, 24, 5, dtype=DOUBLE)

    def step(network, module, rank, n):
        where = slice(24 * rank // n, 24 * (rank + 1) // n)
        objective = inv.NTXent(gather=n > 1)
        halves = [(x[where], y[where]), (y[where], x[where].sin())]
        wait = module.no_sync() if n > 1 else contextlib.nullcontext()
        with wait:
            objective(*map(module, halves[0])).backward()
        objective(*map(module, halves[1])).backward()
        return gradients(network)

    def work(rank):
        network = network_with(nn.LayerNorm(16))
        module = DistributedDataParallel(inv.GradCache(network, micro_batch=5))
        with pytest.raises(SettingError, match="not the reverse"):
            inv.GradCache(module, micro_batch=5)
        return step(network, module, rank, 2)

    network = network_with(nn.LayerNorm(16))
    alone = step(network, network, 0, 1)
    for found in on_processes(2, work, tmp_path):
        assert_same(found, alone)


class Waits(nn.SyncBatchNorm):
    """Stands for PyTorch's, which is for GPUs."""

    def forward(self, x):
        dist.all_reduce(x.detach().sum())
        return x


def test_synchronized_norms_meet_in_every_piece_of_unequal_shares(tmp_path):
    """10 and 8 rows, 4 at once: three pieces on both, each with its rows of both."""
    shares = torch.randn(2, 18, 5, dtype=DOUBLE).split([10, 8], dim=1)

    def make():
        return network_with(nn.BatchNorm1d(16))

    def work(rank):
        network = synchronize_norms(make(), torch.device("cpu"))
        encode = inv.GradCache(network, micro_batch=4)
        objective = inv.NTXent(gather=True)
        objective(*map(encode, shares[rank])).backward()
        for gradient in gradients(network).values():
            dist.all_reduce(gradient)
            gradient /= 2
        with pytest.raises(ShapeError, match="3, and another has only 2 rows to cut"):
            encode(shares[0][0][: (10, 2)[rank]])
        waiting = inv.GradCache(network_with(Waits(16)), micro_batch=8)
        waiting(shares[rank][0]).sum().backward()
        if rank == 0:  # norms that stand still wait for nobody
            encode.eval()(shares[0][0])
        return gradients(network), dict(network.named_buffers())

    whole, z = make(), []
    for one, two in zip(*shares, strict=True):
        pieces = zip(one.split([3, 3, 4]), two.split([2, 3, 3]), strict=True)
        parts = [whole(torch.cat(x)).split([*map(len, x)]) for x in pieces]
        z.append(torch.cat([torch.cat(rows) for rows in zip(*parts, strict=True)]))
    inv.nt_xent(*z).backward()
    for slopes, buffers in on_processes(2, work, tmp_path):
        assert_same(slopes, gradients(whole))
        assert_same(buffers, dict(whole.named_buffers()))
