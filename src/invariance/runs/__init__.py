"""A finished run, put to work: evaluate, diagnose, embed, search, export."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._diagnose import diagnose
    from ._embed import Written, embed, write_embeddings
    from ._embedding_files import read_embeddings
    from ._embeddings import Embeddings
    from ._evaluate import Evaluation, evaluate
    from ._export import Exported, export
    from ._overview import Overview, overviews
    from ._search import Found, Hit, Hits, search

_HOME = {
    "Embeddings": "_embeddings",
    "Evaluation": "_evaluate",
    "Exported": "_export",
    "Found": "_search",
    "Hit": "_search",
    "Hits": "_search",
    "Overview": "_overview",
    "Written": "_embed",
    "diagnose": "_diagnose",
    "embed": "_embed",
    "evaluate": "_evaluate",
    "export": "_export",
    "overviews": "_overview",
    "read_embeddings": "_embedding_files",
    "search": "_search",
    "write_embeddings": "_embed",
}

__all__ = [
    "Embeddings",
    "Evaluation",
    "Exported",
    "Found",
    "Hit",
    "Hits",
    "Overview",
    "Written",
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
