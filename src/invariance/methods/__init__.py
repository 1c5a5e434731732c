"""Methods: views x encoder x negatives x objective, by name or of your own making.

``METHODS`` has those with a name, each a ``Method`` of four choices; ``build`` makes a
learner of one around an encoder, and ``options_of`` says what else it can be told. A
loop of your own is then five lines:

>>> import torch
>>> import invariance as inv
>>> from invariance.encoders import build_encoder
>>> from invariance.methods import build
>>> learner = build("moco", build_encoder("tiny"), size=64, temperature="learned")
>>> optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
>>> for done in range(2):
...     images, ids = torch.rand(8, 3, 32, 32), torch.arange(8)
...     step = learner([images, images.flip(-1)], ids=ids)  # one batch per view
...     optimizer.zero_grad()
...     step.loss.backward()
...     optimizer.step()
...     learner.after_step((done + 1) / 2)  # the twin follows, the queue takes in keys
>>> len(learner.negatives)
16

``step`` is a ``Step``: the loss, its named parts and the projections of two views.
``learner.encoder`` is what was trained; call ``learner.before_epoch(progress)`` before
each pass over the data if the method clusters (la, pcl).
"""

from typing import TYPE_CHECKING

from ..late_imports import import_late
from ._catalogue import METHODS
from ._method import Method

if TYPE_CHECKING:
    from ._build import build, customize
    from ._cpc import PredictiveCoding
    from ._dim import DeepInfoMax
    from ._learner import (
        MEMORIES,
        JointEmbedding,
        Learner,
        SelfPrediction,
        is_memory,
    )
    from ._learner_step import Step
    from ._masked_token import MaskedToken
    from ._nearest_neighbor import NearestNeighbor
    from ._options import (
        Option,
        keeps_every_sample,
        list_options,
        options_of,
        read_options,
        recipe_options,
    )
    from ._remembering import Remembering
    from ._two_towers import TwoTowers

__all__ = [
    "MEMORIES",
    "METHODS",
    "DeepInfoMax",
    "JointEmbedding",
    "Learner",
    "MaskedToken",
    "Method",
    "NearestNeighbor",
    "Option",
    "PredictiveCoding",
    "Remembering",
    "SelfPrediction",
    "Step",
    "TwoTowers",
    "build",
    "customize",
    "is_memory",
    "keeps_every_sample",
    "list_options",
    "options_of",
    "read_options",
    "recipe_options",
]

HOMES = {
    "_build": "build customize",
    "_cpc": "PredictiveCoding",
    "_dim": "DeepInfoMax",
    "_learner": "MEMORIES JointEmbedding Learner SelfPrediction is_memory",
    "_masked_token": "MaskedToken",
    "_nearest_neighbor": "NearestNeighbor",
    "_options": (
        "Option keeps_every_sample list_options options_of read_options recipe_options"
    ),
    "_remembering": "Remembering",
    "_learner_step": "Step",
    "_two_towers": "TwoTowers",
}
__getattr__, __dir__ = import_late(__name__, HOMES)
