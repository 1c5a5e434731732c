"""How useful embeddings are: rows and labels in, a Score out.

| protocol | asks | needs |
|---|---|---|
| ``knn`` | do the nearest rows vote for the right class? | embeddings |
| ``linear_probe`` | can a linear classifier read it? | embeddings |
| ``few_labels_linear`` | the same with 1 % or 10 % of the labels | embeddings |
| ``retrieval`` | are the nearest images of the same class? | embeddings |
| ``clustering`` | are groups found without labels the classes? | embeddings |
| ``ridge``, ``knn_regression`` | how much do they tell of a number? | embeddings |
| ``rank_correlation`` | are pairs near that people find alike? | embeddings |
| ``linear_sgd`` | the papers' linear protocol, with augmentation | the encoder |
| ``attack_probe`` | how often is it right when images are attacked? | the encoder |
| ``steps_ahead`` | how far ahead does a sequence encoder predict? | no labels |
| ``fine_tune`` | how good is it when it learns on, with labels? | the encoder |

``evaluate_encoders`` runs them on an encoder and its baselines: pixels, and the encoder
before training, as ``plan_protocols`` has checked them: by name, with settings, or by a
preset that a paper published. ``raw_pixels`` are the features to beat. Whatever is
chosen is chosen on training rows; scores are deterministic given their seed and carry
an interval where there is one, their settings, and notes on anything that a reader
should know. Labels are one class per sample; ``knn``, ``linear_probe``, ``linear_sgd``
and ``fine_tune`` also take a matrix of 0 and 1, a column per class.
"""

from typing import TYPE_CHECKING

from ..late_imports import import_late
from ._groups import GROUPS, ProtocolSettings, check_settings

if TYPE_CHECKING:
    from ._attacked import attack_probe
    from ._clustering import clustering
    from ._encode import OtherSide, encode_batch, encode_images, encode_views
    from ._evaluator import (
        Evaluation,
        evaluate_encoders,
        make_row,
        score_supervised_twin,
    )
    from ._few_labels import few_labels, few_labels_linear
    from ._fine_tune import Classifier, fine_tune, fit_classifier
    from ._images import Augment, Images
    from ._knn import knn
    from ._linear_probe import linear_probe
    from ._linear_sgd import linear_sgd
    from ._optimization import OPTIMIZERS, SCHEDULES
    from ._pairs import chance_of_pairs, name_classes, pair_retrieval, zero_shot
    from ._predictions import average_precisions
    from ._protocols import (
        LIMIT,
        PRESETS,
        PROTOCOLS,
        QUICK,
        Preset,
        ProtocolPlan,
        choose_protocols,
        plan_protocols,
    )
    from ._rank_correlation import rank_correlation
    from ._raw_pixels import raw_pixels
    from ._regression import knn_regression, ridge
    from ._retrieval import retrieval
    from ._score import Score, wilson_interval
    from ._steps_ahead import steps_ahead
    from ._task import (
        Task,
        is_scored_without_labels,
        list_partnered,
        make_task,
        spread_rows,
    )

__all__ = [
    "GROUPS",
    "LIMIT",
    "OPTIMIZERS",
    "PRESETS",
    "PROTOCOLS",
    "QUICK",
    "SCHEDULES",
    "Augment",
    "Classifier",
    "Evaluation",
    "Images",
    "OtherSide",
    "Preset",
    "ProtocolPlan",
    "ProtocolSettings",
    "Score",
    "Task",
    "attack_probe",
    "average_precisions",
    "chance_of_pairs",
    "check_settings",
    "choose_protocols",
    "clustering",
    "encode_batch",
    "encode_images",
    "encode_views",
    "evaluate_encoders",
    "few_labels",
    "few_labels_linear",
    "fine_tune",
    "fit_classifier",
    "is_scored_without_labels",
    "knn",
    "knn_regression",
    "linear_probe",
    "linear_sgd",
    "list_partnered",
    "make_row",
    "make_task",
    "name_classes",
    "pair_retrieval",
    "plan_protocols",
    "rank_correlation",
    "raw_pixels",
    "retrieval",
    "ridge",
    "score_supervised_twin",
    "spread_rows",
    "steps_ahead",
    "wilson_interval",
    "zero_shot",
]

HOMES = {
    "_attacked": "attack_probe",
    "_clustering": "clustering",
    "_encode": "OtherSide encode_batch encode_images encode_views",
    "_evaluator": "Evaluation evaluate_encoders make_row score_supervised_twin",
    "_few_labels": "few_labels few_labels_linear",
    "_fine_tune": "Classifier fine_tune fit_classifier",
    "_images": "Augment Images",
    "_knn": "knn",
    "_linear_probe": "linear_probe",
    "_linear_sgd": "linear_sgd",
    "_optimization": "OPTIMIZERS SCHEDULES",
    "_predictions": "average_precisions",
    "_protocols": "LIMIT PRESETS PROTOCOLS QUICK "
    "Preset ProtocolPlan choose_protocols plan_protocols",
    "_rank_correlation": "rank_correlation",
    "_raw_pixels": "raw_pixels",
    "_pairs": "chance_of_pairs name_classes pair_retrieval zero_shot",
    "_regression": "knn_regression ridge",
    "_retrieval": "retrieval",
    "_score": "Score wilson_interval",
    "_steps_ahead": "steps_ahead",
    "_task": "Task is_scored_without_labels list_partnered make_task spread_rows",
}
__getattr__, __dir__ = import_late(__name__, HOMES)
