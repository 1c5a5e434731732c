"""Training: settings, the loop, optimizers, checkpoints.

The settings load without torch; the rest when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ._settings import (
    BATCH,
    Ess,
    Machine,
    Optim,
    Train,
    check_numbers,
    complete_settings,
    require_unfinished,
    usual_settings,
)

if TYPE_CHECKING:
    from ._checkpoint import load, newest_checkpoint
    from ._dry_run import DryRun
    from ._ess_controller import EssController
    from ._loop import Stopped
    from ._optimizers import LARS, build_optimizer
    from ._readings import temperature_of
    from ._run_plan import Plan, make_plan, make_views, start_weights_from
    from ._schedule import peak_rate, rate_at
    from ._trackers import TRACKERS
    from ._train import Run, train

_HOME = {
    "DryRun": "_dry_run",
    "EssController": "_ess_controller",
    "LARS": "_optimizers",
    "Plan": "_run_plan",
    "Run": "_train",
    "Stopped": "_loop",
    "TRACKERS": "_trackers",
    "build_optimizer": "_optimizers",
    "load": "_checkpoint",
    "make_plan": "_run_plan",
    "make_views": "_run_plan",
    "newest_checkpoint": "_checkpoint",
    "peak_rate": "_schedule",
    "rate_at": "_schedule",
    "start_weights_from": "_run_plan",
    "temperature_of": "_readings",
    "train": "_train",
}

__all__ = [
    "BATCH",
    "LARS",
    "TRACKERS",
    "DryRun",
    "Ess",
    "EssController",
    "Machine",
    "Optim",
    "Plan",
    "Run",
    "Stopped",
    "Train",
    "build_optimizer",
    "check_numbers",
    "complete_settings",
    "load",
    "make_plan",
    "make_views",
    "newest_checkpoint",
    "peak_rate",
    "rate_at",
    "require_unfinished",
    "start_weights_from",
    "temperature_of",
    "train",
    "usual_settings",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
