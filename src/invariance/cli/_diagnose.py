"""``invariance diagnose``: what a run's embeddings are like, in numbers and words."""

import json
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

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
        if self.kept:
            return self.read_kept()
        from ..runs import diagnose, keep_readings, render_diagnosis

        diagnosis = diagnose(
            self.folder,
            data=self.data,
            batch_size=self.batch_size,
            pool=self.pool,
            data_root=self.data_root,
            device=self.device,
            keep=False,  # after they are shown, so that a full disk takes nothing
            quiet=self.json,
        )
        if self.json:
            print(json.dumps(diagnosis.as_dict(), ensure_ascii=False), flush=True)
            keep_readings(self.folder, diagnosis)
            return 0
        width = min(shutil.get_terminal_size().columns, 120)
        print(*render_diagnosis(diagnosis, width), sep="\n", flush=True)
        keep_readings(self.folder, diagnosis)
        print(f"readings: {self.folder}/diagnostics.json")
        print(f"see them: {shlex.join(['invariance', 'report', self.folder])}")
        return 0

    def read_kept(self) -> int:
        """Read the kept epochs, print a row of each, and say where they are."""
        from ..runs import diagnose_kept, render_kept

        rows = diagnose_kept(
            self.folder,
            data=self.data,
            batch_size=self.batch_size,
            pool=self.pool,
            data_root=self.data_root,
            device=self.device,
            quiet=self.json,
        )
        if self.json:
            print(*map(json.dumps, rows), sep="\n", flush=True)
            return 0
        print(*render_kept(rows), sep="\n", flush=True)
        print(f"readings: {self.folder}/kept.jsonl")
        print(f"see them: {shlex.join(['invariance', 'report', self.folder])}")
        return 0
