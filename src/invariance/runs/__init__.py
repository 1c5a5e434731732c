"""A finished run, put to work: evaluate, diagnose, embed, search, export."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._diagnose import diagnose, keep_readings
    from ._diagnosis_table import render_diagnosis
    from ._embed import Written, embed, write_embeddings
    from ._embedding_files import read_embeddings
    from ._embeddings import Embeddings
    from ._evaluate import evaluate
    from ._export import Exported, export
    from ._search import Found, Hit, Hits, search

_HOME = {
    "Embeddings": "_embeddings",
    "Exported": "_export",
    "Found": "_search",
    "Hit": "_search",
    "Hits": "_search",
    "Written": "_embed",
    "diagnose": "_diagnose",
    "embed": "_embed",
    "evaluate": "_evaluate",
    "export": "_export",
    "keep_readings": "_diagnose",
    "read_embeddings": "_embedding_files",
    "render_diagnosis": "_diagnosis_table",
    "search": "_search",
    "write_embeddings": "_embed",
}

__all__ = [
    "Embeddings",
    "Exported",
    "Found",
    "Hit",
    "Hits",
    "Written",
    "diagnose",
    "embed",
    "evaluate",
    "export",
    "keep_readings",
    "read_embeddings",
    "render_diagnosis",
    "search",
    "write_embeddings",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
