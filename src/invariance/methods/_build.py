"""From four choices to something that can be trained."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from ..encoders import Encoder, build_head
from ..errors import SettingError, choose, unknown
from ..negatives import NEGATIVES, Bank, NegativeSource, Prototypes, Queue
from ..objectives import OBJECTIVES, Objective
from ._catalogue import METHODS, Method
from ._learner import JointEmbedding, Learner, SelfPrediction
from ._nearest_neighbor import NearestNeighbor
from ._remembering import Remembering

ENCODERS = ("one", "predictor", "momentum twin")
POSITIVES = ("views", "prototypes", "neighbors")
OF_PROTOTYPES = ("n_clusters", "n_clusterings", "warmup")
# settings of a source that count rows, each beside the one that gives a share of them
SHARES = {
    "k": "share",
    "inner": "inner_share",
    "outer": "outer_share",
    "outer_start": "outer_start_share",
}
NOT_OPTIONS = ("width", "gather", "reduction")  # of an objective: the learner sets them


def build(
    method: Method | str,
    encoder: Encoder | nn.Module,
    *,
    n_samples: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Learner:
    """A learner of this method around an encoder, for a loop of your own.

    Args:
        method: A name in ``METHODS``, or four choices of your own.
        encoder: An ``Encoder``, or any network of images of 32 pixels; for others see
            ``invariance.encoders.Encoder``.
        n_samples: Size of the data set, for methods with a memory bank.
        seed: Of a memory bank's first rows and draws.
        **options: Settings of the objective, such as ``temperature``, and of the
            source of negatives, such as a queue's ``size``.

    >>> import torch
    >>> from invariance.encoders import build_encoder
    >>> learner = build("dcl", build_encoder("tiny"), temperature=0.2)
    >>> learner.objective
    DCL(temperature=0.2, negatives='all', weight_sigma=None, normalize=True)
    >>> images = torch.rand(8, 3, 32, 32)
    >>> step = learner([images, images.flip(-1)])  # one batch per view
    >>> step.loss.backward()  # then the optimizer's step, and:
    >>> learner.after_step()  # momentum twin, queue and bank, where there are any
    """
    if not isinstance(encoder, Encoder):
        encoder = Encoder(encoder)
    if isinstance(method, str):
        method = choose(METHODS, method, "method")
    for kind, value, known in (
        ("kind of encoder", method.encoder, ENCODERS),
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
    names, options = source_names(method), separate_shares(options)
    source_settings = settings_of_source(
        method, n_samples, {k: v for k, v in options.items() if k in names}
    )
    options = {k: v for k, v in options.items() if k not in names}
    objective = build_objective(method, head.width, options)
    check_fit(method, objective)
    momentum = method.momentum if method.encoder == "momentum twin" else None
    if method.positives == "neighbors":
        kind = "support of neighbors"
        support = make(Queue, {**source_settings, "width": head.width}, kind)
        return NearestNeighbor(encoder, head, objective, support, method.hidden)
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
    if objective.takes != "targets":
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
    if objective.takes == "targets" and method.encoder == "one":
        wrong = f"{method.objective} needs a predictor or a momentum twin as encoder"
    elif method.negatives == "none" and objective.takes_negatives:
        wrong = f"{method.objective} is a softmax over negatives, and there are none"
    elif remembers and not objective.takes_negatives:
        wrong = f"{method.objective} takes no negatives from {method.negatives!r}"
    elif remembers and method.encoder == "predictor":
        wrong = f"negatives from {method.negatives!r} have no use for a predictor"
    elif method.negatives == "queue" and method.encoder != "momentum twin":
        wrong = "a queue's keys come from a momentum twin: choose that encoder"
    elif method.positives == "prototypes" and method.negatives != "queue":
        wrong = "prototypes come with a queue of negatives and a momentum twin"
    elif method.positives == "neighbors" and method.negatives != "batch":
        wrong = "neighbors as positives come with negatives from the batch"
    elif method.positives == "neighbors" and method.encoder != "predictor":
        wrong = "neighbors as positives are found by a predictor: choose that encoder"
    elif objective.needs_plain_noise and remembers:
        plain = getattr(NEGATIVES[method.negatives], "plain", False)
        if not plain or method.positives == "prototypes":
            wrong = f"{method.objective} takes its noise from a queue or a bank alone"
    if wrong:
        raise SettingError(f"These choices do not go together: {wrong}.")


def source_names(method: Method) -> set[str]:
    """Settings that a method's source takes, whether they count rows or give shares."""
    names = {*method.source_settings}
    for rows, share in SHARES.items():
        if rows in names or share in names:
            names |= {rows, share}
    return names


def separate_shares(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Counts of rows that are fractions become shares, as runs before 0.1.0 meant them.

    >>> separate_shares({"k": 0.1, "outer": 1.0, "inner": 5.0})
    {'share': 0.1, 'outer_share': 1.0, 'inner': 5.0}
    """
    return {
        SHARES[name]
        if name in SHARES and isinstance(value, float) and value <= 1
        else name: value
        for name, value in settings.items()
    }


def settings_of_source(
    method: Method, n_samples: int | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The method's settings of its source, and these in their place.

    Draws that a method has by default are no more than a small set allows; draws that
    were asked for are not cut down: a bank refuses too many in words.
    """
    settings = separate_shares(method.source_settings)
    for rows, share in SHARES.items():
        if rows in options or share in options:
            settings.pop(rows, None), settings.pop(share, None)
    if n_samples is not None and settings.get("n_draws") is not None:
        settings["n_draws"] = max(min(int(settings["n_draws"]), n_samples - 1), 1)
    return settings | dict(options)


def make(kind: Callable[..., Any], settings: Mapping[str, Any], name: str) -> Any:
    """Call with settings; ones it does not know are refused in words."""
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
    parameters = inspect.signature(kind).parameters
    known = {*parameters, *source_names(method)}.difference(NOT_OPTIONS)
    for name in options:
        if name not in known:
            raise SettingError(
                unknown(f"setting of {method.objective}", name, known)
                if known
                else f"{method.objective} has no settings: got {name!r}."
            )
    settings = {**method.settings, **options}
    if "width" in parameters:  # of prototypes, which are as wide as the projections
        settings["width"] = width
    return make(kind, settings, method.objective)


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
        return make(Queue, {**settings, "width": width}, name), []
    if n_samples is None:
        raise SettingError(
            f"Negatives from {name!r} keep one row per sample: pass n_samples, the "
            "size of the data set."
        )
    of_bank = {"momentum": settings.pop("bank_momentum", 0.5), "seed": seed}
    if name == "bank":
        of_bank |= settings
    bank = make(Bank, {"n_samples": n_samples, "width": width, **of_bank}, "bank")
    if name == "bank":
        return bank, []
    if name != "queue":
        return make(NEGATIVES[name], {**settings, "bank": bank}, name), []
    clusters = {k: settings.pop(k) for k in OF_PROTOTYPES if k in settings}
    n_clusterings = int(clusters.pop("n_clusterings", 1))
    prototypes = [
        make(Prototypes, {**clusters, "bank": bank}, "prototypes")
        for _ in range(n_clusterings)
    ]
    return make(Queue, {**settings, "width": width}, name), prototypes


def whole_numbers(kind: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Counts as int, where a file or a flag gives 64.0.

    >>> from invariance.negatives import Ball, Queue
    >>> whole_numbers(Queue, {"size": 64.0}), whole_numbers(Ball, {"share": 1.0})
    ({'size': 64}, {'share': 1.0})
    """
    known = inspect.signature(kind).parameters
    counts = {k for k, p in known.items() if p.annotation in (int, int | None)}
    numbers = dict(given)
    for name in counts.intersection(given):
        value = given[name]
        if isinstance(value, float):
            if not value.is_integer():
                raise SettingError(f"{name} is a whole number: got {value}.")
            numbers[name] = int(value)
    return numbers


def customize(method: Method | str, **changes: Any) -> Method:
    """A method with some of its choices replaced; None leaves one as it is.

    >>> customize("simclr", width=64, head=None).width
    64
    """
    if isinstance(method, str):
        method = choose(METHODS, method, "method")
    return replace(method, **{k: v for k, v in changes.items() if v is not None})
