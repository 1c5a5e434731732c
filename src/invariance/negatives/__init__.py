"""Negatives: who the anchors are compared with.

Each works with every softmax objective: ``objective.against(u, v, source, ids)``.

>>> import torch
>>> import invariance as inv
>>> queue = inv.Queue(4096, width=128)
>>> queue.remember(torch.randn(256, 128), torch.arange(256))
>>> u, v = torch.randn(64, 128, requires_grad=True), torch.randn(64, 128)
>>> loss = inv.DCL(temperature=0.2).against(u, v, queue, ids=torch.arange(64))
>>> loss.backward()
>>> queue.remember(v, torch.arange(64))  # after use, backward pass and all

``NEGATIVES`` has those that keep rows. A batch of sequences has negatives of its own:
``IN_TIME`` names what a prediction is compared with.
"""

from collections.abc import Callable

from ._accepted import (
    AcceptanceNetwork,
    Accepted,
    Between,
    Nearest,
    accept_learned,
    accept_similar,
)
from ._ball import Annulus, Ball
from ._bank import Bank
from ._estimated import ControlVariate, Stratified
from ._in_time import IN_TIME, InTime
from ._kmeans import Clusters, kmeans
from ._neighbors import Neighbors
from ._partition_estimates import (
    control_variate_partition,
    importance_partition,
    monte_carlo_partition,
    stratified_partition,
)
from ._prototypes import Prototypes, concentration
from ._queue import Queue
from ._source import Candidates, NegativeSource, check_room
from ._vocabulary import Vocabulary

Neighbours = Neighbors  # its name before 0.1.0

NEGATIVES: dict[str, Callable[..., NegativeSource]] = {
    "queue": Queue,
    "bank": Bank,
    "ball": Ball,
    "annulus": Annulus,
    "neighbors": Neighbors,
    "accepted": accept_similar,
    "learned": accept_learned,
    "stratified": Stratified,
    "control_variate": ControlVariate,
}

__all__ = [
    "IN_TIME",
    "NEGATIVES",
    "AcceptanceNetwork",
    "Accepted",
    "Annulus",
    "Ball",
    "Bank",
    "Between",
    "Candidates",
    "Clusters",
    "ControlVariate",
    "InTime",
    "Nearest",
    "NegativeSource",
    "Neighbors",
    "Neighbours",
    "Prototypes",
    "Queue",
    "Stratified",
    "Vocabulary",
    "accept_learned",
    "accept_similar",
    "check_room",
    "concentration",
    "control_variate_partition",
    "importance_partition",
    "kmeans",
    "monte_carlo_partition",
    "stratified_partition",
]
