"""From four choices to something that can be trained."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..encoders import Encoder, build_head
from ..errors import SettingError, choose, unknown
from ..negatives import NEGATIVES, Bank, NegativeSource, Prototypes, Queue
from ..objectives import (
    BYOL,
    OBJECTIVES,
    BinaryNCE,
    Objective,
    SimSiam,
    takes_sources,
)
from ._catalogue import METHODS
from ._learner import JointEmbedding, SelfPrediction
from ._method import Method
from ._nearest_neighbour import NearestNeighbour
from ._remembering import Remembering

Learner = JointEmbedding | SelfPrediction | Remembering | NearestNeighbour

KINDS = ("one", "predictor", "momentum twin")
POSITIVES = ("views", "prototypes", "neighbours")
OF_PROTOTYPES = ("n_clusters", "n_clusterings", "warmup")


def build(
    method: Method | str,
    encoder: Encoder,
    *,
    n_samples: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Learner:
    """A learner of this method around an encoder.

    Args:
        method: A name in ``METHODS``, or four choices of your own.
        encoder: Samples in, features out.
        n_samples: Size of the data set, for methods with a memory bank.
        seed: Of a memory bank's first rows and draws.
        **options: Settings of the objective, such as ``temperature``, and of the
            source of negatives, such as a queue's ``size``.

    >>> from invariance.encoders import build_encoder
    >>> learner = build("dcl", build_encoder("tiny"), temperature=0.2)
    >>> learner.objective
    DCL(temperature=0.2, negatives='all', weight_sigma=None, normalize=True)
    """
    if isinstance(method, str):
        method = choose(METHODS, method, "method")
    for kind, value, known in (
        ("kind of encoder", method.encoder, KINDS),
        ("kind of positives", method.positives, POSITIVES),
        ("negatives", method.negatives, ("batch", "none", *NEGATIVES)),
    ):
        if value not in known:
            raise SettingError(unknown(kind, value, known))
    head = build_head(
        method.head,
        encoder.width,
        method.hidden,
        method.width,
        last_batch_norm=method.last_batch_norm,
    )
    of_source = {k: v for k, v in options.items() if k in method.source_settings}
    options = {k: v for k, v in options.items() if k not in of_source}
    source_settings = {**fitting(method, n_samples), **of_source}
    objective = build_objective(method, head.width, options)
    check_fit(method, objective)
    momentum = method.momentum if method.encoder == "momentum twin" else None
    if method.positives == "neighbours":
        kind = "support of neighbours"
        support = made(Queue, {**source_settings, "width": head.width}, kind)
        return NearestNeighbour(encoder, head, objective, support, method.hidden)
    if method.negatives in NEGATIVES:
        source, prototypes = build_source(
            method, source_settings, n_samples, head.width, seed
        )
        return Remembering(
            encoder,
            head,
            objective,
            source,
            momentum=momentum,
            rising=method.rising,
            prototypes=prototypes,
        )
    if method.encoder == "one":
        return JointEmbedding(encoder, head, objective)
    if not isinstance(objective, BYOL | SimSiam):
        raise SettingError(
            f"A {method.encoder} needs an objective with targets, byol or sim_siam, or "
            f"negatives from a queue: got {method.objective} with negatives from the "
            f"{method.negatives}."
        )
    hidden = max(method.hidden // 4, 32) if momentum is None else method.hidden
    return SelfPrediction(
        encoder,
        head,
        objective,
        hidden=hidden,
        momentum=momentum,
        rising=method.rising,
    )


def check_fit(method: Method, objective: Objective) -> None:
    """Raise where the four choices do not go together."""
    remembers = method.negatives in NEGATIVES
    wrong = ""
    if isinstance(objective, BYOL | SimSiam) and method.encoder == "one":
        wrong = f"{method.objective} needs a predictor or a momentum twin as encoder"
    elif method.negatives == "none" and takes_sources(objective):
        wrong = f"{method.objective} is a softmax over negatives, and there are none"
    elif remembers and not takes_sources(objective):
        wrong = f"{method.objective} takes no negatives from {method.negatives!r}"
    elif remembers and method.encoder == "predictor":
        wrong = f"negatives from {method.negatives!r} have no use for a predictor"
    elif method.negatives == "queue" and method.encoder != "momentum twin":
        wrong = "a queue's keys come from a momentum twin: choose that encoder"
    elif method.positives == "prototypes" and method.negatives != "queue":
        wrong = "prototypes come with a queue of negatives and a momentum twin"
    elif method.positives == "neighbours" and method.negatives != "batch":
        wrong = "neighbours as positives come with negatives from the batch"
    elif method.positives == "neighbours" and method.encoder != "predictor":
        wrong = "neighbours as positives are found by a predictor: choose that encoder"
    elif isinstance(objective, BinaryNCE) and remembers:
        plain = method.negatives in ("queue", "bank")
        if not plain or method.positives == "prototypes":
            wrong = "binary_nce takes its noise from a queue or a bank alone"
    if wrong:
        raise SettingError(f"These choices do not go together: {wrong}.")


def fitting(method: Method, n_samples: int | None) -> dict[str, Any]:
    """The method's settings of its source, with no more draws than a small set has.

    Draws that were asked for are not cut down: a bank refuses too many in words.
    """
    settings = dict(method.source_settings)
    if n_samples is not None and settings.get("n_draws") is not None:
        settings["n_draws"] = max(min(int(settings["n_draws"]), n_samples - 1), 1)
    return settings


def made(kind: Callable[..., Any], settings: Mapping[str, Any], name: str) -> Any:
    """Call with settings; ones it does not know are told in words."""
    try:
        return kind(**whole_numbers(kind, settings))
    except TypeError as cause:
        raise SettingError(
            f"The {name} cannot be made from {dict(settings)}: {cause}."
        ) from None


def build_objective(
    method: Method, width: int, options: Mapping[str, Any]
) -> Objective:
    """The objective with the method's settings and these on top."""
    kind = choose(OBJECTIVES, method.objective, "objective")
    named = inspect.signature(kind).parameters.values()
    known = {p.name for p in named if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    known = (known | set(method.source_settings)) - {"width"}
    for name in options:
        if name not in known:
            raise SettingError(
                unknown(f"setting of {method.objective}", name, known)
                if known
                else f"{method.objective} has no settings: got {name!r}."
            )
    settings = whole_numbers(kind, {**method.settings, **options})
    if method.objective == "swav":
        settings["width"] = width
    try:
        return kind(**settings)
    except TypeError as cause:
        raise SettingError(
            f"{method.objective} cannot take the settings {settings}: {cause}."
        ) from None


def build_source(
    method: Method,
    settings: Mapping[str, Any],
    n_samples: int | None,
    width: int,
    seed: int,
) -> tuple[NegativeSource, list[Prototypes]]:
    """The source of negatives, on a bank of its own where it needs one."""
    settings, name = dict(settings), method.negatives
    if name == "queue" and method.positives != "prototypes":
        return made(Queue, {**settings, "width": width}, name), []
    if n_samples is None:
        raise SettingError(
            f"Negatives from {name!r} keep one row a sample: pass n_samples, the size "
            "of the data set."
        )
    of_bank = {"momentum": settings.pop("bank_momentum", 0.5), "seed": seed}
    if name == "bank":
        of_bank |= settings
    bank = made(Bank, {"n_samples": n_samples, "width": width, **of_bank}, "bank")
    if name == "bank":
        return bank, []
    if name != "queue":
        return made(NEGATIVES[name], {**settings, "bank": bank}, name), []
    own = {k: settings.pop(k) for k in OF_PROTOTYPES if k in settings}
    n_clusterings = int(own.pop("n_clusterings", 1))
    prototypes = [
        made(Prototypes, {**own, "bank": bank}, "prototypes")
        for _ in range(n_clusterings)
    ]
    return made(Queue, {**settings, "width": width}, name), prototypes


def whole_numbers(kind: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Counts as int, where a file gives 64.0; what may be a share, too, is left alone.

    >>> from invariance.negatives import Ball, Queue
    >>> whole_numbers(Queue, {"size": 64.0}), whole_numbers(Ball, {"k": 1.0})
    ({'size': 64}, {'k': 1.0})
    """
    known = inspect.signature(kind).parameters

    def counts(name: str) -> bool:
        if name not in known:
            return False
        asked, default = known[name].annotation, known[name].default
        plain = asked is inspect.Parameter.empty and type(default) is int
        return plain or asked in (int, int | None)

    for name, value in given.items():
        if counts(name) and isinstance(value, float) and not value.is_integer():
            raise SettingError(f"{name} is a whole number: got {value}.")
    return {
        name: int(value)
        if counts(name) and isinstance(value, float) and value.is_integer()
        else value
        for name, value in given.items()
    }


def customised(method: Method | str, **changes: Any) -> Method:
    """A method with some of its choices replaced; None leaves one as it is."""
    if isinstance(method, str):
        method = choose(METHODS, method, "method")
    return replace(method, **{k: v for k, v in changes.items() if v is not None})
