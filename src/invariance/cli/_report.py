"""``invariance report``: the pages of runs, made anew from their folders."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated

from tyro import conf

from ..training import Train


@dataclass(frozen=True)
class Report:
    """Write report.html into run folders, finished or not."""

    runs: Annotated[tuple[str, ...], conf.Positional, conf.arg(metavar="RUN ...")]
    """Run folders, such as runs/shapes-simclr."""

    def run(self) -> int:
        """Write each report and say where it is."""
        from ..errors import SettingError
        from ..report import write_report

        if not self.runs:
            raise SettingError("Name a run folder; 'invariance list runs' shows them.")
        defaults = dataclasses.asdict(Train())
        for folder in self.runs:
            print(f"report: {write_report(folder, defaults)}", flush=True)
        return 0
