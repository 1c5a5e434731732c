"""Training: settings, the loop, optimizers, checkpoints.

The settings load without torch; the rest when it is first used.
"""

from typing import TYPE_CHECKING

from ..late_imports import import_late
from ._settings import (
    BATCH,
    STRATEGIES,
    VIEWS,
    Attack,
    Ess,
    Federated,
    Machine,
    Optim,
    Stopping,
    Train,
    check_names,
    check_numbers,
    complete_settings,
    require_unfinished,
    usual_settings,
)

if TYPE_CHECKING:
    from ._checkpoint import find_kept, newest_checkpoint, read_kept
    from ._dry_run import DryRun
    from ._ess_controller import EssController
    from ._fabric import make_fabric
    from ._gallery_writer import show_views
    from ._loop import Stopped
    from ._make_plan import make_plan
    from ._optimizers import LARS, build_optimizer
    from ._readings import temperature_of
    from ._rehearsal import rehearse
    from ._run import Run
    from ._run_encoder import start_weights_from
    from ._run_plan import Plan
    from ._run_views import make_views
    from ._schedule import peak_rate, rate_at
    from ._share import SharedRun, push_to_hub
    from ._start_processes import launch, settle_machine
    from ._stopping import Stop
    from ._trackers import TRACKERS
    from ._train import train
    from ._trained_encoder import from_pretrained, load, load_trained

__all__ = [
    "BATCH",
    "LARS",
    "STRATEGIES",
    "TRACKERS",
    "VIEWS",
    "Attack",
    "DryRun",
    "Ess",
    "EssController",
    "Federated",
    "Machine",
    "Optim",
    "Plan",
    "Run",
    "SharedRun",
    "Stop",
    "Stopped",
    "Stopping",
    "Train",
    "build_optimizer",
    "check_names",
    "check_numbers",
    "complete_settings",
    "find_kept",
    "from_pretrained",
    "launch",
    "load",
    "load_trained",
    "make_fabric",
    "make_plan",
    "make_views",
    "newest_checkpoint",
    "peak_rate",
    "push_to_hub",
    "rate_at",
    "read_kept",
    "rehearse",
    "require_unfinished",
    "settle_machine",
    "show_views",
    "start_weights_from",
    "temperature_of",
    "train",
    "usual_settings",
]

HOMES = {
    "_checkpoint": "find_kept newest_checkpoint read_kept",
    "_dry_run": "DryRun",
    "_ess_controller": "EssController",
    "_fabric": "make_fabric",
    "_gallery_writer": "show_views",
    "_start_processes": "launch settle_machine",
    "_loop": "Stopped",
    "_optimizers": "LARS build_optimizer",
    "_readings": "temperature_of",
    "_rehearsal": "rehearse",
    "_run": "Run",
    "_run_encoder": "start_weights_from",
    "_make_plan": "make_plan",
    "_run_plan": "Plan",
    "_run_views": "make_views",
    "_schedule": "peak_rate rate_at",
    "_share": "SharedRun push_to_hub",
    "_stopping": "Stop",
    "_trackers": "TRACKERS",
    "_train": "train",
    "_trained_encoder": "from_pretrained load load_trained",
}
__getattr__, __dir__ = import_late(__name__, HOMES)
