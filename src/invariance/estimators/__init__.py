"""Mutual information between any two variables, and what each number may claim.

>>> import torch
>>> from invariance.data import correlated_gaussian
>>> from invariance.estimators import estimate_mi
>>> dice = torch.Generator().manual_seed(0)
>>> x, y = correlated_gaussian(3, nats=1.0).sample(3000, generator=dice)
>>> e = estimate_mi(x, y, estimator="gaussian")
>>> abs(e.nats - 1.0) < 0.1, e.lower_bound
(True, False)

``ESTIMATORS`` has them all by name. The bounds themselves are pure functions of a
critic matrix, whose diagonal holds partners and whose other entries strangers.
"""

from ._barber_agakov import barber_agakov
from ._bounds import BOUNDS, Bound
from ._catalogue import ESTIMATORS, Estimator
from ._classical_gaussian import canonical_correlations, gaussian_information
from ._donsker_varadhan import donsker_varadhan, mine_loss
from ._estimate import Checkpoint, Estimate
from ._estimate_mi import estimate_mi
from ._flat_nce import fdv_loss, flat_nce_loss
from ._flo import flo
from ._histogram import plug_in
from ._info_nce import info_nce
from ._interpolated import interpolated
from ._jensen_shannon import binary_nce, jensen_shannon
from ._ksg import ksg
from ._normal_scores import NormalScores, fit_normal_scores
from ._options import Training
from ._smile import smile
from ._tuba import nwj, nwj_of_log_ratio, tuba
from ._unnormalised import leave_one_out, unnormalised_ba
from ._vince import acceptance_log_ratio, hard_negatives, vince

__all__ = [
    "BOUNDS",
    "ESTIMATORS",
    "Bound",
    "Checkpoint",
    "Estimate",
    "Estimator",
    "NormalScores",
    "Training",
    "acceptance_log_ratio",
    "barber_agakov",
    "binary_nce",
    "canonical_correlations",
    "donsker_varadhan",
    "estimate_mi",
    "fdv_loss",
    "fit_normal_scores",
    "flat_nce_loss",
    "flo",
    "gaussian_information",
    "hard_negatives",
    "info_nce",
    "interpolated",
    "jensen_shannon",
    "ksg",
    "leave_one_out",
    "mine_loss",
    "nwj",
    "nwj_of_log_ratio",
    "plug_in",
    "smile",
    "tuba",
    "unnormalised_ba",
    "vince",
]
