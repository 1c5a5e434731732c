r"""Rounds of federated averaging around the step of the training loop.

$$w \leftarrow \frac{\sum_c n_c\,w_c}{\sum_c n_c},\qquad
w_c = w + \min\Big(1, \frac{C}{|w_c' - w|}\Big)\,(w_c' - w)$$

w is the server's, w_c' what client c has after its steps from w, n_c its samples, C the
clip, if there is one. With noise, n_c = 1 and N(0, (z C)^2) goes onto the sum of the
updates. What is averaged is all that the learner holds, a momentum twin, a predictor
and the running statistics of batch norms too, but for its memories: a queue stays at
its client, as its samples and its optimizer do.

Server, sum and what clients keep lie in the host's memory, the sum in float64: of one
client the mean is what it sent, to the bit.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from ..errors import TrainingError
from ..methods import Learner, Step
from ._clients import Rounds, Visit
from ._exchange import Weights, find_variances, memories_of, sent_of
from ._feed import HostFeed
from ._optimizers import load_optimizer, save_optimizer


class Federation:
    """The server of a run and what its clients keep; ``around`` makes it rounds."""

    def __init__(
        self, rounds: Rounds, learner: Learner, optimizer: Any, feed: HostFeed
    ) -> None:
        self.rounds, self.learner, self.feed = rounds, learner, feed
        self.optimizer = optimizer
        self.blank = copy_to_host(memories_of(learner))
        self.learned = [n for n, p in learner.named_parameters() if p.requires_grad]
        self.kept: dict[int, dict[str, Any]] = {}  # by client
        self.server: Weights = {}  # as the round began; nothing between rounds
        self.begin_sum()

    def begin_sum(self) -> None:
        """Begin a round, in which no client has sent anything yet."""
        self.sum: Weights = {}
        self.weight = self.squares = 0.0
        self.n_clipped = 0

    def around(self, take_step: Callable[[bool], Step]) -> Callable[[bool], Step]:
        """The step, with what comes before and after it where clients change."""

        def take(logs: bool) -> Step:
            visit = self.rounds.find_visit(self.feed.done)
            if self.feed.done == visit.start:
                self.send_out(visit)
            step = take_step(logs)
            numbers = {"client": float(visit.client + 1)}
            if self.feed.done == visit.end:
                self.receive(visit)
            if self.feed.done == visit.end and visit.ends_round:
                numbers |= self.average(visit)
            readings = {f"federated/{k}": torch.tensor(x) for k, x in numbers.items()}
            return step._replace(readings={**step.readings, **readings})

        return take

    def send_out(self, visit: Visit) -> None:
        """Begin a client's steps: the server's weights, its own memory."""
        if not self.server:
            self.server = copy_to_host(sent_of(self.learner))
        kept = self.kept.get(visit.client, {})
        self.learner.load_state_dict(self.server | kept.get("memories", self.blank))
        if "optimizer" in kept:
            load_optimizer(self.optimizer, kept["optimizer"])
        else:
            self.optimizer.optimizer.state.clear()

    def receive(self, visit: Visit) -> None:
        """End a client's steps: add what it sends, and put away what it keeps."""
        settings, sent = self.rounds.settings, copy_to_host(sent_of(self.learner))
        size = self.rounds.clients.sizes[visit.client]
        weight = 1.0 if settings.noise is not None else float(size)
        length, factor = norm_of(self.server, sent, self.server), 1.0
        if settings.clip is not None and length > settings.clip:
            factor, self.n_clipped = settings.clip / length, self.n_clipped + 1
        for name, value in sent.items():
            exact = value.double()
            if factor < 1 and value.is_floating_point():
                start = self.server[name].double()
                exact = start + factor * (exact - start)
            total = self.sum.get(name, torch.zeros_like(exact))
            self.sum[name] = total + weight * exact
        self.weight += weight
        step = factor * norm_of(self.server, sent, self.learned)
        self.squares += weight * step**2
        kept: dict[str, Any] = {"memories": copy_to_host(memories_of(self.learner))}
        if settings.optimizer == "kept":
            kept["optimizer"] = copy_to_host(save_optimizer(self.optimizer))
        self.kept[visit.client] = kept

    def average(self, visit: Visit) -> dict[str, float]:
        """End a round: the mean becomes the server's; gives readings of the round.

        "update" is how far all that is sent has moved; "agreement", of the weights that
        are trained, the square of the mean update over the mean square: 1 if all
        clients went the same way, one over their number if each went its own.
        """
        server, settings = self.server, self.rounds.settings
        mean = {name: total / self.weight for name, total in self.sum.items()}
        moved, together = (norm_of(server, mean, s) for s in (server, self.learned))
        if settings.noise is not None and settings.clip is not None:
            scale = settings.noise * settings.clip / self.weight
            self.add_noise(mean, scale, visit.round)
        fresh = {name: to_kind(value, server[name]) for name, value in mean.items()}
        self.learner.load_state_dict(fresh | copy_to_host(memories_of(self.learner)))
        average_square = self.squares / self.weight
        agreement = together**2 / average_square if average_square > 0 else 1.0
        numbers = {"update": moved, "agreement": agreement}
        if settings.clip is not None:
            numbers["clipped"] = self.n_clipped / self.rounds.per_round
        self.server = {}
        self.begin_sum()
        return numbers

    def add_noise(self, mean: Weights, scale: float, epoch: int) -> None:
        """Noise on all that is averaged but counts, which stay as the server's were.

        So does a variance that noise leaves nothing of: a zero would be divided by.
        """
        seed = self.rounds.seed * 100_003 + epoch
        generator = torch.Generator().manual_seed(seed)
        for name, value in mean.items():
            if self.server[name].is_floating_point():
                value += scale * torch.randn(
                    value.shape, generator=generator, dtype=torch.float64
                )
            else:
                value.copy_(self.server[name])
        for name in find_variances(self.learner):
            mean[name] = mean[name].where(mean[name] > 0, self.server[name].double())

    def pack(self, state: dict[str, Any]) -> dict[str, Any]:
        """What a checkpoint keeps; its learner is the server's, of the last round."""
        learner = state["learner"]
        mine = {
            "split": self.rounds.clients.fingerprint,
            "client": learner if self.server else None,
            "sum": self.sum,
            "weight": self.weight,
            "squares": self.squares,
            "n_clipped": self.n_clipped,
            "kept": self.kept,
        }
        return state | {"learner": learner | self.server, "federated": mine}

    def unpack(self, state: dict[str, Any]) -> dict[str, Any]:
        """Go on from a checkpoint; gives it with the learner that takes the next step.

        That is the client's in the middle of a round.
        """
        mine = state["federated"]
        if mine["split"] != self.rounds.clients.fingerprint:
            raise TrainingError(
                "samples belong to other clients than before; put the file of "
                "federated.assignment back as it was."
            )
        self.sum, self.weight = mine["sum"], mine["weight"]
        self.squares, self.n_clipped = mine["squares"], mine["n_clipped"]
        self.kept = mine["kept"]
        if mine["client"] is None:
            return state
        names = sent_of(self.learner)
        self.server = {name: state["learner"][name] for name in names}
        return state | {"learner": mine["client"]}

    def weigh(self) -> list[Tensor]:
        """What lies in the host's memory in the middle of a round, about."""
        sent = [*sent_of(self.learner).values()]
        wide = [value.double() for value in sent]
        rows = [*memories_of(self.learner).values()] * len(self.rounds.active)
        return [*sent, *wide, *rows]


def copy_to_host(values: Any) -> Any:
    """The same, whatever the nesting, in tensors that no step writes into."""
    if isinstance(values, Tensor):
        return values.detach().to("cpu", copy=True)
    if isinstance(values, dict):
        return {key: copy_to_host(value) for key, value in values.items()}
    if isinstance(values, list):
        return [copy_to_host(value) for value in values]
    return values


def norm_of(start: Weights, end: Weights, names: Iterable[str]) -> float:
    """Length of the way from one to the other, by all that are named but counts."""
    squares = [
        (end[name].double() - start[name].double()).square().sum()
        for name in names
        if start[name].is_floating_point()
    ]
    return float(torch.stack(squares).sum().sqrt())


def to_kind(value: Tensor, like: Tensor) -> Tensor:
    """Rounded to the type of another; counts to the next whole number."""
    return (value if like.is_floating_point() else value.round()).to(like.dtype)
