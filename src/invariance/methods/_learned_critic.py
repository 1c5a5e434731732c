r"""What scores two projections: their cosine, or a critic that is learned with them.

    dot         cos(u, v) / t                      the sphere's inner product
    bilinear    (u' W v + a' u + b' v + c) / t     a matrix between the rows
    separable   (f(u) . h(v) + a(u) + b(v)) / t    two perceptrons
    mlp         MLP([u, v]) / t                    one perceptron that sees both

A learned critic takes rows as they are, of any length, and finds a scale of its own, so
its temperature t is 1 unless one is asked for. The first row of a pair is its x, the
second its y. Two networks for two kinds of samples keep these places. Where one encoder
sees both views they may change places, so the critic is made to score both ways alike.

bilinear and separable are inner products of other rows: objectives sum over them as
ever, streamed, fused, over processes. mlp computes each pair, a block of them at a time
and again on the way back, so that its memory is linear in the batch, too.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..critics import Critic, Symmetric, build_critic, log_sums
from ..diagnostics import find_partners
from ..objectives import Objective, Terms
from ..partition import Share, gather_rows

LEARNED = {  # what methods call them, and what ``invariance.critics`` does
    "bilinear": "bilinear",
    "separable": "separable",
    "mlp": "concatenated",
}


class Comparison(NamedTuple):
    """Losses of a batch's contrasts, and how to read more off them: see ``Step``."""

    terms: list[Terms]
    shares: Mapping[str, Sequence[Callable[[], Tensor]]]
    contrasts: Sequence[Callable[[], tuple[Tensor, Tensor]]] = ()
    hits: Callable[[], Tensor] | None = None


def make_critic(
    name: str, width: int, settings: Mapping[str, Any], *, symmetric: bool
) -> Critic:
    """A critic of projections of one width."""
    critic = build_critic(LEARNED[name], width, width, **settings)
    return Symmetric(critic) if symmetric else critic


def find_obstacle(name: str, objective: Objective) -> str:
    """Why an objective cannot be scored by a critic; nothing where it can."""
    kind = type(objective).__name__
    if not objective.takes_critic:
        return (
            f"{kind} compares rows of one view, or rows of unit length, but the "
            f"{name} critic scores a row of one view with one of the other: take "
            "info_nce, sig_lip, binary_nce, or dcl or flat_nce with negatives cross"
        )
    if name == "mlp" and not objective.takes_sums:
        return (
            f"{kind} sums over inner products, but the mlp critic has none: take "
            "info_nce, or dcl or flat_nce with negatives cross; or the separable "
            "critic"
        )
    return ""


def compare_by(
    critic: Critic,
    objective: Objective,
    pairs: Sequence[tuple[Tensor, ...]],
    share: Share | None,
) -> Comparison:
    """Losses of pairs of views as the critic scores them; readings are its own, too."""
    terms = []
    for u, v in pairs:
        with torch.autocast(u.device.type, enabled=False):
            u, v = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (u, v))
            rows = critic.rows(u, v)
        if rows is not None:
            terms.append(objective.terms(*rows))
        else:
            sums = partial(log_sums, critic, u, v, share=share)
            terms.append(Terms({"loss": objective.of_sums(sums)}))
    kept = [(u.detach(), v.detach()) for u, v in pairs]
    each = [partial(log_sums, critic, *pair, share=share) for pair in kept]
    shares = {}
    if objective.negatives is not None:
        shares["ess"] = [partial(objective.shares_of_sums, sums) for sums in each]
    first = [partial(objective.contrast_of_sums, each[0])]
    return Comparison(terms, shares, first, partial(find_hits, critic, *kept[0], share))


@torch.no_grad()
def find_hits(critic: Critic, u: Tensor, v: Tensor, share: Share | None) -> Tensor:
    """Whether each row of u finds its partner among all of v, as the critic has it."""
    if share is not None:
        u, v = (gather_rows(x, share=share) for x in (u, v))
    u, v = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (u, v))
    return find_partners(u, v, critic)
