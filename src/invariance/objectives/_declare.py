"""An objective's settings are declared once, in the signature of its function.

    @check_settings
    def nt_xent(u, v, *, temperature: Temperature = 0.5, normalize: bool = True): ...

    class NTXent(Objective):
        __init__ = settings_of(nt_xent)

An annotation such as ``Positive`` carries the check that its values must pass. The
class gets its ``__init__``, attributes, ``forward`` and ``repr`` from the signature.
"""

import functools
import inspect
import math
from collections.abc import Callable
from typing import (
    Annotated,
    Any,
    Concatenate,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    overload,
)

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import SettingError, unknown

P = ParamSpec("P")
T = TypeVar("T")
Check = Callable[[str, Any], None]


class LearnedTemperature(nn.Module):
    """A temperature that is trained: its inverse's logarithm is a parameter.

    It never falls below ``minimum``: a batch that is solved would drive it to zero. At
    0.024 or above the fused kernels of a GPU take it. Do not decay it.

    >>> temperature = LearnedTemperature(0.07)
    >>> temperature
    LearnedTemperature(0.07, minimum=0.025)
    >>> round(temperature.log_scale.item(), 3)  # log 1/0.07
    2.659
    """

    def __init__(self, start: float | int = 0.1, *, minimum: float | int = 0.025):
        super().__init__()
        check_positive("start", start)
        check_positive("minimum", minimum)
        if start < minimum:
            raise SettingError(
                f"A learned temperature starts at its minimum {minimum} or above: got "
                f"{start}."
            )
        self.log_scale = nn.Parameter(torch.tensor(-math.log(start)))
        self.minimum = minimum

    def scale(self) -> Tensor:
        """The inverse temperature, at most ``1 / minimum``."""
        with torch.no_grad():  # the parameter itself, or it could not come back
            self.log_scale.clamp_(max=-math.log(self.minimum))
        return self.log_scale.exp()

    def __float__(self) -> float:
        return max(math.exp(-float(self.log_scale.detach())), float(self.minimum))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({float(self):.4g}, minimum={self.minimum})"


def scale_of(temperature: Any) -> float | Tensor:
    """The inverse of a temperature that is a number, a tensor or learned."""
    if isinstance(temperature, LearnedTemperature):
        return temperature.scale()
    return 1 / temperature


def largest_scale(temperature: Any) -> float | None:
    """What the inverse of a learned temperature cannot exceed; None for others."""
    learned = isinstance(temperature, LearnedTemperature)
    return 1 / temperature.minimum if learned else None


def value_of(temperature: Any) -> float | int | Tensor:
    """A temperature as a number or a tensor."""
    learned = isinstance(temperature, LearnedTemperature)
    return 1 / temperature.scale() if learned else temperature


# ---------------------------------------------------------------- kinds of settings


def check_number(name: str, value: float | int) -> None:
    """Raise unless the setting is a finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise SettingError(f"{name} must be a number: got {value!r}.")
    if not -math.inf < value < math.inf:  # the compiler knows no math.isfinite
        raise SettingError(f"{name} must be finite: got {value}.")


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
        if value.device.type != "cpu" or torch.compiler.is_compiling():
            return
        value = float(value.detach())
    check_number(name, value)
    if value <= 0:
        raise SettingError(f"{name} must be a positive number: got {value}.")


def check_temperature(name: str, value: Any) -> None:
    """Raise unless the setting is a positive number, a tensor of one, or learned."""
    if isinstance(value, str) and value == "learned":
        raise SettingError(
            f'{name}="learned" is a parameter and needs somewhere to live: use the '
            "class, as in InfoNCE(temperature='learned'), or pass a tensor."
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
            f"{name}='none' asks for one value per sample, and this loss is one number "
            "of the whole batch, not a mean over samples: leave it at 'mean'."
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


def reduce(losses: Float[Tensor, "*v n"], reduction: str) -> Float[Tensor, "*n"]:
    """The mean; or, for "none", one number per sample: the mean over its anchors."""
    if reduction == "mean":
        return losses.mean()
    return losses if losses.ndim == 1 else losses.mean(0)


# ---------------------------------------------------------------- functions, classes


def check_settings(function: Callable[P, T]) -> Callable[P, T]:
    """Have a function check the settings it is given as their annotations say."""
    signature = inspect.signature(function)
    checks: dict[str, Check] = {}
    plain = []  # what help() shows: types without their checks
    for parameter in signature.parameters.values():
        annotation = parameter.annotation
        if get_origin(annotation) is Annotated:
            annotation, checks[parameter.name] = get_args(annotation)
        plain.append(parameter.replace(annotation=annotation))

    @functools.wraps(function)
    def call(*inputs: P.args, **settings: P.kwargs) -> T:
        for name, value in settings.items():
            if name in checks:
                checks[name](name, value)
        return function(*inputs, **settings)

    call.__signature__ = signature.replace(parameters=plain)  # type: ignore[attr-defined]
    call.checks = checks  # type: ignore[attr-defined]
    return call


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
