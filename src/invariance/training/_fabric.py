"""The machine of a run: device, precision and arithmetic, through Lightning Fabric."""

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..devices import choose_device, computes_bf16, usable_cores
from ..errors import SettingError
from ..words import count
from ._lightning import ClusterEnvironment, Fabric
from ._settings import Machine
from ._sharded import make_fsdp
from ._start_processes import choose_environment, settle_machine

PRECISIONS = {"32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}


def make_fabric(
    machine: Machine, environment: ClusterEnvironment | None = None
) -> Fabric:
    """The machine asked for, or a sentence that says why not.

    Args:
        machine: As the settings have it.
        environment: What says which process this is, instead of torchrun, srun or us.
    """
    device = choose_device(machine.device, auto=("cuda",)).type
    if environment is None:
        machine, environment = settle_machine(machine), choose_environment()
    check_processes(machine, device)
    precision = choose_precision(machine, device)
    if precision == "fp16" and device == "cpu":
        raise SettingError(
            "A CPU does not train in fp16: use --machine.precision 32 or bf16."
        )
    strategy: Any = machine.strategy
    if strategy == "fsdp":
        if precision == "fp16":
            raise SettingError(
                "fsdp trains in bf16 or 32, and --machine.precision is fp16, whose "
                "scaling needs whole gradients: use bf16, or --machine.strategy ddp."
            )
        # one process has nothing to share out
        strategy = make_fsdp(n) if (n := machine.n_processes) > 1 else "auto"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fabric = Fabric(
                accelerator=device,
                devices=machine.devices or 1,
                num_nodes=machine.nodes or 1,
                strategy=strategy,
                precision=PRECISIONS[precision],  # type: ignore[arg-type]
                plugins=None if environment is None else [environment],
            )
    except (ValueError, RuntimeError) as cause:
        raise SettingError(f"Cannot set up {machine}: {cause}") from None
    # Fabric would round the views; the encoder standardizes them first, which divides
    # by a deviation far below 1, and autocast rounds what comes out of that
    fabric._precision.convert_input = lambda data: data  # type: ignore[method-assign]
    return fabric


def choose_precision(machine: Machine, device: str) -> str:
    """The one asked for; bf16 where it is left open and the device has it.

    >>> choose_precision(Machine(), "cpu"), choose_precision(Machine(), "mps")
    ('32', '32')
    """
    if machine.precision != "auto":
        return machine.precision
    return "bf16" if device == "cuda" and computes_bf16("cuda") else "32"


def check_processes(machine: Machine, device: str) -> None:
    """Refuse more processes than this machine can bear, before any is started."""
    most, what = usable_cores(), "core"
    if device != "cpu":
        most, what = (torch.cuda.device_count() if device == "cuda" else 1), "GPU"
    devices = machine.devices or 1
    if devices > most:
        raise SettingError(
            f"machine.devices is one process per {what}, but this machine has "
            f"{count(most, what)}: got {devices}. Use --machine.devices {most} or "
            "less."
        )
    if machine.n_processes > 1 and (hasattr(sys, "ps1") or sys.flags.interactive):
        raise SettingError(
            "A notebook or an interactive Python trains in one process: leave devices "
            "and nodes at 1, or train by a script or 'invariance train "
            f"--machine.devices {devices}'."
        )


@contextlib.contextmanager
def arithmetic(machine: Machine, say: Callable[[str], None]) -> Iterator[None]:
    """Sums that repeat to the bit, or the fastest ones; afterwards all is as it was."""
    exact, cudnn = machine.deterministic, torch.backends.cudnn
    memory: Any = torch.utils.deterministic
    precision = torch.get_float32_matmul_precision()
    choices = cudnn.benchmark, cudnn.deterministic
    enabled = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    fills = memory.fill_uninitialized_memory
    if exact:  # read once, when a process first multiplies matrices
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")
    # by the clock, now one convolution is the fastest and now another
    cudnn.benchmark, cudnn.deterministic = not exact, exact
    torch.use_deterministic_algorithms(exact, warn_only=True)
    memory.fill_uninitialized_memory = False  # nothing reads it
    try:
        with explain_unrepeatable(say):
            yield
    finally:
        torch.set_float32_matmul_precision(precision)
        cudnn.benchmark, cudnn.deterministic = choices
        torch.use_deterministic_algorithms(enabled, warn_only=warns)
        memory.fill_uninitialized_memory = fills


@contextlib.contextmanager
def explain_unrepeatable(say: Callable[[str], None]) -> Iterator[None]:
    """Say once, in a sentence of ours, what torch warns of at every such operation."""
    names: set[str] = set()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def explain(message: Warning | str, *details: Any, **more: Any) -> None:
            text = str(message)
            if "deterministic implementation" not in text:
                show(message, *details, **more)
                return
            name = text.split()[0]
            if name not in names:
                names.add(name)
                say(
                    f"{name}, which this network uses, has no deterministic form: "
                    "another run of the same seed may differ in its last bits."
                )

        warnings.showwarning = explain
        yield
