"""Training: settings, the loop, optimisers, checkpoints, the run folder.

The settings load without torch; the rest when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ._settings import Ess, Machine, Optim, Train

if TYPE_CHECKING:
    from ._checkpoint import write_whole
    from ._encoder_file import ENCODER_FILE, load, stem_of, write_encoder
    from ._ess_controller import EssController
    from ._loop import Stopped
    from ._optimizers import LARS
    from ._train import Run, train

_HOME = {
    "ENCODER_FILE": "_encoder_file",
    "EssController": "_ess_controller",
    "LARS": "_optimizers",
    "Run": "_train",
    "Stopped": "_loop",
    "load": "_encoder_file",
    "stem_of": "_encoder_file",
    "train": "_train",
    "write_encoder": "_encoder_file",
    "write_whole": "_checkpoint",
}

__all__ = [
    "ENCODER_FILE",
    "LARS",
    "Ess",
    "EssController",
    "Machine",
    "Optim",
    "Run",
    "Stopped",
    "Train",
    "load",
    "stem_of",
    "train",
    "write_encoder",
    "write_whole",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
