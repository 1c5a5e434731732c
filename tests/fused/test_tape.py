"""Recording what a computation allocates and launches.

Repeating it needs a device, or kernels that are interpreted wherever they are sent.
"""

import ctypes

import pytest
import torch
from torch.utils._python_dispatch import _disable_current_modes

from invariance.partition._triton import (
    _backward,
    _classes,
    _forward,
    _lengths,
    _pair_loss,
    _tape,
)

from .cases import INTERPRETED, unit


def test_allocations_are_noted_and_views_are_not():
    with _tape.Recorder() as recorder:
        x = torch.empty(4, 6)
        y = x.new_empty(3)
        _ = x[1:], x.view(-1), x.split(2), y.unbind()
    assert [t.data_ptr() for t in recorder.made] == [x.data_ptr(), y.data_ptr()]
    assert not recorder.given_up


@pytest.mark.parametrize("what", [torch.sum, torch.zeros_like, lambda x: x + 1])
def test_whatever_else_is_computed_ends_the_recording(what):
    with _tape.Recorder() as recorder:
        x = torch.empty(4)
        what(x)
        torch.empty(4)
    assert recorder.given_up
    assert not recorder.made


def test_much_memory_is_not_held(monkeypatch):
    """Also not the first part of it: a step of a large batch frees as it goes."""
    monkeypatch.setattr(_tape, "MOST_BYTES", 2**16)
    with _tape.Recorder() as recorder:
        torch.empty(2**10)
        assert len(recorder.made) == 1
        torch.empty(2**20)
        assert not recorder.made
        torch.empty(2**10)
    assert recorder.given_up
    assert not recorder.made


def test_only_the_one_that_records_is_told():
    _tape.note_launch(None, (1, 1, 1), [], ())
    with _tape.Recorder() as recorder:
        _tape.note_launch("kernel", (2, 1, 1), [5], (7,))
    assert recorder.launches == [("kernel", (2, 1, 1), [5], (7,))]
    with _tape.Recorder() as recorder:
        _tape.note_launch(None, (1, 1, 1), [], ())
    assert recorder.given_up


def test_a_computation_on_the_cpu_is_just_done():
    tapes = _tape.Tapes(lambda inputs, more: (inputs[0] + more,))
    (out,) = tapes((torch.ones(2),), 2)
    assert out.tolist() == [3.0, 3.0]
    assert not tapes.known


class Kernel:
    """Stands for a compiled one: writes its arguments down."""

    function, packed_metadata = "function", "metadata"

    def __init__(self):
        self.seen = []

    def run(self, *arguments):
        self.seen.append(arguments)


@pytest.fixture
def driver(monkeypatch):
    class Driver:
        class active:
            get_current_stream = staticmethod(lambda device: "stream")

    monkeypatch.setattr(_tape, "driver", Driver)


@pytest.mark.usefixtures("driver")
def test_a_tape_starts_the_same_kernels_with_places_in_new_memory():
    kernel, u, v = Kernel(), torch.ones(8), torch.zeros(8)
    with _tape.Recorder() as recorder:
        middle, out = torch.empty(100), torch.empty(3)
        places = [u, v[2:], middle[4:], out]
        places = [x.data_ptr() for x in places]
        _tape.note_launch(kernel, (5, 1, 1), places, (0.5, True))
    tape = _tape.Tape(recorder, (u, v), (out,))
    a, b = torch.ones(8), torch.zeros(8)
    (result,) = tape(a, b)
    assert (result.shape, result.dtype) == (out.shape, out.dtype)
    (seen,) = kernel.seen
    assert seen[:4] == (5, 1, 1, "stream")
    assert seen[4:9] == ("function", "metadata", None, None, None)
    assert seen[9:11] == (a.data_ptr(), b.data_ptr() + 8)
    assert seen[12] == result.data_ptr()
    assert seen[13:] == (0.5, True)
    assert tape.bytes == _tape.ALIGNMENT  # middle alone; the output is its own


class Interpreted:
    """Stands for a compiled kernel: interprets it at the places it is given."""

    function, packed_metadata = None, None

    def __init__(self, kernel, tensors):
        self.kernel = kernel
        self.dtypes = [t.dtype for t in tensors]

    def run(self, *arguments):
        grid, arguments = arguments[:3], arguments[9:]
        places = zip(arguments, self.dtypes, strict=False)
        tensors = [
            torch.frombuffer((ctypes.c_char * 8).from_address(place), dtype=dtype)
            for place, dtype in places
        ]
        self.kernel[grid](*tensors, *arguments[len(tensors) :])


def noted_launch(kernel, grid, tensors, numbers, constants, config=None):
    """What ``launch`` does on a device."""
    count = len(tensors) + len(numbers)
    rest = (*numbers, *[constants[name] for name in kernel.arg_names[count:]])
    with _disable_current_modes():  # the interpreter's own doings are not recorded
        kernel[grid](*tensors, *rest)
    places = [t.data_ptr() for t in tensors]
    _tape.note_launch(Interpreted(kernel, tensors), (*grid, 1, 1)[:3], places, rest)


@pytest.mark.skipif(not INTERPRETED, reason="a device records for itself")
@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    ("kind", "negatives", "scales", "weighed", "d"),
    [
        ("cross_entropy", "all", (5.0,), False, 24),
        ("cross_entropy", "all", (5.0,), False, 300),
        ("debiased", "all", (6.0, 3.0), False, 24),
        ("debiased", "all", (5.0, 2.0), False, 24),
        ("cross_entropy", "cross", (5.0,), False, 24),
        ("decoupled", "within", (5.0,), False, 24),
        ("spread", "others", (5.0,), True, 24),
    ],
)
def test_a_recorded_loss_is_that_of_the_inputs_it_is_given(
    kind, negatives, scales, weighed, d, monkeypatch
):
    for module in (_forward, _backward, _pair_loss):
        monkeypatch.setattr(module, "launch", noted_launch)
    n, parameters = 35, (0.5, 0.1, 0.2)
    how = _pair_loss.PairLoss(kind, parameters, 3.0, scales, 4.0, negatives, True)
    batches = []
    for seed in (0, 1):
        z = torch.cat([unit(n, d, 2 * seed), unit(n, d, 2 * seed + 1)]).float()
        anchors = torch.linspace(seed, 2, 2 * n)
        batches.append((*z.split(n), anchors) if weighed else z.split(n))
    for wanted in (True, False):
        with _tape.Recorder() as recorder:
            outputs = _pair_loss._compute(batches[0], how, wanted, wanted)
        tape = _tape._tape(recorder, batches[0], outputs)
        assert tape is not None
        got = tape(*batches[1])
        want = _pair_loss._compute(batches[1], how, wanted, wanted)
        for some in (got, want)[: 2 * wanted]:
            some[1][2, n:] = 0  # n positives, in a line of 2 n
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.skipif(not INTERPRETED, reason="a device records for itself")
@pytest.mark.usefixtures("driver")
def test_a_recorded_pull_is_that_of_the_inputs_it_is_given(monkeypatch):
    for module in (_classes, _lengths):
        monkeypatch.setattr(module, "launch", noted_launch)
    monkeypatch.setattr(_classes, "BLOCK", 16)
    batches = []
    for seed, each in ((0, 3), (1, 30)):
        ordered, order = (torch.arange(70) * 11 % 70 // each).sort()
        batches.append((unit(70, 24, seed).float(), ordered, order))
    with _tape.Recorder() as recorder:
        outputs = _classes._compute(batches[0], 0.5)
    tape = _tape._tape(recorder, batches[0], outputs)
    assert tape is not None
    got, want = tape(*batches[1]), _classes._compute(batches[1], 0.5)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def test_memory_from_elsewhere_cannot_be_repeated():
    u, other = torch.ones(8), torch.ones(8)
    with _tape.Recorder() as recorder:
        out = torch.empty(3)
        _tape.note_launch(Kernel(), (1, 1, 1), [other.data_ptr()], ())
    assert _tape._tape(recorder, (u,), (out,)) is None


def test_forgetting():
    tapes = _tape.Tapes(lambda inputs: inputs)
    tapes.known["key"] = None
    _tape.forget_tapes()
    assert not tapes.known
