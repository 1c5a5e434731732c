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

NAMESPACE = "invariance"


@dataclass(frozen=True)
class Code:
    """What an operator takes and returns, and how; its first input is a tensor."""

    schema: str
    run: Callable[..., Any]
    """May return None for a tensor nobody wants; the operator makes it an empty one."""
    shapes: Callable[..., Any]
    """Takes what ``run`` takes, returns empty tensors of the shapes it would."""


class Operation:
    """A function of tensors with its gradient; call it as the schema says.

    Args:
        name: Of the registered operator; its gradient's is ``<name>_backward``.
        forward: The computation.
        backward: That of the gradient, in terms of what was kept.
        keep: Called with a context, the inputs and all outputs. Of the tensors it
            saves one must be an input or a result: by it a second derivative is seen.
        gradient: Called with the backward computation, the context and the gradients
            of the outputs (None for one that is not used, never all); returns one an
            input.
        results: How many of the outputs the caller gets; the others are for ``keep``.
    """

    def __init__(
        self,
        name: str,
        forward: Code,
        backward: Code,
        *,
        keep: Callable[[Any, tuple, Any], None],
        gradient: Callable[..., tuple],
        results: int = 1,
    ) -> None:
        self.name = name
        self.results = results
        keep, gradient = _without_zeros(keep), _of_something(gradient)
        self.run = _alone(forward.run)
        self.operator = _registered(name, forward, self.run)
        run_backward = _alone(backward.run)
        operator_backward = _registered(f"{name}_backward", backward, run_backward)
        register_autograd(
            f"{NAMESPACE}::{name}",
            lambda ctx, *gradients: gradient(operator_backward, ctx, *gradients),
            setup_context=keep,
        )
        refuse_second_derivative(f"{name}_backward")
        self.function = _function(self, keep, gradient, run_backward)

    def __call__(self, *inputs: Any) -> Any:
        """The results: a tensor if the operator returns one alone, else a tuple."""
        if torch.compiler.is_compiling():
            return self.handed_on(self.operator(*inputs))
        wanted = torch.is_grad_enabled() and any(
            isinstance(x, Tensor) and x.requires_grad for x in inputs
        )
        if wanted:
            return self.function.apply(*inputs)
        return self.handed_on(self.run(*inputs))

    def handed_on(self, outputs: Any) -> Any:
        """Those of the outputs that are results."""
        return outputs if isinstance(outputs, Tensor) else outputs[: self.results]


def _registered(name: str, code: Code, run: Callable[..., Any]) -> Callable[..., Any]:
    full = f"{NAMESPACE}::{name}"
    custom_op(full, _all_tensors(run), mutates_args=(), schema=code.schema)
    register_fake(full, _all_tensors(code.shapes))
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _all_tensors(run: Callable[..., Any]) -> Callable[..., Any]:
    def filled(*inputs: Any) -> Any:
        outputs = run(*inputs)
        if isinstance(outputs, Tensor):
            return outputs
        return tuple(inputs[0].new_empty(0) if x is None else x for x in outputs)

    return filled


def _alone(run: Callable[..., Any]) -> Callable[..., Any]:
    def alone(*inputs: Any) -> Any:
        with alone_on(inputs[0]):
            return run(*inputs)

    return alone


def alone_on(x: Tensor) -> AbstractContextManager:
    """On the tensor's own device, whichever is current, and without autocast."""
    there = not x.is_cuda or torch.cuda.current_device() == x.get_device()
    if there and not torch.is_autocast_enabled(x.device.type):
        return nullcontext()
    stack = ExitStack()
    stack.enter_context(torch.autocast(x.device.type, enabled=False))
    if x.is_cuda:
        stack.enter_context(torch.cuda.device(x.device))
    return stack


def _without_zeros(
    keep: Callable[[Any, tuple, Any], None],
) -> Callable[[Any, tuple, Any], None]:
    def setup(ctx: Any, inputs: tuple, output: Any) -> None:
        keep(ctx, inputs, output)
        # of an output that is not used: zeros as large as it is
        ctx.set_materialize_grads(False)

    return setup


def _of_something(gradient: Callable[..., tuple]) -> Callable[..., tuple]:
    def found(backward: Callable[..., Any], ctx: Any, *gradients: Tensor | None) -> Any:
        if all(g is None for g in gradients):
            return (None,) * len(ctx.needs_input_grad)
        return gradient(backward, ctx, *gradients)

    return found


def _function(
    operation: Operation,
    keep: Callable[[Any, tuple, Any], None],
    gradient: Callable[..., tuple],
    run_backward: Callable[..., Any],
) -> type[torch.autograd.Function]:
    """The autograd function of eager mode."""

    def forward(ctx: Any, *inputs: Any) -> Any:
        outputs = operation.run(*inputs)
        keep(ctx, inputs, outputs)
        return operation.handed_on(outputs)

    def backward(ctx: Any, *gradients: Tensor | None) -> tuple:
        if not torch.is_grad_enabled():
            return gradient(run_backward, ctx, *gradients)
        with torch.no_grad():
            found = gradient(run_backward, ctx, *gradients)
        return Once.apply(len(found), *found, *gradients, *ctx.saved_tensors)

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


def refuse_second_derivative(*names: str) -> None:
    """Let the backward operators of these names raise if they are differentiated."""
    for name in names:
        register_autograd(f"{NAMESPACE}::{name}", refuse)
