"""``invariance bench``: what is timed, its limits, and the reference beside it."""

import dataclasses
import json

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import invariance as inv
from invariance.bench import (
    LIMITS,
    Ceilings,
    MachineReport,
    Work,
    read_reference,
    write_reference,
)
from invariance.errors import DataError

CEILINGS = Ceilings(flops=7e14, bytes=4e12, start=5e-6, chained=1e-6, cores=2)


def made_report(seconds=0.02, kind="cpu"):
    work = (
        Work("loss of 512 pairs", seconds, {"arithmetic": 0.01, "starts": 0.001}),
        Work("decoding", 2 * seconds, {"cores": 0.02}, 100),
    )
    versions = {"torch": "2.11.0", "timm": None}
    return MachineReport(kind, "CPU, 2 cores", "2026-11-16", versions, CEILINGS, work)


def test_everything_is_timed_and_has_a_limit(command):
    code, said, complained = command("bench", "--quick", "--json", "--device", "cpu")
    assert code == 0 and complained == ""
    printed = json.loads(said)
    here = MachineReport.from_dict(printed["here"])
    assert printed["reference"] is None and here.kind == "cpu"
    kinds = [work.name.split()[0] for work in here.work]
    assert kinds == ["loss", "two", "training", "training", "decoding"]
    for work in here.work:
        assert work.limit in LIMITS and work.share > 0, work.name
    assert here.ceilings.flops > 1e8 and here.ceilings.bytes > 1e8
    limit = here.work[0].limits["arithmetic"] * here.ceilings.flops
    assert limit == pytest.approx(count_operations(512), rel=0.05)


def count_operations(pairs):
    """What the loss multiplies: its limit may not ask for more than that."""
    u, v = (torch.randn(pairs, 128).requires_grad_() for _ in range(2))
    with FlopCounterMode(display=False) as counter:
        torch.autograd.grad(inv.nt_xent(u, v), (u, v))
    return counter.get_total_flops()


def test_a_table_beside_the_reference():
    lines = list(made_report(0.02).lines(made_report(0.01)))
    (loss,) = [line.split() for line in lines if line.startswith("loss")]
    assert " ".join(loss) == "loss of 512 pairs 20 ms 10 ms 0.50 arithmetic 50 %"
    (decoding,) = [line.split() for line in lines if line.startswith("decoding")]
    assert decoding[1:5] == ["2,500", "images/s", "5,000", "images/s"]
    assert "at best:      700 TFLOP/s in matrix products, 4 TB/s copied" in lines[2]
    said = "\n".join(lines)
    assert f"cores: {LIMITS['cores']}" in said and "memory:" not in said
    alone = "\n".join(made_report().lines())
    assert "reference" not in alone and "ratio:" not in alone


def test_the_reference_keeps_one_report_per_kind(tmp_path):
    path = tmp_path / "reference.json"
    assert read_reference("cpu", path) is None
    write_reference(made_report(0.5), path)
    write_reference(made_report(0.1, kind="cuda"), path)
    write_reference(made_report(0.2), path)
    assert read_reference("cpu", path) == made_report(0.2)
    assert read_reference("cuda", path) == made_report(0.1, kind="cuda")
    path.write_text("[]")
    with pytest.raises(DataError, match="is not a file of reports"):
        read_reference("cpu", path)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_the_package_s_reference_can_be_read(kind):
    reference = read_reference(kind)
    assert reference is None or (reference.kind == kind and reference.work)
    assert reference is None or all(work.share <= 1 for work in reference.work)


def test_quick_figures_are_not_written(command, tmp_path):
    code, _, complained = command("bench", "--quick", "--write", "here.json")
    assert code == 2 and "Quick figures are too rough to write down" in complained
    assert not (tmp_path / "here.json").exists()


@pytest.mark.parametrize("name", ["list.json", "folder"])
def test_a_file_that_cannot_take_it_is_refused_first(command, tmp_path, name):
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "folder").mkdir()
    code, _, complained = command("bench", "--write", str(tmp_path / name))
    assert code == 2 and str(tmp_path / name) in complained
    assert "timing" not in complained


def test_the_tightest_limit_is_named():
    work = Work("views", 1.0, {"memory": 0.1, "starts": 0.4})
    assert work.limit == "starts" and work.share == 0.4
    slower = dataclasses.replace(work, seconds=2.0, images=10)
    assert slower.share == 0.2 and str(slower) == "5 images/s"
