"""Recordings in files: audio, arrays and tables, each a few channels of values in time.

    .wav .flac .ogg .aiff    audio, through soundfile (the extra "audio")
    .npy                     (t,), (t, c), or n sequences of one length, (n, t, c)
    .npz                     such an array as "x", with labels "y", or one per recording
    .csv .parquet            a column per channel

Of a table, a column of times is left aside: one that is called time, timestamp, date or
datetime, one that holds dates, or the one that is named. A column called label, class
or state says what each row is. Other columns without numbers are left out, and so said.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ..errors import DataError
from ..words import join_most
from ._load_request import Note
from ._tables import read_csv_header

AUDIO = (".wav", ".flac", ".ogg", ".oga", ".aif", ".aiff")
SERIES = (".npy", ".npz", ".csv", ".parquet")
TIMES = ("time", "timestamp", "date", "datetime")
LABELS = ("label", "class", "state")
VALUES, CLASSES = ("sequences", "x", "data", "arr_0"), ("labels", "y", "arr_1")
Values = Float[np.ndarray, "t c"]


@dataclass
class Recording:
    """Values of several channels in time, in memory or in a file that is mapped."""

    name: str
    values: np.ndarray
    """(t, c), of any type of number."""
    labels: np.ndarray | None = None
    """What every row is, or what all of it is."""
    rate: int | None = None
    """Values per second, where that is known."""
    channel_names: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def length(self) -> int:
        """How many values of time it has."""
        return self.values.shape[0]

    @property
    def channels(self) -> int:
        """How many channels it has."""
        return self.values.shape[1]

    def label_at(self, row: int) -> int:
        """The class of a row, or of the whole recording."""
        assert self.labels is not None
        return int(self.labels if self.labels.ndim == 0 else self.labels[row])

    def read(self, start: int, stop: int) -> Values:
        """The values of some time."""
        return np.array(self.values[start:stop], dtype=np.float32)


@dataclass
class Mapped(Recording):
    """Values of an .npy file, which travels to a worker as its name."""

    path: Path = Path()
    index: int | None = None
    """Which of the sequences of the file it is, where there are several."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"values": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        stored = np.load(self.path, mmap_mode="r", allow_pickle=False)
        values = stored if self.index is None else stored[self.index]
        self.values = values.reshape(values.shape[0], -1)


@dataclass
class Audio(Recording):
    """Values of an audio file, read when they are asked for."""

    path: Path = Path()
    n_frames: int = 0

    @property
    def length(self) -> int:
        """How many values of time it has."""
        return self.n_frames

    def read(self, start: int, stop: int) -> Values:
        """The values of some time, -1 to 1."""
        sound = import_soundfile(self.path.name)
        values, _ = sound.read(
            self.path, start=start, stop=stop, dtype="float32", always_2d=True
        )
        if len(values) != stop - start:
            raise DataError(f"only {len(values)} of {stop - start} values can be read")
        return values


def import_soundfile(name: str) -> Any:
    """The library that reads audio, or a sentence where it is not installed."""
    try:
        import soundfile
    except ImportError:
        raise DataError(
            f"{name} is audio, which is read by soundfile: install it with "
            "pip install 'invariance[audio]'."
        ) from None
    return soundfile


def open_recordings(
    path: Path, name: str, time_column: str | None = None
) -> list[Recording]:
    """The recordings of one file; raises where it is empty or cannot be read."""
    suffix = path.suffix.lower()
    if suffix in AUDIO:
        return [open_audio(path, name)]
    if not path.stat().st_size:
        raise DataError("an empty file")
    if suffix in (".csv", ".parquet"):
        return [open_series(path, name, time_column)]
    stored = np.load(path, mmap_mode="r", allow_pickle=False)
    if isinstance(stored, np.ndarray):
        several = stored.ndim == 3
        return [
            Mapped(r.name, r.values, path=path, index=i if several else None)
            for i, r in enumerate(split_array(stored, None, name))
        ]
    return open_archive(dict(stored), name)


def open_audio(path: Path, name: str) -> Recording:
    """An audio file; its values stay in the file."""
    sound = import_soundfile(path.name)
    try:
        about = sound.info(str(path))
    except sound.LibsndfileError as error:
        raise DataError(f"no audio ({error.error_string.rstrip('.')})") from None
    if not about.frames:
        raise DataError("without any values")
    shape = np.empty((0, about.channels), np.float32)
    rate = int(about.samplerate)
    return Audio(name, shape, rate=rate, path=path, n_frames=int(about.frames))


def open_archive(arrays: Mapping[str, np.ndarray], name: str) -> list[Recording]:
    """An .npz file: one array with labels, or a recording per array."""
    values = next((arrays[key] for key in VALUES if key in arrays), None)
    if values is not None:
        labels = next((arrays[key] for key in CLASSES if key in arrays), None)
        return split_array(values, labels, name)
    return [
        r for key, x in arrays.items() for r in split_array(x, None, f"{name}:{key}")
    ]


def split_array(
    values: np.ndarray, labels: np.ndarray | None, name: str
) -> list[Recording]:
    """An array as one recording or as several of one length.

    >>> [r.name for r in split_array(np.zeros((2, 50, 3)), None, "x.npy")]
    ['x.npy[0]', 'x.npy[1]']
    >>> split_array(np.zeros(50), None, "x.npy")[0].values.shape
    (50, 1)
    """
    if values.dtype.kind not in "biuf":
        raise DataError(f"values of type {values.dtype}, not numbers")
    if values.ndim not in (1, 2, 3) or not values.size:
        raise DataError(
            f"an array of shape {values.shape}: sequences are (time,), (time, "
            "channels) or (sequences, time, channels)"
        )
    n = values.shape[0]
    if labels is not None and labels.shape != (n,):
        raise DataError(f"labels of shape {labels.shape} for {n} rows")
    if values.ndim < 3:
        return [Recording(name, values.reshape(n, -1), labels)]
    return [
        Recording(f"{name}[{i}]", values[i], None if labels is None else labels[i, ...])
        for i in range(n)
    ]


def open_series(path: Path, name: str, time_column: str | None) -> Recording:
    """A table: numbers are channels, one column may be the time, one the labels."""
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    types = pyarrow.types
    try:
        if path.suffix.lower() == ".csv":
            mark, _ = read_csv_header(path)
            point = "," if mark == ";" else "."
            table = pyarrow.csv.read_csv(
                path,
                parse_options=pyarrow.csv.ParseOptions(delimiter=mark),
                convert_options=pyarrow.csv.ConvertOptions(decimal_point=point),
            )
        else:
            table = pyarrow.parquet.read_table(path)
        names = table.column_names
    except UnicodeDecodeError:  # the names; cells that are none are bytes
        raise DataError("it is not written in UTF-8: save it as UTF-8") from None
    except pyarrow.ArrowException as error:
        raise DataError(" ".join(str(error).split())) from None
    twice = [repr(key) for key, n in Counter(names).items() if n > 1]
    if twice:
        raise DataError(
            f"several columns are called {join_most(twice)}: give each a name of its "
            "own"
        )
    if time_column is not None and time_column not in names:
        raise DataError(
            f"no column {time_column!r} of times: it has {', '.join(names)}"
        )
    channels: dict[str, np.ndarray] = {}
    times, labels, words = None, None, []
    for field, column in zip(table.schema, table.columns, strict=True):
        key = field.name.strip().lower()
        dated = types.is_temporal(field.type)
        if field.name == (time_column or field.name) and (
            time_column is not None or key in TIMES or dated
        ):
            times = column
            if dated:  # a day, or a time of day in seconds, has 32 bits
                narrow = field.type.bit_width == 32
                times = column.cast(pyarrow.int32() if narrow else pyarrow.int64())
        elif key in LABELS:
            labels = column.to_numpy(zero_copy_only=False)
        elif types.is_integer(field.type) or types.is_floating(field.type):
            channels[field.name] = column.to_numpy(zero_copy_only=False)
        elif types.is_boolean(field.type):
            channels[field.name] = column.cast(pyarrow.int8()).to_numpy()
        else:
            check_words(field.name, column.to_pylist())
            words.append(field.name)
    if not table.num_rows:
        raise DataError("no rows")
    if not channels:
        raise DataError("no column of numbers")
    notes = check_times(times, name)
    if words:
        text = f"{name}: columns without numbers were left out ({', '.join(words)})."
        notes.append(Note("left out", text))
    values = np.stack([x.astype(np.float32) for x in channels.values()], 1)
    return Recording(
        name, values, labels, channel_names=tuple(channels), notes=tuple(notes)
    )


def check_words(name: str, values: Sequence[Any]) -> None:
    """Refuse a column of numbers that has a few words in it, and say where.

    >>> check_words("who", ["ann", "bob"])
    """
    given = {row: x for row, x in enumerate(values, 1) if x is not None}
    odd = {row: x for row, x in given.items() if not is_number(x)}
    if odd and 2 * len(odd) < len(given):
        row, word = next(iter(odd.items()))
        raise DataError(
            f"{str(word)!r} instead of a number in row {row} of the column {name!r}, "
            f"as in {len(odd)} of {len(given)}: fix it or remove the column"
        )


def is_number(value: Any) -> bool:
    """Whether a text is one.

    >>> is_number("-1.5e3"), is_number("x")
    (True, False)
    """
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def check_times(times: Any, name: str) -> list[Note]:
    """Refuse times that go back, and say it where they are not evenly spaced."""
    if times is None or len(times) < 2:
        return []
    try:
        steps = np.diff(times.to_numpy(zero_copy_only=False).astype(np.float64))
    except (ValueError, TypeError):
        return []  # words that nobody can put in order
    if (steps <= 0).any():
        row = int(np.argmax(steps <= 0)) + 1
        raise DataError(f"its times do not increase at row {row + 1}: sort the rows")
    if steps.max() > 1.5 * np.median(steps):
        text = (
            f"{name}: times are unevenly spaced; windows take rows in order, "
            "whatever the gaps."
        )
        return [Note("size", text)]
    return []
