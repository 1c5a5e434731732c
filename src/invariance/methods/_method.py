"""A method is four choices: views, encoder, negatives, objective."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import suggest_fields


@suggest_fields
@dataclass(frozen=True, kw_only=True)
class Method:
    """What tells one algorithm from another, and where its defaults come from."""

    objective: str
    """A name in ``OBJECTIVES``."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the objective that differ from its own defaults."""
    views: str = "auto"
    """A recipe of ``invariance.views``; "auto" fits the samples."""
    n_views: int = 2
    """Of each sample; where samples are pairs of two encoders, of its first side."""
    samples: str = "any"
    """What it learns from: a kind of sample by its name in ``invariance.data.KINDS``,
    "pair", or "any", whatever the data are."""
    encoder: str = "one"
    """"one" for all views, "predictor" on top of it (the other view is a target),
    "momentum twin" (the target comes from a slowly moving copy), or "two", one for each
    side of a pair."""
    negatives: str = "batch"
    """"batch", "none", "vocabulary" (all tokens), or a name in
    ``invariance.negatives.NEGATIVES``; where positives are the future, one in
    ``IN_TIME``."""
    source_settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the negatives' source; "bank_momentum" is that of its memory bank."""
    positives: str = "views"
    """"views", "prototypes" besides (PCL), or "neighbors" instead (NNCLR); the "future"
    of a sequence (CPC); the "tokens" that are hidden from a sentence; or the "places"
    of an image's feature map (Deep InfoMax)."""
    critic: str = "dot"
    """What scores two projections: "dot", the cosine over the temperature; or learned
    with them, "bilinear", "separable" or "mlp"."""
    dropout: float | None = None
    """Of text towers; None: the tower's own."""
    head: str = "mlp2"
    hidden: int = 512
    width: int = 128
    last_batch_norm: bool = False
    momentum: float = 0.996
    """Of the momentum twin."""
    rising: bool = True
    """Whether the twin's momentum rises to 1 by the end."""
    use: str = ""
    """When to take it, in a few words."""
    source: str = ""
    """Where the defaults come from, and which of them differ, and why."""
    released: str = ""
    """How the authors trained, by their code or else by the paper; what was not found
    is left out. Batch, optimizer and schedule are settings of a run: see ``Train``."""

    @property
    def labeled(self) -> bool:
        """Whether it learns from labels."""
        from ..objectives import OBJECTIVES  # with torch, which names can do without

        return OBJECTIVES[self.objective].takes == "labels"

    @property
    def within_views(self) -> bool:
        """Whether positives are parts of one view, so that one view is enough."""
        return self.positives in ("future", "places")

    def __post_init__(self) -> None:
        for name in ("negatives", "positives"):  # as they were spelled before 0.1.0
            if getattr(self, name) == "neighbours":
                object.__setattr__(self, name, "neighbors")
