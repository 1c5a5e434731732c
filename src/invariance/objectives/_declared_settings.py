"""Settings of an objective: declared once, in the signature of its function.

    @check_settings
    def nt_xent(u, v, *, temperature: Temperature = 0.5, normalize: bool = True): ...

    class NTXent(Objective):
        __init__ = settings_of(nt_xent)

An annotation such as ``Positive`` carries the check that its values must pass. The
class gets its ``__init__``, attributes, ``forward`` and ``repr`` from the signature. A
function documents the settings of its own; its help goes on with those that objectives
share, as its signature has them (``MEANINGS``).
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from textwrap import indent
from typing import (
    Annotated,
    Any,
    Concatenate,
    ParamSpec,
    get_args,
    get_origin,
    overload,
)

from jaxtyping import Float
from torch import Tensor

from ..checked_rows import may_look
from ..errors import NotFiniteError, SettingError, suggest, unknown
from ..partition import Share
from ..plain_numbers import (
    check_number,
    check_positive_number,
    check_truth,
    plain_number,
)
from ._learned_temperature import LearnedTemperature

P = ParamSpec("P")
Check = Callable[[str, Any], None]

# ---------------------------------------------------------------- kinds of settings


def check_number_or_tensor(name: str, value: float | int | Tensor) -> None:
    """Raise unless the setting is a finite number, or a tensor of one."""
    if not isinstance(value, Tensor):
        check_number(name, value)
    elif value.numel() != 1:
        raise SettingError(
            f"{name} must be one number: got shape {tuple(value.shape)}."
        )


def check_positive(name: str, value: float | int | Tensor) -> None:
    """Raise unless the setting is a positive, finite number, or a tensor of one.

    On an accelerator, and inside a compiled graph, a tensor's value is not looked at.
    """
    if isinstance(value, Tensor):
        check_number_or_tensor(name, value)
        if not may_look(value):
            return
        value = float(value.detach())
    check_positive_number(name, value)


def check_temperature(name: str, value: Any) -> None:
    """Raise unless the setting is a positive number, a tensor of one, or learned."""
    if isinstance(value, str) and value == "learned":
        raise SettingError(
            f'{name}="learned" is a parameter and needs somewhere to live: use the '
            "class, as in InfoNCE(temperature='learned'), or pass a tensor."
        )
    if isinstance(value, str):
        raise SettingError(
            f'{name} must be a number, or the word "learned": got {value!r}.'
        )
    if not isinstance(value, LearnedTemperature):
        check_positive(name, value)


def check_not_negative(name: str, value: float | int) -> None:
    """Raise unless the setting is a finite number of at least 0."""
    check_number(name, value)
    if value < 0:
        raise SettingError(f"{name} must be 0 or more: got {value}.")


def check_not_zero(name: str, value: float | int) -> None:
    """Raise unless the setting is a finite number other than 0."""
    check_number(name, value)
    if value == 0:
        raise SettingError(f"{name} must not be 0: every pair would count the same.")


def check_mean(name: str, value: str) -> None:
    """Raise unless the setting is "mean", for a loss that has no value per sample."""
    one_of("mean", "none")(name, value)
    if value == "none":
        raise SettingError(
            f"{name}='none' asks for one value per sample, but this loss is one "
            "number for the whole batch, not a mean over samples: leave it at 'mean'."
        )


def one_of(*choices: str) -> Check:
    """A check that names the nearest choice."""

    def check(name: str, value: str) -> None:
        if value not in choices:
            raise SettingError(unknown(name, value, choices))

    return check


def optional(check: Check) -> Check:
    """A check that lets None pass."""

    def check_unless_none(name: str, value: Any) -> None:
        if value is not None:
            check(name, value)

    return check_unless_none


def check_gather(name: str, value: Any) -> None:
    """Raise unless the setting says whose rows are taken, or nothing."""
    words = ("equal", "ring")
    if not isinstance(value, bool | Share | None) and value not in words:
        raise SettingError(unknown(name, value, ("True", "False", *words)))


Number = float | int | Tensor  # a tensor where it is differentiated
Temperature = Annotated[Number | LearnedTemperature, check_temperature]
Positive = Annotated[float | int, check_positive]
PositiveNumber = Annotated[Number, check_positive]
AnyNumber = Annotated[Number, check_number_or_tensor]
Finite = Annotated[float | int, check_number]
NotZero = Annotated[float | int, check_not_zero]
NotNegative = Annotated[float | int, check_not_negative]
Reduction = Annotated[str, one_of("mean", "none")]
MeanOnly = Annotated[str, check_mean]
Gather = Annotated[bool | str | Share | None, check_gather]


def reduce(losses: Float[Tensor, "*v n"], reduction: str) -> Float[Tensor, "*n"]:
    """The mean; or, for "none", one number per sample: the mean over its anchors."""
    if reduction == "mean":
        return losses.mean()
    return losses if losses.ndim == 1 else losses.mean(0)


# ---------------------------------------------------------------- functions, classes


def check_settings(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Have a loss check its settings as their annotations say, and its value."""
    signature = inspect.signature(function)
    names = list(signature.parameters)
    checks: dict[str, Check] = {}
    plain = []  # what help() shows: types without their checks
    for parameter in signature.parameters.values():
        annotation = parameter.annotation
        if get_origin(annotation) is Annotated:
            annotation, checks[parameter.name] = get_args(annotation)
        elif annotation is bool:
            checks[parameter.name] = check_truth
        plain.append(parameter.replace(annotation=annotation))

    @functools.wraps(function)
    def call(*inputs: P.args, **settings: P.kwargs) -> Tensor:
        for name, value in settings.items():
            if name in checks:
                settings[name] = check_setting(checks[name], name, value)
            elif name not in names:
                hint = suggest(name, names) or f"It takes {', '.join(names)}."
                what = f"{function.__name__}() got an unexpected keyword argument"
                raise TypeError(f"{what} {name!r}. {hint}")
        return check_loss(function(*inputs, **settings), function.__name__)

    call.__doc__ = explain_settings(function.__doc__, signature.parameters)
    call.__signature__ = signature.replace(parameters=plain)  # type: ignore[attr-defined]
    call.checks = checks  # type: ignore[attr-defined]
    return call


def check_loss(loss: Tensor, name: str) -> Tensor:
    """The loss of finite rows, or an error if it is beyond what a float can hold.

    Where looking would stall an accelerator, it comes out as it is.
    """
    if may_look(loss) and not bool(loss.detach().isfinite().all()):
        raise NotFiniteError(
            f"{name} of these rows is beyond what {loss.dtype} can hold: their numbers "
            "are too large. The network may have diverged: lower the learning rate, "
            "clip the gradient, or leave normalize=True where there is that setting."
        )
    return loss


def check_setting(check: Check, name: str, value: Any) -> Any:
    """A setting that passed its check; any kind of number as a plain one."""
    value = value if isinstance(value, Tensor) else plain_number(value)
    check(name, value)
    return value


@overload
def settings_of(
    function: Callable[Concatenate[Tensor, Tensor, P], Tensor],
) -> Callable[Concatenate[Any, P], None]: ...
@overload
def settings_of(
    function: Callable[Concatenate[Tensor, P], Tensor],
) -> Callable[Concatenate[Any, P], None]: ...
def settings_of(function: Callable[..., Any]) -> Callable[..., None]:
    """An ``__init__`` that takes, checks and stores a function's settings."""

    def __init__(self: Any, *args: Any, **settings: Any) -> None:  # noqa: N807
        self.start(*args, **settings)

    __init__.function = function  # type: ignore[attr-defined]
    return __init__


# ---------------------------------------------------------------- help

MEANINGS = {
    "temperature": """\
temperature (above 0, or learned): Divides every score: a low one looks at the
    nearest negatives only.""",
    "normalize": """\
normalize: Divide rows by their length first.""",
    "gather": """\
gather (True, False, "ring", "equal"): Whose rows are used when there are several
    processes, each with any number of its own rows.
    Not given: only this process's rows, with a warning.
    False: only this process's rows, without a warning.
    True: those of all processes, gathered once, or circulating where they would not
    fit. Value and gradient (averaged over processes, as DistributedDataParallel
    does) are those of one process with the whole batch.
    "ring": those of all, circulating from process to process, so that none holds
    them all.
    "equal": as True, with a promise that all processes have equally many rows: a
    GPU then does not exchange the numbers, which would be a wait. A CPU does, and
    refuses unequal ones.""",
    "reduction": """\
reduction ("mean", "none"): One number, or one value per sample, the mean over its
    views. A loss that is not a mean over samples refuses "none".""",
}


def explain_settings(doc: str | None, names: Iterable[str], *more: str | None) -> str:
    """A docstring with what settings mean, also those that it shares with others.

    Args:
        doc: Its ``Settings:``, if it has any, stand last before the examples.
        names: All of its settings.
        more: Docstrings whose settings are its own as well.

    >>> print(explain_settings("A loss.", ["normalize"]))
    A loss.
    <BLANKLINE>
    Settings:
        normalize: Divide rows by their length first.
    """
    text, example, rest = inspect.cleandoc(doc or "").partition("\n>>> ")
    text, _, own_settings = text.partition("\nSettings:\n")
    blocks = [own_settings, *map(read_settings, more)]
    blocks += [indent(MEANINGS[name], "    ") for name in names if name in MEANINGS]
    settings = "\n".join(block.strip("\n") for block in blocks if block.strip())
    explained = f"{text.rstrip()}\n\nSettings:\n{settings}"
    return f"{explained}\n\n>>> {rest}" if example else explained


def read_settings(doc: str | None) -> str:
    """The settings that a docstring explains."""
    _, _, text = inspect.cleandoc(doc or "").partition("\nSettings:\n")
    return text.partition("\n\n")[0]
