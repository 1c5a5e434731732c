"""invariance: contrastive representation learning that fits small machines.

>>> import torch
>>> import invariance as inv
>>> u = torch.randn(64, 128, requires_grad=True)
>>> v = torch.randn(64, 128)
>>> inv.dcl(u, v).backward()

Whole parts are public too: ``inv.views``, ``inv.data``, ``inv.encoders``,
``inv.methods``, ``inv.evaluation`` and others. Importing this package imports no torch;
the first use of a name does.
"""

import difflib
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import (  # noqa: F401
        data,
        diagnostics,
        encoders,
        estimators,
        evaluation,
        methods,
        objectives,
        report,
        views,
    )
    from .diagnostics import *  # noqa: F403
    from .encoders import GradCache  # noqa: F401
    from .errors import InvarianceError  # noqa: F401
    from .estimators import ESTIMATORS, Estimate, estimate_mi  # noqa: F401
    from .methods import *  # noqa: F403
    from .negatives import *  # noqa: F403
    from .objectives import *  # noqa: F403
    from .partition import *  # noqa: F403
    from .report import plot  # noqa: F401
    from .runs import *  # noqa: F403
    from .training import (  # noqa: F401
        Run,
        Stop,
        Stopped,
        Train,
        from_pretrained,
        load,
        push_to_hub,
        show_views,
        train,
    )
    from .views import ViewSet  # noqa: F401

__version__ = "0.1.0"

# Where each public name lives.
_HOMES = {
    "errors": "InvarianceError",
    "partition": "explain gather gather_rows log_partition share_rows",
    "objectives": (
        "OBJECTIVES AlignUniform BYOL BarlowTwins BinaryNCE DCL DHEL DV Debiased "
        "FLO FlatNCE InfoNCE JSD KCL LearnedTemperature MultiView NTXent SigLIP "
        "SimSiam SupCon SwAV Terms Unified VICReg align_uniform barlow_twins "
        "binary_nce byol dcl debiased dhel dv flat_nce flo info_nce jsd kcl "
        "multi_view nt_xent sig_lip sim_siam sup_con swav unified vicreg"
    ),
    "negatives": (
        "Accepted Annulus Ball Bank ControlVariate NEGATIVES Neighbors Neighbours "
        "Prototypes Queue Stratified accept_learned"
    ),
    "encoders": "GradCache",
    "methods": "METHODS Learner Method Step build",
    "training": (
        "Attack DryRun Ess Federated Machine Optim Run SharedRun Stop Stopped "
        "Stopping Train from_pretrained load push_to_hub show_views train"
    ),
    "folder": "Finding list_kept",
    "evaluation": "Evaluation Score",
    "runs": (
        "EmbeddingFile Embeddings ExportedFile Hit Hits SearchResult diagnose "
        "diagnose_kept embed evaluate export merge_embeddings propose_batch_size "
        "read_embeddings search write_embeddings"
    ),
    "report": "plot",
    "views": "ViewSet",
    "estimators": "ESTIMATORS Estimate estimate_mi",
    "diagnostics": (
        "BatchProposal Diagnosis InfoNCEParts InformationBound Reading alignment "
        "effective_rank effective_sample_size energy_distance_to_uniform "
        "mmd_to_uniform mutual_information_bound split_info_nce tolerance uniformity "
        "wasserstein_to_uniform"
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

# Parts of the package that are public as a whole, such as inv.views.simclr.
_DOORS = (
    *("data", "diagnostics", "encoders", "estimators", "evaluation", "methods"),
    *("objectives", "report", "views"),
)

__all__ = ["__version__", *_DOORS, *_HOME]


def __getattr__(name: str) -> Any:
    if name in _DOORS:
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOME:
        near = difflib.get_close_matches(name, __all__, n=1)
        hint = f". Did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"module 'invariance' has no attribute {name!r}{hint}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
