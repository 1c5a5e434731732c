"""How long steps take: by the clock of a GPU, which the host runs ahead of."""

import time
from typing import Any, NamedTuple

import torch


class Moment(NamedTuple):
    """When a step was done."""

    done: int
    """Steps until then."""
    when: Any
    """Seconds, or on a CUDA GPU an event that comes to pass when the step is done."""
    waited: float
    """Seconds that the run had spent on waiting for data by then."""

    def seconds_until(self, later: "Moment") -> float:
        """From this moment to a later one, which is waited for."""
        if isinstance(self.when, float):
            seconds = later.when - self.when
        else:
            later.when.synchronize()
            seconds = self.when.elapsed_time(later.when) / 1000
        return max(seconds, 1e-9)


def take_time(done: int, waited: float, device: torch.device) -> Moment:
    """This moment; on a CUDA GPU the one when it will have done what it was told.

    Other GPUs are waited for; a CPU has nothing left to do.

    >>> first, later = (take_time(done, 0.0, torch.device("cpu")) for done in (0, 5))
    >>> later.done, first.seconds_until(later) < 1
    (5, True)
    """
    if device.type == "cuda":
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return Moment(done, event, waited)
    torch.get_device_module(device).synchronize()
    return Moment(done, time.perf_counter(), waited)
