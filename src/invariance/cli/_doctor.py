"""``invariance doctor``: is everything here that is needed, and does it work?"""

import contextlib
import importlib.metadata
import io
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

NEEDED = ("torch", "torchvision", "timm", "lightning-fabric", "numpy", "scikit-learn")
EXTRAS = {
    "onnx": ("onnx", "export --to onnx"),
    "onnxscript": ("onnx", "export --to onnx"),
    "onnxruntime": ("onnx", "checking what was exported to onnx"),
    "transformers": ("text", "text networks by name"),
    "soundfile": ("audio", "wav, flac, ogg and aiff"),
    "datasets": ("hf", "data sets of Hugging Face"),
    "pillow-heif": ("heic", "HEIC photos"),
    "torch-geometric": ("graphs", "its graphs and networks"),
    "opacus": ("privacy", "privacy budgets"),
    "faiss-cpu": ("faiss", "clusters of large memory banks"),
    "tensorboard": ("tensorboard", "--trackers tensorboard"),
    "wandb": ("wandb", "--trackers wandb"),
}


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it is, and what to do about it."""

    name: str
    state: Literal["ok", "optional", "bad"]
    words: str


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Check Python, packages, devices and disk, and try everything once."""

    json: bool = False
    """Print everything as one JSON object."""

    def run(self) -> int:
        """Print one line per finding; 2 if something is bad."""
        marks = {"ok": "ok  ", "optional": "-   ", "bad": "BAD "}
        findings = []
        for finding in look_around(quiet=self.json):  # shown as they come
            findings.append(finding)
            if not self.json:
                mark = marks[finding.state]
                print(f"{mark} {finding.name:<18} {finding.words}", flush=True)
        bad = [finding for finding in findings if finding.state == "bad"]
        if self.json:
            print(json.dumps({"findings": [asdict(f) for f in findings]}))
        else:
            print("Everything works." if not bad else f"{len(bad)} of these failed.")
        return 2 if bad else 0


def look_around(*, quiet: bool) -> Iterator[Finding]:
    """Everything that is looked at and tried, what takes longest last."""
    from ..progress import tell_loading

    yield from look_at_packages()
    tell_loading(quiet=quiet)
    yield from look_at_machine()
    yield from try_everything()


def look_at_packages() -> list[Finding]:
    """Versions of what is needed, and what further packages would bring."""
    from .. import __version__

    python = f"{platform.python_version()} in {sys.prefix}"
    findings = [Finding("invariance", "ok", f"{__version__}, Python {python}")]
    for name in NEEDED:
        version = find_version(name)
        words = version or f"missing: pip install {name}"
        findings.append(Finding(name, "ok" if version else "bad", words))
    for name, (extra, use) in EXTRAS.items():
        version = find_version(name)
        words = version or f"not installed: pip install 'invariance[{extra}]' for {use}"
        findings.append(Finding(name, "ok" if version else "optional", words))
    return findings


def find_version(name: str) -> str | None:
    """Of an installed package."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def look_at_machine() -> list[Finding]:
    """Devices, cores, memory and disk."""
    import torch

    from ..devices import free_bytes

    findings = []
    if torch.cuda.is_available():
        for k in range(torch.cuda.device_count()):
            about = torch.cuda.get_device_properties(k)
            words = f"{about.name}, {about.total_memory / 2**30:.0f} GiB"
            findings.append(Finding(f"GPU {k}", "ok", words))
    else:
        words = "none: everything runs on the CPU, slower and at smaller sizes"
        findings.append(Finding("GPU", "optional", words))
    free = free_bytes("cpu") / 2**30
    words = f"{os.cpu_count()} cores, {free:.1f} GiB of memory free"
    findings.append(Finding("CPU", "ok", words))
    disk = shutil.disk_usage(Path.cwd())
    state: Literal["ok", "bad"] = "ok" if disk.free > 2**30 else "bad"
    words = f"{disk.free / 2**30:.1f} GiB free where runs would go"
    return [*findings, Finding("disk", state, words)]


def try_everything() -> Iterator[Finding]:
    """Small jobs that visit every part, each timed; a fault is told, not raised."""
    jobs: dict[str, Callable[[Path], str]] = {
        "loss": try_loss,
        "training": try_training,
        "browser report": try_report,
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, job in jobs.items():
            began = time.monotonic()
            try:
                words = f"{job(Path(folder))} ({time.monotonic() - began:.1f} s)"
                finding = Finding(name, "ok", words)
            except Exception as error:  # the doctor names every fault
                words = f"{type(error).__name__}: {error}".splitlines()[0]
                finding = Finding(name, "bad", words)
            yield finding


def try_loss(folder: Path) -> str:
    """The loss that would run here against the readable reference."""
    import torch

    from ..devices import choose_device
    from ..partition import log_partition

    device = choose_device()
    x = torch.randn(600, 64, generator=torch.Generator().manual_seed(0)).to(device)
    values = [
        log_partition(x, x, scale=0.5, backend=backend) for backend in ("auto", "dense")
    ]
    error = (values[0] - values[1]).abs().max().item()
    if not error < 1e-2:
        raise ArithmeticError(f"the loss differs from the reference by {error:.1e}")
    return f"as the reference on {device}, to {error:.0e}"


def try_training(folder: Path) -> str:
    """A run of a few steps, with its checkpoint and encoder file."""
    from ..training import Run, Train, load, train

    settings = Train(
        limit=128,
        epochs=1,
        batch_size=64,
        evaluate=False,
        knn_every=0,
        name="doctor",
        out=str(folder),
        quiet=True,
    )
    with contextlib.redirect_stdout(io.StringIO()):  # its last words are not for here
        run = train(settings)
    assert isinstance(run, Run)
    return f"two steps, {load(run.folder).width} features"


def try_report(folder: Path) -> str:
    """The page of that run."""
    from ..folder import REPORT

    size = (folder / "doctor" / REPORT).stat().st_size
    return f"one file of {size / 1024:.0f} kB"
