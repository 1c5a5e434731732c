"""A finished run, put to work: evaluate, diagnose, embed, search, export."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._diagnose import diagnose
    from ._embed import EmbeddingFile, embed, write_embeddings
    from ._embeddings import Embeddings, read_embeddings
    from ._evaluate import Evaluation, evaluate
    from ._export import ExportedFile, export
    from ._overview import Overview, overviews
    from ._search import Hit, Hits, SearchResult, search

_HOME = {
    "EmbeddingFile": "_embed",
    "Embeddings": "_embeddings",
    "Evaluation": "_evaluate",
    "ExportedFile": "_export",
    "Hit": "_search",
    "Hits": "_search",
    "Overview": "_overview",
    "SearchResult": "_search",
    "diagnose": "_diagnose",
    "embed": "_embed",
    "evaluate": "_evaluate",
    "export": "_export",
    "overviews": "_overview",
    "read_embeddings": "_embeddings",
    "search": "_search",
    "write_embeddings": "_embed",
}

__all__ = [
    "EmbeddingFile",
    "Embeddings",
    "Evaluation",
    "ExportedFile",
    "Hit",
    "Hits",
    "Overview",
    "SearchResult",
    "diagnose",
    "embed",
    "evaluate",
    "export",
    "overviews",
    "read_embeddings",
    "search",
    "write_embeddings",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
