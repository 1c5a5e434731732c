"""What is due after a step, by the plan alone: readings, kept states, functions."""

from typing import NamedTuple

from ._run_plan import Plan


class Due(NamedTuple):
    """What is to be done after so many steps, as everybody knows beforehand."""

    done: int
    """Steps until then."""
    epoch: int
    """The one that the last of them belongs to, counted from 1."""
    ends_epoch: bool
    logs: bool
    """Whether a reading is taken."""
    knn: bool
    """Whether that reading has kNN accuracy."""
    keeps: bool
    """Whether the learner is kept for good."""
    calls: bool
    """Whether the functions of the user are called."""
    may_end: bool
    """Whether the run could end here, before its last epoch."""

    @property
    def reads_weights(self) -> bool:
        """Whether the weights are read before they move on."""
        return self.knn or self.calls or self.may_end


def find_due(plan: Plan, done: int, *, has_functions: bool) -> Due:
    """What is due after so many steps, with or without functions of the user."""
    settings, ends_epoch = plan.settings, plan.order.ends_epoch(done)
    epoch = plan.order.find_epoch(done - 1) + 1

    def is_due(every: int) -> bool:
        last = epoch == settings.epochs
        return ends_epoch and every > 0 and (epoch % every == 0 or last)

    stops = settings.stop.patience is not None or has_functions
    return Due(
        done,
        epoch,
        ends_epoch,
        logs=ends_epoch or done % steps_between_readings(plan) == 0,
        knn=is_due(settings.knn_every),
        keeps=is_due(settings.keep_every),
        calls=has_functions and ends_epoch,
        may_end=stops and ends_epoch and done < plan.n_steps,
    )


def steps_between_readings(plan: Plan) -> int:
    """How often a reading is due; the last step of an epoch has one too."""
    return plan.settings.log_every or max(plan.steps_per_epoch // 10, 1)
