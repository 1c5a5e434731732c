"""What a search looks for: samples of the encoder's kind, or sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Float
from PIL import Image
from torch import Tensor

from ..data import Kind, explain_unreadable
from ..encoders import Encoder, load_towers
from ..errors import DataError, SettingError
from ..evaluation import encode_batch
from ._contact_sheet import write_tile


@dataclass(frozen=True, eq=False)
class Asked:
    """What to look for.

    Attributes:
        names: what each query is called.
        rows: where it lies.
        pictures: each as an image, for a contact sheet.
        compare: from the features of a gallery to rows that lie beside those.
        notes: sentences on what a reader should know.
    """

    names: list[str]
    rows: Float[Tensor, "q d"]
    pictures: list[Image.Image]
    compare: Callable[[Tensor], Tensor] = lambda features: features
    notes: tuple[str, ...] = ()


def ask_by_sample(encoder: Encoder, query: Any, device: Any) -> Asked:
    """Samples as queries, by the same encoder as the gallery."""
    kind = encoder.kind
    if kind is None:
        raise SettingError(
            f"{encoder.name} does not say what kind of samples it takes."
        )
    queries = [kind.open(one) for one in list_queries(query)]
    if not queries:
        text = ", or a sentence (--text)" if kind.name == "image" else ""
        raise SettingError(f"Name at least one query {kind.word} (--query){text}.")
    samples = [read_query(kind, *query) for query in queries]
    rows = encode_batch(encoder, kind.collate(samples), kind=kind, device=device)
    pictures = [
        raw if isinstance(raw, Image.Image) else draw_sample(kind, sample)
        for (_, raw), sample in zip(queries, samples, strict=True)
    ]
    unread = [(name, kind.explain_unread(raw)) for name, raw in queries]
    notes = tuple(f"{text}, in the query {name!r}." for name, text in unread if text)
    return Asked([name for name, _ in queries], rows, pictures, notes=notes)


def read_query(kind: Kind, name: str, raw: Any) -> Tensor:
    """A query's tensor, or a sentence that says why there is none."""
    try:
        return kind.read(raw)
    except Exception as cause:
        raise DataError(
            f"The query {name!r} cannot be read as a {kind.word} "
            f"({explain_unreadable(cause)})."
        ) from None


def draw_sample(kind: Kind, sample: Tensor) -> Image.Image:
    """One sample for a contact sheet; a text is written on a tile."""
    shown = kind.show(sample)
    return write_tile(shown) if isinstance(shown, str) else shown


def list_queries(query: Any) -> list[Any]:
    """One query, several or none as a list."""
    several = list(query) if isinstance(query, list | tuple) else [query]
    return [one for one in several if one is not None]


def ask_in_words(run: Any, text: str | Sequence[str], device: Any) -> Asked:
    """Sentences as queries, in the space where they meet the images."""
    sentences = list_queries(text)
    folder = Path(getattr(run, "folder", run)) if not isinstance(run, Encoder) else None
    towers = None if folder is None else load_towers(folder.expanduser())
    if towers is None:
        raise SettingError(
            "Searching by a sentence needs the folder of a finished run on images "
            "and captions, such as one of --method clip: this one has no text tower."
        )
    try:
        rows = towers.to(device).encode_other(sentences)
    except DataError as cause:
        raise SettingError(f"A query cannot be read: {cause}.") from None
    pictures = [write_tile(sentence) for sentence in sentences]
    return Asked(sentences, rows, pictures, towers.project)
