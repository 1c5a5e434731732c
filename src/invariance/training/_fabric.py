"""Devices, precision and processes, through Lightning Fabric."""

import contextlib
import copy
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from ..devices import choose_device, computes_bf16, usable_cores
from ..encoders import (
    Encoder,
    Head,
    describe_encoder,
    keep_norms,
    synchronize_norms,
)
from ..errors import NotFiniteError, SettingError, TrainingError
from ..methods import MEMORIES, Step
from ..randomness import random_states, set_random_states
from ..words import count
from ._captured import Captured
from ._clients import Rounds
from ._federation import Federation
from ._feed import DeviceFeed, HostFeed
from ._lightning import ClusterEnvironment, Fabric, ModelParallelStrategy
from ._optimizers import build_optimizer, load_optimizer, save_optimizer
from ._pace import Pace, choose_pace
from ._readings import Health
from ._run_plan import Plan
from ._settings import Machine
from ._sharded import gather_state, make_fsdp, share_optimizer, share_weights
from ._start_processes import choose_environment, settle_machine
from ._step import TakeStep

PRECISIONS = {"32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
# what --micro-batch encodes with
Module = TypeVar("Module", bound=nn.Module)
IN_PIECES = (
    *("encoder", "head", "twin", "other", "other_head"),
    *("place_head", "map_head"),
)


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


@dataclass(frozen=True)
class Prepared:
    """A learner and its optimizer, wrapped for their device and processes."""

    fabric: Fabric
    wrapped: Any
    optimizer: Any
    feed: HostFeed | DeviceFeed
    pace: Pace
    federation: Federation | None = None
    """The server and its clients, where there are any."""

    def facts(self) -> Iterator[str]:
        """By which processes steps are run, and how, on a GPU or where it was asked."""
        n = self.fabric.world_size
        if n > 1:
            how = "fsdp" if self.sharded else "ddp"
            micro = self.feed.plan.settings.micro_batch
            rows = "the whole batch" if micro is None else f"a piece of {micro} samples"
            yield f"processes: {n} ({how}); batch norms take the statistics of {rows}"
        on_gpu, pace = self.fabric.device.type == "cuda", self.pace
        if on_gpu or pace.compiles or pace.idle:
            yield str(pace)
        if isinstance(self.feed, DeviceFeed):
            yield from (views.explain() for views in self.feed.views)

    def state(self, plan: Plan, health: Health) -> dict[str, Any]:
        """All that the next step depends on."""
        learner, optimizer = self._weights()
        state = {
            "learner": learner,
            "optimizer": optimizer,
            "encoder": describe_encoder(plan.learner.encoder),
            **other_of(plan.learner),
            "scaler": self.fabric._precision.state_dict(),
            "controller": plan.controller and plan.controller.state_dict(),
            "said": health.state_dict(),
            "random": random_states(),
            "random_each": self._random_each(),
        }
        return state if self.federation is None else self.federation.pack(state)

    def load(self, state: dict[str, Any], plan: Plan, health: Health) -> None:
        """Be what ``state`` was."""
        try:
            if self.federation is not None:
                state = self.federation.unpack(state)
            learner, optimizer = state["learner"], state["optimizer"]
            if self.sharded:
                learner = share_weights(plan.learner, learner)
                optimizer = share_optimizer(self.optimizer, optimizer)
            plan.learner.load_state_dict(learner)
            load_optimizer(self.optimizer, optimizer)
        except NotFiniteError:  # a memory says what is wrong with its rows
            raise
        except (RuntimeError, KeyError, ValueError) as cause:
            why = str(cause).strip().splitlines()[-1].strip()  # of one line per weight
            raise TrainingError(
                f"The checkpoint does not fit what is being trained: {why[:200]} "
                "Nothing was changed."
            ) from None
        self.fabric._precision.load_state_dict(state["scaler"])
        if plan.controller is not None:
            plan.controller.load_state_dict(state["controller"])
        health.load_state_dict(state["said"])
        each = state.get("random_each", [])  # of as many processes as there were
        same = len(each) == self.fabric.world_size > 1
        mine = each[self.fabric.global_rank] if same else state["random"]
        set_random_states(mine)

    def take_step(
        self, plan: Plan, say: Callable[[str], None]
    ) -> Callable[[bool], Step]:
        """The step as a function: called, or replayed where it is to be captured."""
        call = TakeStep(self.fabric, plan, self.wrapped, self.optimizer, self.feed)
        if self.federation is not None:
            return self.federation.around(call)
        if not self.pace.captures:
            return call

        def give_up(error: Exception) -> None:
            call.drop()
            why = next(iter(str(error).strip().splitlines()), type(error).__name__)
            say(f"pace: steps are launched one by one, since capturing failed: {why}")

        return Captured(call, lambda: plan.learner.host_state, give_up)

    def uncompiled(self) -> contextlib.AbstractContextManager[Any]:
        """The encoder as it is written, for batches of other sizes than training's."""
        if not self.pace.compiles:
            return contextlib.nullcontext()
        return torch.compiler.set_stance("force_eager")

    def encoder(self, plan: Plan, part: str = "encoder") -> Encoder:
        """The encoder as it is now, whole; every process takes part in gathering it.

        ``part`` "other" is a second side's.
        """
        mine: Encoder = getattr(plan.learner, part)
        if not self.sharded:
            return mine
        untrained = plan.untrained if part == "encoder" else plan.other_untrained
        assert untrained is not None
        return self._gather(untrained, part)

    def heads(self, plan: Plan) -> tuple[Head, Head] | None:
        """Both heads of two encoders as they are now, whole; None of one encoder."""
        learner: Any = plan.learner
        if plan.untrained_heads is None:
            return None
        if not self.sharded:
            return learner.head, learner.other_head
        first, other = plan.untrained_heads
        return self._gather(first, "head"), self._gather(other, "other_head")

    def _gather(self, like: Module, part: str) -> Module:
        """A part of the learner, of which each process has a share, whole."""
        whole = copy.deepcopy(like)
        weights = part_of(self.wrapped.module.state_dict(), f"{part}.")
        whole.load_state_dict(gather_state(weights, keep=True))
        return whole.to(self.fabric.device)

    @property
    def sharded(self) -> bool:
        """Whether each process holds only a part of the weights."""
        return isinstance(self.fabric.strategy, ModelParallelStrategy)

    def _random_each(self) -> list[dict[str, Any]]:
        """Where the generators of each process stand; nothing where there is one."""
        n = self.fabric.world_size
        if n == 1:
            return []
        file, each = io.BytesIO(), [b""] * n
        torch.save(random_states(), file)
        torch.distributed.all_gather_object(each, file.getvalue())
        return [torch.load(io.BytesIO(part), weights_only=True) for part in each]

    def _weights(self) -> tuple[dict[str, Any], dict[str, Any]]:
        state = self.wrapped.module.state_dict(), save_optimizer(self.optimizer)
        if not self.sharded:
            return state
        first = self.fabric.is_global_zero
        learner, optimizer = (gather_state(part, keep=first) for part in state)
        return learner, optimizer


def other_of(learner: nn.Module) -> dict[str, Any]:
    """What a checkpoint says of the second encoder of a learner that has two."""
    other: Any = getattr(learner, "other", None)
    return {} if other is None else {"other": describe_encoder(other)}


def part_of(state: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The entries below a prefix, without it."""
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def memory(learner: nn.Module) -> list[torch.Tensor]:
    """The buffers in which past rows are kept."""
    wanted = set(memory_names(learner))
    return [buffer for name, buffer in learner.named_buffers() if name in wanted]


def memory_names(learner: nn.Module) -> list[str]:
    """What they are called."""
    return [name for name, _ in learner.named_buffers() if name.startswith(MEMORIES)]


def compile_encoders(plan: Plan) -> None:
    """Have the encoder, and a momentum twin's, compiled when they first run.

    Each run for its own sizes: after a run of another batch, torch would take code for
    any size, which is slower and adds up in another order than that of a first run, and
    after eight it would compile no more. So it forgets all that it has compiled in this
    process, functions of the caller's too: they are compiled again when next called.
    """
    from torch._inductor import config

    torch.compiler.reset()
    # else kernels are chosen by the clock, and with them the order of sums
    exact = plan.settings.machine.deterministic and hasattr(config, "deterministic")
    options = {"deterministic": True} if exact else None
    plan.learner.compile_encoders(dynamic=False, options=options)


@contextlib.contextmanager
def keep_form(network: nn.Module | None) -> Iterator[None]:
    """Give a user's network back stored as it was, and with norms of its own kinds.

    Steps are taken in channels last, and on several processes with other norms.
    """
    if network is None:
        yield
        return
    weights = [*network.parameters(), *network.buffers()]
    plain = [weight for weight in weights if is_lazy(weight) or weight.is_contiguous()]
    try:
        with keep_norms(network):
            yield
    finally:
        for weight in plain:
            if not weight.is_contiguous():
                weight.data = weight.data.contiguous()


def store_channels_last(module: nn.Module) -> None:
    """Store weights of images' convolutions channels last.

    ``module.to`` would refuse a module that has any of volumes, too.
    """
    for weight in [*module.parameters(), *module.buffers()]:
        if not is_lazy(weight) and weight.ndim == 4:
            # contiguous() would leave a 1x1 kernel's strides as they are: its gradients
            # come with others, and ddp would copy them one by one and warn of that
            weight.data = weight.data.to(memory_format=torch.channels_last)


def prepare(fabric: Fabric, plan: Plan) -> Prepared:
    """Move the learner to its device and wrap it for precision and processes."""
    learner: Any = plan.learner
    sharded = isinstance(fabric.strategy, ModelParallelStrategy)
    if not sharded:  # shares are rows of plain matrices
        store_channels_last(learner)
    if fabric.world_size > 1 and plan.settings.micro_batch is None:
        learner = synchronize_norms(learner, fabric.device)
    elif fabric.world_size > 1:  # a piece has the statistics that one process gives it
        for name, part in learner.named_children():
            if name not in IN_PIECES:
                setattr(learner, name, synchronize_norms(part, fabric.device))
    pace = choose_pace(fabric, plan)
    if pace.compiles:
        compile_encoders(plan)
    # every process has the same memory already: sending it round would cost a bank
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
        learner, memory_names(learner)
    )
    feed: HostFeed | DeviceFeed = HostFeed(fabric, plan)
    lr: float | torch.Tensor = plan.peak
    if pace.stays:
        lr = torch.tensor(plan.peak, device=fabric.device)
        feed = DeviceFeed(plan, lr)
        if plan.controller is not None:
            plan.controller.move_to(fabric.device)
    optim = plan.settings.optim
    if sharded:  # the optimizer is of the shares
        wrapped = fabric.setup_module(learner)
        optimizer = fabric.setup_optimizers(build_optimizer(learner, optim, lr))
    else:
        wrapped, optimizer = fabric.setup(learner, build_optimizer(learner, optim, lr))
    federation = None
    if isinstance(plan.order, Rounds) and isinstance(feed, HostFeed):
        federation = Federation(plan.order, plan.learner, optimizer, feed)
    return Prepared(fabric, wrapped, optimizer, feed, pace, federation)
