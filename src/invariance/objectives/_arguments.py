"""What an objective takes: settings, declared once in a signature, and rows, checked.

    @check_settings
    def nt_xent(u, v, *, temperature: Temperature = 0.5, normalize: bool = True): ...

    class NTXent(Objective):
        __init__ = settings_of(nt_xent)

An annotation such as ``Positive`` carries the check that its values must pass. The
class gets its ``__init__``, attributes, ``forward`` and ``repr`` from the signature.
"""

import contextlib
import functools
import inspect
import math
from collections.abc import Callable
from typing import (
    Annotated,
    Any,
    Concatenate,
    ParamSpec,
    get_args,
    get_origin,
    overload,
)

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..checked_rows import SHORTEST, divide_by_length, may_look
from ..errors import NotFiniteError, SettingError, ShapeError, suggest, unknown
from ..partition import Share, fused_unit_rows, gather_rows
from ..plain_numbers import (
    check_number,
    check_positive_number,
    check_truth,
    plain_number,
)
from ._learned_temperature import LearnedTemperature
from ._meanings import explain_settings
from ._shares import check_on_all, take_share

HALVES = (torch.float16, torch.bfloat16)
P = ParamSpec("P")
Check = Callable[[str, Any], None]


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


# ---------------------------------------------------------------- rows of embeddings


def unit_rows(x: Float[Tensor, "*v n d"]) -> Float[Tensor, "*v n d"]:
    """``divide_by_length`` in at least float32, in one launch on a GPU."""
    fused = fused_unit_rows(x, SHORTEST)
    return divide_by_length(at_least_float32(x)) if fused is None else fused


def longest_row(unit: bool) -> float:
    """What is known of the rows' length, for ``log_partition``."""
    return 1.0 if unit else math.inf


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision is raised to float32; float32 and float64 are kept."""
    if x.dtype in (torch.float32, torch.float64):
        return x
    return x.to(torch.promote_types(x.dtype, torch.float32))


def ready_rows(x: Float[Tensor, "*v n d"], unit: bool) -> Float[Tensor, "*v n d"]:
    """Rows in at least float32 and, if asked, of unit length."""
    return unit_rows(x) if unit else at_least_float32(x)


def tile_precision(*rows: Tensor) -> str:
    """How precisely a fused kernel need multiply rows made from these.

    Their unit rows are float32, but rows that came in 16 bits carry no more than those:
    rounding them once more, to the 11 bits of a float16, costs little.
    """
    # what is no tensor has no dtype, and is refused when its rows are made ready
    halves = all(getattr(x, "dtype", None) in HALVES for x in rows)
    return "half" if halves else "auto"


def paired_rows(
    u: Tensor, v: Tensor, *, normalize: bool = True, gather: Any
) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"]]:
    """Two views checked, raised to float32 and, unless asked not to, of unit length.

    With ``gather`` the rows of all processes, with the gradient of the whole batch.
    """
    u, v, share = take_pair(u, v, gather)
    if share is not None:
        u, v = gather_rows(u, share=share), gather_rows(v, share=share)
    return ready_rows(u, normalize), ready_rows(v, normalize)


def shared_rows(
    u: Tensor, v: Tensor, *, normalize: bool = True, gather: Any
) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"], Share | None]:
    """Two views as ``paired_rows`` has them, but this process's rows, and their share.

    For a loss whose processes each compute their own rows.
    """
    u, v, share = take_pair(u, v, gather)
    return ready_rows(u, normalize), ready_rows(v, normalize), share


def take_pair(u: Tensor, v: Tensor, gather: Any) -> tuple[Tensor, Tensor, Share | None]:
    """Two views as they came, and which rows of all they are, if others are taken."""
    check_tensor(u, "u")
    share = take_share(u, gather)
    check_on_all(check_pair, u, v, share=share)
    return u, v, share


def check_pair(
    u: Tensor, v: Tensor, least: int = 2, share: Share | None = None
) -> None:
    """Raise unless u and v are two views of the same samples."""
    check_tensor(u, "u")
    check_tensor(v, "v")
    if u.ndim == v.ndim == 2 and u.shape != v.shape:
        shapes = f"got {tuple(u.shape)} and {tuple(v.shape)}"
        if len(u) == len(v):
            raise ShapeError(
                f"u and v need rows of one width: {shapes}. Project both views to the "
                "same width."
            )
        raise ShapeError(
            f"u and v need one row per sample: {shapes}. If the last batch is short, "
            "load with drop_last=True."
        )
    check_rows(u, "u", least=least, share=share)
    check_rows(v, "v", least=least, share=share)
    if u.device != v.device:
        raise ShapeError(
            f"u and v must be on one device: got {u.device} and {v.device}."
        )


def full_precision(x: Tensor) -> contextlib.AbstractContextManager[Any]:
    """No autocast: products in half precision lose digits that a loss needs."""
    if not torch.amp.is_autocast_available(x.device.type):
        return contextlib.nullcontext()
    return torch.autocast(x.device.type, enabled=False)


def anchor_rows(
    u: Tensor,
    v: Tensor | None,
    ids: Tensor,
    *,
    normalize: bool = True,
    share: Share | None = None,
) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"] | None]:
    """Anchors and, if given, their positives, checked as ``paired_rows`` does."""
    check_tensor(u, "u")
    check_on_all(check_anchors, u, v, ids, share=share)
    return ready_rows(u, normalize), None if v is None else ready_rows(v, normalize)


def check_anchors(
    u: Tensor, v: Tensor | None, ids: Tensor, share: Share | None
) -> None:
    """Raise unless u are anchors, ids their numbers and v, if given, their partners."""
    check_ids(ids, len(u))
    if v is None:
        check_rows(u, "u", least=1, share=share)
    else:
        check_pair(u, v, least=1, share=share)


def check_ids(ids: Tensor, n: int) -> None:
    """Raise unless there is one integer per sample."""
    check_tensor(ids, "ids", "pass the samples' numbers in the data set as a tensor")
    if ids.shape != (n,) or ids.is_floating_point():
        raise ShapeError(
            f"ids need one integer per sample: expected ({n},), got {tuple(ids.shape)} "
            f"of {ids.dtype}."
        )


def take_views(z: Tensor, gather: Any) -> Tensor:
    """Several views of every sample as they came, those of all processes if asked."""
    z, share = share_views(z, gather)
    if share is None:
        return z
    return gather_rows(z.transpose(0, 1), share=share).transpose(0, 1)


def share_views(z: Tensor, gather: Any) -> tuple[Tensor, Share | None]:
    """Several views of every sample as they came, and which samples of all they are."""
    check_tensor(z, "z", "stack the views with torch.stack([u, v, ...])")
    share = take_share(z.transpose(0, 1) if z.ndim == 3 else z, gather)
    check_on_all(check_views, z, share=share)
    return z, share


def check_views(z: Tensor, share: Share | None = None) -> None:
    """Raise unless z is several views of the same samples."""
    check_tensor(z, "z", "stack the views with torch.stack([u, v, ...])")
    if z.ndim != 3 or z.shape[0] < 2 or (share is None and z.shape[1] < 2):
        raise ShapeError(
            "z needs the shape (views, n, d), at least 2 views of at least 2 samples: "
            f"got {tuple(z.shape)}. Stack them with torch.stack([u, v, ...]); if the "
            "last batch is short, load with drop_last=True."
        )
    check_rows(z.detach().flatten(0, 1), "z", share=share)


def check_tensor(
    x: Any, name: str, advice: str = "convert with torch.as_tensor(...)"
) -> None:
    """Raise unless x is a tensor."""
    if not isinstance(x, Tensor):
        kind = "None" if x is None else type(x).__name__
        raise ShapeError(f"{name} must be a torch tensor, not {kind}: {advice}.")


def check_rows(
    x: Tensor, name: str, *, least: int = 2, share: Share | None = None
) -> None:
    """Raise unless x is a finite floating-point matrix with enough rows.

    On an accelerator, and inside a compiled graph, looking for NaN would stall the
    queue; there a NaN comes out as a NaN loss instead. One of several processes may
    have no rows at all; its check is part of ``check_on_all``.
    """
    least = least if share is None else 0
    check_tensor(x, name)
    if x.ndim != 2:
        raise ShapeError(
            f"{name} needs the shape (n, d), one row per sample: got {tuple(x.shape)}."
        )
    if not x.is_floating_point():
        raise ShapeError(
            f"{name} must be floating point, not {x.dtype}: pass embeddings, or "
            "convert with .float()."
        )
    if x.shape[0] < least or x.shape[1] < 1:
        raise ShapeError(
            f"{name} needs at least {least} rows of at least one number, since a "
            f"sample is contrasted with the others: got {tuple(x.shape)}. If the last "
            "batch is short, load with drop_last=True."
        )
    if not may_look(x):
        return
    # one NaN or infinity makes the sum one too; only then are its rows looked for
    bad = 0
    if not math.isfinite(float(x.detach().sum())):
        bad = int((~torch.isfinite(x.detach())).any(1).sum())
    if bad:
        raise NotFiniteError(
            f"{name} has NaN or infinite numbers in {bad} of {len(x)} rows. The "
            "network has diverged or its input is broken: lower the learning rate, "
            "clip the gradient, or check the data."
        )


def sample_ids(
    x: Float[Tensor, "n d"], share: Share | None = None
) -> Int[Tensor, " n"]:
    """0, 1, 2, ...: equal ids mark rows of one sample, never each other's negatives.

    Over processes they go on where those of the process before end.
    """
    ids = torch.arange(len(x), device=x.device)
    return ids if share is None else ids + share.own_rows.start
