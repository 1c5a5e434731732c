"""The views of a run: which recipe, with what options, and how strong they are."""

import dataclasses
import inspect
from typing import Any

from torch import Tensor

from ..data import KINDS, Image, Kind, Source
from ..errors import SettingError, choose
from ..evaluation import spread_rows
from ..methods import Method, options_of, read_options
from ..views import KINDS_OF, PGD, RECIPES, Normalize, ViewSet, weaken
from ._settings import Train

MOST_ROWS = 10_000  # that stand for all, where views redraw some of a row
ATTACKED = {
    "first": "the first one attacked",
    "all": "all of them attacked",
    "added": "an attacked copy of the first added",
}


def choose_recipe(settings: Train, method: Method, data: Any, kind: Kind) -> str:
    """The recipe asked for, or the one that suits the data."""
    name = settings.views if settings.views != "auto" else method.views
    if name == "auto":
        return "shapes" if isinstance(data, str) and data == "shapes" else kind.views
    kinds = KINDS_OF.get(name, ("image",))
    mine = kind.name not in KINDS and name in KINDS_OF
    if name in RECIPES and kind.name not in kinds and not mine:
        if settings.views == "auto":  # the method's own are for other samples
            return kind.views
        raise SettingError(
            f"The views {name!r} are for samples of the kind {' or '.join(kinds)}, "
            f"but these are {kind.word}s: leave --views out for {kind.views!r}."
        )
    return name


def choose_options(
    settings: Train, method: Method, recipe: str | None
) -> dict[str, Any]:
    """What the learner is told; what the views are told is left to ``make_views``."""
    given = dict(settings.options)
    if settings.temperature is not None:
        given["temperature"] = settings.temperature
    accepted = options_of(method, recipe)
    options = read_options(accepted, given)
    return {k: v for k, v in options.items() if accepted[k].part != "views"}


def make_views(settings: Train, method: Method, data: Any, source: Source) -> ViewSet:
    """The views that the settings name, of the samples of a source."""
    name = choose_recipe(settings, method, data, source.kind)
    accepted = options_of(method, name)
    options = read_options(accepted, settings.options)
    how = {k: v for k, v in options.items() if accepted[k].part == "views"}
    return apply_recipe(name, source, method.n_views, strengths_of(settings), **how)


def apply_recipe(
    name: str,
    source: Source,
    n_views: int,
    strengths: dict[str, float] | None = None,
    **options: Any,
) -> ViewSet:
    """Views by the name of their recipe, of the samples of a source."""
    recipe, kind = choose(RECIPES, name, "views"), source.kind
    parameters = inspect.signature(recipe).parameters
    if "n_views" in parameters:
        options["n_views"] = n_views
    if "rows" in parameters:
        options["rows"] = take_rows(source)
    arguments = (kind,) if name in KINDS_OF else (kind.shape[1], kind.shape[0])
    made = weaken(recipe(*arguments, **options), strengths or {})
    return ViewSet(made, prepare=None if isinstance(kind, Image) else kind.prepare)


def take_rows(source: Source) -> Tensor:
    """Samples for views to draw from, evenly spread, where the source keeps them."""
    kept = getattr(source, "samples", None)
    device = kept.device if isinstance(kept, Tensor) else "cpu"
    rows = spread_rows(len(source), MOST_ROWS)
    return next(iter(source.batches([rows], device=device)))


def strengths_of(settings: Train) -> dict[str, float]:
    """The strength of each operation of the views that was weakened or left out."""
    twice = [name for name in settings.views_drop if name in settings.views_strength]
    if twice:
        raise SettingError(
            f"{twice[0]} is both dropped and given a strength of "
            f"{settings.views_strength[twice[0]]}: leave one of them out."
        )
    return dict.fromkeys(settings.views_drop, 0.0) | settings.views_strength


def make_attack(
    settings: Train, views: ViewSet, kind: Kind, n_views: int
) -> PGD | None:
    """How views are attacked; None where they are not.

    Args:
        settings: Of the run.
        views: Of the samples, or of a pair's first side.
        kind: What such a sample is.
        n_views: Of both sides together.
    """
    if settings.views_adversarial is None:
        return None
    name = "--views.adversarial"
    if not isinstance(kind, Image):
        raise SettingError(
            f"{name} changes the pixels of images, but these are {kind.word}s: leave "
            "it out."
        )
    if n_views < 2:
        raise SettingError(
            f"{name} drives two views apart, and {settings.method} shows each sample "
            "in only one: use a method with two views, or leave it out."
        )
    if any(isinstance(item, Normalize) for view in views.pipelines for item in view):
        raise SettingError(
            f"{name} keeps pixels between 0 and 1, but these views are normalized: "
            "leave Normalize out, since the encoder standardizes images itself."
        )
    return PGD(**dataclasses.asdict(settings.attack))


def describe_views(settings: Train, attack: PGD | None = None) -> str:
    """How the views were weakened and attacked, in words; empty if they were not.

    >>> describe_views(Train(views_drop=("blur",), views_strength={"crop": 0.5}))
    'without blur, crop at 0.5 of its strength'
    """
    strengths = strengths_of(settings)
    parts = [f"without {name}" for name, s in strengths.items() if s == 0]
    weaker = [f"{n} at {s:g} of its strength" for n, s in strengths.items() if s]
    attacked = []
    if attack is not None and settings.views_adversarial is not None:
        which = ATTACKED[settings.views_adversarial]
        attacked.append(
            f"{which}, by {attack.describe()} against the loss; readings "
            "of a step are of the attacked views"
        )
    return ", ".join([*parts, *weaker, *attacked])
