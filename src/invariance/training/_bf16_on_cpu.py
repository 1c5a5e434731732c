"""bf16 on a CPU: whom it is proposed to, and where PyTorch would get it wrong.

A CPU that multiplies bf16 in hardware trains a ResNet-18 1.7 times as fast with it and
a small transformer twice. It is proposed, not chosen: what is promised of float32 on a
CPU, such as equal curves on one process and on two, holds to fewer digits then.
PyTorch is slow there at convolving channels in groups: a MobileNet takes twice as long.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn

from ..devices import computes_bf16
from ..errors import SettingError
from ._lightning import Fabric
from ._run_plan import Plan

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def propose_bf16(fabric: Fabric, plan: Plan) -> Iterator[str]:
    """A sentence, where bf16 would make a run on this CPU faster.

    Samples of measured numbers, unlike pixels and words, would be rounded to three
    digits, and their networks are too small to gain by it.
    """
    machine = plan.settings.machine
    left_open = machine.precision == "auto" and machine.strategy != "fsdp"
    if fabric.device.type != "cpu" or not left_open or not computes_bf16("cpu"):
        return
    measured = any(side.kind.dtype.is_floating_point for side in plan.sides)
    layers = [p for p in plan.learner.modules() if isinstance(p, CONVOLUTIONS)]
    if measured or any(layer.groups > 1 for layer in layers):
        return
    yield (
        "precision: 32; this CPU has bf16 in hardware, so --machine.precision bf16 "
        "should be faster"
    )


@contextlib.contextmanager
def refuse_thin_maps(fabric: Fabric, plan: Plan) -> Iterator[None]:
    """In bf16 on a CPU, refuse to train on maps that are one pixel high or wide.

    Weights of a convolution that meet nothing but padding there have no gradient, and
    PyTorch 2.15 leaves in its place what the memory held before: at times NaN, at times
    numbers that look well. Float32 and wider maps are right.
    """
    hooks = []
    if fabric.device.type == "cpu" and plan.settings.machine.precision == "bf16":
        for layer in plan.learner.modules():
            if isinstance(layer, CONVOLUTIONS) and max(layer.kernel_size) > 1:
                hooks.append(layer.register_forward_pre_hook(refuse_thin_map))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def refuse_thin_map(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
    """Called by a convolution before it computes."""
    size = inputs[0].shape[-len(layer.kernel_size) :]  # type: ignore[arg-type]
    if layer.training and min(size) == 1:
        raise SettingError(
            f"The network convolves maps of {'x'.join(map(str, size))}, of which "
            "PyTorch gets gradients wrong in bf16 on a CPU: use --machine.precision "
            "32, or larger images (--image-size)."
        )
