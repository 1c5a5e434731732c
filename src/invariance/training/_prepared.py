"""A learner that is ready to train: on its device, in its precision and processes."""

import contextlib
import copy
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from ..encoders import (
    Encoder,
    Towers,
    describe_encoder,
    keep_norms,
    part_of,
    synchronize_norms,
)
from ..errors import NotFiniteError, TrainingError
from ..methods import Step, is_memory
from ..randomness import random_states, set_random_states
from ._bf16_on_cpu import refuse_wrong_gradients
from ._captured import Captured, own_stream
from ._clients import Rounds
from ._federation import Federation
from ._feed import DeviceFeed, HostFeed
from ._lightning import Fabric, ModelParallelStrategy
from ._optimizers import build_optimizer, load_optimizer, save_optimizer
from ._out_of_memory import explain_overflow
from ._pace import Pace, choose_pace
from ._run_plan import Plan
from ._sharded import gather_state, local_part, share_optimizer, share_weights
from ._step import TakeStep

# what --micro-batch encodes with
Module = TypeVar("Module", bound=nn.Module)
IN_PIECES = (
    *("encoder", "head", "twin", "other", "other_head"),
    *("place_head", "map_head"),
)


@dataclass(frozen=True)
class Prepared:
    """The learner of a plan and its optimizer, wrapped for their device and processes.

    Where weights are shared out, every process takes part in gathering them.
    """

    plan: Plan
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
            micro = self.plan.settings.micro_batch
            rows = "the whole batch" if micro is None else f"a piece of {micro} samples"
            yield f"processes: {n} ({how}); batch norms take the statistics of {rows}"
        on_gpu, pace = self.fabric.device.type == "cuda", self.pace
        if on_gpu or pace.compiles or pace.idle:
            yield str(pace)
        if isinstance(self.feed, DeviceFeed):
            yield from (views.explain() for views in self.feed.views)

    def state(self) -> dict[str, Any]:
        """All that the next step depends on."""
        plan = self.plan
        learner, optimizer = self._weights()
        state = {
            "learner": learner,
            "optimizer": optimizer,
            "encoder": describe_encoder(plan.learner.encoder),
            **other_of(plan.learner),
            "scaler": self.fabric._precision.state_dict(),
            "controller": plan.controller and plan.controller.state_dict(),
            "random": random_states(),
            "random_each": self._random_each(),
        }
        return state if self.federation is None else self.federation.pack(state)

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what ``state`` gave."""
        plan = self.plan
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
        each = state.get("random_each", [])  # of as many processes as there were
        same = len(each) == self.fabric.world_size > 1
        mine = each[self.fabric.global_rank] if same else state["random"]
        set_random_states(mine)

    def make_step(self, say: Callable[[str], None]) -> Callable[[bool], Step]:
        """The step as a function: called, or replayed where it is to be captured."""
        call = TakeStep(self.fabric, self.plan, self.wrapped, self.optimizer, self.feed)
        if self.federation is not None:
            return self.federation.around(call)
        if not self.pace.captures:
            return call

        def give_up(error: Exception) -> None:
            call.drop()
            why = next(iter(str(error).strip().splitlines()), type(error).__name__)
            say(f"pace: steps are launched one by one, since capturing failed: {why}")

        return Captured(call, lambda: self.plan.learner.host_state, give_up)

    @contextlib.contextmanager
    def stepping(self) -> Iterator[None]:
        """Within this, what can go wrong in a step is explained in a sentence.

        Afterwards nothing is read ahead any more.
        """
        with (
            contextlib.closing(self.feed),
            explain_overflow(self.fabric, self.plan, self.wrapped),
            refuse_wrong_gradients(self.fabric, self.plan),
            own_stream(self.fabric.device),
        ):
            yield

    def any_process(self, *answers: bool) -> list[bool]:
        """Each question, answered yes by every process if any says yes."""
        if self.fabric.world_size == 1:
            return list(answers)
        votes = torch.tensor(answers, dtype=torch.float32, device=self.fabric.device)
        torch.distributed.all_reduce(votes)
        return [bool(votes_for > 0) for votes_for in votes]

    def has_finite_weights(self) -> bool:
        """Whether all weights and statistics are finite numbers, on all processes."""
        parts = [*self.wrapped.parameters(), *self.wrapped.buffers()]
        numbers = [x for x in map(local_part, parts) if x.is_floating_point()]
        fine = [x.detach().isfinite().all() for x in numbers]
        (bad,) = self.any_process(not bool(torch.stack(fine).all()))
        return not bad

    def uncompiled(self) -> contextlib.AbstractContextManager[Any]:
        """The encoder as it is written, for batches of other sizes than training's."""
        if not self.pace.compiles:
            return contextlib.nullcontext()
        return torch.compiler.set_stance("force_eager")

    def encoder(self) -> Encoder:
        """The encoder as it is now, whole."""
        if not self.sharded:
            return self.plan.learner.encoder
        return self._gather(self.plan.untrained, "encoder")

    def towers(self) -> Towers | None:
        """Both encoders and their heads as they are now, whole; None of one encoder."""
        untrained = self.plan.untrained_towers
        if untrained is None or not self.sharded:
            return self.plan.learner.towers
        names = ("encoder", "head", "other", "other_head")
        parts: Any = [self._gather(getattr(untrained, name), name) for name in names]
        return Towers(*parts)

    def _gather(self, like: Module, part: str) -> Module:
        """A part of the learner, of which each process has a share, whole."""
        whole = copy.deepcopy(like)
        weights = part_of(self.wrapped.module.state_dict(), part)
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


def memory_names(learner: nn.Module) -> list[str]:
    """The names of the buffers in which past rows are kept."""
    return [name for name, _ in learner.named_buffers() if is_memory(name)]


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
    return Prepared(plan, fabric, wrapped, optimizer, feed, pace, federation)
