"""What is trained: an encoder and a head, and an objective of what they say of views.

Images → views → encoder h → head z → objective. h is what is evaluated and exported, z
what is trained on. Every learner returns a ``Step``; the loop does the rest, and calls
``before_epoch`` and, when the optimizer has moved, ``after_step``.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..critics import Critic
from ..encoders import (
    Encoder,
    GradCache,
    Head,
    MomentumTwin,
    Predictor,
    Towers,
    keep_values,
)
from ..errors import DataError, SettingError, ShapeError
from ..objectives import Objective
from ..partition import Share, gather_rows, share_rows
from ..views import LazyView
from ._learned_critic import Comparison, compare_by
from ._learner_step import Step, make_step, shares_of

Network = Callable[[Tensor], Tensor]
Maybe = Tensor | None
View = Tensor | LazyView
T = TypeVar("T")
MEMORIES = ("negatives", "prototypes", "support")
"""The parts of learners that keep rows of earlier steps."""
MOST_BATCHES = 500  # whose gradients somebody may add up before a step
FORGOTTEN = (
    "after_step() has not been called since the last step of the optimizer, so {}. "
    "Call learner.after_step() after each optimizer.step()."
)


class Learner(nn.Module):
    """An encoder, a head and an objective; what each method adds is in its class.

    Several processes may share a batch, in shares of any size: loss, memories and
    readings are those of all samples on every process, and the gradients that
    DistributedDataParallel averages are those of one process with the whole batch.
    """

    equal_shares = False
    """Whether every process is known to have as many samples as this one. Otherwise
    their numbers are exchanged at each step, and a GPU is waited for."""
    share: Share | None = None
    """Which samples of the last batch were this process's; None where there is one."""

    n_first: int = 1
    """Where samples are pairs: how many of the views show their first side; the others,
    which come after them, show the second."""

    warned = False
    """Whether it has said that ``after_step`` was forgotten."""

    least_views: int = 1
    """How many views of a sample it needs."""

    micro_batch: int | None = None
    """Samples that are encoded at once, all of their views; None: the whole batch."""

    def __init__(self, encoder: Encoder, head: Head, objective: Objective) -> None:
        super().__init__()
        settings = objective.settings
        gathers = settings.get("gather") in (True, "equal", "ring")
        if gathers or settings.get("reduction", "mean") != "mean":
            raise SettingError(
                "A learner sets its objective's gather itself and needs one number "
                "to train on: leave the objective's gather and reduction at their "
                "defaults."
            )
        self.encoder = encoder
        self.head = head
        self.objective = objective
        self.critic: Critic | None = None  # else what scores two projections
        self.used: list[tuple[Tensor, Tensor]] = []  # rows to be remembered, and ids
        self.waiting: tuple[int, int] | None = None  # see expect_after_step

    @property
    def towers(self) -> Towers | None:
        """Both encoders with their heads, where each side of a pair has its own."""
        return None

    @property
    def online(self) -> nn.Sequential:
        """Encoder and head, as one network."""
        return nn.Sequential(self.encoder, self.head)

    def forward(
        self,
        views: Sequence[View] | Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
    ) -> Step:
        """Loss and projections of a batch.

        Args:
            views: One batch of samples per view, each (n, ...).
            labels: The samples' classes, for methods that learn from them.
            ids: The samples' numbers in the data set, for methods with a memory.
        """
        one = 1 + len(self.encoder.input_shape)
        if isinstance(views, Tensor) and views.ndim <= one:
            raise ShapeError(
                "A learner takes one batch per view, as in learner([view, view]): got "
                f"one tensor of shape {tuple(views.shape)}."
            )
        check_views(views)
        if len(views) < self.least_views:
            raise ShapeError(
                "This learner compares views of a sample with each other: got one. "
                "Pass two or more, as in learner([view, view])."
            )
        n = len(views[0])
        for name, numbers in (("labels", labels), ("ids", ids)):
            if not isinstance(numbers, Tensor | None):
                raise ShapeError(
                    f"{name} need one number per sample, in a tensor: got "
                    f"{type(numbers).__name__}. Convert with torch.as_tensor(...)."
                )
            if numbers is not None and numbers.shape != (n,):
                raise ShapeError(
                    f"{name} need one number per sample, in shape ({n},): got "
                    f"{tuple(numbers.shape)} for the {n} samples of a view."
                )
        if self.training and self.left_behind and torch.is_grad_enabled():
            self.expect_after_step()
        samples = torch.empty(n, device=views[0].device)
        self.share = share_rows(samples, equal=self.equal_shares)
        self.tell_objective(self.share)
        step = self.learn(list(views), labels, ids)
        return step._replace(share=self.share)

    def learn(self, views: list[View], labels: Maybe, ids: Maybe) -> Step:
        """What ``forward`` does, once the views are checked."""
        raise NotImplementedError

    def encode(self, network: Network, views: Sequence[View]) -> list[Tensor]:
        """Each view's rows; views of one size go through the network together.

        Together means one set of batch statistics for all of them, as SimCLR has it.
        In pieces of ``micro_batch`` samples, where that is set, all views of each.
        """
        together: nn.Module = Together(network)
        if self.micro_batch is not None:
            together = GradCache(together, micro_batch=self.micro_batch)
            together.equal_shares = self.equal_shares
        done: dict[int, Tensor] = {}
        for size in {view.shape[1:]: None for view in views}:
            which = [k for k, view in enumerate(views) if view.shape[1:] == size]
            rows = together(*(views[k] for k in which))
            done |= dict(zip(which, rows, strict=True))
        return [done[k] for k in range(len(views))]

    def compare(
        self, whole: Sequence[Tensor], parts: Sequence[Tensor] = ()
    ) -> Comparison:
        """Losses of the projections of two views or more, and how to read them.

        Args:
            whole: Every two of them are compared; of two encoders, the first's comes
                first.
            parts: As in ``Objective.contrasts``.
        """
        contrasts = self.objective.contrasts(whole, parts)
        if self.critic is not None:
            return compare_by(self.critic, self.objective, contrasts, self.share)
        terms = self.objective.terms_of_views(whole, parts)
        return Comparison(terms, shares_of(self.objective, contrasts))

    def compile_encoders(self, **how: Any) -> None:
        """Have its encoders, a twin's too, compiled when they first run.

        Args:
            **how: As for ``torch.nn.Module.compile``.
        """
        for module in self.modules():
            if isinstance(module, Encoder):
                module.network.compile(**how)

    @property
    def compares_views(self) -> bool:
        """Whether cosines of its views' projections are what it learns from."""
        return self.critic is None

    @property
    def cosine_objective(self) -> Objective | None:
        """The objective, where it may be read off such cosines; else None."""
        return self.objective if self.compares_views else None

    @property
    def facts(self) -> tuple[str, ...]:
        """What its class adds to a method's description, in a few words each."""
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What to say beside readings of its projections, in sentences."""
        if self.compares_views:
            return ()
        return (
            "Rows of two views are compared by their cosines here; what the run itself "
            "compares, and how, is read while it trains (metrics.jsonl).",
        )

    def tell_objective(self, share: Share | None) -> None:
        """Whose rows it will be given: some of all processes', or all there are."""
        objective: Any = self.objective
        objective.gather = False if share is None else share

    def gather(self, x: Tensor) -> Tensor:
        """Rows of this batch, of all processes, without gradient."""
        return gather_rows(x.detach(), share=self.share)

    @property
    def left_behind(self) -> str:
        """What does not happen where ``after_step`` is not called; mostly nothing."""
        return ""

    def expect_after_step(self) -> None:
        """Warn, once, if the weights have moved since a pass and nobody was told.

        Optimizers count their changes in the weights' versions, which only the host
        knows; gradients that are added up change none. Fused optimizers do not count,
        so very many passes are a sign, too. Within torch.compile nothing is looked at.
        """
        if torch.compiler.is_compiling():
            return
        weights = [*self.head.parameters()] or [*self.encoder.parameters()]
        version = sum(weight._version for weight in weights)
        before, n_passes = self.waiting or (version, 0)
        self.waiting = before, n_passes + 1
        if (version != before or n_passes >= MOST_BATCHES) and not self.warned:
            self.warned = True
            warnings.warn(FORGOTTEN.format(self.left_behind), stacklevel=5)

    def after_step(self, progress: float | Tensor = 0.0) -> None:
        """Call it when the optimizer has moved, with the share of training done."""
        self.waiting = None

    def drop_step(self) -> None:
        """Call it when a step was broken off: nothing of it is remembered."""
        self.used.clear()
        self.waiting = None

    @contextmanager
    def leave_no_trace(self) -> Iterator[None]:
        """Within this, a pass moves no statistics and no counter, and nothing of it
        will be remembered.
        """
        used, waiting = list(self.used), self.waiting
        # rows that are remembered are only read in a pass, and may be many
        changing = [
            buffer.data
            for name, buffer in self.named_buffers()
            if buffer.ndim == 0 or not is_memory(name)
        ]
        try:
            with keep_values(changing):
                yield
        finally:
            self.used[:], self.waiting = used, waiting

    @property
    def host_state(self) -> tuple[Any, ...]:
        """What Python knows and a step depends on; steps of equal states are alike."""
        return ()

    @property
    def why_not_captured(self) -> str:
        """Why no CUDA graph can hold its steps; nothing where one can."""
        return ""

    def before_epoch(self, progress: float = 0.0) -> None:
        """Call it before each pass over the data, with the share of training done."""

    def chance(self, n: int, n_views: int = 2) -> float | None:
        """The loss of n samples that nothing tells apart; None if it says nothing."""
        return None


def is_memory(name: str) -> bool:
    """Whether a weight or buffer of a learner belongs to what keeps past rows.

    >>> is_memory("negatives.rows"), is_memory("encoder.network.weight")
    (True, False)
    """
    return name.split(".")[0] in MEMORIES


def check_views(views: Sequence[View] | Tensor) -> None:
    """Raise unless there are views, each a batch of the same samples."""
    kinds = [type(view).__name__ for view in views]
    if not kinds or any(not isinstance(view, Tensor | LazyView) for view in views):
        raise ShapeError(
            "A learner takes one batch per view, each a tensor, as in learner([view, "
            f"view]): got {', '.join(kinds) or 'none'}."
        )
    if len(sizes := {len(view) for view in views}) > 1:
        raise ShapeError(
            "Views show the same samples: got batches of "
            f"{' and '.join(map(str, sorted(sizes)))} samples."
        )


class JointEmbedding(Learner):
    """One encoder and head for all views; their projections meet in the objective."""

    least_views = 2

    def learn(self, views: list[View], labels: Maybe, ids: Maybe) -> Step:
        """Every two views, or all at once if the objective takes them so."""
        whole, parts = split_views(self.encode(self.online, views), views)
        u, v = [*whole, *parts][:2]
        if self.objective.takes == "labels":
            if labels is None:
                raise DataError(
                    "supcon learns from labels, but these data have none: use class "
                    "folders, or a method that needs no labels, such as simclr."
                )
            z = [*whole, *parts]
            self.tell_objective(self.share and self.share.repeat(len(z)))
            rows = torch.cat(z), labels.repeat(len(z))
            shares = shares_of(self.objective, [rows])
            return make_step([self.objective.terms(*rows)], u, v, shares=shares)
        compared = self.compare(whole, parts)
        return make_step(u=u, v=v, **compared._asdict())

    def chance(self, n: int, n_views: int = 2) -> float | None:
        """That of the objective."""
        return self.objective.chance(n, n_views)


class SelfPrediction(Learner):
    """A predictor turns each view's projection into the other's target (no negatives).

    The target is the projection itself without gradient (SimSiam) or that of a momentum
    twin (BYOL). Of multi-crop views the small ones are never targets: as in SwAV and
    DINO, every view predicts every other whole one.
    """

    least_views = 2

    def __init__(
        self,
        encoder: Encoder,
        head: Head,
        objective: Objective,
        *,
        hidden: int,
        momentum: float | None,
        rising: bool = True,
    ) -> None:
        super().__init__(encoder, head, objective)
        self.predictor = Predictor(head.width, hidden)
        self.twin = None
        if momentum is not None:
            self.twin = MomentumTwin(self.online, momentum=momentum, rising=rising)

    def learn(self, views: list[View], labels: Maybe, ids: Maybe) -> Step:
        """Each view's guess of every other whole view's target."""
        rows = self.encode(self.online, views)
        whole, parts = split_views(range(len(views)), views)
        targets = [rows[k] for k in whole]
        if self.twin is not None:
            targets = self.encode(self.twin, [views[k] for k in whole])
        guesses = Together(self.predictor)(*rows)
        # one guess and its target stand for both halves of the pair's loss
        terms = [
            self.objective.terms(guess, guess, target, target)
            for a, guess in enumerate(guesses)
            for b, target in zip(whole, targets, strict=True)
            if a != b
        ]
        u, v = (rows[k] for k in [*whole, *parts][:2])
        return make_step(terms, u, v)

    @property
    def left_behind(self) -> str:
        """The twin, where there is one."""
        return "" if self.twin is None else "the momentum twin stands still"

    def after_step(self, progress: float | Tensor = 0.0) -> None:
        """The twin follows."""
        super().after_step(progress)
        if self.twin is not None:
            self.twin.follow(self.online, progress)


def split_views(items: Sequence[T], views: Sequence[View]) -> tuple[list[T], list[T]]:
    """What belongs to views of the largest size, and what to smaller ones.

    Smaller views are crops of small parts (multi-crop's local ones). They are compared
    with whole views only, and nothing is asked to be like them.

    >>> split_views("abc", [torch.zeros(4, 3, s, s) for s in (16, 8, 16)])
    (['a', 'c'], ['b'])
    """
    pixels = [view.shape[1:].numel() for view in views]
    pairs = list(zip(items, pixels, strict=True))
    whole = [item for item, size in pairs if size == max(pixels)]
    return whole, [item for item, size in pairs if size < max(pixels)]


class Together(nn.Module):
    """Views of one size through a network in one batch, with one set of statistics."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, *views: Tensor) -> tuple[Tensor, ...]:
        """Each view's rows."""
        return self.network(torch.cat(views)).chunk(len(views))
