"""A finished run, put to work: evaluate, diagnose, embed, search, export."""

from typing import TYPE_CHECKING

from ..late_imports import import_late

if TYPE_CHECKING:
    from ._diagnose import diagnose, keep_readings
    from ._diagnose_kept import diagnose_kept, render_kept
    from ._diagnosis_table import render_diagnosis
    from ._embed import embed, write_embeddings
    from ._embed_parts import merge_embeddings
    from ._embed_request import check_request
    from ._embedding_files import EmbeddingFile
    from ._embeddings import Embeddings, read_embeddings
    from ._evaluate import evaluate
    from ._export import ExportedFile, export
    from ._open import OpenRun, open_run, untrained_encoder
    from ._propose_batch import propose_batch_size
    from ._search import Hit, Hits, SearchResult, search

__all__ = [
    "EmbeddingFile",
    "Embeddings",
    "ExportedFile",
    "Hit",
    "Hits",
    "OpenRun",
    "SearchResult",
    "check_request",
    "diagnose",
    "diagnose_kept",
    "embed",
    "evaluate",
    "export",
    "keep_readings",
    "merge_embeddings",
    "open_run",
    "propose_batch_size",
    "read_embeddings",
    "render_diagnosis",
    "render_kept",
    "search",
    "untrained_encoder",
    "write_embeddings",
]

HOMES = {
    "_diagnose": "diagnose keep_readings",
    "_diagnose_kept": "diagnose_kept render_kept",
    "_diagnosis_table": "render_diagnosis",
    "_embed": "embed write_embeddings",
    "_embed_parts": "merge_embeddings",
    "_embedding_files": "EmbeddingFile",
    "_embeddings": "Embeddings read_embeddings",
    "_evaluate": "evaluate",
    "_export": "ExportedFile export",
    "_open": "OpenRun open_run untrained_encoder",
    "_embed_request": "check_request",
    "_propose_batch": "propose_batch_size",
    "_search": "Hit Hits SearchResult search",
}
__getattr__, __dir__ = import_late(__name__, HOMES)
