"""Names of the files of a run, and how one is written: whole or not at all."""

import contextlib
import errno
import json
import math
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import (
    DataError,
    InvarianceError,
    SettingError,
    TrainingError,
    near_path,
)

CONFIG = "config.yaml"
ENVIRONMENT = "env.json"
METRICS = "metrics.jsonl"
LOG = "train.log"
CHECKPOINTS = "checkpoints"
KEPT = "kept"
KEPT_READINGS = "kept.jsonl"
ENCODER = "encoder.safetensors"
BEST_ENCODER = "encoder-best.safetensors"
OTHER_ENCODER = "other.safetensors"
PAIR_HEADS = "heads.safetensors"
SCORES = "evaluation.jsonl"
DIAGNOSTICS = "diagnostics.json"
GALLERY = "gallery"
REPORT = "report.html"

HUB = "hf://"  # before the name of an encoder that is on the hub of Hugging Face

BROKEN = (ValueError, RecursionError)  # of what is no JSON, or no whole file of it
ALMOST_FULL = 1 << 20  # bytes left on a disk that fails for no other reason


def new_folder(out: str | Path, name: str) -> Path:
    """Make and return ``out/name``, or ``out/name-2``, ... if it is taken."""
    out = Path(out)
    if set('/\\:*?"<>|') & set(name) or name in ("", ".", ".."):
        raise TrainingError(f"A run cannot be called {name!r}: choose a plain name.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for k in range(1, 10_000):
            folder = out / (name if k == 1 else f"{name}-{k}")
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            (folder / CHECKPOINTS).mkdir()
            return folder
    except OSError as cause:
        raise TrainingError(
            f"Cannot make a run folder in {out}: {cause.strerror or cause}. Choose "
            "another place with --out."
        ) from None
    raise TrainingError(f"Ten thousand runs are called {name!r}: choose another name.")


def require_run(folder: Path) -> None:
    """Raise a sentence with the nearest run unless this folder is one."""
    if (folder / CONFIG).is_file():
        return
    hint = "" if folder.exists() else near_path(folder)
    if folder.is_file():
        hint = " That is a file: name the folder of its run."
    inside = sorted(path.parent for path in folder.glob(f"*/{CONFIG}"))
    if inside:
        hint = f" There are runs inside: did you mean {str(inside[0])!r}?"
    raise DataError(
        f"There is no run at {str(folder)!r}: a run folder holds {CONFIG}."
        + (hint or " 'invariance list runs' lists all runs.")
    )


def list_kept(folder: str | Path) -> dict[int, Path]:
    """The files of the epochs that a run has kept (--keep-every), oldest first.

    >>> list_kept("no such run")
    {}
    """
    paths = sorted((Path(folder).expanduser() / KEPT).glob("epoch-*.pt"))
    numbers = [path.stem.removeprefix("epoch-") for path in paths]
    pairs = zip(numbers, paths, strict=True)
    return {int(number): path for number, path in pairs if number.isdigit()}


def is_on_hub(place: object) -> bool:
    """Whether an encoder is on the hub, by how it is named.

    >>> is_on_hub("hf://ada/cats"), is_on_hub("runs/cats")
    (True, False)
    """
    return isinstance(place, str) and place.startswith(HUB)


def require_encoder(place: str | Path) -> None:
    """Raise a sentence with the nearest name unless there is a folder or file.

    What is on the hub is looked for when it is loaded.
    """
    path = Path(place).expanduser()
    if not is_on_hub(place) and not path.exists():
        raise DataError(
            f"There is no run or encoder file at {str(path)!r}: 'invariance list "
            f"runs' lists all runs.{near_path(path)}"
        )


def resume_command(folder: Path) -> str:
    """What to type to go on with a run.

    >>> resume_command(Path("runs/my photos"))
    "invariance train --resume 'runs/my photos'"
    """
    return f"invariance train --resume {shlex.quote(str(folder))}"


def require_place(path: Path) -> None:
    """Raise a sentence unless a file can be there."""
    if not path.parent.is_dir():
        raise SettingError(f"There is no folder {str(path.parent)!r} to write into.")
    if path.is_dir():
        raise SettingError(f"{str(path)!r} is a folder: name a file.")


def refuse_file(path: Path, *, overwrite: bool) -> None:
    """Raise a sentence if a file is there that nobody said may go."""
    if path.exists() and not overwrite:
        raise DataError(
            f"{str(path)!r} exists already: choose another name, or use --overwrite "
            "(overwrite=True) to replace it."
        )


def write_whole(
    path: Path, content: bytes | Callable[[Any], Any], *, advice: str = ""
) -> None:
    """Write a file that appears under its name only when it is complete.

    Args:
        path: Of the file.
        content: Bytes, or a function that writes them to the open file it is given.
        advice: What to do when the disk fails; unless given, go on with the run.
    """
    temporary = path.with_name(f"{path.name}.part")
    try:
        with temporary.open("wb") as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                content(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except BaseException as cause:  # an interrupt, too, must leave no half file
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        failure = disk_failure(cause)
        if failure is None:
            raise
        # some libraries pass a failure on without its number
        full = failure.errno == errno.ENOSPC or (
            failure.errno is None and _is_full(path.parent)
        )
        why = "the disk is full" if full else failure.strerror or str(failure)
        if advice:
            raise DataError(f"Could not write {path.name}: {why}. {advice}") from None
        inside = path.parent.name in (CHECKPOINTS, KEPT)
        run = path.parent.parent if inside else path.parent
        raise TrainingError(
            f"Could not write {path.name}: {why}. What was saved before is intact; "
            "free some space or fix the disk, then continue with: "
            f"{resume_command(run)}"
        ) from None


def write_json(path: Path, value: Any, *, advice: str = "") -> None:
    """Plain values, indented, every letter as itself."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    write_whole(path, text.encode("utf-8", errors="replace"), advice=advice)


def read_json(path: Path) -> dict[str, Any]:
    """An object of plain values; empty where none can be read.

    >>> read_json(Path("no such file"))
    {}
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, *BROKEN):
        return {}
    return values if isinstance(values, dict) else {}


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]], *, advice: str) -> None:
    """An object of plain values per line, every letter as itself."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_whole(path, text.encode("utf-8", errors="replace"), advice=advice)


def parse_lines(text: str) -> list[Any]:
    r"""A value per line, None where a line is broken.

    Only a line feed ends a line: JSON may hold the other signs that end lines of text.

    >>> parse_lines('{"a": "x\u2028y"}\n{"b"')
    [{'a': 'x\u2028y'}, None]
    """
    values: list[Any] = []
    for line in filter(str.strip, text.split("\n")):
        try:
            values.append(json.loads(line))
        except BROKEN:
            values.append(None)
    return values


def read_tail(path: Path, n_lines: int) -> str:
    """The last lines of a text that grows; empty where there is none.

    >>> read_tail(Path("no such file"), 3)
    ''
    """
    try:
        with path.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - 400 * n_lines, 0))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-n_lines:])


def disk_failure(cause: BaseException) -> OSError | None:
    """The disk's own error; libraries hide it behind one of their own."""
    error: BaseException | None = cause
    while error is not None and not isinstance(error, InvarianceError):
        if isinstance(error, OSError):
            return error
        error = error.__context__
    return None


def finite_number(value: object) -> float | None:
    """A finite number, or None.

    >>> finite_number(3), finite_number(float("nan")), finite_number("3")
    (3.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # beyond these bounds the arithmetic of axes would overflow
    return float(value) if abs(value) < 1e100 and math.isfinite(value) else None


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system lets one open a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_full(folder: Path) -> bool:
    with contextlib.suppress(OSError, AttributeError):
        disk = os.statvfs(folder)
        return disk.f_bavail * disk.f_frsize < ALMOST_FULL
    return False
