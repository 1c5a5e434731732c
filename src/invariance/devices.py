"""Where to compute: one choice of device for every command."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from .errors import SettingError

if TYPE_CHECKING:
    import torch


def choose_device(
    name: "str | torch.device" = "auto", *, auto: tuple[str, ...] = ("cuda", "mps")
) -> "torch.device":
    """The device of that name, if this machine has it.

    Args:
        name: "auto", "cpu", "cuda", "cuda:1", "mps" or any other that torch knows.
        auto: the kinds that "auto" tries, best first, before it takes the CPU.

    >>> choose_device("cpu")
    device(type='cpu')
    >>> choose_device("abacus")
    Traceback (most recent call last):
    invariance.errors.SettingError: The device 'abacus' cannot be used here (torch \
knows no such device): use 'auto' or 'cpu'.
    """
    import torch

    has: dict[str, Callable[[], bool]] = {
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
    }
    if name == "auto":
        return torch.device(next((kind for kind in auto if has[kind]()), "cpu"))
    try:
        device = torch.device(name)
    except RuntimeError:
        raise cannot_use(name, "torch knows no such device") from None
    if device.type in has and not has[device.type]():
        what = {"cuda": "CUDA GPU", "mps": "Apple GPU"}[device.type]
        raise cannot_use(name, f"there is no {what}")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as cause:
        raise cannot_use(name, str(cause).splitlines()[0].rstrip(".")) from None
    return device


def cannot_use(name: object, why: str) -> SettingError:
    """The one sentence about a device that is not there."""
    return SettingError(
        f"The device {str(name)!r} cannot be used here ({why}): use 'auto' or 'cpu'."
    )
