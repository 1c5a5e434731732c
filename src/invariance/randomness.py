"""What a run's numbers depend on beside its data: random generators, order of sums.

Every global generator at once: seed them, note where they stand, go back.
"""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch


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


@contextlib.contextmanager
def in_any_order() -> Iterator[None]:
    """For writes and sums whose order cannot matter: deterministic arithmetic sorts.

    That costs a dozen launches each time, where rows are written that all differ, or
    where at most two numbers are added up.
    """
    if torch.compiler.is_compiling():  # a compiled function keeps to one arithmetic
        yield
        return
    exact = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(exact, warn_only=warns)
