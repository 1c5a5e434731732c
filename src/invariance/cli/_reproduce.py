"""``invariance reproduce``: the claims of the papers, run again with a verdict."""

import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro import conf

from ..errors import SettingError
from ._flags import SAID

if TYPE_CHECKING:
    from ..papers import Claim, Result


@dataclass(frozen=True)
class Reproduce:
    """Run claims of the papers again: a figure, a table and a verdict for each."""

    names: Annotated[
        tuple[str, ...],
        conf.Positional,
        conf.arg(metavar="[NAME ...]", help_behavior_hint="(default: none)"),
    ] = ()
    """Claims, papers, or "all". Without a name: list the claims."""
    list: bool = False
    """List the claims, with the verdicts found in --out."""
    quick: bool = False
    """At most 2 minutes on 2 cores per claim; this is the default."""
    full: bool = False
    """More seeds and samples: minutes to hours on 2 cores per claim, and a GPU for
    claims that train on CIFAR-10."""
    tiny: bool = False
    """A few seconds, to see that everything runs; verdicts mean little."""
    out: str = "reproduced"
    """Folder of results. Finished results are not measured again, and interrupted ones
    continue."""
    again: bool = False
    """Measure again what is in --out."""
    keep_runs: Annotated[str | None, conf.arg(metavar="FOLDER")] = None
    """Keep the runs that claims train here; otherwise they are deleted."""
    jobs: Annotated[int | None, SAID] = None
    """Processes that measure in parallel. Default: one per core; one if there is little
    to measure (--tiny), or a GPU that they would have to share (--full)."""
    pages: Annotated[str | None, conf.arg(metavar="FOLDER")] = None
    """Make pages of all results in --out: verdicts, one page per paper, errata."""
    json: bool = False
    """Print each result as a line of JSON."""
    quiet: bool = False
    """Show no progress."""

    def run(self) -> int:
        """List, measure, write pages: whatever was asked for."""
        asked = [s for s in ("tiny", "quick", "full") if getattr(self, s)]
        if len(asked) > 1:
            raise SettingError(f"Choose one size: got --{' and --'.join(asked)}.")
        from ..progress import tell_loading

        tell_loading(quiet=self.json or self.quiet)
        from .. import papers

        out = Path(self.out)
        if self.list or not (self.names or self.pages):
            for claim in papers.CLAIMS.values():
                self.show_claim(claim, out)
            return 0
        if self.names:
            papers.reproduce(
                self.names,
                size=asked[0] if asked else "quick",  # type: ignore[arg-type]
                out=out,
                again=self.again,
                keep_runs=self.keep_runs,
                jobs=self.choose_jobs() if self.jobs is None else self.jobs,
                quiet=self.quiet or self.json,
                tell=self.show_result,
            )
        if self.pages is not None:
            paths = papers.write_pages(out, self.pages)
            if not self.json:
                print(f"pages: {paths[0]}")
        return 0

    def choose_jobs(self) -> int:
        """Processes that are worth their start."""
        from ..devices import choose_device, usable_cores

        shared = self.full and choose_device("auto").type != "cpu"
        return 1 if self.tiny or shared else usable_cores()

    def show_claim(self, claim: "Claim", out: Path) -> None:
        """A line or two per claim, with the verdict that is there."""
        from ..errors import DataError
        from ..papers import PAPERS, read_result, require_whole

        try:
            result = read_result(claim, out)
            require_whole(result)
            outcome = result.outcome
        except DataError:
            outcome = ""
        if self.json:
            keys = ("name", "paper", "where", "says", "run", "refuted_if")
            line = {key: getattr(claim, key) for key in keys}
            print(json.dumps({**line, "verdict": outcome or None}))
            return
        if claim is PAPERS[claim.paper].claims[0]:
            print(f"\n{PAPERS[claim.paper].short} ({claim.paper})")
        verdict = f" [{outcome}]" if outcome else ""
        text = f"  {claim.name:<24} {claim.says}{verdict}"
        print(textwrap.fill(text, 88, subsequent_indent=" " * 27))

    def show_result(self, result: "Result") -> None:
        """The verdict, the table, and where they are."""
        verdict, name = result.verdict, result.claim.name
        if self.json:
            line = {
                "name": name,
                "size": result.size,
                "verdict": verdict.outcome,
                "toy_size": result.is_toy,
                "because": verdict.because,
                "seconds": result.seconds,
                "rows": [[dict(r.settings), dict(r.values)] for r in result.rows],
            }
            print(json.dumps(line), flush=True)
            return
        print(f"\n{name}: {result.outcome}")
        print(textwrap.fill(verdict.because, 88))
        print(f"figure: {Path(self.out) / name}.png")
        print(f"table:  {Path(self.out) / name}.md", flush=True)
