"""``invariance pack``: a decoded copy of a folder, for quick starts."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro import conf


@dataclass(frozen=True)
class Pack:
    """Keep a decoded copy of a folder, so that the next start takes seconds."""

    folder: Annotated[str, conf.Positional, conf.arg(metavar="FOLDER")]
    """A folder of images. Anything that reads it at that image size uses the copy,
    until a file is added, removed or changed. The copy takes one byte per pixel and
    channel, in $INVARIANCE_DATA or ~/.cache/invariance."""
    image_size: int | None = None
    """Side of the images in pixels. Default: as 'invariance train' chooses it."""
    channels: Literal[1, 3] = 3
    """1 is gray, 3 is color."""
    max_bad_fraction: float = 0.2
    """It is an error if a larger share of the images is unreadable."""
    delete: bool = False
    """Delete the copies of this folder, of every size."""
    quiet: bool = False
    """Print only the result."""

    def run(self) -> int:
        """Pack or delete, then say where the copy is and what it takes."""
        from ..errors import SettingError
        from ..progress import tell_loading

        if self.delete and self.image_size is not None:
            raise SettingError(
                "--delete deletes the copies of every size: leave --image-size out."
            )
        tell_loading(quiet=self.quiet)
        from ..data import delete_packs, describe_unreadable, pack
        from ..devices import format_bytes
        from ..words import count

        if self.delete:
            deleted = delete_packs(Path(self.folder).expanduser())
            for path in deleted:
                print(f"deleted:   {path}")
            if not deleted:
                print(f"There is no packed copy of {self.folder}.")
            return 0
        copy = pack(
            self.folder,
            image_size=self.image_size,
            channels=self.channels,
            max_bad_fraction=self.max_bad_fraction,
            quiet=self.quiet,
        )
        for line in describe_unreadable(copy.unreadable, "left out"):
            print(line, file=sys.stderr)
        shape, size = "x".join(map(str, copy.shape)), format_bytes(copy.n_bytes)
        print(
            f"{'packed:   ' if copy.new else 'up to date:'} {copy.path}, "
            f"{count(copy.n, 'image')} of {shape}, {size}"
        )
        command = ["invariance", "pack", self.folder, "--delete"]
        print(f"delete it: {shlex.join(command)}")
        return 0
