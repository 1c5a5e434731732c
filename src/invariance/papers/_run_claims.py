"""Measure claims, and write what came of it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError, SettingError, unknown
from ..plain_numbers import check_least
from ..progress import Progress
from ._all_claims import CLAIMS, PAPERS
from ._claim import Claim, Size
from ._measuring import measure_cells
from ._pages import draw_figure, write_section
from ._results import (
    Result,
    add_row,
    begin,
    drop_cut_line,
    find_missing,
    path_of,
    read_result,
)


def reproduce(
    names: str | Sequence[str] = "all",
    *,
    size: Size = "quick",
    out: str | Path = "reproduced",
    again: bool = False,
    keep_runs: str | Path | None = None,
    jobs: int = 1,
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
        jobs: Processes that measure at once. More than one needs a program whose own
            code is under ``if __name__ == "__main__":``, as always.
        quiet: Show no progress.
        tell: Called with each result as soon as it is there.
    """
    check_least("jobs", jobs, 1)
    claims, out = choose_claims(names), Path(out)
    left = {claim.name: prepare(claim, size, out, again=again) for claim in claims}
    total = sum(len(claim.sizes[size]) for claim in claims)
    done = total - sum(map(len, left.values()))
    results: dict[str, Result] = {}

    def finish(claim: Claim) -> None:
        result = read_result(claim, out)
        write_section(result, out)
        draw_figure(result, out)
        results[claim.name] = result
        tell(result)

    for claim in claims:
        if not left[claim.name]:
            finish(claim)
    cells = [(claim, settings) for claim in claims for settings in left[claim.name]]
    waiting = Counter(claim.name for claim, _ in cells)
    with Progress(total, unit="measurements", done=done, quiet=quiet) as progress:
        if cells:
            progress.reach(done, cells[0][0].name)
        for measured in measure_cells(cells, keep_runs, jobs=jobs):
            claim = measured.claim
            add_row(claim, out, measured.row, measured.seconds)
            progress.advance(note=claim.name)
            waiting[claim.name] -= 1
            if not waiting[claim.name]:
                finish(claim)
    return [results[claim.name] for claim in claims]


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
    drop_cut_line(claim, out)
    return find_missing(result)
