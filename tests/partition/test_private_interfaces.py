"""Every private interface of PyTorch and Triton that partition relies on.

A test fails with the name of the interface that has changed. What it is used for stands
beside it: look there first.
"""

import inspect

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

triton = pytest.importorskip("triton")

# private: the interfaces are checked with the package's own kernels
from invariance.partition.triton import _forward, _problem  # noqa: E402


def dynamo_marked_constant():
    """``_plan._constant``: a function's result is a constant to torch.compile."""

    def constant():
        return True

    torch.compiler.assume_constant_result(constant)
    return constant._dynamo_marked_constant is True


def dispatch_stack():
    """``_tiles.share_out``: whether a mode watches the operations of this thread."""
    with FlopCounterMode(display=False):
        inside = torch._C._len_torch_dispatch_stack()
    return inside == 1 and torch._C._len_torch_dispatch_stack() == 0


def custom_op_schema():
    """``_operator._register``: operators are declared with a schema of our own."""
    parameters = inspect.signature(torch.library.custom_op).parameters
    return {"mutates_args", "schema"} <= set(parameters)


def addmm_out_dtype():
    """``_wide._add_product``: 16-bit products added to a float32 sum."""
    overloads = torch.ops.aten.addmm.overloads()
    return "dtype_out" in overloads and "dtype" in torch.ops.aten.mm.overloads()


def kernel_arg_names():
    """``_launch.Launch``: a kernel's parameters by name, in order."""
    names = _problem.find_id_ranges.arg_names
    return list(names) == ["ids", "least_ids", "most_ids", "n", "BLOCK"]


def kernel_do_not_specialize():
    """``_launch._check_whole``: which whole numbers are no part of a variant."""
    kernel = _forward.finish
    interpreted = getattr(kernel, "kwargs", {}).get("do_not_specialize")
    return (interpreted or kernel.do_not_specialize) == ["n", "parts"]


def compiled_kernel_getitem():
    """``_launch.Launch``: a compiled kernel is started with a grid and all arguments,
    addresses for tensors, compile-time ones included."""
    source = inspect.getsource(triton.compiler.CompiledKernel.__getitem__)
    return "def runner(*args, stream=None)" in source


def launch_returns_the_compiled_kernel():
    """``_launch.Launch``: starting a kernel Triton's way returns what was compiled."""
    return "return kernel" in inspect.getsource(triton.runtime.JITFunction.run)


def constexpr_value():
    """``_device``: named constants of kernels, read on the host as ``.value``."""
    return triton.language.constexpr(3).value == 3


CHECKS = {
    "torch: _dynamo_marked_constant": dynamo_marked_constant,
    "torch._C._len_torch_dispatch_stack": dispatch_stack,
    "torch.library.custom_op(schema=)": custom_op_schema,
    "torch.addmm(out_dtype=), torch.mm(out_dtype=)": addmm_out_dtype,
    "triton: kernel.arg_names": kernel_arg_names,
    "triton: kernel.do_not_specialize": kernel_do_not_specialize,
    "triton: CompiledKernel.__getitem__": compiled_kernel_getitem,
    "triton: JITFunction.run returns the compiled kernel": (
        launch_returns_the_compiled_kernel
    ),
    "triton: constexpr.value": constexpr_value,
}


@pytest.mark.parametrize("name", CHECKS)
def test_private_interface_is_as_it_was(name):
    check = CHECKS[name]
    assert check(), f"{name} has changed. Used by {inspect.getdoc(check)}"
