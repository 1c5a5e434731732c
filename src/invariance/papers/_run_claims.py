"""Measure claims, one cell after another, and write what came of it."""

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError, SettingError, unknown
from ..progress import Progress
from ..randomness import keep_random_states, seed_all
from ._all_claims import CLAIMS, PAPERS
from ._claim import Cell, Claim, Row, Size
from ._pages import draw_figure, write_section
from ._results import (
    Result,
    add_row,
    begin,
    find_missing,
    in_order,
    path_of,
    read_result,
    rewrite,
)


def reproduce(
    names: str | Sequence[str] = "all",
    *,
    size: Size = "quick",
    out: str | Path = "reproduced",
    again: bool = False,
    keep_runs: str | Path | None = None,
    quiet: bool = True,
    tell: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Run claims, or go on with them, and write verdict, table and figure of each.

    Args:
        names: Of claims or of papers, or "all".
        size: "quick" (2 minutes of 2 cores per claim at most), "full" or "tiny".
        out: Folder of results. What is finished there is not measured again.
        again: Measure anew what is there.
        keep_runs: Folder for the runs that claims train; None deletes them.
        quiet: Show no progress.
        tell: Called with each result as soon as it is there.
    """
    claims, out = choose_claims(names), Path(out)
    left = {claim.name: prepare(claim, size, out, again=again) for claim in claims}
    total = sum(len(claim.sizes[size]) for claim in claims)
    done = total - sum(map(len, left.values()))
    results = []
    with Progress(total, unit="measurements", done=done, quiet=quiet) as progress:
        for claim in claims:
            for settings in left[claim.name]:
                progress.reach(progress.done, claim.name)
                began = time.monotonic()
                row = measure_cell(claim, settings, keep_runs)
                add_row(claim, out, row, time.monotonic() - began)
                progress.advance(note=claim.name)
            result = in_order(read_result(claim, out))
            write_section(result, out)
            draw_figure(result, out)
            results.append(result)
            tell(result)
    return results


def choose_claims(names: str | Sequence[str]) -> list[Claim]:
    """By the names of claims and papers; each once, in the order of the catalogue."""
    asked = [names] if isinstance(names, str) else list(names)
    if not asked:
        raise SettingError("Name at least one claim, or 'all'.")
    for name in asked:
        if name not in ("all", *PAPERS, *CLAIMS):
            raise SettingError(unknown("claim", name, ["all", *PAPERS, *CLAIMS]))
    return [
        claim
        for claim in CLAIMS.values()
        if {"all", claim.paper, claim.name} & set(asked)
    ]


def prepare(
    claim: Claim, size: Size, out: Path, *, again: bool
) -> list[Mapping[str, Any]]:
    """Open or begin the file of a claim; the cells that are left to measure."""
    path = path_of(claim, out)
    if again or not path.exists():
        begin(claim, size, out)
    result = read_result(claim, out)
    if result.size != size:
        raise DataError(
            f"{str(path)!r} holds a {result.size} result: choose another --out for the "
            f"{size} one, or replace it with --again."
        )
    rewrite(result, out)
    return find_missing(result)


def measure_cell(
    claim: Claim, settings: Mapping[str, Any], keep_runs: str | Path | None
) -> Row:
    """One cell by itself: same numbers whatever was measured before."""
    if keep_runs is None:
        folder = Path(tempfile.mkdtemp(prefix=f"{claim.name}-"))
    else:
        words = "-".join(f"{k}_{v}" for k, v in settings.items()).replace("/", "_")
        folder = Path(keep_runs) / claim.name / words
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    try:
        with keep_random_states():
            seed_all(int(settings.get("seed", 0)))
            return Row(settings, dict(claim.measure(Cell(settings, folder))))
    finally:
        if keep_runs is None:
            shutil.rmtree(folder, ignore_errors=True)
