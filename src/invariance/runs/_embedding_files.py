"""Files of embeddings: Parquet and CSV through pyarrow, npz through numpy.

| ending   | holds                                                                    |
|----------|--------------------------------------------------------------------------|
| .parquet | columns name, label, class, features (a list of float32)                 |
| .csv     | columns name, label, class, f0, f1, ...; every float32 comes back exactly |
| .npz     | arrays features, names, labels, class_names, for ``numpy.load``          |

Label and class are there only where there are labels. Files are written and read in
blocks of rows, so they may be larger than the memory. Parquet and npz files also hold
an ``About``; a CSV file cannot say which encoder made it. The same rows give the same
file to the bit, whatever blocks they come in.
"""

import json
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
from jaxtyping import Float32, Int

from ..data import has_columns
from ..errors import DataError, SettingError
from ..folder import require_place

BLOCK = 8192  # rows read at once
CSV_BLOCK = 2 << 20  # bytes read at once; a line has to fit
KEY = b"invariance"  # of the metadata of a Parquet file
NO_LABEL = -1
npy: Any = np.lib.format


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows, on their way into a file or out of it; label -1 means none."""

    names: list[str]
    labels: Int[np.ndarray, " b"]
    features: Float32[np.ndarray, "b e"]


@dataclass(frozen=True)
class EmbeddingFile:
    """A finished file of embeddings.

    Attributes:
        path: of the file.
        n: how many rows it has.
        width: features per row.
        seconds: how long it took.
        n_new: images encoded this time; the others were done before.
        unreadable: images that have no row, with the reason.
        kind: the kind of sample; None if it is unknown.
    """

    path: Path
    n: int
    width: int
    seconds: float
    n_new: int
    unreadable: dict[str, str] = field(default_factory=dict)
    kind: Any = None


@dataclass(frozen=True)
class Part:
    """Which part of a whole a file holds: the images from ``start`` up to ``stop``."""

    number: int  # of the shard, from 1
    of: int
    start: int
    stop: int
    n_images: int  # of the whole
    n_known_bad: int  # found unreadable before any was encoded, so they have no number
    batch_size: int
    source: str  # a mark of the data, the same wherever they lie
    max_bad_fraction: float


@dataclass(frozen=True)
class About:
    """What a file of embeddings says about itself."""

    n: int
    width: int
    labelled: bool = False  # spelled as in the files that exist
    class_names: tuple[str, ...] = ()
    encoder: str = ""
    encoder_name: str = ""
    data: str | None = None
    split: str = "all"
    limit: int | None = None
    unreadable: dict[str, str] = field(default_factory=dict)
    part: Part | None = None  # the file of a shard

    def to_json(self) -> str:
        """As kept in the file."""
        values = asdict(self)
        if self.part is None:
            del values["part"]
        return json.dumps(values, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "About":
        """From a file; what a later version may have added is ignored."""
        try:
            values = {
                k: v for k, v in json.loads(text).items() if k in cls.__annotations__
            }
            values["class_names"] = tuple(values.get("class_names", ()))
            if "part" in values:
                values["part"] = Part(**values["part"])
            return cls(**values)
        except (ValueError, TypeError, AttributeError) as cause:
            raise DataError(
                f"The file does not say what it holds ({cause}): was it written by "
                "'invariance embed'?"
            ) from None

    def class_name(self, label: int) -> str:
        """The name of a class; its number if it has no name, "" for no label."""
        known = 0 <= label < len(self.class_names)
        return self.class_names[label] if known else str(label) if label >= 0 else ""


Blocks = Callable[[], Iterator[Rows]]  # may be called more than once
Opened = tuple[About, Blocks]
Writer = Callable[[IO[bytes], About, Blocks], None]


def even_out(blocks: Blocks) -> Iterator[Rows]:
    """The same rows in blocks of one size, the last perhaps smaller."""
    names: list[str] = []
    labels: list[np.ndarray] = []
    features: list[np.ndarray] = []

    def take(n: int) -> Rows:
        joined, wide = np.concatenate(labels), np.concatenate(features)
        rows = Rows(names[:n], joined[:n], wide[:n])
        names[:], labels[:], features[:] = names[n:], [joined[n:]], [wide[n:]]
        return rows

    for rows in blocks():
        names += rows.names
        labels.append(rows.labels)
        features.append(rows.features)
        while len(names) >= BLOCK:
            yield take(BLOCK)
    if names:
        yield take(BLOCK)


def damaged(path: Path, cause: Exception) -> DataError:
    """A file that began well."""
    why = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
    return DataError(
        f"{str(path)!r} is damaged or was not copied whole ({why}): copy it again, or "
        "embed the images again."
    )


# ---------------------------------------------------------------- Parquet


def write_parquet(file: IO[bytes], about: About, blocks: Blocks) -> None:
    """A row group per block."""
    how: Any = {"write_page_checksum": True}  # so that damage is noticed
    column = ("features", pyarrow.list_(pyarrow.float32(), about.width))
    metadata = {KEY: about.to_json().encode()}
    schema = make_schema(about, [column]).with_metadata(metadata)
    with pyarrow.parquet.ParquetWriter(file, schema, **how) as writer:
        for rows in even_out(blocks):
            flat = pyarrow.array(np.ascontiguousarray(rows.features).reshape(-1))
            features = pyarrow.FixedSizeListArray.from_arrays(flat, about.width)
            writer.write_batch(make_batch(about, rows, [features], schema))


def read_parquet(path: Path) -> Opened:
    """What the file says about itself, and its rows."""
    try:
        metadata = pyarrow.parquet.read_schema(path).metadata or {}
    except (OSError, pyarrow.ArrowInvalid) as cause:
        why = str(cause).splitlines()[0]
        raise DataError(f"{str(path)!r} cannot be read as Parquet: {why}") from None
    about = About.from_json(metadata.get(KEY, b"").decode("utf-8", "replace"))

    def blocks() -> Iterator[Rows]:
        try:
            with pyarrow.parquet.ParquetFile(
                path, page_checksum_verification=True
            ) as file:
                for group in range(file.num_row_groups):  # else it would read ahead
                    for batch in file.iter_batches(BLOCK, row_groups=[group]):
                        flat = batch.column("features").flatten().to_numpy()
                        yield Rows(
                            batch.column("name").to_pylist(),
                            read_labels(batch, about.labelled),
                            flat.reshape(len(batch), about.width),
                        )
        except (OSError, pyarrow.ArrowException) as cause:
            raise damaged(path, cause) from None

    return about, blocks


# ---------------------------------------------------------------- CSV


def write_csv(file: IO[bytes], about: About, blocks: Blocks) -> None:
    """A line per row."""
    columns = [(f"f{k}", pyarrow.float32()) for k in range(about.width)]
    schema = make_schema(about, columns)
    with pyarrow.csv.CSVWriter(file, schema) as writer:
        for rows in blocks():
            features = [pyarrow.array(column) for column in rows.features.T]
            writer.write_batch(make_batch(about, rows, features, schema))


def read_csv(path: Path) -> Opened:
    """What the columns show, which takes one pass over the file, and its rows."""
    wrong = DataError(
        f"{str(path)!r} is not a file of embeddings: expected the columns name, f0, "
        "f1, ... that 'invariance embed' writes."
    )
    types = {"name": pyarrow.string(), "class": pyarrow.string()}
    types["label"] = pyarrow.int64()

    def open_csv(columns: list[str]) -> Any:
        return pyarrow.csv.open_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(block_size=CSV_BLOCK),
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types,
                include_columns=columns,
                null_values=[""],  # and not "nan", which is a number here
                strings_can_be_null=False,
            ),
        )

    try:
        with open_csv([]) as reader:
            header = reader.schema.names
        has_labels = "label" in header
        first = ["name", "label", "class"] if has_labels else ["name"]
        columns = [f"f{k}" for k in range(len(header) - len(first))]
        if not columns or header != [*first, *columns]:
            raise wrong
        types |= dict.fromkeys(columns, pyarrow.float32())
        n, names = 0, dict[int, str]()
        with open_csv(first) as reader:
            for batch in reader:
                n += len(batch)
                if has_labels:
                    labels = read_labels(batch, has_labels).tolist()
                    names |= dict(zip(labels, batch["class"].to_pylist(), strict=True))
    except (OSError, pyarrow.ArrowException):
        raise wrong from None
    class_names = tuple(names.get(k, str(k)) for k in range(max(names, default=-1) + 1))

    def blocks() -> Iterator[Rows]:
        try:
            with open_csv(header) as reader:
                for batch in reader:
                    features = [batch[name].to_numpy() for name in columns]
                    yield Rows(
                        batch["name"].to_pylist(),
                        read_labels(batch, has_labels),
                        np.stack(features, axis=1),
                    )
        except pyarrow.ArrowException:
            raise wrong from None

    return About(n, len(columns), has_labels, class_names), blocks


def make_schema(about: About, features: list[tuple[str, Any]]) -> Any:
    """The columns of a table."""
    columns = [("name", pyarrow.string())]
    if about.labelled:
        columns += [("label", pyarrow.int64()), ("class", pyarrow.string())]
    return pyarrow.schema([*columns, *features])


def make_batch(about: About, rows: Rows, features: list[Any], schema: Any) -> Any:
    """Some rows of a table; a row without a label has neither label nor class."""
    columns = [pyarrow.array(rows.names, pyarrow.string())]
    if about.labelled:
        classes = [about.class_name(label) or None for label in rows.labels.tolist()]
        labels = pyarrow.array(rows.labels.astype(np.int64), mask=rows.labels < 0)
        columns += [labels, pyarrow.array(classes, pyarrow.string())]
    return pyarrow.record_batch([*columns, *features], schema=schema)


def read_labels(batch: Any, has_labels: bool) -> Int[np.ndarray, " b"]:
    """The labels of some rows of a table."""
    if not has_labels:
        return np.full(len(batch), NO_LABEL)
    return batch.column("label").fill_null(NO_LABEL).to_numpy(zero_copy_only=False)


# ---------------------------------------------------------------- npz


def write_npz(file: IO[bytes], about: About, blocks: Blocks) -> None:
    """One array after another; the blocks are gone through once for each."""
    longest = max((len(name) for rows in blocks() for name in rows.names), default=1)
    text = np.dtype(f"<U{max(longest, 1)}")
    with zipfile.ZipFile(file, "w") as archive:

        def add(name: str, array: np.ndarray) -> None:
            with archive.open(f"{name}.npy", "w") as member:
                npy.write_array(member, array, allow_pickle=False)

        def stream(name: str, shape: tuple[int, ...], kind: Any, parts: Any) -> None:
            header = {"descr": kind.str, "fortran_order": False, "shape": shape}
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array_header_2_0(member, header)
                for part in parts:
                    member.write(np.ascontiguousarray(part, kind).tobytes())

        width = (about.n, about.width)
        stream("features", width, np.dtype("<f4"), (r.features for r in blocks()))
        stream("names", (about.n,), text, (r.names for r in blocks()))
        if about.labelled:
            labels = (r.labels for r in blocks())
            stream("labels", (about.n,), np.dtype("<i8"), labels)
            add("class_names", np.array(about.class_names, np.str_))
        add("about", np.array(about.to_json()))


def read_npz(path: Path) -> Opened:
    """What the file says about itself, and its rows."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            about = About.from_json(str(archive["about"]))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as cause:
        raise DataError(
            f"{str(path)!r} is not a file of embeddings ({cause}): write one with "
            "'invariance embed'."
        ) from None

    def blocks() -> Iterator[Rows]:
        try:
            with zipfile.ZipFile(path) as archive:
                names = read_array(archive, "names")
                labels = read_array(archive, "labels") if about.labelled else None
                for features in read_array(archive, "features"):
                    n = len(features)
                    block = np.full(n, NO_LABEL) if labels is None else next(labels)
                    yield Rows(next(names).tolist(), block, features)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as cause:
            raise damaged(path, cause) from None

    return about, blocks


def read_array(archive: zipfile.ZipFile, name: str) -> Iterator[np.ndarray]:
    """The rows of one array, some at a time."""
    with archive.open(f"{name}.npy") as file:
        read_header = {1: npy.read_array_header_1_0, 2: npy.read_array_header_2_0}
        shape, _, kind = read_header[npy.read_magic(file)[0]](file)
        width = int(np.prod(shape[1:]))
        for k in range(0, shape[0], BLOCK):
            n = min(BLOCK, shape[0] - k)
            raw = file.read(n * width * kind.itemsize)
            yield np.frombuffer(raw, kind).reshape(n, *shape[1:])


# ---------------------------------------------------------------- by their ending


class Format(NamedTuple):
    """How a kind of file is written and read."""

    write: Writer
    read: Callable[[Path], Opened]


FORMATS = {
    ".parquet": Format(write_parquet, read_parquet),
    ".npz": Format(write_npz, read_npz),
    ".csv": Format(write_csv, read_csv),
}


TABLES = {".csv": "name,f0", ".parquet": "name,features"}
"""The columns by which a table is known as one of embeddings."""


def choose_writer(file: str | Path) -> tuple[Path, Writer]:
    """Where a file goes and how it is written; what cannot be a file is refused."""
    path = Path(file).expanduser()
    write = choose_format(path).write
    require_place(path)
    return path, write


def choose_format(path: Path) -> Format:
    """By the ending of the file."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        what = f"the ending {suffix!r}" if suffix else "no ending"
        raise SettingError(
            f"{str(path)!r} has {what}: embeddings are written as {', '.join(FORMATS)}."
        )
    return FORMATS[suffix]


def open_embeddings(path: str | Path) -> Opened:
    """What a file says about itself, and its rows in blocks."""
    path = Path(path).expanduser()
    if not path.is_file():
        raise DataError(f"There is no file of embeddings at {str(path)!r}.")
    return choose_format(path).read(path)


def is_embedding_file(data: object, *, or_table: bool = False) -> bool:
    """Whether this is the path of a file of embeddings rather than of samples.

    ``or_table`` says that a table may also have samples in its rows.
    """
    if not isinstance(data, str | Path):
        return False
    path = Path(data).expanduser()
    suffix = path.suffix.lower()
    if not path.is_file() or suffix not in FORMATS:
        return False
    if suffix in TABLES:
        return not or_table or has_columns(path, TABLES[suffix])
    try:
        with zipfile.ZipFile(path) as archive:
            return {"features.npy", "about.npy"} <= set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False
