"""How kernels are started: tile sides by kernel and width, and launches kept ready.

Tile sides, warps and stages were measured on Hopper (H100, H200), not tuned at run
time: a search would cost the first call, and its choice, hence the order of sums, could
differ between runs. Other devices use the table too, with fewer stages where they have
less shared memory.

For a small batch the host is slower than the device, so whatever depends on shapes and
settings alone is worked out once: a ``Launch`` is a kernel with everything but its
tensors, and functions that make launches keep them (``kept_by_shape``). Triton would
also look at every argument of every launch to find the compiled variant that is meant;
here the variant is looked up by what can differ (types and alignment of the tensors)
and started directly, with addresses for tensors. Integers are never specialized on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, TypeVar

import torch
import triton
from torch import Tensor

from .._layout import Layout

# since this version a compiled kernel takes all arguments, compile-time ones included
DIRECT = tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 4)
KEPT_LAUNCHES = 256  # per function that makes some: shapes and settings in use at once


@dataclass(frozen=True)
class Config:
    """Rows and columns of a tile, and how a program runs it."""

    rows: int
    columns: int
    warps: int
    stages: int
    registers: int = 0  # at most so many per thread; 0 leaves it to the compiler

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of a kernel launch."""
        limit = {"maxnreg": self.registers} if self.registers else {}
        return {"num_warps": self.warps, "num_stages": self.stages} | limit


# (kernel, exact) -> widest row in order: the first that fits is taken, 0 for wide ones.
# "triangle" sums over rows and columns of half a symmetric matrix, or of a whole one
# for both; "chunks" is the gradient of few wide rows.
TABLE: dict[tuple[str, bool], dict[int, Config]] = {
    ("sums", False): {
        144: Config(128, 64, 4, 3),
        256: Config(256, 64, 8, 3),
        272: Config(128, 64, 8, 3),
        0: Config(128, 256, 8, 3),
    },
    ("sums", True): {
        144: Config(128, 64, 8, 3),
        272: Config(128, 32, 8, 2),
        0: Config(128, 128, 8, 2),
    },
    ("triangle", False): {
        128: Config(128, 64, 4, 2, 168),
        144: Config(128, 64, 4, 3),
        256: Config(256, 64, 8, 3),
        272: Config(128, 64, 8, 3),
        0: Config(128, 256, 8, 3),
    },
    ("triangle", True): {
        144: Config(128, 64, 8, 3),
        272: Config(128, 32, 8, 2),
        0: Config(128, 128, 8, 2),
    },
    ("gradient", False): {
        128: Config(64, 128, 4, 2),
        144: Config(64, 64, 4, 3),
        256: Config(128, 64, 8, 3),
        272: Config(64, 64, 4, 2),
        0: Config(128, 128, 4, 3),
    },
    ("chunks", False): {0: Config(64, 64, 4, 3)},
    ("chunks", True): {0: Config(64, 64, 4, 2)},
    ("gradient", True): {
        144: Config(64, 64, 4, 2),
        272: Config(64, 32, 8, 2),
        0: Config(128, 128, 8, 2),
    },
    # computes rows again whose sums left float32's range: rarely any, at any width
    ("repair", False): {0: Config(64, 32, 4, 1)},
    ("repair", True): {0: Config(64, 32, 4, 1)},
}
ONE_PASS = Config(0, 0, 4, 1)  # for kernels that read everything once
INTERPRETED = Config(32, 32, 1, 1)
SMALL_DEVICE = 160 * 1024  # bytes of shared memory below which stages are saved


def choose_config(
    kernel: str, layout: Layout, exact: bool, device: torch.device
) -> Config:
    """The configuration of a kernel for rows of a layout."""
    if device.type == "cpu":
        return INTERPRETED
    table, stride = TABLE[kernel, exact], 0 if layout.wide else layout.stride
    fitting = [width for width in table if width >= stride > 0]
    config = table[min(fitting)] if fitting else table[0]
    if kernel != "repair" and _shared_memory(device.index or 0) < SMALL_DEVICE:
        narrow = exact or not 0 < stride <= 144
        columns = 32 if narrow else min(config.columns, 64)
        config = replace(config, rows=64, columns=columns, stages=2)
    return config


def _shared_memory(index: int) -> int:
    properties = torch.cuda.get_device_properties(index)
    return getattr(properties, "shared_memory_per_block_optin", 227 * 1024)


@cache
def count_processors(device: torch.device) -> int:
    """About how many programs run side by side."""
    if device.type == "cpu":
        return 2
    return torch.cuda.get_device_properties(device).multi_processor_count


# ---------------------------------------------------------------- launches

Function = TypeVar("Function", bound=Callable[..., Any])
_caches: list[Any] = []
_compiled: dict[tuple, Any] = {}


def kept_by_shape(function: Function) -> Function:
    """Keep what a function made for the shapes and settings it was last asked for."""
    kept = lru_cache(maxsize=KEPT_LAUNCHES)(function)
    _caches.append(kept)
    return kept  # type: ignore[return-value]


def forget_launches() -> None:
    """Make all launches anew, after a table or a budget was changed by hand."""
    for kept in _caches:
        kept.cache_clear()


class Launch:
    """A kernel with everything but its tensors; call it with those, by name.

    Args:
        kernel: Takes tensors, then numbers, then compile-time constants.
        grid: How many programs.
        numbers: In the kernel's order.
        constants: At least those that the kernel takes.
        config: Warps, stages and registers.
    """

    def __init__(
        self,
        kernel: Any,
        grid: tuple[int, ...],
        numbers: Mapping[str, float | int],
        constants: dict[str, Any],
        config: Config = ONE_PASS,
    ) -> None:
        names = list(kernel.arg_names)
        first = names.index(next(iter(numbers)))
        self.kernel, self.config = kernel, config
        self.grid = (*grid, 1, 1)[:3]
        self.tensor_names, names = names[:first], names[first:]
        _check_names(kernel, list(numbers), names[: len(numbers)])
        _check_whole(kernel, numbers)
        self.values = tuple([constants[name] for name in names[len(numbers) :]])
        self.numbers = tuple(numbers.values())
        self.runners: dict[tuple, Callable[..., None]] = {}

    def __call__(self, **tensors: Tensor) -> None:
        """Start the kernel; tensors in the kernel's order."""
        global DIRECT
        first = next(iter(tensors.values()))
        if not first.is_cuda:
            _check_names(self.kernel, list(tensors), self.tensor_names)
            self.kernel[self.grid](*tensors.values(), *self.numbers, *self.values)
            return
        places = [tensor.data_ptr() for tensor in tensors.values()]
        key = (
            first.get_device(),
            *[tensor.dtype for tensor in tensors.values()],
            *[place % 16 == 0 for place in places],
        )
        runner = self.runners.get(key) or self._find(key)
        if runner is not None and DIRECT:
            try:
                runner(*places, *self.numbers, *self.values)
                return
            except TypeError:  # another version, with other arguments: the slow way
                DIRECT = False
        _check_names(self.kernel, list(tensors), self.tensor_names)
        arguments = (*tensors.values(), *self.numbers, *self.values)
        compiled = self.kernel[self.grid](*arguments, **self.config.options)
        if DIRECT and torch.cuda.current_device() == first.get_device():
            _compiled[self._variant(key)] = compiled

    def _variant(self, key: tuple) -> tuple:
        return id(self.kernel), self.config, *self.values, *key

    def _find(self, key: tuple) -> Callable[..., None] | None:
        """The kernel as it was compiled for this launch, or for another like it."""
        compiled = _compiled.get(self._variant(key))
        if compiled is None:
            return None
        runner = self.runners[key] = compiled[self.grid]
        return runner


def _check_names(kernel: Any, given: list[str], expected: list[str]) -> None:
    assert given == expected, f"{kernel.__name__} takes {expected}, not {given}"


def _check_whole(kernel: Any, numbers: Mapping[str, float | int]) -> None:
    """Make sure that no number is part of a variant, which is looked up without it.

    A whole number in a place that is specialized on would: a 1 is compiled in.
    """
    interpreted = getattr(kernel, "kwargs", {})
    whole = interpreted.get("do_not_specialize") or getattr(
        kernel, "do_not_specialize", None
    )
    if whole is None:  # interpreted by a version that does not tell
        return
    for name, number in numbers.items():
        assert isinstance(number, int) == (name in whole), (
            f"{kernel.__name__}: {name} = {number!r}"
        )
