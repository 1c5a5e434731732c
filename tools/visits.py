"""Which files of the package a call runs through, the second time that it is made.

    python tools/visits.py loss cpu|cuda            inv.dcl(u, v).backward()
    python tools/visits.py evaluate files|rooms     invariance evaluate, of a small run

The package is the one that Python finds: PYTHONPATH=DIR/src measures another checkout.
"""

import contextlib
import io
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch

import invariance as inv
from invariance.cli import main as invariance

SMALL_RUN = Path(__file__).parents[1] / "tests" / "old_runs" / "tiny.zip"
OPTIMIZED = 1  # set in the code of functions; modules and classes do not have it


def visited(act: Callable[[], object]) -> set[str]:
    """The files with a function that runs, by their path inside the package."""
    files = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_flags & OPTIMIZED:
            files.add(frame.f_code.co_filename)

    act()  # what happens only once is no part of the way
    sys.setprofile(note)
    act()
    sys.setprofile(None)
    return {f.split("/invariance/", 1)[1] for f in files if "/src/invariance/" in f}


def loss(device: str) -> None:
    """One loss and its gradient."""
    u, v = torch.randn(2, 64, 32, device=device, requires_grad=True)
    with torch.autograd.set_multithreading_enabled(False):  # or backward goes unseen
        inv.dcl(u, v).backward()


def evaluate(run: str) -> None:
    """One evaluation; what it prints is not wanted here."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(None):
        invariance(["evaluate", run, "--protocols", "knn", "--device", "cpu"])


def main(what: str, how: str) -> None:
    """Print the files, or the rooms that they are in."""
    if what == "loss":
        files = visited(lambda: loss(how))
    else:
        with tempfile.TemporaryDirectory() as run, zipfile.ZipFile(SMALL_RUN) as file:
            file.extractall(run)
            files = visited(lambda: evaluate(run))
    if how == "rooms":
        files = {file.split("/")[0] for file in files if "/" in file}
    print(*sorted(files), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
