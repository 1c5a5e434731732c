"""Launches recorded once and repeated at little cost to the host.

For a small batch the host is slower than the device: working out tiles, spans and grids
takes longer than the kernels do. All that depends on shapes and settings alone, so the
second time they come it is recorded what was allocated and launched, and from then on
the same kernels are started with the same arguments, their memory cut from one
allocation. A computation that does anything else between its launches is not recorded.
"""

import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from triton import knobs
from triton.runtime import driver

MOST_BYTES = 64 * 2**20  # beyond, memory is better given back in between
ALIGNMENT = 512
aten = torch.ops.aten
EMPTY = (aten.empty.memory_format, aten.new_empty.default)


class _Active(threading.local):
    recorder: "Recorder | None" = None


_active = _Active()


class Recorder(TorchDispatchMode):
    """Notes allocations and launches while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Tensor] = []  # kept, so that no two had the same place
        self.bytes = 0
        self.launches: list[tuple[Any, tuple, list[int], tuple]] = []
        self.given_up = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in EMPTY:
            self.keep(out)
        elif not func.is_view:  # something is computed that is no launch
            self.give_up()
        return out

    def keep(self, made: Tensor) -> None:
        """Note an allocation; too much is not to be held, however it is used."""
        self.bytes += made.nbytes
        if self.bytes > MOST_BYTES:
            self.give_up()
        if not self.given_up:
            self.made.append(made)

    def give_up(self) -> None:
        """Let go of what was kept: there will be no recording."""
        self.given_up = True
        self.made.clear()

    def __enter__(self) -> "Recorder":
        _active.recorder = self
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        _active.recorder = None
        super().__exit__(*error)


def note_launch(compiled: Any, grid: tuple, places: list[int], rest: tuple) -> None:
    """Tell who is recording, if anyone is, of a launch; of None if it has no kernel."""
    recorder = _active.recorder
    if recorder is None:
        return
    recorder.launches.append((compiled, grid, places, rest))
    if compiled is None:
        recorder.give_up()


def _observed() -> bool:
    """Whether someone, a profiler say, wants to be told of every launch."""
    hook = getattr(knobs.runtime, "launch_enter_hook", None)
    return bool(getattr(hook, "calls", hook))


class Tape:
    """A recorded computation, to be repeated on other inputs of the same shapes."""

    def __init__(
        self, recorder: Recorder, inputs: tuple[Tensor, ...], outputs: tuple
    ) -> None:
        self.device = outputs[0].get_device()
        self.outputs = [(tuple(x.shape), x.dtype) for x in outputs]
        named = {x.data_ptr(): 1 + i for i, x in enumerate((*inputs, *outputs))}
        regions = [(x.data_ptr(), x.nbytes, 1 + i, 0) for i, x in enumerate(inputs)]
        self.bytes = 0
        for x in recorder.made:
            if x.data_ptr() in named:
                regions.append((x.data_ptr(), x.nbytes, named[x.data_ptr()], 0))
            else:
                regions.append((x.data_ptr(), x.nbytes, 0, self.bytes))
                self.bytes += -(-x.nbytes // ALIGNMENT) * ALIGNMENT

        def relative(place: int) -> tuple[int, int]:
            """Which allocation or tensor a place is in, and how far."""
            for start, size, which, offset in regions:
                if start <= place < start + size:
                    return which, offset + place - start
            raise LookupError

        self.launches = [
            (compiled, grid, [relative(place) for place in places], rest)
            for compiled, grid, places, rest in recorder.launches
        ]

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs for other inputs."""
        device = inputs[0].device
        memory = torch.empty(self.bytes, dtype=torch.uint8, device=device)
        outputs = [
            torch.empty(shape, dtype=dtype, device=device)
            for shape, dtype in self.outputs
        ]
        bases = [x.data_ptr() for x in (memory, *inputs, *outputs)]
        stream, observed = driver.active.get_current_stream(self.device), _observed()
        for kernel, grid, places, rest in self.launches:
            arguments = [bases[i] + offset for i, offset in places]
            if observed:
                kernel[grid](*arguments, *rest, stream=stream)
            else:  # what that does, less the looking for observers
                how = (kernel.function, kernel.packed_metadata, None, None, None)
                kernel.run(*grid, stream, *how, *arguments, *rest)
        return tuple(outputs)


class Tapes:
    """Recordings of one computation by shape and setting, the latest kept."""

    def __init__(self, compute: Callable, most: int = 64) -> None:
        self.compute = compute
        self.most = most
        self.known: dict[tuple, Tape | None] = {}
        self.seen: dict[tuple, None] = {}  # once; a temperature may never come again
        _all.add(self)

    def __call__(self, inputs: tuple[Tensor, ...], *how: Any) -> tuple[Tensor, ...]:
        """The computation's outputs, by recording if there is one."""
        first = inputs[0]
        if not first.is_cuda:
            return self.compute(inputs, *how)
        places = [x.data_ptr() for x in inputs]
        aligned = tuple([place % 16 == 0 for place in places])
        key = (first.shape, first.dtype, first.get_device(), aligned, *how)
        tape = self.known.get(key)
        apart = _apart(places, inputs)
        if tape is not None and apart:
            try:
                return tape(*inputs)
            except TypeError:  # kernels of this version are not started like that
                self.known[key] = None
        if key in self.known or not apart:
            return self.compute(inputs, *how)
        if key not in self.seen:
            self._put(self.seen, key, None)
            return self.compute(inputs, *how)
        with Recorder() as recorder:
            outputs = self.compute(inputs, *how)
        self._put(self.known, key, _tape(recorder, inputs, outputs))
        return outputs

    def _put(self, where: dict, key: tuple, what: Any) -> None:
        if len(where) >= self.most:
            for oldest in list(where)[:1]:  # another thread may be putting too
                where.pop(oldest, None)
        where[key] = what


def _apart(places: list[int], inputs: tuple[Tensor, ...]) -> bool:
    """Whether no two inputs share memory: a place then says which is meant."""
    if len(places) == 2:
        return abs(places[0] - places[1]) >= inputs[0].nbytes
    sizes = [x.nbytes for x in inputs]
    ends = sorted((a, a + size) for a, size in zip(places, sizes, strict=True))
    return all(a[1] <= b[0] for a, b in itertools.pairwise(ends))


_all: weakref.WeakSet[Tapes] = weakref.WeakSet()


def forget_tapes() -> None:
    """Record anew, after something that recordings do not know of was changed."""
    for tapes in _all:
        tapes.known.clear()
        tapes.seen.clear()


def _tape(recorder: Recorder, inputs: tuple, outputs: tuple) -> Tape | None:
    """The recording, unless it would not be the whole computation."""
    starts = {x.data_ptr() for x in recorder.made}
    if recorder.given_up or not all(x.data_ptr() in starts for x in outputs):
        return None
    try:
        return Tape(recorder, inputs, outputs)
    except LookupError:  # a kernel was given memory from elsewhere
        return None
