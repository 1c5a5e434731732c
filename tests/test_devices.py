"""One choice of device, and one sentence where it cannot be had."""

import os
import platform
import subprocess
import sys
import textwrap

import pytest
import torch

from invariance import devices
from invariance.devices import choose_device, run_beside, wake_gpu
from invariance.errors import SettingError


@pytest.fixture
def machine(monkeypatch):
    """Pretend to have just these kinds of GPU."""

    def have(*kinds):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in kinds)
        mps = torch.backends.mps
        monkeypatch.setattr(mps, "is_available", lambda: "mps" in kinds)

    return have


@pytest.mark.parametrize(
    "kinds, auto, chosen",
    [
        ((), ("cuda", "mps"), "cpu"),
        (("cuda",), ("cuda", "mps"), "cuda"),
        (("mps",), ("cuda", "mps"), "mps"),
        (("cuda", "mps"), ("cuda", "mps"), "cuda"),
        (("mps",), ("cuda",), "cpu"),
    ],
)
def test_auto_takes_the_best_there_is(machine, kinds, auto, chosen):
    machine(*kinds)
    assert choose_device("auto", auto=auto) == torch.device(chosen)


@pytest.mark.parametrize(
    "name, why",
    [
        ("cuda", "there is no CUDA GPU"),
        ("cuda:3", "there is no CUDA GPU"),
        ("mps", "there is no Apple GPU"),
        ("abacus", "torch knows no such device"),
    ],
)
def test_a_device_that_is_not_there_is_named_with_a_way_out(machine, name, why):
    machine()
    with pytest.raises(SettingError) as caught:
        choose_device(name)
    assert str(caught.value) == (
        f"The device {name!r} cannot be used here ({why}): use 'auto' or 'cpu'."
    )


def test_a_device_object_is_taken_as_it_is():
    assert choose_device(torch.device("cpu")) == torch.device("cpu")


def test_a_gpu_is_woken_where_it_is_meant(machine, monkeypatch):
    woken = []
    monkeypatch.setattr(torch, "zeros", lambda *_, device, **__: woken.append(device))
    monkeypatch.setattr(torch, "conv2d", lambda *_: None)
    machine()
    wake_gpu("auto")()
    machine("cuda")
    wake_gpu("cpu")()
    assert woken == []
    wake_gpu("auto")()
    assert woken == ["cuda"]


def test_a_gpu_that_cannot_be_woken_is_left_to_whoever_needs_it(machine, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("busy")

    monkeypatch.setattr(torch, "zeros", fail)
    machine("cuda")
    assert wake_gpu("auto")() is None


def test_an_error_beside_is_raised_where_the_result_is_wanted():
    with pytest.raises(ZeroDivisionError):
        run_beside(lambda: 1 / 0)()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone is told")
@pytest.mark.parametrize("variable", ["MALLOC_ARENA_MAX", "UNRELATED"])
def test_freed_memory_is_kept_unless_the_user_says_otherwise(variable):
    code = """
        import resource
        from invariance.devices import keep_freed_memory
        def count_faults():
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        keep_freed_memory()
        for _ in range(2):  # the second time, kept memory is there already
            before = count_faults()
            for _ in range(20):
                b"x" * (100 * 2**20)
        print(count_faults() - before)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    environment = {k: v for k, v in os.environ.items() if "MALLOC" not in k + v.upper()}
    done = subprocess.run(
        command,
        env=environment | {variable: "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    faults = int(done.stdout)
    assert faults > 100 if variable == "MALLOC_ARENA_MAX" else faults < 100


class OldLibrary:
    """A C library that refuses a limit of more than so many bytes."""

    def __init__(self, most):
        self.most, self.limits = most, {}

    def mallopt(self, name, size):
        """1 where the limit is taken, as in C."""
        taken = name == devices.M_TRIM_THRESHOLD or size <= self.most
        if taken:
            self.limits[name] = size
        return int(taken)


@pytest.mark.parametrize(("most", "kept"), [(32 << 20, 32 << 20), (1 << 20, None)])
def test_a_library_that_refuses_a_limit_is_not_left_with_half(monkeypatch, most, kept):
    """The limit on trimming alone would freeze the other one at 128 KiB."""
    forget_malloc(monkeypatch)
    library = OldLibrary(most)
    monkeypatch.setattr(devices.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(sys, "platform", "linux")
    devices.keep_freed_memory()
    assert library.limits.get(devices.M_MMAP_THRESHOLD) == kept
    assert (devices.M_TRIM_THRESHOLD in library.limits) == (kept is not None)


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_other_systems_are_left_alone(monkeypatch, system):
    def fail(name):
        raise TypeError(name)  # as on Windows, which has no library without a name

    forget_malloc(monkeypatch)
    monkeypatch.setattr(devices.ctypes, "CDLL", fail)
    monkeypatch.setattr(sys, "platform", system)
    devices.keep_freed_memory()


def test_what_the_user_tunes_holds(monkeypatch):
    forget_malloc(monkeypatch)
    library = OldLibrary(1 << 40)
    monkeypatch.setattr(devices.ctypes, "CDLL", lambda name: library)
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=1000000")
    devices.keep_freed_memory()
    assert not library.limits


def forget_malloc(monkeypatch):
    for name in os.environ:
        if name.startswith("MALLOC_") or name == "GLIBC_TUNABLES":
            monkeypatch.delenv(name)
