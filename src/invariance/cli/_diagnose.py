"""``invariance diagnose``: what a run's embeddings are like, in numbers and words."""

import json
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro import conf


@dataclass(frozen=True)
class Diagnose:
    """Read a run's embeddings: collapse, uniformity, information, gradients, head."""

    folder: Annotated[str, conf.Positional, conf.arg(metavar="RUN")]
    """A run folder."""
    data: str | None = None
    """Use this set, folder or .npy instead of the run's own data; no labels needed."""
    batch_size: int | None = None
    """Batch of the mini-batch estimates. Default: the run's."""
    pool: int | None = None
    """Images in the large pool. Default: a hundred batches, or all there are."""
    kept: bool = False
    """Read every epoch that the run has kept (--keep-every): how information, accuracy
    and spread changed during training."""
    data_root: str | None = None
    """Where named sets are kept. Default: where the run found them."""
    device: str = "auto"
    """auto, cpu or cuda."""
    json: bool = False
    """Print the readings as JSON, as in diagnostics.json."""

    def run(self) -> int:
        """Read, print, and say where the readings are."""
        from ..folder import require_run
        from ..progress import tell_loading

        require_run(Path(self.folder).expanduser())
        tell_loading(quiet=self.json)
        how: dict[str, Any] = {
            "data": self.data,
            "batch_size": self.batch_size,
            "pool": self.pool,
            "data_root": self.data_root,
            "device": self.device,
            "quiet": self.json,
        }
        show = self.show_kept if self.kept else self.show_readings
        file = show(how)
        if not self.json:
            print(f"readings: {self.folder}/{file}")
            print(f"see them: {shlex.join(['invariance', 'report', self.folder])}")
        return 0

    def show_readings(self, how: dict[str, Any]) -> str:
        """Read the run as it ended; returns the name of the file of the readings."""
        from ..folder import DIAGNOSTICS
        from ..runs import diagnose, keep_readings, render_diagnosis

        # kept after they are shown, so that a full disk takes nothing
        diagnosis = diagnose(self.folder, keep=False, **how)
        if self.json:
            lines = [json.dumps(diagnosis.as_dict(), ensure_ascii=False)]
        else:
            width = min(shutil.get_terminal_size().columns, 120)
            lines = render_diagnosis(diagnosis, width)
        print(*lines, sep="\n", flush=True)
        keep_readings(self.folder, diagnosis)
        return DIAGNOSTICS

    def show_kept(self, how: dict[str, Any]) -> str:
        """Read the kept epochs, a row of each; returns the name of their file."""
        from ..folder import KEPT_READINGS
        from ..runs import diagnose_kept, render_kept

        rows = diagnose_kept(self.folder, **how)
        lines = [*map(json.dumps, rows)] if self.json else render_kept(rows)
        print(*lines, sep="\n", flush=True)
        return KEPT_READINGS
