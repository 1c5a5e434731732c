"""The folder of a run: settings, environment, metrics, checkpoints, the encoder.

    runs/<name>/config.yaml         resolved settings, reloadable
                env.json            versions, machine, command
                metrics.jsonl       one reading a line; "time/..." is wall-clock
                train.log           what was said
                checkpoints/        step-00000123.pt, the newest two
                encoder.safetensors the result, with what is needed to rebuild it
                encoder-best.safetensors    the epoch of highest kNN while training
                evaluation.jsonl    one score a line; 'invariance evaluate' adds more
                diagnostics.json    readings of the embeddings, with a sentence each
                gallery/            pictures, map and neighbours for the report

A name is never used twice.
"""

import dataclasses
import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from ..errors import SettingError, TrainingError
from ._config import read_yaml
from ._settings import Train

FORMAT = 2  # of run folders; 1 wrote every number of options with a point
PACKAGES = ("torch", "torchvision", "timm", "lightning-fabric", "numpy", "scikit-learn")


def resume_command(folder: Path) -> str:
    """What to type to go on with a run.

    >>> resume_command(Path("runs/my photos"))
    "invariance train --resume 'runs/my photos'"
    """
    return f"invariance train --resume {shlex.quote(str(folder))}"


def new_folder(out: str | Path, name: str) -> Path:
    """Make and return ``out/name``, or ``out/name-2``, ... if it is taken."""
    out = Path(out)
    bad = set('/\\:*?"<>|') & set(name)
    if bad or name in ("", ".", ".."):
        raise TrainingError(f"A run cannot be called {name!r}: choose a plain name.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for k in range(1, 10_000):
            folder = out / (name if k == 1 else f"{name}-{k}")
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            (folder / "checkpoints").mkdir()
            return folder
    except OSError as cause:
        raise TrainingError(f"Cannot make a run folder in {out}: {cause}.") from None
    raise TrainingError(f"Ten thousand runs are called {name!r}: choose another name.")


def environment(device: str) -> dict[str, Any]:
    """What this run ran on."""
    from .. import __version__

    return {
        "invariance": __version__,
        "format": FORMAT,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "device": device,
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def read_environment(folder: Path) -> dict[str, Any]:
    """What ``environment`` wrote; empty where it cannot be read.

    >>> read_environment(Path("no such run"))
    {}
    """
    try:
        found = json.loads((folder / "env.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def read_settings(folder: Path) -> Train:
    """The settings of a run, as whatever version wrote them meant them."""
    from .. import __version__

    known = read_environment(folder)
    written = known.get("format", 1)
    if isinstance(written, int) and written > FORMAT:
        raise TrainingError(
            f"{folder} was written by invariance {known.get('invariance')}, and this "
            f"is {__version__}, which cannot read it: update invariance."
        )
    try:
        settings = read_yaml(Train, folder / "config.yaml")
    except SettingError as cause:
        maker = known.get("invariance")
        if maker in (None, __version__):
            raise
        raise SettingError(
            f"{cause} {folder} was written by invariance {maker}, and this is "
            f"{__version__}."
        ) from None
    k = settings.options.get("k")
    if written == 1 and isinstance(k, float) and k == 1:  # where it was one row
        settings = dataclasses.replace(settings, options={**settings.options, "k": 1})
    return settings


def write_json(path: Path, value: Any) -> None:
    """Pretty, and with every letter as itself."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


class Metrics:
    """An append-only file of readings that knows how long it is.

    A checkpoint keeps ``position``; going on from there cuts off what was written
    after it, so that an interrupted run ends up with the file of an uninterrupted one.
    """

    def __init__(self, path: Path, position: int = 0) -> None:
        self.file = path.open("ab")
        self.file.truncate(position)
        self.file.seek(position)

    @property
    def position(self) -> int:
        """Length in bytes of all that is safely written."""
        self.file.flush()
        os.fsync(self.file.fileno())
        return self.file.tell()

    def write(self, record: Mapping[str, Any]) -> None:
        """One line."""
        try:
            self.file.write(json.dumps(record).encode() + b"\n")
            self.file.flush()
        except OSError as cause:
            raise TrainingError(
                f"Could not write {self.file.name}: {cause.strerror}. What was saved "
                "before is intact; make room or mend the disk, then go on with: "
                f"{resume_command(Path(self.file.name).parent)}"
            ) from None

    def close(self) -> None:
        """No more lines."""
        self.file.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All whole lines; a run killed while writing leaves half a line, which is no loss.

    >>> read_metrics(Path("no such file"))
    []
    """
    if not path.exists():
        return []
    records = []
    for line in path.read_text("utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            break
        if isinstance(record, dict):
            records.append(record)
    return records


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
