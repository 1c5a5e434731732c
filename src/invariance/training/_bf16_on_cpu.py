"""bf16 on a CPU: which runs it is proposed to, and where PyTorch gets it wrong.

A CPU that multiplies bf16 in hardware trains most networks faster with it
(benchmarks/results/precision_cpu.md). It is proposed, not chosen: what is promised of
float32 on a CPU, such as equal curves on one process and on two, then holds to fewer
digits. PyTorch is slow there at convolving channels in groups, as a MobileNet does.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from ..devices import computes_bf16
from ..errors import SettingError
from ._lightning import Fabric
from ._run_plan import Plan

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def advise_on_bf16(fabric: Fabric, plan: Plan) -> Iterator[str]:
    """A sentence, where bf16 would make a new run on this CPU faster, or makes it slow.

    Samples of measured numbers, unlike pixels and words, would be rounded to three
    digits, and their networks are too small to gain by it.
    """
    machine, hardware = plan.settings.machine, computes_bf16("cpu")
    if fabric.device.type == "cpu" and machine.precision == "bf16" and not hardware:
        yield (
            "precision: bf16, as asked; this CPU is not known to have it in "
            "hardware; without it, --machine.precision 32 is faster"
        )
    left_open = machine.precision == "auto" and machine.strategy != "fsdp"
    if fabric.device.type != "cpu" or not left_open or not hardware:
        return
    measured = any(side.kind.dtype.is_floating_point for side in plan.sides)
    layers = [p for p in plan.learner.modules() if isinstance(p, CONVOLUTIONS)]
    if measured or any(layer.groups > 1 for layer in layers):
        return
    yield (
        "precision: 32; this CPU has bf16 in hardware, so most networks train faster "
        "with --machine.precision bf16"
    )


@contextlib.contextmanager
def refuse_wrong_gradients(fabric: Fabric, plan: Plan) -> Iterator[None]:
    """In bf16 on a CPU, refuse convolutions that PyTorch trains wrongly.

    PyTorch 2.15 leaves some gradients of a convolution's weights as the memory was
    before: at times NaN, at times numbers that look well. Of random convolutions along
    one and two axes this met all whose last axis was shorter than the stride along it,
    and no other; any short axis is refused here, since other CPUs may differ. Along
    three axes it met some on wide maps, too, such as a kernel of 3x3x3 padded by 2x1x1
    on maps of 1x3x7, so all of these are refused. In float32 it met none.
    """
    hooks = []
    if fabric.device.type == "cpu" and plan.settings.machine.precision == "bf16":
        for layer in plan.learner.modules():
            if isinstance(layer, CONVOLUTIONS) and max(layer.kernel_size) > 1:
                hooks.append(
                    layer.register_forward_pre_hook(check_convolution, with_kwargs=True)
                )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def check_convolution(
    layer: Any, inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> None:
    """Called by a convolution before it computes; in float32 all maps are fine."""
    if not torch.is_autocast_enabled("cpu"):  # a copy of it, or a function of the user
        return
    if not (torch.is_grad_enabled() and layer.weight.requires_grad):
        return
    if isinstance(layer, nn.Conv3d):
        raise SettingError(
            "A layer of the network convolves along three axes, and PyTorch computes "
            "gradients of such layers wrongly at times in bf16 on a CPU: use "
            "--machine.precision 32."
        )
    maps = inputs[0] if inputs else named["input"]
    size = maps.shape[-len(layer.stride) :]
    if any(side < step for side, step in zip(size, layer.stride, strict=True)):
        raise SettingError(
            f"A layer of the network moves in steps of {show_size(layer.stride)} over "
            f"maps of {show_size(size)}, and PyTorch computes gradients of such layers "
            "wrongly in bf16 on a CPU: use --machine.precision 32, or larger samples."
        )


def show_size(sides: tuple[int, ...]) -> str:
    """Sides as people write them: 3x1."""
    return "x".join(map(str, sides))
