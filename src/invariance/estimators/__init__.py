"""Mutual information between any two variables, and what each number may claim.

>>> import torch
>>> from invariance.estimators import correlated_gaussian, estimate_mi
>>> dice = torch.Generator().manual_seed(0)
>>> x, y = correlated_gaussian(3, nats=1.0).sample(3000, generator=dice)
>>> e = estimate_mi(x, y, estimator="gaussian")
>>> abs(e.nats - 1.0) < 0.1, e.lower_bound
(True, False)

``ESTIMATORS`` has them all by name. The bounds themselves are pure functions of a
critic matrix, whose diagonal holds partners and whose other entries strangers.
``correlated_gaussian`` and its kin are ``Pairs``: two variables to draw whose mutual
information is known exactly. ``read_variable`` reads a variable from a file.
"""

from typing import TYPE_CHECKING

from ..late_imports import import_late
from ._variables import Variable, locate_variable, pair_rows, read_variable

if TYPE_CHECKING:
    from ._bounds import BOUNDS, Bound
    from ._classical import canonical_correlations, gaussian_information, ksg, plug_in
    from ._estimate import Checkpoint, Estimate, heed_bounds
    from ._estimate_mi import (
        ESTIMATORS,
        Estimator,
        estimate_mi,
        find_estimator,
        read_training,
    )
    from ._models import CriticModel, barber_agakov
    from ._normal_scores import NormalScores, fit_normal_scores
    from ._request import Training
    from ._samplers import (
        IMAGES,
        SCHEDULE,
        Invertible,
        Pairs,
        blocks,
        canonical_gaussian,
        correlated_gaussian,
        gaussian,
        image,
        noisy_copy,
        power,
        rho_of,
        spiral,
        student,
        swiss_roll,
        table,
        uniform_noise,
    )
    from ._score_bounds import (
        binary_nce,
        clip_tails,
        donsker_varadhan,
        fdv_loss,
        flat_nce_loss,
        flo,
        info_nce,
        interpolated,
        jensen_shannon,
        leave_one_out,
        mine_loss,
        nwj,
        nwj_of_log_ratio,
        smile,
        tuba,
        unnormalized_ba,
    )
    from ._trained import TrainedCritic
    from ._vince import acceptance_log_ratio, hard_negatives, vince

__all__ = [
    "BOUNDS",
    "ESTIMATORS",
    "IMAGES",
    "SCHEDULE",
    "Bound",
    "Checkpoint",
    "CriticModel",
    "Estimate",
    "Estimator",
    "Invertible",
    "NormalScores",
    "Pairs",
    "TrainedCritic",
    "Training",
    "Variable",
    "acceptance_log_ratio",
    "barber_agakov",
    "binary_nce",
    "blocks",
    "canonical_correlations",
    "canonical_gaussian",
    "clip_tails",
    "correlated_gaussian",
    "donsker_varadhan",
    "estimate_mi",
    "fdv_loss",
    "find_estimator",
    "fit_normal_scores",
    "flat_nce_loss",
    "flo",
    "gaussian",
    "gaussian_information",
    "hard_negatives",
    "heed_bounds",
    "image",
    "info_nce",
    "interpolated",
    "jensen_shannon",
    "ksg",
    "leave_one_out",
    "locate_variable",
    "mine_loss",
    "noisy_copy",
    "nwj",
    "nwj_of_log_ratio",
    "pair_rows",
    "plug_in",
    "power",
    "read_training",
    "read_variable",
    "rho_of",
    "smile",
    "spiral",
    "student",
    "swiss_roll",
    "table",
    "tuba",
    "uniform_noise",
    "unnormalized_ba",
    "vince",
]

HOMES = {
    "_bounds": "BOUNDS Bound",
    "_classical": "canonical_correlations gaussian_information ksg plug_in",
    "_estimate": "Checkpoint Estimate heed_bounds",
    "_estimate_mi": "ESTIMATORS Estimator estimate_mi find_estimator read_training",
    "_models": "CriticModel barber_agakov",
    "_normal_scores": "NormalScores fit_normal_scores",
    "_request": "Training",
    "_samplers": "IMAGES SCHEDULE Invertible Pairs blocks canonical_gaussian "
    "correlated_gaussian gaussian image noisy_copy power rho_of spiral student "
    "swiss_roll table uniform_noise",
    "_score_bounds": "binary_nce clip_tails donsker_varadhan fdv_loss "
    "flat_nce_loss flo info_nce interpolated jensen_shannon "
    "leave_one_out mine_loss nwj nwj_of_log_ratio smile tuba "
    "unnormalized_ba",
    "_trained": "TrainedCritic",
    "_vince": "acceptance_log_ratio hard_negatives vince",
}
__getattr__, __dir__ = import_late(__name__, HOMES)
