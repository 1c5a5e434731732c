"""``invariance search``: the images most like a query, an image or a sentence."""

import shlex
import sys
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from tyro import conf

NOTHING = "(default: none)"


@dataclass(frozen=True)
class Search:
    """Find the samples most like a query, by the cosine of their features."""

    run_folder: Annotated[str, conf.Positional, conf.arg(metavar="RUN")]
    """A run folder, or an encoder.safetensors file."""
    data: Annotated[str | None, conf.Positional, conf.arg(metavar="[DATA]")] = None
    """What to search: a file that 'invariance embed' wrote (nothing is computed again),
    samples of the kind the run was trained on, or a set (shapes, cifar10, ...).
    Default: what the run was trained on."""
    query: Annotated[
        tuple[str, ...],
        conf.arg(aliases=["-q"], metavar="QUERY ...", help_behavior_hint=NOTHING),
    ] = ()
    """What to find similar samples to: image files, or files of the kind the run was
    trained on; for sentences, the sentences themselves."""
    text: Annotated[
        tuple[str, ...],
        conf.arg(aliases=["-t"], metavar="SENTENCE ...", help_behavior_hint=NOTHING),
    ] = ()
    """Sentences to find images by, if the run was trained on images and captions."""
    k: int = 10
    """How many to find for each query."""
    sheet: str | None = None
    """Draw the results into this PNG file."""
    split: Literal["all", "train", "test"] = "all"
    """Part of the data."""
    limit: int | None = None
    """Search at most this many samples, evenly spread."""
    batch_size: int = 256
    """Samples encoded at once."""
    device: str = "auto"
    """"auto" takes a GPU if there is one."""
    workers: int | None = None
    """Decoding processes. Default: as many as cores for image files."""
    data_root: str | None = None
    """Where named sets are kept."""
    max_bad_fraction: float = 0.2
    """It is an error if a larger share of the samples is unreadable."""
    quiet: bool = False
    """Print only the result."""
    json: bool = False
    """Print one line of JSON per query."""

    def run(self) -> int:
        """Search, then print a line for each image found."""
        import json

        from ..progress import tell_loading
        from ..runs import check_request

        check_request(
            self.run_folder,
            self.data,
            batch_size=self.batch_size,
            limit=self.limit,
            workers=self.workers,
            max_bad_fraction=self.max_bad_fraction,
        )
        tell_loading(quiet=self.quiet or self.json)
        from ..runs import search

        result = search(
            self.run_folder,
            self.data,
            self.query or None,
            text=self.text or None,
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
        for note in result.notes:
            print(note, file=sys.stderr)
        lines = result.lines()
        if self.json:
            lines = [json.dumps(asdict(hits)) for hits in result]
        print("\n".join(lines))
        if self.sheet:
            line = f"contact sheet: {shlex.quote(self.sheet)}"
            print(line, file=sys.stderr if self.json else sys.stdout)
        return 0
