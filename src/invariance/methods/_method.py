"""A method is four choices: views, encoder, negatives, objective."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Method:
    """What tells one algorithm from another, and where its defaults come from."""

    objective: str
    """A name in ``OBJECTIVES``."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the objective that differ from its own defaults."""
    views: str = "auto"
    """A recipe of ``invariance.views``; "auto" fits the images."""
    n_views: int = 2
    encoder: str = "one"
    """"one" for all views, "predictor" on top of it (the other view is a target), or
    "momentum twin" (the target comes from a slowly moving copy)."""
    negatives: str = "batch"
    """"batch", "none", or a name in ``invariance.negatives.NEGATIVES``."""
    source_settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the negatives' source; "bank_momentum" is that of its memory bank."""
    positives: str = "views"
    """"views", "prototypes" besides (PCL), or "neighbours" instead (NNCLR)."""
    head: str = "mlp2"
    hidden: int = 512
    width: int = 128
    last_batch_norm: bool = False
    momentum: float = 0.996
    """Of the momentum twin."""
    rising: bool = True
    """Whether the twin's momentum rises to 1 by the end."""
    labelled: bool = False
    """Whether it learns from labels."""
    source: str = ""
    """Where the defaults come from."""
