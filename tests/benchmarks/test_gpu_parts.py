"""gpu.sh: its parts call the scripts with flags that these have.

A wrong one would show on a lent GPU only, and cost its time.
"""

import argparse
import importlib
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import cifar10

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.sh"
SCRIPTS = {
    "sweep": "kernels",
    "targets": "targets",
    "crossover": "kernels",
    "loss": "loss",
    "epochs": "epochs",
    "loading": "loading",
    "start": "start",
    "peers": "peers_training",
    "long": "cifar10",
    "recipe": "recipe",
    "study": "small_batch",
}
PASS_ON = ("cifar10", "peers_training", "recipe", "small_batch")  # flags to train


pytestmark = pytest.mark.skipif(
    shutil.which("timeout") is None, reason="gpu.sh is for Linux"
)


class Parsed(Exception):
    """What a script understood."""


def call(parts, folder, out, **more):
    """What gpu.sh would run, part by part: ``echo`` stands for Python."""
    tools = out / "tools"
    tools.mkdir()
    (tools / "nvidia-cuda-mps-control").symlink_to("/bin/true")
    here = {"PARTS": parts, "PYTHON": "echo", "DATA": str(folder), "OUT": str(out)}
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", str(SCRIPT)],
        cwd=SCRIPT.parents[1],
        env={**os.environ, **here, "PATH": path, **more},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return [shlex.split(line) for line in lines if line.startswith("benchmarks/")]


def understand(command, monkeypatch):
    """The options of a script, and what it hands on to 'invariance train'."""
    parse = argparse.ArgumentParser.parse_known_args

    def stop(self, *words, **more):
        raise Parsed(*parse(self, *words, **more))

    name = Path(command[0]).stem
    script = importlib.import_module(name)
    monkeypatch.setattr("sys.argv", command)
    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", stop)
    with pytest.raises(Parsed) as parsed:
        script.main()
    monkeypatch.undo()
    options, rest = parsed.value.args
    assert not rest or name in PASS_ON
    return options, cifar10.read_flags(rest)


@pytest.mark.parametrize("part", SCRIPTS)
def test_a_part_calls_its_script_with_flags_it_has(part, folder, tmp_path, monkeypatch):
    if part in ("sweep", "targets", "crossover"):
        pytest.importorskip("triton")
    first, *more = call(part, folder, tmp_path)
    assert Path(first[0]).stem == SCRIPTS[part]
    options, settings = understand(first, monkeypatch)
    if part in ("peers", "long", "recipe", "study"):
        assert options.data == folder and options.lines.parent == tmp_path
    if part == "long":
        assert (settings.epochs, settings.seed, options.hold_out) == (200, 0, 0.0)
    if part == "study":
        assert options.lanes == [256, 256] and settings.machine.compile is True
        (report,) = more
        options, _ = understand(report, monkeypatch)
        assert options.lines == tmp_path / "small_batch.jsonl"


def test_rows_that_are_there_are_taken_up_and_not_overwritten(folder, tmp_path):
    call("study", folder, tmp_path)
    recorded = SCRIPT.parent / "results" / "small_batch.jsonl"
    lines = tmp_path / "small_batch.jsonl"
    assert lines.read_text() == recorded.read_text()
    lines.write_text("{}\n")
    (tmp_path / "tools" / "nvidia-cuda-mps-control").unlink()
    (tmp_path / "tools").rmdir()
    call("study", folder, tmp_path)
    assert lines.read_text() == "{}\n"


def test_a_part_that_fails_says_so(folder, tmp_path):
    tools = tmp_path / "out"
    tools.mkdir()
    call("long", folder, tools, PYTHON="false")
    assert "== long ended with 1" in (tools / "long.log").read_text()
