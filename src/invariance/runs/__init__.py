"""A finished run, put to work: evaluate, diagnose, embed, search, export."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._diagnose import diagnose, keep_readings
    from ._diagnosis_table import render_diagnosis
    from ._embed import EmbeddingFile, embed, write_embeddings
    from ._embeddings import Embeddings, read_embeddings
    from ._evaluate import evaluate
    from ._export import ExportedFile, export
    from ._open import OpenRun, open_run, untrained_encoder
    from ._search import Hit, Hits, SearchResult, search

_HOME = {
    "EmbeddingFile": "_embed",
    "Embeddings": "_embeddings",
    "ExportedFile": "_export",
    "Hit": "_search",
    "Hits": "_search",
    "OpenRun": "_open",
    "SearchResult": "_search",
    "diagnose": "_diagnose",
    "embed": "_embed",
    "evaluate": "_evaluate",
    "export": "_export",
    "keep_readings": "_diagnose",
    "open_run": "_open",
    "read_embeddings": "_embeddings",
    "render_diagnosis": "_diagnosis_table",
    "search": "_search",
    "untrained_encoder": "_open",
    "write_embeddings": "_embed",
}

__all__ = [
    "EmbeddingFile",
    "Embeddings",
    "ExportedFile",
    "Hit",
    "Hits",
    "OpenRun",
    "SearchResult",
    "diagnose",
    "embed",
    "evaluate",
    "export",
    "keep_readings",
    "open_run",
    "read_embeddings",
    "render_diagnosis",
    "search",
    "untrained_encoder",
    "write_embeddings",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
