"""Times are of the device, not of a host that runs ahead of it."""

import torch

from invariance.training._stopwatch import take_time


def test_a_gpu_without_a_clock_of_ours_is_waited_for(monkeypatch):
    waits = []
    monkeypatch.setattr(torch.mps, "synchronize", lambda: waits.append(1))
    first, later = (take_time(done, 0.0, torch.device("mps")) for done in (0, 5))
    assert len(waits) == 2 and first.seconds_until(later) < 1


def test_a_cpu_has_nothing_to_wait_for(monkeypatch):
    monkeypatch.setattr(torch.mps, "synchronize", None)
    assert take_time(3, 0.5, torch.device("cpu"))[::2] == (3, 0.5)
