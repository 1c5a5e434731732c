"""``invariance report``: the pages of runs, made anew from their folders."""

from dataclasses import dataclass
from typing import Annotated

from tyro import conf

from ..training import usual_settings


@dataclass(frozen=True)
class Report:
    """Write report.html into run folders, finished or not; compare several."""

    runs: Annotated[tuple[str, ...], conf.Positional, conf.arg(metavar="RUN ...")]
    """Run folders, such as runs/shapes-simclr. Of two or more, one page compares all
    of them."""
    out: str | None = None
    """Where the comparison goes. Default: beside the first run, named after all."""

    def run(self) -> int:
        """Write each report and say where it is."""
        from ..errors import SettingError
        from ..report import write_comparison, write_report

        if not self.runs:
            raise SettingError("Name a run folder; 'invariance list runs' shows them.")
        if self.out is not None and len(self.runs) < 2:
            raise SettingError(
                "--out is for the comparison of several runs; the report of one is "
                "report.html in its folder."
            )
        defaults = usual_settings()
        for folder in dict.fromkeys(self.runs):
            print(f"report: {write_report(folder, defaults)}", flush=True)
        if len(set(self.runs)) > 1:
            page = write_comparison(list(dict.fromkeys(self.runs)), self.out or "")
            print(f"comparison: {page}", flush=True)
        return 0
