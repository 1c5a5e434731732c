"""Launching a kernel at little cost to the host.

Triton looks at every argument of every launch to find out which of its compiled
variants is meant: tens of microseconds, more than a small batch takes the device. Here
the variant is looked up by what can differ (compile-time arguments, types and alignment
of the tensors) and started directly, with addresses for tensors, which saves the driver
from asking what each of them is; integers are never specialised on.
"""

from typing import Any

import torch
import triton
from torch import Tensor

from ._configs import Config

SMALL = Config(0, 0, 4, 1)  # for kernels that read everything once
# since this version a compiled kernel takes all arguments, compile-time ones included
DIRECT = tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 4)

_compiled: dict[tuple, Any] = {}


def launch(
    kernel: Any,
    grid: tuple[int, ...],
    tensors: tuple[Tensor, ...],
    numbers: tuple[float | int, ...],
    constants: dict[str, Any],
    config: Config = SMALL,
) -> None:
    """Start a kernel whose arguments are tensors, numbers, compile-time constants."""
    global DIRECT
    names = kernel.arg_names[len(tensors) + len(numbers) :]
    values = [constants[name] for name in names]
    if not tensors[0].is_cuda:  # interpreted
        _check_numbers(kernel, len(tensors), numbers)
        kernel[grid](*tensors, *numbers, *values)
        return
    device, places = tensors[0].get_device(), [t.data_ptr() for t in tensors]
    key = (
        *(id(kernel), config, device, *values),
        *[t.dtype for t in tensors],
        *[place % 16 == 0 for place in places],
    )
    compiled, grid = _compiled.get(key), (*grid, 1, 1)[:3]
    if compiled is not None and DIRECT:
        try:
            compiled[grid](*places, *numbers, *values)
        except TypeError:  # another version, with other arguments: the slow way then
            DIRECT = False
        else:
            return
    _check_numbers(kernel, len(tensors), numbers)
    compiled = kernel[grid](*tensors, *numbers, *values, **config.launch)
    if DIRECT and torch.cuda.current_device() == device:
        _compiled[key] = compiled


def _check_numbers(kernel: Any, first: int, numbers: tuple[float | int, ...]) -> None:
    """Make sure that no number becomes part of a variant, which is found without it.

    A whole number in a place that is specialised on would: a 1 is compiled in.
    """
    interpreted = getattr(kernel, "kwargs", {})
    whole = interpreted.get("do_not_specialize") or getattr(
        kernel, "do_not_specialize", None
    )
    if whole is None:  # interpreted by a version that does not tell
        return
    for name, number in zip(kernel.arg_names[first:], numbers, strict=False):
        assert isinstance(number, int) == (name in whole), (
            f"{kernel.__name__}: {name} = {number!r}"
        )
