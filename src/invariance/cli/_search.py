"""``invariance search``: the images most like a query."""

import os
import shlex
import sys
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from tyro import conf


@dataclass(frozen=True)
class Search:
    """Find the images most like a query, by the cosine of their features."""

    run_folder: Annotated[str, conf.Positional, conf.arg(metavar="RUN")]
    """A run folder, or an encoder.safetensors file."""
    data: Annotated[str, conf.Positional, conf.arg(metavar="DATA")]
    """What to search: a file that 'invariance embed' wrote (nothing is computed again),
    a folder of images, an .npy or .npz file, or a set (shapes, cifar10, ...)."""
    query: Annotated[tuple[str, ...], conf.arg(aliases=["-q"], metavar="IMAGE ...")]
    """Image files to find others like."""
    k: int = 10
    """How many to find for each."""
    sheet: str | None = None
    """Draw what was found into this PNG file."""
    split: Literal["all", "train", "test"] = "all"
    """Part of the data."""
    limit: int | None = None
    """Search at most so many images, evenly spread."""
    batch_size: int = 256
    """Images encoded at once."""
    device: str = "auto"
    """"auto" takes a GPU if there is one."""
    workers: int | None = None
    """Decoding processes. Default: as many as cores for image files."""
    data_root: str | None = None
    """Where named sets are kept."""
    max_bad_fraction: float = 0.2
    """More unreadable images than this share are an error."""
    quiet: bool = False
    """Print the result only."""
    json: bool = False
    """Print one line of JSON a query."""

    def run(self) -> int:
        """Search, then print a line for each image found."""
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        import json

        from ..runs import search
        from ..runs._images import on_one_line

        found = search(
            self.run_folder,
            self.data,
            self.query,
            k=self.k,
            sheet=self.sheet,
            split=self.split,
            limit=self.limit,
            batch_size=self.batch_size,
            device=self.device,
            workers=self.workers,
            data_root=self.data_root,
            max_bad_fraction=self.max_bad_fraction,
            quiet=self.quiet,
        )
        for note in found.notes:
            print(note, file=sys.stderr)
        for one in found.neighbours:
            if self.json:
                print(json.dumps(asdict(one)))
                continue
            print(f"{on_one_line(one.query)} in {found.n_gallery:,} images:")
            for hit in one.hits:
                what = f"  {hit.class_name}" if hit.class_name else ""
                where = on_one_line(hit.path or hit.name)
                print(f"{hit.rank:>4}  {hit.score:6.3f}  {where}{what}")
        if self.sheet:
            said = f"contact sheet: {shlex.quote(self.sheet)}"
            print(said, file=sys.stderr if self.json else sys.stdout)
        return 0
