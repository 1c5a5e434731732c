"""The learner of a run as its newest checkpoint left it: encoder, head, objective."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from ..data import ImageSource
from ..errors import InvarianceError
from ..methods import METHODS, Learner
from ..training import _checkpoint
from ..training._plan import Plan, make_plan, make_views
from ..views import ViewSet
from ._opened import Opened


@dataclass(frozen=True)
class Rebuilt:
    """What trained, or as much of it as can be had."""

    learner: Learner | None
    """None where the head cannot be rebuilt; ``why`` says the reason."""
    views: ViewSet
    why: str = ""


def rebuilt(run: Opened, source: ImageSource, data: Any, device: Any) -> Rebuilt:
    """The learner and views of a run.

    Args:
        run: The run.
        source: Images to be looked at, of the encoder's size.
        data: An object it was trained on, if it was one.
        device: Where the learner goes.
    """
    try:
        plan, why = loaded_plan(run, data, device)
    except InvarianceError as cause:
        plan, why = None, str(cause)
    if plan is not None:
        return Rebuilt(plan.learner.to(device).eval(), plan.views)
    settings = run.settings
    method = METHODS.get(settings.method, METHODS["simclr"])
    recipe = settings.views if settings.views != "auto" else method.views
    is_shapes = settings.data == "shapes" and not run.from_python
    views = make_views(recipe, method, source, is_shapes=is_shapes)
    return Rebuilt(None, views, f"The head cannot be rebuilt, so z is left out: {why}")


def loaded_plan(run: Opened, data: Any, device: Any) -> tuple[Plan | None, str]:
    """The run's plan with its trained weights, or why there is none."""
    state = _checkpoint.newest(run.folder / "checkpoints", map_location=device)
    if state is None:
        return None, "the run has no checkpoint."
    # every weight comes from the checkpoint: nothing to fetch, nothing to start from
    settings = dataclasses.replace(run.settings, start_from=None, pretrained=False)
    inside = run.encoder.network[1]  # type: ignore[index]
    states = _checkpoint.random_states()
    try:
        plan = make_plan(
            settings,
            data=data if run.from_python else None,
            encoder=inside,
            device=device,
        )
        plan.learner.load_state_dict(state["learner"])
        if plan.controller is not None:
            plan.controller.load_state_dict(state["controller"])
    except RuntimeError as cause:
        return None, " ".join(str(cause).split())
    finally:
        _checkpoint.set_random_states(states)
    return plan, ""
