"""Training: settings, the loop, optimizers, checkpoints.

The settings load without torch; the rest when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ._settings import Ess, Machine, Optim, Train, complete_settings

if TYPE_CHECKING:
    from ._checkpoint import keep_random_states, newest_checkpoint
    from ._dry_run import DryRun
    from ._encoder_file import load, read_encoder, stem_of, write_encoder
    from ._ess_controller import EssController
    from ._loop import Stopped
    from ._optimizers import LARS, build_optimizer
    from ._readings import temperature_of
    from ._run_plan import Plan, make_plan, make_views, seed_all, start_weights_from
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
    "keep_random_states": "_checkpoint",
    "load": "_encoder_file",
    "make_plan": "_run_plan",
    "make_views": "_run_plan",
    "newest_checkpoint": "_checkpoint",
    "peak_rate": "_schedule",
    "rate_at": "_schedule",
    "read_encoder": "_encoder_file",
    "seed_all": "_run_plan",
    "start_weights_from": "_run_plan",
    "stem_of": "_encoder_file",
    "temperature_of": "_readings",
    "train": "_train",
    "write_encoder": "_encoder_file",
}

__all__ = [
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
    "complete_settings",
    "keep_random_states",
    "load",
    "make_plan",
    "make_views",
    "newest_checkpoint",
    "peak_rate",
    "rate_at",
    "read_encoder",
    "seed_all",
    "start_weights_from",
    "stem_of",
    "temperature_of",
    "train",
    "write_encoder",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
