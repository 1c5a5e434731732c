"""A computation declared once and called in two ways.

To torch.compile it is a registered operator: one opaque node with a shape-only twin.
In eager mode the dispatcher around such an operator would cost several times what the
computation of a small batch does, so there it is a plain autograd function, or the
bare computation where no gradient is asked for. Either way it runs alone: on the
device of its rows, without autocast; and it is differentiated once, not twice.
"""

import importlib
import sys
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op, register_autograd, register_fake

from ..errors import InvarianceError
from ._plan import is_rehearsing

NAMESPACE = "invariance"


class Operation:
    """A function of tensors with its gradient; call it with its inputs in order.

    A backend has two functions, named by module and function so that none is imported
    before it runs: ``forward(inputs)`` returns all outputs, None for one that nobody
    wants; ``backward(saved, gradients, shapes, wanted)`` takes inputs and outputs by
    name, the gradients of the results (None for one that is not used, never all), and
    the shapes of the differentiable inputs with whether their gradients are wanted; it
    returns these.

    Args:
        name: Of the registered operator; its gradient's is ``<name>_backward``.
        inputs: As in an operator's schema. The first is a tensor.
        outputs: Their names. The first is a tensor.
        shapes: Takes what ``forward`` takes, returns empty tensors of such shapes.
        backends: Forward and backward by backend; an input ``backend`` chooses.
        differentiable: The inputs that have a gradient.
        results: How many of the outputs the caller gets; the others are saved.
        freed: Inputs that a backend does not need again.
        ahead: Whether torch.compile is to compute the gradient with the result, a
            single number: for outputs whose shapes are not known beforehand. An input
            ``wanted`` then says which gradients those are.
    """

    def __init__(
        self,
        name: str,
        inputs: str,
        outputs: Sequence[str],
        shapes: Callable[[Any], tuple],
        backends: dict[str, tuple[str, str]],
        *,
        differentiable: Sequence[str] = (),
        results: int = 1,
        freed: Mapping[str, Sequence[str]] | None = None,
        ahead: bool = False,
    ) -> None:
        types = [declared.strip().rsplit(" ", 1) for declared in inputs.split(",")]
        names = [input_name for _, input_name in types]
        self.name, self.shapes = name, shapes
        self.results, self.n_outputs = results, len(outputs)
        self.tensors = [i for i, (kind, _) in enumerate(types) if kind[:6] == "Tensor"]
        self.settings = [i for i in range(len(types)) if i not in self.tensors]
        self.differentiable = [names.index(input_name) for input_name in differentiable]
        # from the end, where all inputs are settings
        self.backend_at = (
            names.index("backend") - len(names) if "backend" in names else 0
        )
        self.backends = {
            backend: [place.rpartition(".") for place in places]
            for backend, places in backends.items()
        }
        self.kept = {
            backend: [
                None if names[i] in (freed or {}).get(backend, ()) else i
                for i in self.tensors
            ]
            for backend in backends
        }
        self.inputs = _make_record("Inputs", names)
        order = [names[i] for i in (*self.tensors, *self.settings)]
        self.saved = _make_record("Saved", [*outputs, *order])
        if ahead:
            self._register_ahead(inputs)
        else:
            self._register(inputs, types)
        self.function = _make_function(self) if differentiable else None

    def __call__(self, *inputs: Any) -> tuple:
        """The results."""
        if torch.compiler.is_compiling():
            return self.operator(*inputs)[: self.results]
        if is_rehearsing():
            results = self.shapes(self.inputs._make(inputs))[: self.results]
            return tuple([None if x is None else x.zero_() for x in results])
        if self.function is not None and torch.is_grad_enabled():
            for x in inputs:
                if isinstance(x, Tensor) and x.requires_grad:
                    return self.function.apply(*inputs)
        return self.run(*inputs)[: self.results]

    def run(self, *inputs: Any) -> tuple:
        """All outputs, by the backend that the inputs name."""
        with _alone_on(inputs[0]):
            return self._find(inputs, 0)(self.inputs._make(inputs))

    def save(self, ctx: Any, inputs: tuple, output: tuple) -> None:
        """Keep in a context what the gradient needs."""
        # else an output that is not used would get zeros as large as it is
        ctx.set_materialize_grads(False)
        leaves = [inputs[i] for i in self.differentiable]
        ctx.shapes = [() if x is None else x.shape for x in leaves]
        ctx.settings = [inputs[i] for i in self.settings]
        kept = self.kept[self._backend(inputs)]
        ctx.save_for_backward(
            *output, *[None if i is None else inputs[i] for i in kept]
        )

    def differentiate(
        self, backward: Callable[..., Any], ctx: Any, *results: Any
    ) -> Any:
        """One gradient per input, from those of the results."""
        gradients: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
        results = results[: self.results]
        if all(g is None for g in results):
            return tuple(gradients)
        wanted = [ctx.needs_input_grad[i] for i in self.differentiable]
        inputs = (*ctx.saved_tensors, *results, *ctx.settings, *ctx.shapes)
        computed = backward(*inputs, wanted)
        for i, want, gradient in zip(
            self.differentiable, wanted, computed, strict=True
        ):
            gradients[i] = gradient if want else None
        return tuple(gradients)

    def run_backward(self, *inputs: Any) -> tuple:
        """Gradients of the differentiable inputs, from what ``differentiate`` gives."""
        first = self.n_outputs + len(self.tensors)
        middle = first + self.results
        last = middle + len(self.settings)
        saved = self.saved(*inputs[:first], *inputs[middle:last])
        with _alone_on(inputs[0]):
            backward = self._find(inputs[middle:last], 1)
            return backward(saved, inputs[first:middle], inputs[last:-1], inputs[-1])

    def run_gradient(
        self, inputs: tuple, outputs: tuple, gradients: tuple, wanted: Sequence[bool]
    ) -> tuple:
        """Gradients at outputs that are given: of a part of a larger sum."""
        ordered = [inputs[i] for i in (*self.tensors, *self.settings)]
        leaves = [inputs[i] for i in self.differentiable]
        shapes = [() if x is None else x.shape for x in leaves]
        with _alone_on(inputs[0]):
            backward = self._find(inputs, 1)
            return backward(self.saved(*outputs, *ordered), gradients, shapes, wanted)

    def _backend(self, inputs: Sequence[Any]) -> str:
        """The one named by all inputs, or by the settings among them."""
        at = self.backend_at
        return inputs[at] if at else next(iter(self.backends))

    def _find(self, inputs: Sequence[Any], which: int) -> Callable[..., tuple]:
        module, _, function = self.backends[self._backend(inputs)][which]
        home = sys.modules.get(f"{__package__}.{module}")
        home = home or importlib.import_module(f".{module}", __package__)
        return getattr(home, function)

    # ------------------------------------------------------------ for torch.compile

    def _register(self, inputs: str, types: list[list[str]]) -> None:
        """The operator and that of its gradient."""
        self.operator = _register(
            self.name, inputs, self.n_outputs, self.run, self._fake
        )
        if not self.differentiable:
            return
        saved = ["Tensor", *["Tensor?"] * (self.n_outputs - 1 + len(self.tensors))]
        kinds = [*saved, *["Tensor?"] * self.results]
        kinds += [types[i][0] for i in self.settings]
        kinds += ["SymInt[]"] * len(self.differentiable)
        declared = [f"{kind} x{i}" for i, kind in enumerate([*kinds, "bool[]"])]
        operator = _register(
            *(f"{self.name}_backward", ", ".join(declared), len(self.differentiable)),
            *(self.run_backward, self._fake_backward),
        )
        register_autograd(f"{NAMESPACE}::{self.name}_backward", refuse)
        register_autograd(
            f"{NAMESPACE}::{self.name}",
            lambda ctx, *results: self.differentiate(operator, ctx, *results),
            setup_context=self.save,
        )

    def _fake(self, *inputs: Any) -> tuple:
        return self.shapes(self.inputs._make(inputs))

    def _fake_backward(self, *inputs: Any) -> tuple:
        *_, wanted = inputs
        shapes = inputs[-1 - len(wanted) : -1]
        saved = dict(zip(self.tensors, inputs[self.n_outputs :], strict=False))
        like = [saved[i] for i in self.differentiable]
        return tuple(
            (inputs[0] if x is None else x).new_empty(shape) if want else None
            for x, shape, want in zip(like, shapes, wanted, strict=True)
        )

    def _register_ahead(self, inputs: str) -> None:
        """One operator for the result and its gradients, in float32."""
        count = len(self.differentiable)

        def run(*inputs: Any) -> tuple:
            result, *_ = outputs = self.run(*inputs)
            if not any(inputs[-1]):
                return (result, *(None,) * count)
            ordered = [inputs[i] for i in (*self.tensors, *self.settings)]
            saved, one = self.saved(*outputs, *ordered), torch.ones_like(result)
            with _alone_on(inputs[0]):
                backward = self._find(inputs, 1)
                gradients = backward(saved, (one,), (), inputs[-1], torch.float32)
            return (result, *gradients)

        def fake(*inputs: Any) -> tuple:
            result = self.shapes(self.inputs._make(inputs))[0]
            wanted = zip(
                (inputs[i] for i in self.differentiable), inputs[-1], strict=True
            )
            gradients = (
                result.new_empty(x.shape) if want else None for x, want in wanted
            )
            return (result, *gradients)

        def save(ctx: Any, inputs: tuple, output: tuple) -> None:
            ctx.set_materialize_grads(False)
            ctx.dtypes = [
                getattr(inputs[i], "dtype", None) for i in self.differentiable
            ]
            ctx.save_for_backward(*output[1:])

        def differentiate(ctx: Any, outer: Tensor | None, *second: Any) -> tuple:
            if any(gradient is not None for gradient in second):
                refuse(ctx)  # someone differentiates the gradient
            gradients: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
            kept = zip(self.differentiable, ctx.saved_tensors, ctx.dtypes, strict=True)
            for i, gradient, dtype in kept:
                if outer is not None and ctx.needs_input_grad[i]:
                    gradients[i] = (gradient * outer).to(dtype)
            return tuple(gradients)

        self.operator = _register(self.name, inputs, 1 + count, run, fake)
        name = f"{NAMESPACE}::{self.name}"
        register_autograd(name, differentiate, setup_context=save)


def _make_record(name: str, fields: Sequence[str]) -> Any:
    return namedtuple(name, fields)


def _register(
    name: str, inputs: str, n_outputs: int, run: Callable, fake: Callable
) -> Callable[..., Any]:
    """Register an operator; None among its outputs becomes an empty tensor."""

    def fill(compute: Callable[..., tuple]) -> Callable[..., Any]:
        def compute_and_fill(*values: Any) -> Any:
            outputs = compute(*values)
            filled = [values[0].new_empty(0) if x is None else x for x in outputs]
            return filled[0] if n_outputs == 1 else tuple(filled)

        return compute_and_fill

    returned = ", ".join(["Tensor"] * n_outputs)
    schema = f"({inputs}) -> " + (returned if n_outputs == 1 else f"({returned})")
    full = f"{NAMESPACE}::{name}"
    custom_op(full, fill(run), mutates_args=(), schema=schema)
    register_fake(full, fill(fake))
    operator = getattr(getattr(torch.ops, NAMESPACE), name).default
    return operator if n_outputs > 1 else lambda *values: (operator(*values),)


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


def _make_function(operation: Operation) -> type[torch.autograd.Function]:
    """The autograd function of eager mode."""

    def forward(ctx: Any, *inputs: Any) -> tuple:
        outputs = operation.run(*inputs)
        operation.save(ctx, inputs, outputs)
        return outputs[: operation.results]

    def backward(ctx: Any, *results: Tensor | None) -> tuple:
        if not torch.is_grad_enabled():
            return operation.differentiate(operation.run_backward, ctx, *results)
        with torch.no_grad():
            computed = operation.differentiate(operation.run_backward, ctx, *results)
        # of what is saved one is an input or a result, which a second derivative is of
        return Once.apply(len(computed), *computed, *results, *ctx.saved_tensors)

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
        "Sums that stream can be differentiated once, not twice. For a gradient "
        "penalty or a Hessian of an objective, take the derivative with "
        "torch.func.grad or torch.func.hessian: in there the sums are computed whole, "
        "as log_partition(..., backend='dense') does."
    )
