"""One step of the optimizer: the same function wherever it runs, called or captured."""

from dataclasses import dataclass
from typing import Any

from ..methods import Step
from ._adversary import attack_views
from ._feed import DeviceFeed, HostFeed
from ._lightning import Fabric
from ._run_plan import Plan
from ._sharded import clip_gradients


@dataclass(frozen=True)
class TakeStep:
    """Views in, weights moved, memories filled; ``feed`` knows whose turn it is."""

    fabric: Fabric
    plan: Plan
    module: Any
    optimizer: Any
    feed: HostFeed | DeviceFeed

    def __call__(self, logs: bool) -> Step:
        """One step of the optimizer, from one or more batches.

        A step that is logged also says the ESS and the information of its batch.
        """
        plan, optim = self.plan, self.plan.settings.optim
        progress = self.feed.advance(self.optimizer)
        for part, batch in enumerate(self.feed.batches(), start=1):
            last = part == optim.accumulate
            with self.fabric.no_backward_sync(self.module, enabled=self.waits(last)):
                step: Step = self.module(
                    *attack_views(self.fabric, plan, self.feed, batch)
                )
                self.fabric.backward(step.loss / optim.accumulate)
        if optim.clip_norm is not None and not clip_gradients(
            self.module, optim.clip_norm
        ):
            # a norm that is not finite gives weights that are not: the loop tells
            self.fabric.clip_gradients(
                self.module,
                self.optimizer,
                max_norm=optim.clip_norm,
                error_if_nonfinite=False,
            )
        # read before a critic moves, and before the memory takes in others
        if plan.controller is not None or logs:
            step = step.with_ess()
        if logs:
            step = step.with_information().gathered()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        plan.learner.after_step(progress)
        if plan.controller is not None:
            plan.controller.update(step.readings["ess"], progress)
        return step

    def waits(self, last: bool) -> bool:
        """Whether processes exchange gradients later, when all are added up."""
        return self.fabric.world_size > 1 and not last

    def drop(self) -> None:
        """Forget a step that was broken off while it was captured."""
        self.optimizer.zero_grad(set_to_none=True)
        self.plan.learner.drop_step()
