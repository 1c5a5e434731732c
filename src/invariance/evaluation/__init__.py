"""How useful embeddings are for telling classes apart: rows and labels in, a Score out.

``knn`` needs no fitting, ``linear_probe`` fits a linear classifier to convergence and
chooses its one setting on training rows only. ``raw_pixels`` are the features to beat.
Scores are deterministic given their seed and carry an interval, their settings, and
notes on anything that a reader should know.
"""

from ._knn import knn
from ._linear_probe import linear_probe
from ._raw_pixels import raw_pixels
from ._score import Score, wilson_interval

__all__ = ["Score", "knn", "linear_probe", "raw_pixels", "wilson_interval"]
