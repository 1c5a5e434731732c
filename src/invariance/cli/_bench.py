"""``invariance bench``: what this machine does, beside the reference machine."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro import conf


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Time loss, views, training and decoding here, and say what limits each."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """"auto" takes a GPU if there is one."""
    quick: bool = False
    """Do less work, in a few seconds, to see that everything runs; its figures are
    rough and are not compared with the reference."""
    json: bool = False
    """Print everything as one JSON object."""
    write: Annotated[str | None, conf.arg(metavar="FILE")] = None
    """Also write the result into this file, replacing the entry for this kind of
    device; the package's own file is bench/reference.json."""

    def run(self) -> int:
        """Measure, print, and write where asked."""
        from ..errors import SettingError
        from ..folder import require_place
        from ..progress import tell, tell_loading

        if self.quick and self.write is not None:
            raise SettingError(
                "Quick figures are too rough to write down: leave out --quick or "
                "--write."
            )
        if self.write is not None:
            require_place(Path(self.write))
        tell_loading(quiet=self.json)
        from ..bench import measure_machine, read_reference, write_reference

        if self.write is not None:  # what cannot take it is said before, not after
            read_reference("cpu", Path(self.write))
        report = measure_machine(
            self.device,
            quick=self.quick,
            say=lambda words: tell(words, quiet=self.json),
        )
        reference = None if self.quick else read_reference(report.kind)
        if self.json:
            beside = None if reference is None else reference.as_dict()
            print(json.dumps({"here": report.as_dict(), "reference": beside}))
        else:
            print(*report.lines(reference), sep="\n")
            if reference is None:
                why = "quick figures are too rough" if self.quick else "there is none"
                print(f"Nothing to compare with for {report.kind}: {why}.")
        if self.write is not None:
            write_reference(report, Path(self.write))
        return 0
