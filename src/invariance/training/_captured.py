"""A step that is replayed: the host starts one CUDA graph instead of its kernels.

A small batch keeps a GPU busy for two milliseconds and the host for twenty, which it
takes to launch some thousand kernels one by one. A graph holds them all. The first
steps are called, which compiles kernels and makes the optimizer's state; then two
graphs are captured, of a step that is logged and of one that is not, and replayed from
then on. They compute the same numbers as a call does, from the same memory.

A graph repeats what Python decided while it was captured. So what Python knows is asked
before every step (``Learner.host_state``), and another answer, as a queue gives until
it is full, makes another graph.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from ..methods import Step
from ..randomness import Rewinder
from ._out_of_memory import free

WARM_UP = 2  # calls of a step before it is captured


class CudaGraph:
    """One call of a function, captured on the current stream and not yet run."""

    def __init__(
        self,
        function: Callable[[], Step],
        beside: "CudaGraph | None",
        rewinder: Rewinder | None,
    ) -> None:
        self.graph, self.rewinder = torch.cuda.CUDAGraph(), rewinder
        if rewinder is not None:
            rewinder.register(self.graph)
        with torch.cuda.graph(
            self.graph,
            # two graphs that never run at once can share their memory
            pool=None if beside is None else beside.graph.pool(),
            stream=torch.cuda.current_stream(),
            capture_error_mode="thread_local",
        ):
            self.step = function()

    def replay(self) -> Step:
        """Run it; the result is in the same memory each time."""
        if self.rewinder is not None:
            self.rewinder.before_replay()
        self.graph.replay()
        return self.step


class Captured:
    """A step as a function of whether it is logged, called at first, then replayed.

    Args:
        call: The step itself.
        state: What Python knows and the step depends on.
        give_up: Called with the error if the step cannot be captured.
    """

    def __init__(
        self,
        call: Callable[[bool], Step],
        state: Callable[[], Any],
        give_up: Callable[[Exception], None],
    ) -> None:
        self.call, self.state, self.give_up = call, state, give_up
        self.rewinder = Rewinder() if torch.cuda.is_available() else None
        self.known: Any = None
        self.n_calls = 0
        self.graphs: tuple[CudaGraph, CudaGraph] | None = None
        self.works = True

    def __call__(self, logs: bool) -> Step:
        """One step."""
        if not self.works:
            return self.call(logs)
        state = self.state()
        if state != self.known:
            self.known, self.n_calls, self.graphs = state, 0, None
        if self.n_calls < WARM_UP:
            self.n_calls += 1
            return self.record(True)  # logged, so that every kernel is compiled
        if self.graphs is None and not self.capture():
            return self.call(logs)
        assert self.graphs is not None
        return self.graphs[logs].replay()

    def record(self, logs: bool) -> Step:
        """A step that is called or captured, and tells where it goes back to."""
        if self.rewinder is None:
            return self.call(logs)
        with self.rewinder.watch():
            return self.call(logs)

    def capture(self) -> bool:
        """Make both graphs; where that fails, steps are called as before."""
        try:
            plain, logged = (partial(self.record, logs) for logs in (False, True))
            first = CudaGraph(plain, None, self.rewinder)
            self.graphs = first, CudaGraph(logged, first, self.rewinder)
        except RuntimeError as error:
            self.works = False
            self.give_up(error)
        if not self.works:
            free()  # a graph takes memory of its own, and steps that are called fitted
        return self.works


@contextlib.contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """A stream beside CUDA's default one, which cannot be captured."""
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        torch.cuda.current_stream().wait_stream(stream)
