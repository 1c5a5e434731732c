"""Recording what a computation allocates and launches; repeating needs a device."""

import pytest
import torch

from invariance.partition._triton import _tape


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
    monkeypatch.setattr(_tape, "LARGEST", 2**16)
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


def test_a_tape_starts_the_same_kernels_with_places_in_new_memory(monkeypatch):
    class Driver:
        class active:
            get_current_stream = staticmethod(lambda device: "stream")

    monkeypatch.setattr(_tape, "driver", Driver)
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
