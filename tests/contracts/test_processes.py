"""One, two or four processes that share a batch say what one with all of it says.

A program is a function of the samples that a process has: all of them where there is
one process; where there are several, unequal shares, down to one sample and to none.
Losses, parameters' gradients as DistributedDataParallel averages them, weights and
memories after a step, and readings must be the same, on every process.
"""

import copy
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.image_methods import IMAGE_METHODS
from tests.negatives import scenes
from tests.processes import on_processes
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import invariance as inv
from invariance.diagnostics import diagnosis
from invariance.encoders import Encoder, shuffle_batches, synchronize_norms
from invariance.evaluation import knn, linear_probe
from invariance.methods import build, customize
from invariance.negatives import NEGATIVES
from invariance.partition import has_company

from .cases import CASES, Case

N, N_SAMPLES = 11, 24
SHARES = ((11,), (7, 4), (6, 1, 4, 0))
LABELS = torch.arange(N) % 4
IDS = torch.arange(N) * 5 % 23  # of a data set in another order
EXACT = {"rtol": 1e-10, "atol": 1e-10}
DTYPES = [torch.float32, torch.float64] * N  # by the number of rows


def averaged(module: nn.Module) -> nn.Module:
    """The module as data-parallel training has it; itself where there is no group."""
    return DistributedDataParallel(module) if dist.is_initialized() else module


def gradients(module: nn.Module) -> dict[str, Tensor]:
    named = module.named_parameters()
    return {f"gradient of {k}": p.grad for k, p in named if p.grad is not None}


def state(module: nn.Module) -> dict[str, Tensor]:
    return {f"state of {k}": torch.as_tensor(v) for k, v in module.state_dict().items()}


# ---- objectives in a loop of one's own -----------------------------------------------


LEARNED = [
    replace(case, settings={**case.settings, "temperature": "learned"})
    for case in CASES
    if case.softmax and "temperature" not in case.settings
]
OBJECTIVE_CASES = [
    *CASES,
    *LEARNED,
    Case("sig_lip", {"learnable": True}, softmax=False),
]


def one_objective(case: Case, rows: slice) -> dict[str, Any]:
    """An objective that gathers beside a network, which alone is data-parallel."""
    inputs = case.permuted(case.inputs(N, 4), torch.arange(N)[rows])
    torch.manual_seed(3)
    network, objective = nn.Linear(4, 5).double(), case.module(5, gather=True).double()
    module = averaged(network)  # held until its hooks have run
    z = [module(x) if x.is_floating_point() else x for x in inputs[:2]]
    loss = objective(*z)
    loss.backward()
    model = nn.ModuleDict({"network": network, "objective": objective})
    readings = objective.readings(*z)
    return {"loss": loss.detach(), **gradients(model), **state(model), **readings}


# ---- sources of negatives in a loop of one's own -------------------------------------


SOURCES = {
    "queue": {"size": 15},
    "bank": {},
    "drawn": {},
    "ball": {},
    "annulus": {},
    "near": {},
    "between": {},
    "neighbors": {},
    "accepted": {},
    "similar": {},
    "weighted": {},
    "stratified": {},
    "prototypes": {},
}


def one_source(name: str, objective: str, rows: slice) -> dict[str, Any]:
    """Anchors of a network against a source, which remembers those of all processes."""
    scene = scenes.SOURCES[name](n=N, n_samples=N_SAMPLES, **SOURCES[name])
    source, ids = scene.source, scene.ids[rows]
    torch.manual_seed(3)
    network = nn.Linear(3, 3).double()
    module = averaged(network)
    u, v = module(scene.u[rows]), None if scene.v is None else scene.v[rows]
    loss_of = inv.OBJECTIVES[objective](temperature="learned", gather=True).double()
    loss = loss_of.against(u, v, source, ids)
    loss.backward()
    source.remember(inv.gather_rows(u.detach()), inv.gather_rows(ids))
    parts = {"network": network, "objective": loss_of, "source": source}
    model = nn.ModuleDict(parts)
    return {"loss": loss.detach(), **gradients(model), **state(model)}


# ---- methods -------------------------------------------------------------------------


OPTIONS = {  # memories that fit so few samples, and clusters from the second epoch on
    "swav": {"n_prototypes": 6},
    "moco": {"size": 30},
    "moco_v1": {"size": 30},
    "ir_sampled": {"n_draws": 9},
    "ir_nce": {"n_draws": 9},
    "la": {"k": 8, "n_clusters": 3},
    "vince": {"n_proposals": 9},
    "vince_plus": {"n_proposals": 9},
    "pcl": {"size": 30, "n_clusters": 3},
    "nnclr": {"size": 30},
}
METHOD_CASES = [
    *((name, {}, False) for name in IMAGE_METHODS),
    *((name, {}, True) for name in ("simclr", "multi_view", "supcon", "swav", "byol")),
    *((name, {}, True) for name in ("moco", "ir", "pcl", "nnclr", "vince_plus")),
    *((name, {"symmetric": True}, True) for name in ("moco", "pcl")),
    ("dim", {}, True),
    *((name, {"which": "both"}, False) for name in ("dim", "dim_jsd", "dim_dv")),
    *(
        (name, {"temperature": "learned"}, False)
        for name in ("moco", "ir", "dcl", "dim")
    ),
    *(("info_nce", {"critic": c}, True) for c in ("bilinear", "separable", "mlp")),
    ("info_nce", {"critic": "mlp", "symmetric": False}, False),
    ("sig_lip", {"critic": "separable"}, False),
]


# with their own heads and norms; the others have the plainest head
WITH_NORMS = ("simclr", "moco", "byol", "simsiam", "nnclr", "barlow_twins")


def make_learner(name: str, *, critic: str | None = None, **options: Any) -> Any:
    """A learner in double precision; batch norms take statistics of all processes."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Tanh())
    head = None if name in WITH_NORMS else "linear"
    method = customize(name, head=head, hidden=8, width=6, critic=critic)
    encoder = Encoder(network, input_shape=(3, 4, 4))
    options = OPTIONS.get(name, {}) | options
    learner = build(method, encoder, n_samples=N_SAMPLES, **options).double()
    if critic is not None:
        for p in learner.critic.parameters():  # one that starts at zero is no test
            nn.init.normal_(p, std=0.3)
    return synchronize_norms(learner, torch.device("cpu"))


def make_views(name: str, crops: bool) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    sizes = [4] * IMAGE_METHODS[name].n_views + [2] * (2 * crops)
    images = torch.randn(N, 3, 4, 4, generator=generator, dtype=torch.float64)
    views = (
        images[..., :size, :size]
        + torch.randn(N, 3, size, size, generator=generator, dtype=torch.float64)
        for size in sizes
    )
    return list(views)


def one_method(
    name: str, options: dict[str, Any], crops: bool, rows: slice
) -> dict[str, Any]:
    """A step, and another with what the first has left in memory, if anything."""
    learner = make_learner(name, **options)
    module = averaged(learner)
    weights = [p for p in learner.parameters() if p.requires_grad]
    optimizer, answer = torch.optim.SGD(weights, lr=0.1), {}
    views = [view[rows] for view in make_views(name, crops)]
    keeps = any(hasattr(learner, part) for part in ("negatives", "support", "twin"))
    for done in (0, 1) if keeps else (0,):
        learner.before_epoch(done / 2)
        step = module(views, LABELS[rows], IDS[rows])
        optimizer.zero_grad()
        step.loss.backward()
        optimizer.step()
        step = step.with_ess().with_information().gathered()
        learner.after_step((done + 1) / 2)
        numbers = {"loss": step.loss.detach(), "u": step.u, "v": step.v}
        numbers |= {**step.parts, **step.readings, **gradients(learner)}
        answer |= {f"{k} in step {done}": v.clone() for k, v in numbers.items()}
    return answer | state(learner)


# ---- rows of all processes, for what takes whole sets --------------------------------


def whole_readings(rows: slice) -> dict[str, Any]:
    """Diagnostics, kNN and a probe of gathered rows."""
    u, v = Case("nt_xent").inputs(N, 4)
    u, v, labels = (inv.gather_rows(x[rows]) for x in (u, v, LABELS))
    views = torch.stack([u, v])
    readings = diagnosis(views, views[..., 1:], labels=labels).readings
    return {
        **{f"{r.label} of {r.of}": r.value for r in readings},
        "knn": knn(u, labels, v, labels, k=3).accuracy,
        "probe": linear_probe(u, labels, v, labels, l2=0.1).accuracy,
    }


def gathered_by_hand(rows: slice) -> dict[str, Any]:
    """A loss of gathered rows; rows that do not fit are refused on all processes."""
    u, v = (x[rows] for x in Case("nt_xent").inputs(N, 4))
    torch.manual_seed(3)
    network = nn.Linear(4, 5).double()
    module = averaged(network)
    loss = inv.nt_xent(*map(inv.gather_rows, (module(u), module(v))), gather=False)
    loss.backward()
    if has_company():
        for what, unlike in {
            "width": torch.zeros(2, 3 + len(u)),
            "dtype": torch.zeros(2).to(DTYPES[len(u)]),
        }.items():
            with pytest.raises(inv.InvarianceError, match=f"need one {what}: theirs"):
                inv.gather_rows(unlike)
    else:
        assert inv.gather_rows(u) is inv.gather(u) is u
    order = inv.gather_rows(torch.arange(N)[rows])
    return {"loss": loss.detach(), "order": order, **gradients(network)}


class Company(nn.Module):
    """Keeps who was in its last batch; its batch norm is there to be noticed."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x: Tensor) -> Tensor:
        self.seen = x[:, 0]
        return torch.stack([x[:, 0] * 10, x.sum(1)], 1)


def shuffled(rows: slice) -> dict[str, Any]:
    """Batches that are dealt out anew for a momentum twin: its outputs come back."""
    torch.manual_seed(rows.start)  # one of the processes decides on the order
    network, everyone = Company(), torch.arange(N, dtype=torch.float64)
    x, orders = everyone[rows, None].expand(-1, 2), []
    for _ in range(3):
        out = shuffle_batches(network, inv.gather_rows)(x)
        assert torch.equal(out, torch.stack([10 * x[:, 0], 2 * x[:, 0]], 1))
        orders.append(inv.gather_rows(network.seen))
        assert torch.equal(orders[-1].sort().values, everyone)
    assert has_company() != all(torch.equal(order, everyone) for order in orders)
    synchronized = nn.SyncBatchNorm(2)
    assert shuffle_batches(synchronized, inv.gather_rows) is synchronized
    return {}


# ---- everything, on one process and on several ---------------------------------------


PROGRAMS = {
    **{case.id: partial(one_objective, case) for case in OBJECTIVE_CASES},
    **{
        f"{objective} against {name}": partial(one_source, name, objective)
        for name in SOURCES
        for objective in ("info_nce", "debiased", "binary_nce")
        if objective == "info_nce" or name in ("queue", "bank", "drawn")
    },
    **{
        f"{name}, {options}, {crops=}": partial(one_method, name, options, crops)
        for name, options, crops in METHOD_CASES
    },
    "readings": whole_readings,
    "gathered by hand": gathered_by_hand,
    "shuffle": shuffled,
}


def run(names: list[str], rows: slice) -> dict[str, Any]:
    """Some programs, with the samples of one process."""
    return {name: PROGRAMS[name](rows) for name in names}


@cache
def alone() -> dict[str, Any]:
    """What one process says of all samples, without a group."""
    return run([*PROGRAMS], slice(0, N))


def choose_programs(n_processes: int) -> list[str]:
    """All of them on several processes: crops on two, and what has none on four."""
    if n_processes == 1:  # there is nobody to exchange anything with
        return [*PROGRAMS][::5]
    with_crops = [name for name in PROGRAMS if "crops=True" in name]
    others = [name for name in PROGRAMS if name not in with_crops]
    return [*with_crops, *others[::4]] if n_processes == 2 else others


def compare(answer: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """What differs, in words."""
    wrong = [f"{key} is missing or new" for key in answer.keys() ^ expected.keys()]
    for key in answer.keys() & expected.keys():
        try:
            pair = torch.as_tensor(answer[key]), torch.as_tensor(expected[key])
            torch.testing.assert_close(*pair, **EXACT, equal_nan=True)
        except AssertionError as difference:
            wrong.append(f"{key}: {' '.join(str(difference).split())[:200]}")
    return sorted(wrong)


@pytest.mark.parametrize("shares", SHARES, ids=len)
def test_every_process_says_what_one_says_of_the_whole_batch(
    shares, tmp_path, our_errors
):
    expected, names = copy.deepcopy(alone()), choose_programs(len(shares))
    ends = [sum(shares[: rank + 1]) for rank in range(len(shares))]
    rows = [slice(end - n, end) for end, n in zip(ends, shares, strict=True)]
    answers = on_processes(len(shares), lambda r: run(names, rows[r]), tmp_path)
    wrong = [
        f"{name}, process {rank}: {difference}"
        for rank, answer in enumerate(answers)
        for name in names
        for difference in compare(answer[name], expected[name])
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_is_left_out():
    assert {case.name for case in CASES} == {*inv.OBJECTIVES}
    assert {method for method, _, _ in METHOD_CASES} == {*IMAGE_METHODS}
    used = {IMAGE_METHODS[name].negatives for name in IMAGE_METHODS} | {*SOURCES}
    assert {*NEGATIVES} <= used and {*scenes.SOURCES} == {*SOURCES}
