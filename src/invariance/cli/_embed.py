"""``invariance embed``: features of every image, in a file."""

import os
import shlex
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from tyro import conf


@dataclass(frozen=True)
class Embed:
    """Write the features of every image to a file; killed, it goes on where it was."""

    run_folder: Annotated[str, conf.Positional, conf.arg(metavar="RUN")]
    """A run folder, or an encoder.safetensors file."""
    data: Annotated[str, conf.Positional, conf.arg(metavar="DATA")]
    """A folder of images, an .npy or .npz file, or a set (shapes, cifar10, ...)."""
    out: Annotated[str, conf.arg(aliases=["-o"])]
    """File to write: .parquet, .npz or .csv."""
    split: Literal["all", "train", "test"] = "all"
    """Part of the data."""
    limit: int | None = None
    """Use at most so many images, evenly spread."""
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
    overwrite: bool = False
    """Replace the file, or drop unfinished work of another job."""
    quiet: bool = False
    """Print the result only."""

    def run(self) -> int:
        """Embed, then say where the file is and what came of it."""
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        from ..progress import tell_loading
        from ..runs import check_request

        check_request(
            self.run_folder,
            self.data,
            batch_size=self.batch_size,
            limit=self.limit,
            workers=self.workers,
        )
        tell_loading(quiet=self.quiet)
        from ..data import describe_unreadable
        from ..runs import write_embeddings
        from ..words import count

        again = "the same command goes on where it stopped"
        try:
            done = write_embeddings(
                self.run_folder,
                self.data,
                self.out,
                overwrite=self.overwrite,
                split=self.split,
                limit=self.limit,
                batch_size=self.batch_size,
                device=self.device,
                workers=self.workers,
                data_root=self.data_root,
                max_bad_fraction=self.max_bad_fraction,
                quiet=self.quiet,
            )
        except KeyboardInterrupt:
            print(f"invariance: interrupted; {again}.", file=sys.stderr)
            return 130
        for line in describe_unreadable(done.unreadable, "left out"):
            print(line, file=sys.stderr)
        rate = done.n_new / max(done.seconds, 1e-9)
        print(
            f"embeddings: {done.path}, {count(done.n, 'row')} of {done.width} features "
            f"({count(done.n_new, 'image')} in {done.seconds:.1f} s, {rate:,.0f}/s, "
            f"peak memory {peak_mebibytes():,.0f} MiB)"
        )
        words = ["invariance", "search", self.run_folder, str(done.path)]
        print(f"search it:  {shlex.join(words)} --query IMAGE")
        return 0


def peak_mebibytes() -> float:
    """The most memory this process has held."""
    try:
        import resource
    except ImportError:  # not on Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
