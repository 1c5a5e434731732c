"""``invariance embed``: features of every image, in a file."""

import shlex
import sys
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from tyro import conf

from ..errors import SettingError
from ..plain_numbers import check_share
from ._processes import speaks


@dataclass(frozen=True, kw_only=True)
class Embed:
    """Write the features of all samples to a file; if killed, run again to continue."""

    again: ClassVar[str] = "the same command continues where it stopped"

    run_folder: Annotated[
        str,
        conf.Positional,
        conf.arg(metavar="RUN", help_behavior_hint="(required, except with --merge)"),
    ] = ""
    """A run folder, or an encoder.safetensors file."""
    data: Annotated[
        str,
        conf.Positional,
        conf.arg(metavar="DATA", help_behavior_hint="(required, except with --merge)"),
    ] = ""
    """Samples of the kind the run was trained on: a folder of images, an .npy or .npz
    file, a table, sentences, graphs, audio or series, or a set (shapes, cifar10,
    ...)."""
    out: Annotated[str, conf.arg(aliases=["-o"])]
    """File to write: .parquet, .npz or .csv."""
    shard: Annotated[str | None, conf.arg(metavar="I/N")] = None
    """Encode only the I-th of N shares of the samples, counted from 1, on this machine;
    the file is then a part, .parquet or .npz."""
    merge: Annotated[
        tuple[str, ...], conf.arg(metavar="PART ...", help_behavior_hint="")
    ] = ()
    """Instead of encoding, merge the parts of all shards into one file."""
    devices: int = 1
    """Share the work among this many processes on this machine: GPUs, or cores."""
    split: Literal["all", "train", "test"] = "all"
    """Part of the data."""
    limit: int | None = None
    """Use at most this many samples, evenly spread."""
    batch_size: int = 256
    """Samples encoded at once."""
    device: str = "auto"
    """"auto" takes a GPU if there is one."""
    workers: int | None = None
    """Decoding processes. Default: as many as cores for image files."""
    data_root: str | None = None
    """Where named sets are kept."""
    max_bad_fraction: float | None = None
    """It is an error if a larger share of the samples is unreadable. Default: 0.2."""
    overwrite: bool = False
    """Replace the file, or drop unfinished work of another job."""
    quiet: bool = False
    """Print only the result."""

    def check(self) -> None:
        """Refuse what cannot work before torch is loaded."""
        from ..runs import check_request

        if self.merge and (self.run_folder or self.shard or self.devices != 1):
            raise SettingError(
                "--merge takes only parts and a file: 'invariance embed --merge PART "
                "... -o FILE'."
            )
        if self.merge:
            check_share("max_bad_fraction", self.bad_fraction)
            return
        if not self.data:
            raise SettingError(
                "embed needs a run and data: 'invariance embed RUN DATA -o FILE'. "
                "Finished parts are merged by 'invariance embed --merge PART ... -o "
                "FILE'."
            )
        check_request(
            self.run_folder,
            self.data,
            batch_size=self.batch_size,
            limit=self.limit,
            workers=self.workers,
            max_bad_fraction=self.bad_fraction,
            out=self.out,
            shard=self.shard,
        )

    @property
    def bad_fraction(self) -> float:
        """What is allowed where nothing was said."""
        return 0.2 if self.max_bad_fraction is None else self.max_bad_fraction

    def run(self) -> int:
        """Embed, then say where the file is and what came of it."""
        from ..progress import tell_loading

        self.check()
        if self.merge:
            return self.merge_parts()
        tell_loading(quiet=self.quiet or not speaks())
        from ..data import describe_unreadable
        from ..runs import write_embeddings
        from ..words import count

        try:
            done = write_embeddings(
                self.run_folder,
                self.data,
                self.out,
                overwrite=self.overwrite,
                shard=self.shard,
                shared=True,
                split=self.split,
                limit=self.limit,
                batch_size=self.batch_size,
                device=self.device,
                workers=self.workers,
                data_root=self.data_root,
                max_bad_fraction=self.bad_fraction,
                quiet=self.quiet,
            )
        except KeyboardInterrupt:
            print(f"invariance: interrupted; {self.again}.", file=sys.stderr)
            return 130
        if not speaks():
            return 0
        for line in describe_unreadable(done.unreadable, "left out", done.kind):
            print(line, file=sys.stderr)
        word = "image" if done.kind is None else done.kind.word
        rate = done.n_new / max(done.seconds, 1e-9)
        print(
            f"embeddings: {done.path}, {count(done.n, 'row')} of {done.width} features "
            f"({count(done.n_new, word)} in {done.seconds:.1f} s, {rate:,.0f}/s, "
            f"peak memory {peak_mebibytes():,.0f} MiB)"
        )
        if self.shard:
            print("merge them: invariance embed --merge PART ... -o FILE")
            return 0
        words = ["invariance", "search", self.run_folder, str(done.path)]
        print(f"search it:  {shlex.join(words)} --query {word.upper()}")
        return 0

    def merge_parts(self) -> int:
        """Make one file of all parts."""
        from ..runs import merge_embeddings
        from ..words import count

        done = merge_embeddings(
            self.merge,
            self.out,
            overwrite=self.overwrite,
            max_bad_fraction=self.max_bad_fraction,
        )
        print(
            f"embeddings: {done.path}, {count(done.n, 'row')} of {done.width} features "
            f"({count(len(self.merge), 'part')} merged in {done.seconds:.1f} s)"
        )
        words = ["invariance", "search", "RUN", str(done.path), "--query", "QUERY"]
        print(f"search it:  {shlex.join(words)}")
        return 0


def peak_mebibytes() -> float:
    """The most memory this process has held."""
    try:
        import resource
    except ImportError:  # not on Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
