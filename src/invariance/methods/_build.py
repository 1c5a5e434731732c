"""From four choices to something that can be trained."""

import inspect
from dataclasses import replace
from typing import Any

from ..encoders import Encoder, build_head
from ..errors import SettingError, choose, unknown
from ..objectives import BYOL, OBJECTIVES, SimSiam
from ._catalogue import METHODS
from ._learner import JointEmbedding, Learner, SelfPrediction
from ._method import Method

KINDS = ("one", "predictor", "momentum twin")


def build(method: Method | str, encoder: Encoder, **options: Any) -> Learner:
    """A learner of this method around an encoder.

    Args:
        method: A name in ``METHODS``, or four choices of your own.
        encoder: Samples in, features out.
        **options: Settings of the objective, such as ``temperature``.

    >>> from invariance.encoders import build_encoder
    >>> learner = build("dcl", build_encoder("tiny"), temperature=0.2)
    >>> learner.objective
    DCL(temperature=0.2, negatives='all', weight_sigma=None, normalize=True)
    """
    if isinstance(method, str):
        method = choose(METHODS, method, "method")
    head = build_head(
        method.head,
        encoder.width,
        method.hidden,
        method.width,
        last_batch_norm=method.last_batch_norm,
    )
    objective_class = choose(OBJECTIVES, method.objective, "objective")
    settings = whole_numbers(objective_class, {**method.settings, **options})
    if method.objective == "swav":
        settings["width"] = head.width
    try:
        objective = objective_class(**settings)
    except TypeError as cause:
        raise SettingError(
            f"{method.objective} cannot take the settings {settings}: {cause}."
        ) from None
    if method.encoder not in KINDS:
        raise SettingError(unknown("kind of encoder", method.encoder, KINDS))
    if method.encoder == "one":
        return JointEmbedding(encoder, head, objective)
    if not isinstance(objective, BYOL | SimSiam):
        raise SettingError(
            f"A {method.encoder} needs an objective with targets, byol or sim_siam: "
            f"got {method.objective}."
        )
    momentum = method.momentum if method.encoder == "momentum twin" else None
    hidden = max(method.hidden // 4, 32) if momentum is None else method.hidden
    return SelfPrediction(encoder, head, objective, hidden=hidden, momentum=momentum)


def whole_numbers(kind: type, settings: dict[str, Any]) -> dict[str, Any]:
    """Counts as int: flags and files give every number as a float."""
    known = inspect.signature(kind).parameters
    return {
        name: int(value)
        if name in known
        and type(known[name].default) is int
        and isinstance(value, float)
        and value.is_integer()
        else value
        for name, value in settings.items()
    }


def customised(method: Method | str, **changes: Any) -> Method:
    """A method with some of its choices replaced; None leaves one as it is."""
    if isinstance(method, str):
        method = choose(METHODS, method, "method")
    return replace(method, **{k: v for k, v in changes.items() if v is not None})
