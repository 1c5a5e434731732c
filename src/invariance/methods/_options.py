"""The options that a method accepts: the settings that its parts declare.

The parts are the objective, its temperature where it is learned, the critic, the source
of negatives, the momentum twin, the learner and the recipe of the views. Names, kinds
and defaults are those of their signatures; meanings and ranges stand in their
docstrings, as ``name (range): Meaning.`` under ``Settings:``. A setting that a part
declares is an option by that alone.
"""

import contextlib
import inspect
import re
import textwrap
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, get_args

from ..critics import CRITICS
from ..encoders import MomentumTwin
from ..errors import SettingError, choose, suggest
from ..negatives import NEGATIVES, Bank, Queue, Vocabulary
from ..objectives import OBJECTIVES, LearnedTemperature
from ..views import RECIPES
from ..words import align
from ._catalogue import METHODS
from ._cpc import PredictiveCoding
from ._dim import DeepInfoMax
from ._learned_critic import LEARNED
from ._method import Method
from ._remembering import Remembering, make_prototypes

SCALARS = {bool, int, float, str}
DECIDED = {  # by the encoder, the data, the run or the learner: no options
    "objective": {"width", "gather", "reduction", "any_psi"},
    "negatives": {"width", "n_samples", "n_tokens", "seed"},
    "views": {"size", "channels", "n_views"},
    "learner": {"make_head", "seed"},
    "critic": {"x_width", "y_width", "spectral_norm"},
}
# settings of a source that count rows, each beside the one that gives a share of them
SHARES = {
    "k": "share",
    "inner": "inner_share",
    "outer": "outer_share",
    "outer_start": "outer_start_share",
}
ENTRY = re.compile(r"(\w+)(?: \((.+?)\))?: (.+)")
WORDS = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True)
class Option:
    """One setting that a method accepts."""

    name: str
    default: Any
    range: str
    """What it may be, in words."""
    meaning: str
    part: str
    """Whose it is: "objective", "temperature", "critic", "negatives", "twin", "learner"
    or "views"."""
    kinds: tuple[Any, ...]
    """Types of its values."""

    def read(self, value: Any) -> Any:
        """A value from Python, a file or a flag as the part takes it.

        >>> size = options_of("moco")["size"]
        >>> size.read(64.0), options_of("moco")["symmetric"].read("true")
        (64, True)
        >>> size.read("many")
        Traceback (most recent call last):
        invariance.errors.SettingError: size is a whole number, 1 or more: got 'many'.
        """
        if value is not None and type(value) not in SCALARS:
            return value  # an object from Python, which the part checks itself
        if value is None or value == "none":
            if NoneType in self.kinds:
                return None
        elif value == "learned" and LearnedTemperature in self.kinds:
            return value
        elif bool in self.kinds:
            value = WORDS.get(value, value) if isinstance(value, str) else value
            if value in (0, 1):  # True and False are these, too
                return bool(value)
        elif str in self.kinds:
            return str(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            if float in self.kinds:
                return value
            if float(value).is_integer():
                return int(value)
        whole = "a whole number, " * (self.kinds[0] is int)
        raise SettingError(f"{self.name} is {whole}{self.range}: got {value!r}.")


def options_of(method: Method | str, recipe: str | None = None) -> dict[str, Option]:
    """All options of a method, by name; with a recipe also those of its views.

    >>> options_of("kcl")["kernel"].range
    'gaussian, log, imq, riesz, gaussian_riesz'
    """
    if isinstance(method, str):
        method = choose(METHODS, method, "method")
    objective = choose(OBJECTIVES, method.objective, "objective")
    remembers, twin = method.negatives in NEGATIVES, method.encoder == "momentum twin"
    options = read_declaration("objective", objective, method.settings)
    options |= temperature_options(options, method.settings)
    if method.critic in LEARNED:  # it takes rows as they are
        options.pop("normalize", None)
        sizes = read_declaration("critic", CRITICS[LEARNED[method.critic]])
        options |= add_prefix("critic", sizes)
    tokens = method.positives == "tokens"
    if remembers or tokens or method.within_views:
        options = {k: o for k, o in options.items() if k not in objective.batch_only}
    if tokens:  # rows of a table have lengths of their own
        options.pop("normalize", None)
    if twin:
        defaults = {"momentum": method.momentum, "rising": method.rising}
        options |= read_declaration("twin", MomentumTwin, defaults)
    if twin and remembers:
        options["symmetric"] = read_declaration("learner", Remembering)["symmetric"]
    if method.positives == "future":
        options["steps"] = read_declaration("learner", PredictiveCoding)["steps"]
    if method.positives == "places":
        options |= read_declaration("learner", DeepInfoMax, method.settings)
    for kind in parts_of_source(method):
        declared = read_declaration("negatives", kind, method.source_settings)
        if kind is Bank:
            declared["bank_momentum"] = replace(
                declared.pop("momentum"),
                name="bank_momentum",
                default=method.source_settings.get("bank_momentum", 0.5),
            )
            if method.negatives != "bank":
                declared = {"bank_momentum": declared["bank_momentum"]}
        options |= declared
    return options if recipe is None else options | recipe_options(recipe)


def temperature_options(
    options: Mapping[str, Option], settings: Mapping[str, Any]
) -> dict[str, Option]:
    """What a temperature that is learned can be told, where there may be one.

    >>> options_of("moco")["temperature_start"].default
    0.2
    """
    given = options.get("temperature")
    if given is None or LearnedTemperature not in given.kinds:
        return {}
    learned = read_declaration("temperature", LearnedTemperature)
    if isinstance(given.default, float | int):
        learned["start"] = replace(learned["start"], default=given.default)
    named = add_prefix("temperature", learned)
    return {k: replace(o, default=settings.get(k, o.default)) for k, o in named.items()}


def add_prefix(prefix: str, options: Mapping[str, Option]) -> dict[str, Option]:
    """The options of a part, as a method with several parts calls them."""
    named = [replace(option, name=f"{prefix}_{k}") for k, option in options.items()]
    return {option.name: option for option in named}


def recipe_options(name: str) -> dict[str, Option]:
    """The options of views by their name.

    >>> list(recipe_options("multi_crop"))[:3]
    ['n_global', 'n_local', 'local_size']
    """
    return read_declaration("views", choose(RECIPES, name, "views"))


def parts_of_source(method: Method) -> list[Callable[..., Any]]:
    """What the source of negatives, or of neighbors, is made of."""
    if method.positives == "neighbors":
        return [Queue]
    if method.positives == "tokens":
        return [Vocabulary]
    if method.negatives not in NEGATIVES:
        return []
    source = NEGATIVES[method.negatives]
    if method.positives == "prototypes":
        return [source, make_prototypes, Bank]
    on_a_bank = "bank" in inspect.signature(source).parameters
    return [source, Bank] if on_a_bank else [source]


def keeps_every_sample(method: Method) -> bool:
    """Whether it has a memory bank, with one row per sample of the data.

    >>> names = ("simclr", "moco", "ir", "pcl")
    >>> [name for name in names if keeps_every_sample(METHODS[name])]
    ['ir', 'pcl']
    """
    return Bank in parts_of_source(method)


def read_declaration(
    part: str, kind: Callable[..., Any], defaults: Mapping[str, Any] | None = None
) -> dict[str, Option]:
    """The numbers, words and truth values that a class or function can be told."""
    entries, options = read_docs(kind), {}
    for name, parameter in inspect.signature(kind).parameters.items():
        kinds = get_args(parameter.annotation) or (parameter.annotation,)
        if name in DECIDED.get(part, ()) or not SCALARS & {*kinds}:
            continue
        default = (defaults or {}).get(name, parameter.default)
        span, meaning = entries.get(name, ("", ""))
        span = span or ("true or false" if bool in kinds else "a number")
        span += ", or none" * (NoneType in kinds)
        default = None if default is parameter.empty else default
        options[name] = Option(name, default, span, meaning, part, kinds)
    return options


def read_docs(thing: Any) -> dict[str, tuple[str, str]]:
    """Range and meaning of each setting, from that section of a docstring.

    >>> read_docs(MomentumTwin)["momentum"][0]
    '0 to 1'
    """
    _, _, text = (inspect.getdoc(thing) or "").partition("\nSettings:\n")
    block = textwrap.dedent(text.partition("\n\n")[0])
    lines = re.sub(r"\n +", " ", block).splitlines()
    entries = [ENTRY.fullmatch(line) for line in lines]
    return {e[1]: (e[2] or "", e[3]) for e in entries if e is not None}


def separate_shares(
    settings: Mapping[str, Any], accepted: Container[str]
) -> dict[str, Any]:
    """Counts of rows that are fractions become shares, as runs before 0.1.0 meant them.

    >>> separate_shares({"k": 0.1, "inner": 5.0}, {"k", "share", "inner"})
    {'share': 0.1, 'inner': 5.0}
    """
    return {
        SHARES[name]
        if SHARES.get(name) in accepted and isinstance(value, float) and value <= 1
        else name: value
        for name, value in settings.items()
    }


def read_options(
    accepted: Mapping[str, Option], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Options as the parts take them; one that is not accepted is answered in words."""
    given = separate_shares(given, accepted)
    with answer(accepted):
        for name in given:
            if name not in accepted:
                hint = suggest(name, accepted)
                raise SettingError(f"Unknown option {name!r}. {hint}".strip())
        return {name: accepted[name].read(value) for name, value in given.items()}


@contextlib.contextmanager
def answer(accepted: Mapping[str, Option], *, asked: bool = True) -> Iterator[None]:
    """Put the list of options below what is wrong with one that was asked for."""
    try:
        yield
    except SettingError as cause:
        if not asked:
            raise
        lines = [f"  {line}" for line in list_options(accepted)]
        listed = "\n".join(["Accepted options:", *lines]) if lines else "It has none."
        raise type(cause)(f"{cause} {listed}") from None


def list_options(options: Mapping[str, Option]) -> list[str]:
    """A line per option: name, default, range, meaning.

    >>> [line.split()[:2] for line in list_options(options_of("byol"))]
    [['momentum', '0.95'], ['rising', 'true']]
    """
    rows = [
        (o.name, show_default(o.default), o.range, o.meaning) for o in options.values()
    ]
    return align(rows, left=range(4))


def show_default(value: Any) -> str:
    """As a file of settings would have it."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
