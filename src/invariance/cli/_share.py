"""``invariance share``: an encoder for others, on the Hugging Face hub."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro import conf


@dataclass(frozen=True)
class Share:
    """Upload the encoder of a run to the Hugging Face hub, with a model card."""

    run_folder: Annotated[str, conf.Positional, conf.arg(metavar="RUN")]
    """The folder of a finished run."""
    name: Annotated[str, conf.Positional, conf.arg(metavar="USER/NAME")]
    """Its name on the hub, USER/NAME; the repository is created if needed."""
    private: bool = False
    """Make it visible only to you."""
    license: str | None = None
    """A license, as the hub spells it: mit, apache-2.0, cc-by-4.0, ... None is chosen
    for you."""
    dry_run: bool = False
    """Upload nothing; write the folder that would be uploaded."""
    out: Annotated[str | None, conf.arg(aliases=["-o"], metavar="FOLDER")] = None
    """Where a dry run writes. Default: named after USER/NAME, in the current folder."""
    quiet: bool = False
    """Print only the result."""

    def run(self) -> int:
        """Write the files, upload them, and say how to load them."""
        from ..errors import SettingError
        from ..folder import require_run
        from ..progress import tell, tell_loading
        from ..sharing import split_name

        split_name(self.name)
        require_run(Path(self.run_folder).expanduser())
        if self.out is not None and not self.dry_run:
            raise SettingError("--out is where --dry-run writes: give both or neither.")
        tell_loading(quiet=self.quiet)
        from ..training import push_to_hub

        folder = (self.out or self.name.replace("/", "-")) if self.dry_run else None
        shared = push_to_hub(
            self.run_folder,
            self.name,
            private=self.private,
            license=self.license,
            folder=folder,
        )
        for note in shared.notes:
            tell(note, quiet=self.quiet, file=sys.stderr)
        for file, size in shared.files.items():
            print(f"{size:>14,}  {file}")
        if shared.url is None:
            print(f"written: {shlex.quote(str(shared.folder))}; nothing was uploaded")
        else:
            print(f"shared:  {shared.url}")
            print(f'load it: encoder = invariance.from_pretrained("{shared.name}")')
        return 0
