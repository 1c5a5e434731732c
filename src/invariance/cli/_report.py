"""``invariance report``: the pages of runs, made anew from their folders."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro import conf

from ..training import usual_settings


@dataclass(frozen=True)
class Report:
    """Write report.html into run folders, finished or not; compare several."""

    runs: Annotated[
        tuple[str, ...],
        conf.Positional,
        conf.arg(metavar="RUN ...", help_behavior_hint="(required)"),
    ]
    """Run folders, such as runs/*; anything that is not a run is skipped. For two or
    more, one page compares all of them."""
    out: str | None = None
    """Where the comparison goes. Default: beside the first run, named after all."""

    def run(self) -> int:
        """Write each report and say where it is."""
        from ..errors import SettingError
        from ..folder import is_run, read_record
        from ..report import write_comparison, write_report

        named = list(dict.fromkeys(self.runs))
        if not named:
            raise SettingError("Name a run folder; 'invariance list runs' shows them.")
        # of runs/*, what is no run is passed over, such as an earlier comparison
        others = [path for path in named if Path(path).exists() and not is_run(path)]
        folders = [path for path in named if path not in others] or named
        if self.out is not None and len(folders) < 2:
            raise SettingError(
                "--out is for the comparison of several runs; the report of one is "
                "report.html in its folder."
            )
        defaults = usual_settings()
        for folder in folders:
            read_record(folder)  # or a mistake would come after some were written
        for path in others:
            print(f"left out: {path} is not a run.", file=sys.stderr)
        for folder in folders:
            print(f"report: {write_report(folder, defaults)}", flush=True)
        if len(folders) > 1:
            page = write_comparison(folders, self.out or "", defaults)
            print(f"comparison: {page}", flush=True)
        return 0
