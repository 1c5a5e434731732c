"""What the class of an objective declares, and what it offers beside its value.

Learners, the dry run, the ESS controller and the logs ask these questions, and nobody
asks which class it is.
"""

import inspect
import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from ..diagnostics import mutual_information_bound
from ..errors import SettingError, suggest
from ..partition import (
    Share,
    effective_share,
    gather_last,
    gather_rows,
    shares_in_batch,
    softplus,
    take_whole_gradient,
)
from ._batch import (
    anchor_rows,
    anchors_for,
    check_tensor,
    full_precision,
    ready_rows,
    take_share,
    tile_precision,
)
from ._contrast import Contrast, Source, check_source, log_count, warn_if_alone
from ._declared_settings import check_loss, check_setting, explain_settings, reduce
from ._learned_temperature import LearnedTemperature, scale_of

Sums = Callable[..., tuple[Tensor, Tensor, Tensor]]


@dataclass(frozen=True)
class Terms:
    """A loss as the weighted sum of named parts.

    >>> Terms({"pull": torch.tensor(2.0), "push": torch.tensor(3.0)}, {"push": 0.5})
    Terms(pull=2, push=3 x 0.5, total=3.5)
    """

    parts: Mapping[str, Tensor]
    weights: Mapping[str, float | int] = field(default_factory=dict)
    """Of a part that is not here: 1."""

    @property
    def total(self) -> Tensor:
        """The loss."""
        weighted = [
            self.weights[name] * part if name in self.weights else part
            for name, part in self.parts.items()
        ]
        return weighted[0] if len(weighted) == 1 else torch.stack(weighted).sum()

    def __repr__(self) -> str:
        numbers = [
            f"{name}={float(part.detach()):.4g}"
            + (f" x {self.weights[name]:g}" if name in self.weights else "")
            for name, part in self.parts.items()
        ]
        return (
            f"Terms({', '.join([*numbers, f'total={float(self.total.detach()):.4g}'])})"
        )


class Objective(nn.Module):
    """An objective with its settings.

    A softmax objective is algebra on two numbers per anchor: its positive's logit and
    its negatives' log-partition. It says so in ``of``, and then takes its negatives
    from any source as well: ``against``.
    """

    takes: ClassVar[str] = "pair"
    """What ``forward`` takes: a "pair" of views (n, d) each; all "views" as one tensor
    (views, n, d); rows and their "labels"; or a pair and its "targets"."""
    value_is_constant: ClassVar[bool] = False
    """Whether only the gradient means something, so that logs show InfoNCE instead."""
    needs_plain_noise: ClassVar[bool] = False
    """Whether negatives must come as plain rows, without bands, weights or clusters."""
    takes_negatives: ClassVar[bool] = False
    """Whether ``against`` works: it does for whoever has ``of`` or ``against``."""
    takes_among: ClassVar[bool] = False
    """Whether ``among`` works: it does for whoever has ``of`` or ``among``."""
    negatives: str | None = None
    """Whose softmax it is in a batch: the other samples' rows in "all" views, in the
    other view ("cross") or in the anchor's own ("within"); None without a softmax."""
    function_only: ClassVar[tuple[str, ...]] = ()
    """Settings of the function that the class does not take."""
    batch_only: ClassVar[tuple[str, ...]] = ()
    """Settings about the rows of a batch, which ``against`` does not ask for."""
    function: ClassVar[Callable[..., Tensor]]
    """The pure function."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Its settings, with their defaults."""

    if TYPE_CHECKING:  # settings are attributes

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(cls) -> None:
        function = getattr(cls.__dict__.get("__init__"), "function", None)
        if function is None:
            raise TypeError(f"{cls.__name__} needs __init__ = settings_of(function).")
        given = inspect.signature(function).parameters.values()
        settings = [
            p.replace(kind=p.POSITIONAL_OR_KEYWORD)
            for p in given
            if p.kind is p.KEYWORD_ONLY and p.name not in cls.function_only
        ]
        me, *state = inspect.signature(cls.make_state).parameters.values()
        first = [p for p in state if p.kind is not p.KEYWORD_ONLY]
        last = [p for p in state if p.kind is p.KEYWORD_ONLY]
        signature = inspect.Signature([me, *first, *settings, *last])
        cls.__init__.__signature__ = signature  # type: ignore[attr-defined]
        cls.defaults = {p.name: p.default for p in settings}
        cls.function = staticmethod(function)
        # the function's settings include the shared ones already
        docs = function.__doc__, cls.make_state.__doc__
        cls.__doc__ = explain_settings(cls.__doc__, (), *docs)
        with_of = cls.of is not Objective.of
        cls.takes_negatives = with_of or cls.against is not Objective.against
        cls.takes_among = with_of or cls.among is not Objective.among

    def start(self, *args: Any, **settings: Any) -> None:
        """Check and store the settings: what every ``__init__`` does."""
        nn.Module.__init__(self)
        signature = inspect.signature(type(self))
        try:
            bound = signature.bind(*args, **settings)
        except TypeError as error:
            names = list(signature.parameters)
            odd = next((name for name in settings if name not in names), "")
            hint = suggest(odd, names) or f"It takes {', '.join(names)}."
            raise TypeError(f"{type(self).__name__}: {error}. {hint}") from None
        bound.apply_defaults()
        values, checks = bound.arguments, getattr(self.function, "checks", {})
        for name, default in self.defaults.items():
            value = values.pop(name)
            if name == "temperature" and isinstance(value, str) and value == "learned":
                value = LearnedTemperature(default)
            if name in checks:
                value = check_setting(checks[name], name, value)
            setattr(self, name, value)
        self.make_state(**values)

    def make_state(self) -> None:
        """Make parameters and buffers; what it takes is taken by ``__init__`` too."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as they are now, as the function takes them."""
        return {name: getattr(self, name) for name in self.defaults}

    @property
    def idle(self) -> tuple[str, ...]:
        """Settings that change nothing beside the others as they are."""
        return ()

    @property
    def temperature_may_move(self) -> bool:
        """Whether a controller may change ``temperature`` while it trains."""
        number = isinstance(self.settings.get("temperature"), float | int)
        return number and self.negatives is not None

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """The loss of a batch: the function, with these settings."""
        return self.function(*inputs, **named, **self.settings)

    def terms(self, *inputs: Any, **named: Any) -> Terms:
        """The loss as named parts with weights; takes what ``forward`` takes.

        Where a loss has no parts of its own, it is the only one: "loss".
        """
        return Terms({"loss": self(*inputs, **named)})

    def require_finite(self, loss: Any) -> Any:
        """A loss, or its terms; an error if it is beyond what a float can hold."""
        parts = loss.parts.values() if isinstance(loss, Terms) else [loss]
        for part in parts:
            check_loss(part, type(self).__name__)
        return loss

    def terms_of_views(
        self, whole: Sequence[Tensor], parts: Sequence[Tensor] = ()
    ) -> list[Terms]:
        """The losses of two views or more, to be averaged: those of ``contrasts``."""
        return [self.terms(*rows) for rows in self.contrasts(whole, parts)]

    def contrasts(
        self, whole: Sequence[Tensor], parts: Sequence[Tensor] = ()
    ) -> list[tuple[Tensor, ...]]:
        """What ``terms`` is given for two views or more, once for each loss.

        Args:
            whole: The views that show all of an image, or nearly; every two of them
                are compared.
            parts: Views of small parts (multi-crop's local ones). Each is compared with
                every whole view, and never with another part: two parts of an image
                may have nothing in common.

        An objective that takes all views at once is given them all, parts as well.
        """
        if self.takes == "views":
            return [(torch.stack([*whole, *parts]),)]
        return [*combinations(whole, 2), *product(whole, parts)]

    def chance(self, n: int, n_views: int = 2) -> float | None:
        """The loss of n samples that nothing tells apart; None if it says nothing."""
        return None

    @property
    def powers(self) -> tuple[float | int, ...]:
        """Factors on the logits at which ``of`` needs log-partitions; 0 counts."""
        return (1.0,)

    def of(self, logits: Contrast) -> Tensor:
        """The loss of each anchor whose logits are known."""
        raise SettingError(no_softmax(self))

    @property
    def takes_critic(self) -> bool:
        """Whether a critic may score its pairs, each a row of u with a row of v.

        Not where rows of one view are compared with each other, nor where they must
        lie on a sphere.
        """
        return self.takes == "pair" and self.negatives == "cross"

    @property
    def takes_sums(self) -> bool:
        """Whether ``of_sums`` works."""
        return self.takes_critic and type(self).of is not Objective.of

    @property
    def inverse_temperature(self) -> float | Tensor:
        """What scores are multiplied by."""
        return scale_of(self.temperature)

    def of_sums(self, sums: Sums) -> Tensor:
        """The loss of a batch whose scores somebody else sums.

        Args:
            sums: A function of ``scale`` and ``power``: the partners' scores times the
                scale; and, times the power as well, the log-partitions of u's rows and
                of v's over all but their partners.
        """
        power = self.powers[0]
        positive, *negative = sums(scale=self.inverse_temperature, power=power)
        sides = 1 if self.one_sided else 2
        logits = Contrast(
            positive.expand(sides, -1),
            torch.stack(negative[:sides])[None],
            log_count(len(positive), "cross"),
        )
        return self.require_finite(self.of(logits).mean())

    @torch.no_grad()
    def shares_of_sums(self, sums: Sums) -> Tensor:
        """What ``shares`` says, of such scores."""
        scale, sides = self.inverse_temperature, 1 if self.one_sided else 2
        single, double = (
            sums(scale=scale, power=factor * self.powers[0])[1 : 1 + sides]
            for factor in (1, 2)
        )
        count = log_count(single[0].shape[0], "cross")
        pairs = zip(single, double, strict=True)
        return torch.cat([effective_share(*pair, count) for pair in pairs])

    @torch.no_grad()
    def contrast_of_sums(self, sums: Sums) -> tuple[Tensor, Tensor]:
        """Each u's InfoNCE among the rows of v, and the logarithm of their number."""
        positive, negative, _ = sums(scale=self.inverse_temperature, power=1.0)
        loss = softplus(negative - positive)
        return loss, torch.full_like(loss, math.log(len(loss)))

    def against(
        self, u: Tensor, v: Tensor | None, source: Source, ids: Tensor
    ) -> Tensor:
        """The loss of anchors against the negatives of a source.

        Args:
            u: Anchors (n, d), one row per sample; for an objective of many views all of
                them, (views, n, d).
            v: The anchors' positives (n, d); None where the source holds them (a memory
                bank does) or u does (many views, labels).
            source: A queue, a memory bank or another of ``invariance.negatives``.
            ids: Which sample each anchor is, so that it is never its own negative; for
                an objective of labels, its label.

        With ``gather`` anchors are this process's, and the loss is that of all; a
        source has the same rows on all processes.
        """
        if not self.takes_negatives:
            raise SettingError(no_softmax(self))
        check_source(source)
        check_tensor(u, "u")
        settings: Any = self
        share = take_share(u, settings.gather)
        u, v = anchor_rows(u, v, ids, normalize=settings.normalize, share=share)
        (u, v), ids, share = anchors_for(source, [u, v], ids, share)
        scale = take_whole_gradient(scale_of(settings.temperature), share)
        scales = [power * scale for power in self.powers if power]
        counts = [0.0] if 0 in self.powers else []  # scale 0 counts the negatives
        with full_precision(u):
            positive, negative = source.logits(
                u, v, ids, scale=scale, scales=[*scales, *counts]
            )
            positive, negative = (gather_last(x, share) for x in (positive, negative))
            warn_if_alone(negative[0])
            count = negative[-1] if counts else math.nan
            logits = Contrast(positive, negative[: len(scales)], count)
            loss = reduce(self.of(logits), settings.reduction)
        return self.require_finite(loss)

    def among(
        self,
        u: Tensor,
        v: Tensor,
        sums: Callable[[Tensor, Tensor, list[Any]], Tensor],
        *,
        log_count: float,
        share: Share | None = None,
    ) -> Tensor:
        """The loss of anchors among negatives that their batch itself provides.

        Args:
            u: Anchors, their width last; (n, d), or several per sample, (n, t, d).
            v: The anchors' positives, likewise, or one for all of a sample, (n, 1, d).
            sums: Called with anchors, positives (in full precision, of unit length if
                asked) and scales; gives the negatives' log-partitions, (k, a), of the
                anchors of all processes.
            log_count: Logarithm of the number of an anchor's negatives.
            share: Which of all processes' anchors these are.
        """
        if type(self).of is Objective.of:
            raise SettingError(no_softmax(self))
        settings: Any = self
        u, v = (ready_rows(x, settings.normalize) for x in (u, v))
        scale = take_whole_gradient(scale_of(settings.temperature), share)
        with full_precision(u):
            positive = scale * gather_last((u * v).sum(-1).flatten(), share)
            negative = sums(u, v, [power * scale for power in self.powers if power])
            if u.ndim == 3:  # anchors of different samples stand side by side
                split = (-1, u.shape[1])
                positive, negative = (
                    x.unflatten(-1, split).mT for x in (positive, negative)
                )
            loss = reduce(
                self.of(Contrast(positive, negative, log_count)), settings.reduction
            )
        return self.require_finite(loss)

    @property
    def one_sided(self) -> bool:
        """Whether the first view's rows alone are anchors."""
        return False

    @torch.no_grad()
    def shares(self, *inputs: Any) -> Tensor:
        """Effective share of each anchor's negatives; takes what ``forward`` takes.

        Of the negatives that the loss has, as its softmax weighs them; NaN for an
        anchor without any. Where ``negatives`` is None there is no such thing.
        """
        if self.negatives is None:
            raise SettingError(
                f"{type(self).__name__} has no softmax over negatives, so no share of "
                "them carries the weight: there is no ESS."
            )
        z, ids = inputs[0], None
        if self.takes == "pair":
            z = torch.stack(inputs)
        elif self.takes == "labels":
            z, ids = z[None], inputs[1]
        return shares_in_batch(
            ready_rows(z, self.normalize),
            share=take_share(z.transpose(0, 1), self.gather),
            scale=self.powers[0] * scale_of(self.temperature),
            negatives=self.negatives,
            ids=ids,
            one_sided=self.one_sided,
            precision=tile_precision(z),
        )

    @torch.no_grad()
    def readings(self, *inputs: Any) -> dict[str, float]:
        """Numbers worth logging for a batch, by name; takes what ``forward`` takes.

        The loss and its parts; of a softmax over negatives also what
        ``invariance.diagnostics`` says of the first two views: ``info_nce``; the
        information bound ``mi_nats``, with ``mi_ceiling``, the most that so many rows
        can show, and ``mi_reachable``, what the temperature allows of it; and ``ess``,
        the mean of ``shares``. The bound is certified for rows that the encoder was not
        fitted to; of a batch that is trained on it certifies nothing.
        """
        numbers: dict[str, float] = {}
        if not self.value_is_constant:
            terms = self.terms(*inputs)
            numbers = {k: float(part.mean()) for k, part in terms.parts.items()}
            numbers = {"loss": float(terms.total.mean())} | numbers
        if self.takes_negatives and self.takes != "labels":
            u, v = inputs[:2] if self.takes == "pair" else inputs[0][:2]
            numbers |= softmax_readings(u, v, self)
        if self.negatives is not None:
            numbers["ess"] = float(self.shares(*inputs).nanmean())
        return numbers

    def __repr__(self) -> str:
        return self.describe()

    def describe(self, without: Container[str] = ()) -> str:
        """Its name and settings, but for some.

        Whose rows are taken is shown where all are; a learner says it at every step.
        """
        whose: Any = self.settings.get("gather")
        hidden = {
            "gather": not whose or isinstance(whose, Share),
            "reduction": self.settings.get("reduction") == "mean",
        }
        shown = {
            name: value
            for name, value in self.settings.items()
            if not hidden.get(name, name in without)
        }
        inner = ", ".join(f"{name}={in_words(v)}" for name, v in shown.items())
        return f"{type(self).__name__}({inner})"


def in_words(value: Any) -> str:
    """A setting for ``print``; a tensor by its number, and whether it is learned."""
    if not isinstance(value, Tensor):
        return repr(value)
    learned = " (learned)" if value.requires_grad else ""
    return f"{float(value.detach()):.4g}{learned}"


def no_softmax(objective: Objective) -> str:
    """Why an objective cannot be put against a source."""
    return (
        f"{type(objective).__name__} has no softmax over negatives that a queue or a "
        "memory bank could provide: use info_nce, nt_xent, dcl, dhel, flat_nce, "
        "debiased, binary_nce, multi_view or sup_con, or take negatives from the batch."
    )


def softmax_readings(u: Tensor, v: Tensor, objective: Any) -> dict[str, float]:
    """What a softmax over the other view says of a batch, as diagnostics read it."""
    share = take_share(u, objective.gather)
    if share is not None:
        u, v = (gather_rows(x.detach(), share=share) for x in (u, v))
    bound = mutual_information_bound(
        u,
        v,
        temperature=float(objective.temperature),
        normalize=objective.normalize,
        precision=tile_precision(u, v),
    )
    return {
        "info_nce": bound.ceiling - bound.nats,
        "mi_nats": bound.nats,
        "mi_ceiling": bound.ceiling,
        "mi_reachable": bound.reachable,
    }
