r"""Adversarial views: a step learns from the views that raise its loss most.

$$\min_\theta\ \max_{\lVert\delta_i\rVert\le\epsilon}\ L\big(f_\theta(u_i + \delta_i),\,
f_\theta(v_i)\big)$$

PGD finds δ, from a start that depends on seed, epoch and sample alone, against the very
loss that the step then minimizes: with its batch statistics, its negatives and the rows
of all processes. Views are in [0, 1], since encoders standardize for themselves, and so
epsilon is in pixels. RoCL adds such a view to two clean ones (``added``); ACL attacks
one of two (``first``) or both (``all``).
"""

from collections.abc import Sequence

from torch import Tensor

from ..views import LazyView
from ._feed import Batch, DeviceFeed, HostFeed
from ._lightning import Fabric
from ._run_plan import Plan

START = 1_000_003  # the stream of starts, far from those of the views' operations


def attack_views(
    fabric: Fabric, plan: Plan, feed: HostFeed | DeviceFeed, batch: Batch
) -> Batch:
    """The batch with attacked views; where none are attacked, as it is."""
    attack, learner = plan.attack, plan.learner
    if attack is None:
        return batch
    views = arrange(plan, batch.views)
    n = len(plan.views) if plan.settings.views_adversarial == "all" else 1
    clean, others = [make_whole(view) for view in views[:n]], views[n:]
    starts = [
        attack.start(x, feed.draws(batch.ids, k).substream(START))
        for k, x in enumerate(clean)
    ]

    def loss(changed: list[Tensor]) -> Tensor:
        # past DistributedDataParallel, which would take it for a step
        with fabric.autocast():
            step = learner([*changed, *others], batch.labels, batch.ids)
        # the sum over samples: gradients of a mean may vanish in half precision
        return step.loss * len(batch.ids)

    changed = attack(loss, clean, starts, within=learner.leave_no_trace)
    return batch._replace(views=[*changed, *others])


def arrange(
    plan: Plan, views: Sequence[Tensor | LazyView]
) -> Sequence[Tensor | LazyView]:
    """The views as the learner takes them: a copy that is added comes first.

    What it is a copy of comes last of its side: readings are of the first two views,
    and a view finds its own copy without having learned anything.
    """
    if plan.settings.views_adversarial != "added":
        return views
    n = len(plan.views)
    return [*views[:n], views[0], *views[n:]]


def make_whole(view: Tensor | LazyView) -> Tensor:
    """A view of the whole batch, also where pieces are made when they are needed."""
    return view if isinstance(view, Tensor) else view[0 : len(view)]
