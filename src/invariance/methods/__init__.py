"""Methods: views x encoder x negatives x objective, by name or of your own making."""

from ._build import Learner, build, customised
from ._catalogue import METHODS
from ._learner import JointEmbedding, SelfPrediction, Step
from ._method import Method
from ._nearest_neighbour import NearestNeighbour
from ._remembering import Remembering

__all__ = [
    "METHODS",
    "JointEmbedding",
    "Learner",
    "Method",
    "NearestNeighbour",
    "Remembering",
    "SelfPrediction",
    "Step",
    "build",
    "customised",
]
