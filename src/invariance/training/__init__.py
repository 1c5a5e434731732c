"""Training: settings, the loop, optimisers, checkpoints, the run folder.

The settings load without torch; the rest when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ._settings import Ess, Machine, Optim, Train

if TYPE_CHECKING:
    from ._encoder_file import load
    from ._ess_controller import EssController
    from ._loop import Stopped
    from ._optimizers import LARS
    from ._train import Run, train

_HOME = {
    "EssController": "_ess_controller",
    "LARS": "_optimizers",
    "Run": "_train",
    "Stopped": "_loop",
    "load": "_encoder_file",
    "train": "_train",
}

__all__ = [
    "LARS",
    "Ess",
    "EssController",
    "Machine",
    "Optim",
    "Run",
    "Stopped",
    "Train",
    "load",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
