"""Methods: views x encoder x negatives x objective, by name or of your own making."""

from ._build import build, customised
from ._catalogue import METHODS
from ._learner import JointEmbedding, Learner, SelfPrediction, Step
from ._method import Method

__all__ = [
    "METHODS",
    "JointEmbedding",
    "Learner",
    "Method",
    "SelfPrediction",
    "Step",
    "build",
    "customised",
]
