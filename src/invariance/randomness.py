"""What a run's numbers depend on beside its data: random generators, order of sums.

Every global generator at once: seed them, note where they stand, go back. And numbers
without a generator: ``mix`` is the finalizer of splitmix64, an exact map of 64-bit
words, so that the same counters give the same bits on a CPU and on a GPU.
"""

import contextlib
import random
import threading
from collections.abc import Iterator
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
    """Where every random generator stands."""
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
