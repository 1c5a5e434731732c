"""From four choices to something that can be trained."""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from ..encoders import Encoder
from ..errors import SettingError, choose, unknown
from ..negatives import IN_TIME, NEGATIVES
from ..objectives import OBJECTIVES, LearnedTemperature, Objective
from ._assembly import Parts, choose_assembly, make, make_head, without_prefix
from ._catalogue import METHODS
from ._learned_critic import LEARNED, find_obstacle
from ._learner import Learner
from ._method import Method
from ._options import (
    SHARES,
    Option,
    answer,
    options_of,
    read_options,
    separate_shares,
)

CRITICS = ("dot", *LEARNED)
ENCODERS = ("one", "predictor", "momentum twin", "two")
POSITIVES = ("views", "prototypes", "neighbors", "future", "tokens", "places")
PLAIN = ("batch", "none", "vocabulary")  # negatives that nothing keeps
IN_PLACE_OF = {  # a limit on similarity: the limits on ranks that it replaces
    "min_similarity": [r for r in (*SHARES, *SHARES.values()) if "inner" not in r],
    "max_similarity": ["inner", "inner_share"],
}


def build(
    method: Method | str,
    encoder: Encoder | nn.Module,
    *,
    other: Encoder | nn.Module | None = None,
    n_samples: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Learner:
    """A learner of this method around an encoder, for your own loop.

    Args:
        method: A name in ``METHODS``, or your own four choices.
        encoder: An ``Encoder``, or any network of images of 32 pixels; for others see
            ``invariance.encoders.Encoder``.
        other: The second side's, for a method of two encoders.
        n_samples: Size of the data set, for methods with a memory bank.
        seed: Of a memory bank's first rows and draws.
        **options: Settings of the objective, such as ``temperature``, of the source of
            negatives, such as a queue's ``size``, and of the momentum twin;
            ``options_of(method)`` says which.

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
    if other is not None and not isinstance(other, Encoder):
        other = Encoder(other)
    if isinstance(method, str):
        method = choose(METHODS, method, "method")
    if not isinstance(method, Method):
        raise SettingError(
            "A learner is built from the name of a method, as build('dcl', encoder), "
            "or from an inv.Method, as build(inv.Method(objective='dcl'), encoder): "
            f"got {method!r}. An objective by itself needs no learner: call it on rows."
        )
    check_choices(method, other)
    accepted = options_of(method)
    given = read_options(accepted, options)
    settings = settings_of_parts(method, accepted, given, n_samples)
    # what predicts the future or compares places makes its heads itself
    head, width = None, encoder.width if method.positives == "future" else method.width
    if not method.within_views:
        head = make_head(method, encoder)
        width = head.width
    with answer(accepted, asked=bool(given)):
        objective = build_objective(method, width, settings)
        refuse_idle_options(given, accepted, objective)
    check_fit(method, objective)
    parts = Parts(method, encoder, other, head, objective, settings, n_samples, seed)
    with answer(accepted, asked=bool(given)):
        return choose_assembly(method)(parts)


def check_choices(method: Method, other: Encoder | None) -> None:
    """Raise for a choice that nobody knows, or a second encoder out of place."""
    for kind, value, known in (
        ("kind of encoder", method.encoder, ENCODERS),
        ("critic", method.critic, CRITICS),
        ("kind of positives", method.positives, POSITIVES),
        ("negatives", method.negatives, (*PLAIN, *NEGATIVES, *IN_TIME)),
    ):
        if value not in known:
            raise SettingError(unknown(kind, value, known))
    if (method.encoder == "two") != (other is not None):
        needs = "needs a second encoder, for the other side of each pair: pass other="
        raise SettingError(
            f"{method.objective} of two encoders {needs}."
            if other is None
            else "other is the encoder of a pair's second side, but this method has "
            "one encoder for everything: leave it out."
        )


def refuse_idle_options(
    given: Mapping[str, Any], accepted: Mapping[str, Option], objective: Objective
) -> None:
    """Raise for an option that was asked for and changes nothing beside the others."""
    for name in given:
        if name in objective.idle:
            raise SettingError(f"{name} has no effect in {objective}: leave it out.")
        if accepted[name].part == "temperature" and not isinstance(
            objective.temperature, LearnedTemperature
        ):
            raise SettingError(
                f"{name} is for a temperature that is learned: leave it out, or add "
                "temperature learned."
            )


def check_fit(method: Method, objective: Objective) -> None:
    """Raise where the four choices do not go together."""
    remembers = method.negatives in NEGATIVES
    future, places = (method.positives == kind for kind in ("future", "places"))
    learned = method.critic in LEARNED
    wrong = find_obstacle(method.critic, objective) if learned else ""
    if wrong:
        pass
    elif learned and (method.negatives, method.positives) != ("batch", "views"):
        others = {
            "future": "each step ahead is predicted by its own bilinear critic",
            "tokens": "hidden tokens are compared with the rows of a table",
            "places": "places are compared by the inner products of their rows",
        }
        rows = "remembered rows are compared by their cosines"
        wrong = (
            f"the {method.critic} critic scores views of a batch, and "
            f"{others.get(method.positives, rows)}: take a method whose positives are "
            "views and whose negatives are the batch, or the critic dot"
        )
    elif objective.takes == "targets" and method.encoder == "one":
        wrong = f"{method.objective} needs a predictor or a momentum twin as encoder"
    elif future != (method.negatives in IN_TIME):
        wrong = f"the future as positive has negatives in time, {', '.join(IN_TIME)}"
    elif future and method.encoder != "one":
        wrong = "the future is predicted by one encoder"
    elif places and (method.encoder, method.negatives) != ("one", "batch"):
        wrong = "places are compared with the summaries of a batch, of one encoder"
    elif places and not (objective.takes_among and objective.takes == "pair"):
        wrong = (
            f"{method.objective} does not say what several anchors of a sample cost: "
            "take info_nce, jsd, dv, dcl or flat_nce"
        )
    elif future and not objective.takes_negatives:
        wrong = f"{method.objective} is not a softmax over negatives"
    elif method.negatives == "none" and objective.takes_negatives:
        wrong = f"{method.objective} is a softmax over negatives, but there are none"
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
    elif (method.positives == "tokens") != (method.negatives == "vocabulary"):
        wrong = "hidden tokens are found in a vocabulary, and nothing else is"
    elif method.positives == "tokens" and not (
        objective.takes_negatives and objective.takes == "pair"
    ):
        wrong = f"{method.objective} takes no negatives from a vocabulary"
    elif method.positives == "neighbors" and method.encoder != "predictor":
        wrong = "neighbors as positives are found by a predictor: choose that encoder"
    elif objective.needs_plain_noise and remembers:
        plain = getattr(NEGATIVES[method.negatives], "plain", False)
        if not plain or method.positives == "prototypes":
            wrong = f"{method.objective} takes its noise only from a queue or a bank"
    if wrong:
        raise SettingError(f"These choices do not go together: {wrong}.")


def settings_of_parts(
    method: Method,
    accepted: Mapping[str, Option],
    given: Mapping[str, Any],
    n_samples: int | None,
) -> dict[str, dict[str, Any]]:
    """What each part of a learner is told: the method's settings, and these on top.

    Draws that a method has by default are no more than a small set allows; draws that
    were asked for are not cut down: a bank refuses too many in words.
    """
    source = separate_shares(method.source_settings, accepted)
    for rows, share in SHARES.items():
        if rows in given or share in given:
            source.pop(rows, None), source.pop(share, None)
    for similarity, ranks in IN_PLACE_OF.items():
        if given.get(similarity) is not None:
            source = {k: v for k, v in source.items() if k not in ranks}
    if n_samples is not None and source.get("n_draws") is not None:
        source["n_draws"] = max(min(int(source["n_draws"]), n_samples - 1), 1)
    parts: dict[str, dict[str, Any]] = {
        "objective": {},
        "temperature": {},
        "critic": {},
        "negatives": source,
        "twin": {"momentum": method.momentum, "rising": method.rising},
        "learner": {},
    }
    for name, value in method.settings.items():
        part = accepted[name].part if name in accepted else "objective"
        parts[part][name] = value
    for settings in parts.values():
        known = {k: accepted[k].read(v) for k, v in settings.items() if k in accepted}
        settings |= known
    for name, value in given.items():
        parts[accepted[name].part][name] = value
    return parts


def build_objective(
    method: Method, width: int, parts: Mapping[str, Mapping[str, Any]]
) -> Objective:
    """The objective with its settings, and those of a temperature that is learned."""
    kind = choose(OBJECTIVES, method.objective, "objective")
    settings = dict(parts["objective"])
    if method.critic in LEARNED and "normalize" in kind.defaults:
        settings["normalize"] = False  # the critic is for rows as they are
    if settings.get("temperature") == "learned":
        number = method.settings.get("temperature")
        start = kind.defaults["temperature"] if number in (None, "learned") else number
        how = {"start": start, **without_prefix("temperature", parts)}
        settings["temperature"] = LearnedTemperature(**how)
    if "width" in inspect.signature(kind).parameters:  # prototypes, as wide as rows
        settings = {**settings, "width": width}
    objective: Objective = make(kind, settings, method.objective)
    return objective


def customize(method: Method | str, **changes: Any) -> Method:
    """A method with some of its choices replaced; None leaves one as it is.

    A learned critic in place of the cosine begins with temperature 1: it finds a scale
    of its own.

    >>> customize("simclr", width=64, head=None).width
    64
    >>> customize("info_nce", critic="separable").settings
    {'temperature': 1.0}
    """
    if isinstance(method, str):
        method = choose(METHODS, method, "method")
    learns = method.critic == "dot" and changes.get("critic") in LEARNED
    if learns and "temperature" in method.settings:
        changes = {"settings": {**method.settings, "temperature": 1.0}} | changes
    return replace(method, **{k: v for k, v in changes.items() if v is not None})
