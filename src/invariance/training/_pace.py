"""How fast a step can be made to run here, decided before training, and said in a line.

On one GPU with the images in its memory a step can stay on the device and be captured
(``_captured``). Compiling the encoder fuses its normalizations, activations and casts
with their neighbors. That takes half a minute first, so it is done where the run is
long enough to win it back: measured on an H200, a compiled ResNet-18 saves a fifth of a
captured step of 512 samples, and nothing of one of 128.

What is decided follows from settings and shapes alone: the same run is always the same.
"""

import copy
from dataclasses import dataclass

import torch

from ..data import Resident
from ._feed import device_views
from ._lightning import Fabric
from ._run_plan import Plan

COMPILING = 30.0  # seconds, of a ResNet-18's two passes
SAVED_PER_FLOP = 1.0e-15  # seconds, by passing over memory less often


@dataclass(frozen=True)
class Pace:
    """What is done to make steps fast."""

    why_on_host: str
    """Why steps need the host; empty where they stay on the device."""
    captures: bool
    """Whether steps are replayed from a CUDA graph."""
    compiles: bool
    """Whether the encoder is compiled."""
    why_compiles: str = ""
    """The reason, where it was not asked for."""
    idle: bool = False
    """Whether capturing was switched off where nothing can be captured."""

    @property
    def stays(self) -> bool:
        """Whether nothing that a step needs comes from the host."""
        return not self.why_on_host

    def __str__(self) -> str:
        how = "replayed from a CUDA graph" if self.captures else "launched one by one"
        also = ": --machine.no-capture changes nothing" * self.idle
        why = "" if self.captures else f" ({self.why_on_host or 'as asked'}{also})"
        compiled = "compiled" if self.compiles else "not compiled"
        return f"pace: steps are {how}{why}; encoder {compiled}{self.why_compiles}"


def choose_pace(fabric: Fabric, plan: Plan) -> Pace:
    """What this machine and these settings allow, and what pays."""
    machine, why = plan.settings.machine, find_obstacle(fabric, plan)
    compiles, why_compiles = machine.compile is True, ""
    if machine.compile == "auto" and not why:
        saved = estimate_saving(plan)
        compiles = saved > COMPILING
        why_compiles = (
            f" (it takes about {COMPILING:.0f} s and saves about {saved:.0f})"
        )
    idle = bool(why) and not machine.capture
    return Pace(why, machine.capture and not why, compiles, why_compiles, idle)


def find_obstacle(fabric: Fabric, plan: Plan) -> str:
    """Why steps cannot stay on the device; nothing where they can."""
    if fabric.device.type != "cuda":
        return "there is no CUDA device"
    if fabric.world_size > 1:
        return "there are several processes"
    if plan.settings.federated.asked:
        return "clients take turns, with their own batch sizes"
    for source in plan.sides:
        word = source.kind.word
        if not isinstance(source, Resident):
            return f"{word}s are streamed"
        if source.samples.device.type != "cuda":
            return f"{word}s are in the host's memory"
    if plan.settings.machine.precision == "fp16":
        return "fp16 scales its gradients with the host's help"
    if not all(views.can_be_captured for views in device_views(plan)):
        return "a view has your own function"
    if plan.own_encoder:
        return "the encoder is your own object"
    return plan.learner.why_not_captured


def estimate_saving(plan: Plan) -> float:
    """Seconds that a compiled encoder saves over the run, about."""
    batches = plan.n_steps * plan.settings.optim.accumulate
    n_views = batches * plan.local_batch * plan.n_views
    passes = 3 if plan.settings.micro_batch is None else 4  # backward is worth two
    if plan.attack is not None:  # each of its steps goes both ways, too
        passes *= 1 + plan.attack.steps
    flops = passes * n_views * count_flops(plan)
    return flops * SAVED_PER_FLOP


def count_flops(plan: Plan) -> int:
    """Operations of the encoder for one image."""
    from torch.utils.flop_counter import FlopCounterMode  # slow to import

    encoder = copy.deepcopy(plan.untrained).eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        encoder(encoder.blank())
    return int(counter.get_total_flops())
