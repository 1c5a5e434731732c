"""What a run's numbers depend on beside its data: random generators, order of sums.

Every global generator at once: seed them, note where they stand, go back. And numbers
without a generator: ``mix`` is the finalizer of splitmix64, an exact map of 64-bit
words, so that the same counters give the same bits on a CPU and on a GPU.
"""

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

WORD = 1 << 64
GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: spreads counters over all bits
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
ARITHMETIC = threading.RLock()  # held while a setting that all threads share is changed


def seed_all(seed: int) -> None:
    """Every global generator, for whatever a network or view of one's own draws."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def random_states() -> dict[str, Any]:
    """Where every random generator stands; a captured step has a ``Rewinder``."""
    if is_capturing():
        return {}
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    version, numbers, gauss = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": [kind, torch.from_numpy(np.array(keys)), position, has_gauss, cached],
        "python": [version, list(numbers), gauss],
    }


def set_random_states(states: dict[str, Any]) -> None:
    """Put every random generator back."""
    if not states:
        return
    torch.set_rng_state(states["torch"].cpu())
    if states["cuda"] and len(states["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([s.cpu() for s in states["cuda"]])
    kind, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((kind, keys.cpu().numpy(), position, has_gauss, cached))
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))


@contextlib.contextmanager
def keep_random_states() -> Iterator[None]:
    """Leave every random generator as it was."""
    states = random_states()
    try:
        yield
    finally:
        set_random_states(states)


def is_capturing() -> bool:
    """Whether a CUDA graph is being captured."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


class Rewinder:
    """Lets a captured step draw some of its random numbers twice.

    A generator in a CUDA graph only goes forward. So every place to go back to gets a
    generator of its own, which is put there before each replay: as far ahead of the
    real one as that was when the same step was called.
    """

    active: "Rewinder | None" = None

    def __init__(self) -> None:
        self.generator = torch.cuda.default_generators[torch.cuda.current_device()]
        self.places: list[int] = []
        self.clones: list[torch.Generator] = []

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Take note of places while a step is called, or know them while captured."""
        self.n_marks = 0
        if not is_capturing():
            self.start, self.places = self.generator.get_offset(), []
        Rewinder.active = self
        try:
            yield
        finally:
            Rewinder.active = None

    def mark(self) -> Callable[[], contextlib.AbstractContextManager[None]]:
        """Note the place that a step has come to; gives the way back."""
        if not is_capturing():
            self.places.append(self.generator.get_offset() - self.start)
            return contextlib.nullcontext
        self.n_marks += 1
        return partial(self.go_back, self.n_marks - 1)

    @contextlib.contextmanager
    def go_back(self, k: int) -> Iterator[None]:
        """Draw from the k-th place on, for a while."""
        real = self.generator.graphsafe_get_state()
        self.generator.graphsafe_set_state(self.clones[k])
        try:
            yield
        finally:
            self.generator.graphsafe_set_state(real)

    def register(self, graph: torch.cuda.CUDAGraph) -> None:
        """Tell a graph, before it is captured, of the generators it will draw from."""
        missing = len(self.places) - len(self.clones)
        self.clones += [self.generator.clone_state() for _ in range(missing)]
        for clone in self.clones:
            graph.register_generator_state(clone)

    def before_replay(self) -> None:
        """Put every generator to its place."""
        seed, now = self.generator.initial_seed(), self.generator.get_offset()
        for clone, place in zip(self.clones, self.places, strict=False):
            clone.manual_seed(seed)
            clone.set_offset(now + place)


def mark_place(
    device: torch.device,
) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Note where random numbers stand in a captured step; gives the way back there.

    Elsewhere ``random_states`` knows it, and the way back does nothing.
    """
    if device.type == "cuda" and Rewinder.active is not None:
        return Rewinder.active.mark()
    return contextlib.nullcontext


def draw_words(seed: int, counter: Int[Tensor, ""], k: int) -> Int[Tensor, " k"]:
    """Random words of 64 bits, made where the counter is: no device waits for a host.

    >>> counter = torch.tensor(7)
    >>> bool((draw_words(0, counter, 3) == draw_words(0, counter, 5)[:3]).all())
    True
    """
    first = mix(counter * as_signed(GOLDEN) + as_signed(mix_int(seed)))
    steps = torch.arange(1, k + 1, device=counter.device)
    return mix(first + steps * as_signed(GOLDEN))


def mix(x: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """A bijection of 64-bit words in which each bit moves half of the others."""
    x = (x ^ shift(x, 30)) * as_signed(FIRST)
    x = (x ^ shift(x, 27)) * as_signed(SECOND)
    return x ^ shift(x, 31)


def mix_int(x: int) -> int:
    """``mix`` of a plain number, without sign."""
    x %= WORD
    x = (x ^ (x >> 30)) * FIRST % WORD
    x = (x ^ (x >> 27)) * SECOND % WORD
    return x ^ (x >> 31)


def shift(x: Int[Tensor, "..."], bits: int) -> Int[Tensor, "..."]:
    """A logical shift to the right: int64 shifts copy the sign, the mask drops it."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def as_signed(x: int) -> int:
    """The int64 of the same bits."""
    x %= WORD
    return x - WORD if x >= WORD // 2 else x


@contextlib.contextmanager
def in_any_order() -> Iterator[None]:
    """For writes and sums whose order cannot matter: deterministic arithmetic sorts.

    That costs a dozen launches each time, where rows are written that all differ, or
    where at most two numbers are added up.
    """
    if torch.compiler.is_compiling():  # a compiled function keeps to one arithmetic
        yield
        return
    with ARITHMETIC:
        exact = torch.are_deterministic_algorithms_enabled()
        warns = torch.is_deterministic_algorithms_warn_only_enabled()
        torch.use_deterministic_algorithms(False)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(exact, warn_only=warns)
