"""The objectives: each a pure function, and a class that holds its settings.

``OBJECTIVES`` names them all. The help of each explains its settings, also those that
it shares with others: ``temperature``, ``normalize``, ``gather`` and ``reduction``. A
temperature is a number; a 0-d tensor, which gets a gradient; or, in a class, "learned"
or a ``LearnedTemperature``.

>>> import torch
>>> import invariance as inv
>>> u, v = torch.randn(2, 64, 128)
>>> objective = inv.InfoNCE(temperature="learned")
>>> objective
InfoNCE(temperature=LearnedTemperature(0.1, minimum=0.025), symmetric=True, normalize=True)
>>> objective(u, v).backward()
>>> objective.temperature.log_scale.grad is not None
True
>>> inv.dcl(u, v, reduction="none").shape
torch.Size([64])

A class also says what it ``takes`` (a pair of views, all views, labels, targets), its
``chance`` value, its loss in named parts (``terms``), what is worth logging
(``readings``), and puts anchors ``against`` a source of negatives.
"""  # noqa: E501

from ._align_uniform import AlignUniform, align_uniform
from ._barlow_twins import BarlowTwins, barlow_twins
from ._binary_nce import BinaryNCE, binary_nce
from ._byol import BYOL, byol
from ._contrast import ALONE, Contrast
from ._dcl import DCL, dcl
from ._debiased import Debiased, debiased
from ._declared_settings import settings_of
from ._dhel import DHEL, dhel
from ._dv import DV, dv
from ._flat_nce import FlatNCE, flat_nce
from ._flo import FLO, flo
from ._info_nce import InfoNCE, info_nce
from ._jsd import JSD, jsd
from ._kcl import KCL, kcl
from ._learned_temperature import LearnedTemperature
from ._multi_view import MultiView, multi_view
from ._nt_xent import NTXent, nt_xent
from ._objective import Objective, Terms
from ._sig_lip import SigLIP, sig_lip
from ._sim_siam import SimSiam, sim_siam
from ._sup_con import SupCon, sup_con
from ._swav import SwAV, sinkhorn, swav
from ._unified import Unified, find_problem, unified
from ._vicreg import VICReg, vicreg

OBJECTIVES: dict[str, type[Objective]] = {
    "info_nce": InfoNCE,
    "nt_xent": NTXent,
    "dcl": DCL,
    "dhel": DHEL,
    "flat_nce": FlatNCE,
    "kcl": KCL,
    "debiased": Debiased,
    "multi_view": MultiView,
    "sup_con": SupCon,
    "sig_lip": SigLIP,
    "binary_nce": BinaryNCE,
    "jsd": JSD,
    "dv": DV,
    "flo": FLO,
    "unified": Unified,
    "align_uniform": AlignUniform,
    "byol": BYOL,
    "sim_siam": SimSiam,
    "barlow_twins": BarlowTwins,
    "vicreg": VICReg,
    "swav": SwAV,
}

__all__ = [
    "ALONE",
    "BYOL",
    "DCL",
    "DHEL",
    "DV",
    "FLO",
    "JSD",
    "KCL",
    "OBJECTIVES",
    "AlignUniform",
    "BarlowTwins",
    "BinaryNCE",
    "Contrast",
    "Debiased",
    "FlatNCE",
    "InfoNCE",
    "LearnedTemperature",
    "MultiView",
    "NTXent",
    "Objective",
    "SigLIP",
    "SimSiam",
    "SupCon",
    "SwAV",
    "Terms",
    "Unified",
    "VICReg",
    "align_uniform",
    "barlow_twins",
    "binary_nce",
    "byol",
    "dcl",
    "debiased",
    "dhel",
    "dv",
    "find_problem",
    "flat_nce",
    "flo",
    "info_nce",
    "jsd",
    "kcl",
    "multi_view",
    "nt_xent",
    "settings_of",
    "sig_lip",
    "sim_siam",
    "sinkhorn",
    "sup_con",
    "swav",
    "unified",
    "vicreg",
]
