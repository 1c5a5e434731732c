"""Cells measured: one after another, or several at once in processes of their own."""

import multiprocessing
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..devices import usable_cores
from ..errors import InvarianceError
from ..randomness import keep_random_states, seed_all
from ._all_claims import CLAIMS
from ._claim import Cell, Claim, Row


@dataclass(frozen=True)
class Measured:
    """What a cell of a claim gave, and how long it took."""

    claim: Claim
    row: Row
    seconds: float


def measure_cells(
    cells: Sequence[tuple[Claim, Mapping[str, Any]]],
    keep_runs: str | Path | None,
    *,
    jobs: int,
) -> Iterator[Measured]:
    """Each cell with its claim, as soon as it is done; in any order where jobs > 1."""
    if jobs <= 1 or len(cells) <= 1:
        for claim, settings in cells:
            row, seconds = measure_cell(claim, settings, keep_runs)
            yield Measured(claim, row, seconds)
        return
    pool = ProcessPoolExecutor(
        min(jobs, len(cells)),
        multiprocessing.get_context("spawn"),  # threads of torch do not survive a fork
        initializer=_start_worker,
        initargs=(max(usable_cores() // jobs, 1),),
    )
    try:
        asked = {
            pool.submit(_measure_named, claim.name, settings, keep_runs): claim
            for claim, settings in cells
        }
        for future in as_completed(asked):
            yield Measured(asked[future], *future.result())
    except BrokenProcessPool:
        raise InvarianceError(
            "A process that measured was killed, most likely for want of memory. What "
            "was finished is kept: give fewer --jobs and the same command goes on."
        ) from None
    finally:  # after an error or Ctrl-C nobody waits for what is being measured
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()


def measure_cell(
    claim: Claim, settings: Mapping[str, Any], keep_runs: str | Path | None
) -> tuple[Row, float]:
    """One cell by itself, and its seconds: same numbers whatever came before."""
    if keep_runs is None:
        folder = Path(tempfile.mkdtemp(prefix=f"{claim.name}-"))
    else:
        words = "-".join(f"{k}_{v}" for k, v in settings.items()).replace("/", "_")
        folder = Path(keep_runs) / claim.name / words
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    began = time.monotonic()
    try:
        with keep_random_states():
            seed_all(int(settings.get("seed", 0)))
            row = Row(settings, dict(claim.measure(Cell(settings, folder))))
    finally:
        if keep_runs is None:
            shutil.rmtree(folder, ignore_errors=True)
    return row, time.monotonic() - began


def _measure_named(
    name: str, settings: Mapping[str, Any], keep_runs: str | Path | None
) -> tuple[Row, float]:
    return measure_cell(CLAIMS[name], settings, keep_runs)


def _start_worker(threads: int) -> None:
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """However it ended: a killed parent cannot end its processes itself."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
