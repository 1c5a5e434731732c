"""What only a device can show: precision, races, memory, capture, compiling."""

import pytest
import torch

import invariance as inv
from invariance.partition import explain, log_partition

from .cases import INTERPRETED

pytestmark = pytest.mark.skipif(
    INTERPRETED or not torch.cuda.is_available(), reason="needs CUDA"
)
LOSSES = {
    "nt_xent": inv.nt_xent,
    "info_nce": inv.info_nce,
    "dcl": inv.dcl,
    "dhel": inv.dhel,
    "flat_nce": inv.flat_nce,
    "debiased": lambda u, v: inv.debiased(u, v, hardness=0.5),
    "sup_con": lambda u, v: inv.sup_con(
        torch.cat([u, v]), torch.arange(len(u), device=u.device).repeat(2) // 4
    ),
    "sig_lip": inv.sig_lip,
    "kcl": inv.kcl,
    "kcl log": lambda u, v: inv.kcl(u, v, kernel="log"),
    "align_uniform": inv.align_uniform,
}


@pytest.fixture(autouse=True)
def always_fused(monkeypatch):
    """Small batches too: what is tested here are the kernels."""
    # private: the table of crossovers
    from invariance.partition import _plan

    monkeypatch.setattr(_plan, "FUSED_FROM", {2**31: 0})


@pytest.fixture(autouse=True)
def poison():
    """Memory that kernels are given holds NaN, so what they leave unwritten shows."""
    torch.cuda.empty_cache()
    held = [torch.full((2**k,), torch.nan, device="cuda") for k in range(8, 27)]
    held += [torch.full((2**k,), torch.nan, device="cuda") for k in range(8, 24)]
    del held


def views(pairs, d, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    centre = torch.randn(pairs, d, generator=generator)
    noise = (torch.randn(pairs, d, generator=generator) for _ in range(2))
    return [(centre + x).cuda().to(dtype).requires_grad_() for x in noise]


def value_and_gradients(loss, u, v):
    value = loss(u, v)
    return [value.detach(), *torch.autograd.grad(value, (u, v))]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_losses_of_every_precision(name, dtype):
    def loss(u, v):  # the gradient of a mean would be among float16's smallest numbers
        return len(u) * LOSSES[name](u, v)

    u, v = views(700, 128, dtype)
    got = value_and_gradients(loss, u, v)
    exact = [x.detach().double().requires_grad_() for x in (u, v)]
    want = value_and_gradients(loss, *exact)
    assert got[0].dtype == torch.float32
    error = 2e-6 if dtype == torch.float32 else 1e-4
    torch.testing.assert_close(got[0].double(), want[0], rtol=error, atol=700 * error)
    rounding = {torch.bfloat16: 4e-3, torch.float16: 6e-4, torch.float32: 1e-5}[dtype]
    for a, b in zip(got[1:], want[1:], strict=True):
        assert a.dtype == dtype
        assert float((a.double() - b).norm() / b.norm()) < rounding


@pytest.mark.parametrize("setting", ["high", "highest"])
def test_float32_follows_pytorchs_own_setting(setting):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(setting)
    try:
        u, v = views(700, 128, torch.float32)
        (plan,) = explain(inv.nt_xent, u, v)
        got = value_and_gradients(inv.nt_xent, u, v)
    finally:
        torch.set_float32_matmul_precision(before)
    assert plan.precision == {"high": "half", "highest": "exact"}[setting]
    exact = [x.detach().double().requires_grad_() for x in (u, v)]
    want = value_and_gradients(inv.nt_xent, *exact)
    error = max(
        float((a.double() - b).norm() / b.norm())
        for a, b in zip(got[1:], want[1:], strict=True)
    )
    assert error < {"high": 2e-4, "highest": 1e-5}[setting]


def test_autocast_multiplies_in_16_bits():
    with torch.autocast("cuda", dtype=torch.bfloat16):
        u, v = views(700, 128, torch.float32)
        (plan,) = explain(inv.info_nce, u, v)
        assert plan.precision == "half"
        got = value_and_gradients(inv.info_nce, u, v)
    assert got[0].dtype == torch.float32
    want = value_and_gradients(inv.info_nce, *(x.double() for x in (u, v)))
    torch.testing.assert_close(got[0].double(), want[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "d"), [("nt_xent", 128), ("info_nce", 512), ("kcl", 128), ("sup_con", 200)]
)
def test_a_hundred_repetitions_agree_in_every_bit(name, d):
    u, v = views(2000, d, torch.float16)
    first = value_and_gradients(LOSSES[name], u, v)
    for _ in range(100):
        again = value_and_gradients(LOSSES[name], u, v)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_a_repeated_pull_is_that_of_the_labels_it_is_given():
    z = torch.cat(views(777, 200, torch.float16)).detach()
    for step in range(6):
        labels = torch.arange(len(z), device="cuda") // (1, 700, 3)[step % 3]
        labels = labels.to((torch.int64, torch.int32)[step % 2])
        got, want = inv.sup_con(z, labels), inv.sup_con(z.double(), labels)
        torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "d"), [("nt_xent", 128), ("info_nce", 512)])
def test_memory_is_a_few_times_the_inputs(name, d):
    pairs = 32768
    u, v = views(pairs, d, torch.bfloat16)
    for _ in range(2):  # the first step, which looks at what it does, is no exception
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        value_and_gradients(LOSSES[name], u, v)
        peak = torch.cuda.max_memory_allocated() - before
        # five float32 copies of the rows, and a budget that does not grow with them
        assert peak < 5 * 4 * 2 * pairs * d + 320 * 2**20
        assert peak < pairs**2 * 4 / 4  # a quarter of one score matrix


@pytest.mark.parametrize("name", ["nt_xent", "info_nce", "sig_lip", "sup_con"])
def test_torch_compile_takes_it_whole(name):
    torch._dynamo.reset()
    u, v = views(600, 128, torch.bfloat16)
    compiled = torch.compile(LOSSES[name], fullgraph=True)
    want = value_and_gradients(LOSSES[name], u, v)
    for a, b in zip(value_and_gradients(compiled, u, v), want, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-2, atol=1e-5)


@pytest.mark.parametrize(("name", "d"), [("nt_xent", 128), ("info_nce", 512)])
def test_a_cuda_graph_holds_it(name, d):
    u, v = views(512, d, torch.bfloat16)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            value_and_gradients(LOSSES[name], u, v)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = value_and_gradients(LOSSES[name], u, v)
    for seed in (1, 2):
        fresh = views(512, d, torch.bfloat16, seed)
        with torch.no_grad():
            u.copy_(fresh[0])
            v.copy_(fresh[1])
        graph.replay()
        want = value_and_gradients(LOSSES[name], *fresh)
        assert all(torch.equal(a, b) for a, b in zip(out, want, strict=True))


def test_rows_on_another_device_than_the_current_one():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    x = torch.randn(300, 64, device="cuda:1")
    out = log_partition(x, x, scale=0.1, backend="triton")
    want = log_partition(x.double(), x.double(), scale=0.1)
    torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=1e-5)
