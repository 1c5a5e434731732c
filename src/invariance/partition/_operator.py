"""A computation declared once and called in two ways.

To torch.compile it is a registered operator: one opaque node with a shape-only twin.
In eager mode the dispatcher around such an operator would cost several times what the
computation of a small batch does, so there it is a plain autograd function, or the
bare computation where no gradient is asked for. Either way it runs alone: on the
device of its rows, without autocast; and it is differentiated once, not twice.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op, register_autograd, register_fake

from ..errors import InvarianceError
from ._plan import is_rehearsing

NAMESPACE = "invariance"
Keep = Callable[[Any, tuple, Any], None]


@dataclass(frozen=True)
class Code:
    """What an operator takes and returns, and how; its first input is a tensor.

    Neither schema nor shapes are needed where eager mode alone runs it.
    """

    run: Callable[..., Any]
    """May return None for a tensor nobody wants; the operator makes it an empty one."""
    schema: str = ""
    shapes: Callable[..., Any] | None = None
    """Takes what ``run`` takes, returns empty tensors of the shapes it would."""


@dataclass(frozen=True)
class Gradient:
    """How a computation is differentiated, in terms of what it kept."""

    keep: Keep
    """Called with a context, the inputs and all outputs. Of the tensors it saves one
    must be an input or a result, which is how a second derivative is noticed."""
    compute: Callable[..., tuple]
    """Called with the backward computation, the context and the gradients of the
    outputs (None for one that is not used, never all); returns one per input."""
    backward: Code | None = None
    """The backward computation; None where there is nothing left to compute."""


class Operation:
    """A function of tensors with its gradient; call it as the schema says.

    Args:
        name: Of the registered operator; its gradient's is ``<name>_backward``.
        forward: The computation.
        gradient: Its gradient; None if it is never differentiated.
        results: How many of the outputs the caller gets; the others are for ``keep``.
        compiled: A forward computation and a gradient for torch.compile, where those
            of eager mode keep tensors whose shapes are not known beforehand.
    """

    def __init__(
        self,
        name: str,
        forward: Code,
        gradient: Gradient | None = None,
        *,
        results: int = 1,
        compiled: tuple[Code, Gradient] | None = None,
    ) -> None:
        self.name = name
        self.results = results
        self.run = _run_alone(forward.run)
        code, graph_gradient = compiled or (forward, gradient)
        assert code.shapes is not None
        self.shapes = code.shapes
        self.operator = _register(name, code)
        if graph_gradient is not None:
            self._register_gradient(graph_gradient)
        self.function = None if gradient is None else _make_function(self, gradient)

    def __call__(self, *inputs: Any) -> Any:
        """The results: a tensor if the operator returns one alone, else a tuple."""
        if torch.compiler.is_compiling():
            return self.select(self.operator(*inputs))
        if is_rehearsing():
            outputs = self.select(self.shapes(*inputs))
            each = (outputs,) if isinstance(outputs, Tensor) else outputs
            zeros = [None if x is None else x.zero_() for x in each]
            return zeros[0] if isinstance(outputs, Tensor) else tuple(zeros)
        wanted = torch.is_grad_enabled() and any(
            isinstance(x, Tensor) and x.requires_grad for x in inputs
        )
        if wanted and self.function is not None:
            return self.function.apply(*inputs)
        return self.select(self.run(*inputs))

    def select(self, outputs: Any) -> Any:
        """Those of the outputs that are results."""
        return outputs if isinstance(outputs, Tensor) else outputs[: self.results]

    def _register_gradient(self, gradient: Gradient) -> None:
        backward = None
        if gradient.backward is not None:
            backward = _register(f"{self.name}_backward", gradient.backward)
            register_autograd(f"{NAMESPACE}::{self.name}_backward", refuse)
        compute = _skip_if_unused(gradient.compute)
        register_autograd(
            f"{NAMESPACE}::{self.name}",
            lambda ctx, *gradients: compute(backward, ctx, *gradients),
            setup_context=_without_zeros(gradient.keep),
        )


def _register(name: str, code: Code) -> Callable[..., Any]:
    assert code.shapes is not None
    full, run = f"{NAMESPACE}::{name}", _run_alone(code.run)
    custom_op(full, _fill_in(run), mutates_args=(), schema=code.schema)
    register_fake(full, _fill_in(code.shapes))
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _fill_in(run: Callable[..., Any]) -> Callable[..., Any]:
    """Let an operator return an empty tensor for None."""

    def run_and_fill(*inputs: Any) -> Any:
        outputs = run(*inputs)
        if isinstance(outputs, Tensor):
            return outputs
        return tuple(inputs[0].new_empty(0) if x is None else x for x in outputs)

    return run_and_fill


def _run_alone(run: Callable[..., Any]) -> Callable[..., Any]:
    def run_alone(*inputs: Any) -> Any:
        with _alone_on(inputs[0]):
            return run(*inputs)

    return run_alone


def _alone_on(x: Tensor) -> AbstractContextManager:
    """On the tensor's own device, whichever is current, and without autocast."""
    is_current = not x.is_cuda or torch.cuda.current_device() == x.get_device()
    if is_current and not torch.is_autocast_enabled(x.device.type):
        return nullcontext()
    stack = ExitStack()
    stack.enter_context(torch.autocast(x.device.type, enabled=False))
    if x.is_cuda:
        stack.enter_context(torch.cuda.device(x.device))
    return stack


def _without_zeros(keep: Keep) -> Keep:
    def setup(ctx: Any, inputs: tuple, output: Any) -> None:
        keep(ctx, inputs, output)
        # of an output that is not used: zeros as large as it is
        ctx.set_materialize_grads(False)

    return setup


def _skip_if_unused(compute: Callable[..., tuple]) -> Callable[..., tuple]:
    def compute_if_used(backward: Any, ctx: Any, *gradients: Tensor | None) -> Any:
        if all(g is None for g in gradients):
            return (None,) * len(ctx.needs_input_grad)
        return compute(backward, ctx, *gradients)

    return compute_if_used


def _make_function(
    operation: Operation, gradient: Gradient
) -> type[torch.autograd.Function]:
    """The autograd function of eager mode."""
    keep, compute = _without_zeros(gradient.keep), _skip_if_unused(gradient.compute)
    assert gradient.backward is not None
    run_backward = _run_alone(gradient.backward.run)

    def forward(ctx: Any, *inputs: Any) -> Any:
        outputs = operation.run(*inputs)
        keep(ctx, inputs, outputs)
        return operation.select(outputs)

    def backward(ctx: Any, *gradients: Tensor | None) -> tuple:
        if not torch.is_grad_enabled():
            return compute(run_backward, ctx, *gradients)
        with torch.no_grad():
            results = compute(run_backward, ctx, *gradients)
        return Once.apply(len(results), *results, *gradients, *ctx.saved_tensors)

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(operation.name, (torch.autograd.Function,), methods)


# ---------------------------------------------------------------- second derivatives


class Once(torch.autograd.Function):
    """Gradients that depend on other tensors in a way that is not differentiated."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor | None) -> tuple:
        return tuple(x if x is None else x.view_as(x) for x in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> None:
        refuse(ctx, *gradients)


def refuse(ctx: Any, *gradients: Tensor | None) -> None:
    """The backward of a backward."""
    raise InvarianceError(
        "A streaming log-partition can be differentiated once, not twice. For a "
        "gradient penalty or a Hessian, write the loss with "
        "log_partition(..., backend='dense')."
    )
