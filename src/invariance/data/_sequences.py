"""Windows of recordings: how they are cut, and which of them are held out.

A recording is cut into windows of one length, a stride apart; what is left over at its
end is covered by one more, which reaches back. Whole recordings are held out, so that
windows that overlap are never on both sides. Of a single recording the last tenth is
held out, and the length of a window before it is left out, as a gap.

The label of a window is that of its recording (its class folder, or a label per
sequence) or, where every row has one, that of its last row.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import DataError, SettingError
from ..words import count
from ._folder import (
    below,
    find_classes,
    find_parts,
    mark_files,
    walk_folder,
)
from ._kind import Sequence
from ._label_numbers import as_array
from ._load_request import Note, Origin, Request, explain_unreadable, show_path
from ._marks import Mark
from ._names import find_path, holds_images
from ._recordings import (
    AUDIO,
    SERIES,
    Recording,
    open_recordings,
    split_array,
)
from ._sources import NO_LABEL, Items, Read
from ._split import HELD_OUT, split_names, spread

WINDOW = 128  # values, where nobody says and sequences do not come in one length
LONGEST_WHOLE = 1024  # of sequences that are windows as they come
SECONDS, PATCH = 1.28, 160  # of audio: the CPC paper's 20,480 values at 16 kHz
LOOKED_AT = 64  # windows that stand for all in the search for constant channels


class Windows(Items):
    """Windows of recordings, each read when it is asked for."""

    kind: Sequence

    def __init__(
        self,
        recordings: list[Recording],
        starts: list[tuple[int, int]],
        kind: Sequence,
        class_names: tuple[str, ...],
    ) -> None:
        self.recordings, self.starts, self.kind = recordings, starts, kind
        self.class_names = class_names
        length = kind.shape[1]
        self.paths = tuple(name_window(recordings[k], start) for k, start in starts)
        if class_names:
            last = [recordings[k].label_at(start + length - 1) for k, start in starts]
            self.labels = torch.tensor(last, dtype=torch.long)

    def __len__(self) -> int:
        return len(self.starts)

    def read(self, i: int) -> tuple[Float[Tensor, "c t"], int]:
        """Window i and its label."""
        k, start = self.starts[i]
        values = self.recordings[k].read(start, start + self.kind.shape[1])
        return self.kind.read(values), self.label(i)


def name_window(recording: Recording, start: int) -> str:
    """What a window is called: its recording, and where it begins."""
    return f"{recording.name}@{start}"


def recording_of(window: str) -> str:
    """The recording that a window of this name is from.

    >>> recording_of("birds/a.wav@20480")
    'birds/a.wav'
    """
    return window.rpartition("@")[0]


@dataclass
class Recordings:
    """All recordings of some data, and what is known of them."""

    name: str
    whole: list[Recording]
    unreadable: dict[str, str]
    mark: str = ""
    parent: str = ""
    class_names: tuple[str, ...] = ()
    parts: tuple[list[int], list[int]] | None = None
    """Numbers of those to train on and to test with, where the data say so."""
    notes: tuple[Note, ...] = ()


def are_sequences(data: Any, request: Request) -> bool:
    """Whether data are to be read as sequences: as asked, or audio by its ending.

    A window, a stride or a column of times asks for sequences, too, unless the data
    look like images or text.
    """
    if request.kind_name:
        return request.kind_name == Sequence.name
    cut = (request.window, request.stride, request.time_column)
    if any(setting is not None for setting in cut):
        return request.captions is None and may_be_sequences(data)
    return isinstance(data, (str, Path)) and Path(data).suffix.lower() in AUDIO


def may_be_sequences(data: Any) -> bool:
    """Whether data can be values in time, as far as names of files tell."""
    if not isinstance(data, (str, Path)):
        return True
    path = Path(data).expanduser()
    if path.is_dir():
        return not holds_images(path)
    return path.suffix.lower() in (*AUDIO, *SERIES)


def read_sequences(data: Any, request: Request) -> Read:
    """Windows of one part of a folder, a file, arrays, or arrays with labels."""
    known = request.known_kind
    time_column = request.time_column if known is None else known.time_column
    if isinstance(data, (str, Path)):
        path = find_path(data, (*AUDIO, *SERIES), "a folder of recordings")
        opened = (open_recording_folder if path.is_dir() else open_file)(
            path, time_column
        )
    else:
        opened = take_arrays(data)
    if not opened.whole:
        raise DataError(f"{opened.name} {describe_broken(opened.unreadable)}")
    agree(opened)
    if known is not None:
        check_known(opened, known)
    kind = known or choose_kind(opened.whole, request)
    starts, n_held_out, n_unlabeled = choose_windows(opened, kind, request)
    notes = [*opened.notes, *(n for r in opened.whole for n in r.notes)]
    if known is None:
        length, stride = kind.shape[1], kind.stride
        text = f"{count(len(opened.whole), 'recording')} in windows of {length} values"
        each = f", a window every {stride}" if stride != length else ""
        notes.append(Note("size", f"{text}{each}."))
    if n_unlabeled:
        were = count(n_unlabeled, "window was", "windows were")
        text = f"{were} left out without a label: --no-labels learns from all."
        notes.append(Note("left out", text))
    items = Windows(opened.whole, starts, kind, opened.class_names)
    if known is None:
        notes += survey(items)
    own_test = opened.parts is not None
    origin = Origin(opened.mark, opened.parent, n_held_out, own_test)
    return Read(opened.name, items, opened.unreadable, tuple(notes), origin=origin)


# ---------------------------------------------------------------- what there is


def open_recording_folder(root: Path, time_column: str | None) -> Recordings:
    """Every recording below a folder; class folders are labels."""
    formats = "WAV, FLAC, OGG, NPY, NPZ, CSV or Parquet"
    walk = walk_folder(root, (*AUDIO, *SERIES), "recordings", formats)
    base, parts = find_parts(walk.files)
    class_names, label_of = find_classes(walk.files, base, parts)
    whole: list[Recording] = []
    sides: tuple[list[int], list[int]] = [], []
    for path in walk.files:
        try:
            opened = open_recordings(root / path, path, time_column)
        except (DataError, OSError, ValueError) as error:
            walk.unreadable[path] = explain_unreadable(error)
            continue
        for recording in opened:
            if class_names:
                recording.labels = (
                    np.array(label_of[path]) if path in label_of else None
                )
            if parts and below(path, base) in parts:
                sides[below(path, base) != parts[0]].append(len(whole))
            whole.append(recording)
    names = class_names or number_in_place(whole)
    return Recordings(
        root.resolve().name,
        whole,
        walk.unreadable,
        str(mark_files(walk.sizes, base)),
        root.resolve().parent.name,
        names,
        sides if parts else None,
    )


def open_file(path: Path, time_column: str | None) -> Recordings:
    """The recordings of one file."""
    try:
        whole = open_recordings(path, path.name, time_column)
    except (DataError, OSError, ValueError) as error:
        raise DataError(
            f"{str(path)!r} cannot be read as sequences: {explain_unreadable(error)}."
        ) from None
    mark = Mark()
    with path.open("rb") as file:
        mark.add(str(path.stat().st_size), file.read(1 << 16))
    parent = path.resolve().parent.name
    names = number_in_place(whole)
    return Recordings(path.name, whole, {}, str(mark), parent, names)


def take_arrays(data: Any) -> Recordings:
    """Arrays from Python: one, a list of them, or either with labels."""
    pair = isinstance(data, tuple) and len(data) == 2
    values, labels = data if pair else (data, None)
    if isinstance(values, (list, tuple)):
        arrays = [as_array(x) for x in values]
        given = [None] * len(arrays) if labels is None else list(as_array(labels))
        if len(given) != len(arrays):
            raise DataError(
                f"There are {len(arrays)} sequences and {len(given)} labels: give one "
                "label for each."
            )
        whole = []
        for i, (x, label) in enumerate(zip(arrays, given, strict=True)):
            if x.ndim > 2:
                raise DataError(
                    f"Sequence {i} of the list has shape {x.shape}: expected (time,) "
                    "or (time, channels)."
                )
            (recording,) = split_array(x, None, f"[{i}]")
            recording.labels = None if label is None else np.array(label)
            whole.append(recording)
    else:
        labels = None if labels is None else as_array(labels)
        try:
            whole = split_array(as_array(values), labels, "array")
        except DataError as error:
            raise DataError(
                f"The array cannot be read as sequences: {error}."
            ) from None
    mark = Mark()
    for i in spread(len(whole), 256):
        mark.add(repr(whole[i].values.shape), whole[i].read(0, 4096).tobytes())
    names = number_in_place(whole)
    return Recordings("the array", whole, {}, str(mark), "", names)


def number_in_place(recordings: list[Recording]) -> tuple[str, ...]:
    """Turn the labels of recordings into class numbers in place; gives their names.

    A label that is empty or NaN becomes NO_LABEL.

    >>> walk = Recording("walk", np.zeros((4, 1)), np.array([7.0, np.nan, 9.0, 7.0]))
    >>> number_in_place([walk]), walk.labels
    (('7', '9'), array([ 0, -1,  1,  0]))
    """
    given = [np.asarray(r.labels) for r in recordings if r.labels is not None]
    if not given or len(given) < len(recordings):
        for recording in recordings:
            recording.labels = None
        return ()
    known = [find_known(labels) for labels in given]
    flat = [labels[where] for labels, where in zip(given, known, strict=True)]
    if len({labels.dtype.kind in "biuf" for labels in flat}) > 1:  # words and numbers
        flat = [labels.astype(str) for labels in flat]
    names = np.unique(np.concatenate(flat))
    if names.dtype.kind == "f" and (names == names.round()).all():
        names = names.astype(np.int64)  # whole numbers, made so by a gap
    for recording, labels, where in zip(recordings, flat, known, strict=True):
        recording.labels = np.full(where.shape, NO_LABEL)
        recording.labels[where] = np.searchsorted(names, labels)
    return tuple(map(str, names.tolist()))


def find_known(labels: np.ndarray) -> np.ndarray:
    """Where labels are neither empty nor NaN."""
    if labels.dtype.kind == "f":
        return np.isfinite(labels)
    if labels.dtype.kind in "biu":
        return np.ones(labels.shape, bool)
    cells = [x is not None and x == x and bool(str(x).strip()) for x in labels.flat]
    return np.array(cells, bool).reshape(labels.shape)


def describe_broken(unreadable: dict[str, str]) -> str:
    """Why nothing can be read."""
    if not unreadable:
        return "has no recordings: add some."
    path, why = next(iter(unreadable.items()))
    return (
        f"has no recording that can be used; the first of {len(unreadable)} is "
        f"{show_path(path)} ({why})."
    )


def agree(opened: Recordings) -> None:
    """Refuse recordings of several rates or numbers of channels."""
    facts: dict[str, list[int | None]] = {
        "sampling rate": [r.rate for r in opened.whole],
        "number of channels": [r.channels for r in opened.whole],
    }
    for what, values in facts.items():
        kinds = Counter(values)
        if len(kinds) > 1:
            listed = ", ".join(
                f"{value or 'none'} ({n}, as {opened.whole[values.index(value)].name})"
                for value, n in kinds.most_common(4)
            )
            raise DataError(
                f"The recordings of {opened.name} need one {what}: theirs are "
                f"{listed}. Convert them to one first."
            )


def check_known(opened: Recordings, kind: Sequence) -> None:
    """Refuse recordings of other channels or another rate than the kind has."""
    first = opened.whole[0]
    if first.channels != kind.shape[0]:
        raise DataError(
            f"{opened.name} has {count(first.channels, 'channel')}, and windows of "
            f"{count(kind.shape[0], 'channel')} are needed: use other data."
        )
    try:
        kind.check_rate(first.rate)
    except DataError as cause:
        raise DataError(f"{opened.name} has {cause}.") from None


# ---------------------------------------------------------------- how it is cut


def choose_kind(recordings: list[Recording], request: Request) -> Sequence:
    """How long windows are and how far apart, as asked or as suits the recordings."""
    first, lengths = recordings[0], {r.length for r in recordings}
    if request.window is not None:
        window = request.window
    elif first.rate is not None:
        window = max(round(SECONDS * first.rate / PATCH), 1) * PATCH
    elif len(recordings) > 1 and len(lengths) == 1 and min(lengths) <= LONGEST_WHOLE:
        window = min(lengths)
    else:
        window = WINDOW
    stride = window if request.stride is None else request.stride
    if stride > window:
        raise SettingError(
            f"A stride of {stride} skips values between windows of {window}: use a "
            f"--stride of {window} or less."
        )
    return Sequence(
        (first.channels, window),
        stride=stride,
        rate=first.rate,
        channel_names=first.channel_names,
        time_column=request.time_column,
    )


def cut_windows(begin: int, end: int, window: int, stride: int) -> list[int]:
    """Where windows begin; the last one ends where the values do.

    >>> cut_windows(0, 10, 4, 3), cut_windows(0, 11, 4, 3), cut_windows(0, 3, 4, 3)
    ([0, 3, 6], [0, 3, 6, 7], [])
    """
    last = end - window
    starts = list(range(begin, last + 1, stride))
    return [*starts, last] if starts and starts[-1] < last else starts


def choose_windows(
    opened: Recordings, kind: Sequence, request: Request
) -> tuple[list[tuple[int, int]], int, int]:
    """Recording and start of each window of a part, how many are held out, and how many
    of the part are left out because they have no label.
    """
    window, stride = kind.shape[1], kind.stride
    spans = {k: (0, r.length) for k, r in enumerate(opened.whole) if r.length >= window}
    short = [r for r in opened.whole if r.length < window]
    opened.unreadable |= {
        r.name: f"{r.length} values, shorter than the window of {window}" for r in short
    }
    if not spans:
        longest = max(r.length for r in opened.whole)
        raise DataError(
            f"Every recording of {opened.name} is shorter than the window of {window} "
            f"values: the longest has {longest}. Use --window {longest} or less."
        )

    def windows_of(chosen: dict[int, tuple[int, int]]) -> list[tuple[int, int]]:
        return [
            (k, start)
            for k, (begin, end) in chosen.items()
            for start in cut_windows(begin, end, window, stride)
        ]

    if request.split != "all" and opened.parts is not None:
        train, test = ({k: spans[k] for k in p if k in spans} for p in opened.parts)
    elif request.split == "all" or request.hold_out == "nothing":
        train, test = spans, {}
    elif len(spans) > 1:
        # also without labels: how far ahead a network predicts is measured on these
        names, numbers = [opened.whole[k].name for k in spans], list(spans)
        asked = Request("test", hold_out="tenth")
        rows, _ = split_names(names, asked, opened.name, labeled=True)
        apart = {numbers[i] for i in rows}
        train = {k: span for k, span in spans.items() if k not in apart}
        test = {k: span for k, span in spans.items() if k in apart}
    else:
        train, test = split_one(spans, window)
    whole = windows_of(test if request.split == "test" else train)
    chosen, held_out = whole, windows_of(test)
    if opened.class_names and request.labels and request.split != "all":
        chosen, held_out = (
            [(k, i) for k, i in each if opened.whole[k].label_at(i + window - 1) >= 0]
            for each in (whole, held_out)
        )
    if not chosen:
        if request.split == "test":
            raise DataError(
                f"{opened.name} has no test part: its last tenth is shorter than a "
                f"window of {window} values, or nothing is held out. Use a shorter "
                "--window or more recordings."
            )
        raise DataError(f"{opened.name} has no window in its {request.split} part.")
    return chosen, len(held_out), len(whole) - len(chosen)


def split_one(
    spans: dict[int, tuple[int, int]], window: int
) -> tuple[dict[int, tuple[int, int]], dict[int, tuple[int, int]]]:
    """The last tenth of the only recording, and what lies a window before it.

    Where a tenth is shorter than a window, nothing is held out.

    >>> split_one({0: (0, 1000)}, 50)
    ({0: (0, 850)}, {0: (900, 1000)})
    >>> split_one({0: (0, 100)}, 50)
    ({0: (0, 100)}, {})
    """
    ((k, (begin, end)),) = spans.items()
    tail = end - round((end - begin) * HELD_OUT)
    if end - tail < window or tail - window - begin < window:
        return spans, {}
    return {k: (begin, tail - window)}, {k: (tail, end)}


def survey(items: Windows) -> list[Note]:
    """Measure how far channels spread, and say which of them never change.

    Data in which none does are refused.
    """
    values: list[Tensor] = []
    for i in spread(len(items), LOOKED_AT):
        try:
            values.append(items.read(i)[0])
        except (DataError, OSError):
            continue  # counted when all windows are read
    if not values:
        return []
    some = torch.cat(values, 1)
    items.kind.spread = tuple(some.double().std(1).tolist())
    constant = (some.amin(1) == some.amax(1)).nonzero().flatten().tolist()
    if not constant:
        return []
    names = items.kind.channel_names
    listed = ", ".join(names[k] if names else str(k) for k in constant)
    if len(constant) == len(some):
        raise DataError(
            f"No channel of these recordings ever changes ({listed}): there is nothing "
            "to learn from them."
        )
    listed = f"channel {listed}" if len(constant) == 1 else f"channels {listed}"
    return [
        Note("size", f"Nothing ever changes in {listed}: it tells no windows apart.")
    ]
