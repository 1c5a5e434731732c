r"""Contrastive predictive coding: which of these codes comes k patches later?

$$L = \frac1K\sum_{k=1}^K L_k,\qquad
L_k = \frac1{nT}\sum_{i,t} \mathrm{softplus}\Big(
\log\sum_{(j,s)\in N(i,t)} e^{s^k_{it,js}} - s^k_{it,it}\Big),\qquad
s^k_{it,js} = (W_k c_{it})\cdot z_{j,s+k}$$

c is the context of a window up to a patch, z the code of a patch, W_k a matrix of its
own for every step ahead: a bilinear critic (van den Oord et al. 2018). N, who else the
code might have been, is one of ``invariance.negatives.IN_TIME``. The T = L - K contexts
that have K patches after them predict all of these.

The objective is any softmax over negatives. With InfoNCE, independent samples to which
the network was not fitted and the negatives "other_samples", log n - L_k is on average
a lower bound of the information between c_t and z_{t+k}, in nats, at most log n.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ..encoders import Encoder, Unrolled, build_head
from ..errors import SettingError, ShapeError
from ..negatives import InTime
from ..objectives import Objective, Terms
from ..partition import Share, effective_share, gather_last
from ..plain_numbers import check_whole
from ..words import count
from ._learner import Learner, Maybe, View
from ._learner_step import Step, make_step

Pair = tuple[Tensor, Tensor]
SHARP = 10_000  # times the scale: a softmax so steep that the best has all of it


class PredictiveCoding(Learner):
    """Contexts predict the codes of the next patches, among others.

    Settings:
        steps (1 or more): Patches ahead that every context predicts.
    """

    def __init__(
        self,
        encoder: Encoder,
        objective: Objective,
        negatives: InTime,
        *,
        head: str = "linear",
        hidden: int = 512,
        steps: int = 6,
    ) -> None:
        check_whole("steps", steps, 1)
        n_patches, latent = Unrolled(encoder).measure(encoder.input_shape)
        check_horizon(n_patches, steps, encoder)
        if head == "none":
            raise SettingError(
                "Every step ahead needs its own matrix, so its head cannot be "
                '"none": use "linear", the bilinear critic, or "mlp2".'
            )
        # one head says all steps, a matrix below the other
        critics = build_head(head, encoder.width, hidden, steps * latent)
        critics.width = latent
        super().__init__(encoder, critics, objective)
        self.in_time, self.steps = negatives, steps
        self.n_patches, self.latent = n_patches, latent

    def learn(self, views: list[View], labels: Maybe, ids: Maybe) -> Step:
        """Every step's loss, averaged over steps and views."""
        contrasts = [
            Ahead(self.in_time, *pair, self.share)
            for rows in self.encode(Unrolled(self.encoder), views)
            for pair in self.predict(rows)
        ]
        losses = [ahead.compare(self.objective) for ahead in contrasts]
        parts = {
            f"step_{k + 1}": torch.stack(losses[k :: self.steps]).mean()
            for k in range(self.steps)
        }
        readings: dict[str, Tensor] = {}
        if not getattr(self.objective, "normalize", True):
            # long rows reach any score, whatever the temperature
            readings["mi_reachable"] = losses[0].new_full((), contrasts[0].ceiling)
        return make_step(
            [Terms(parts, dict.fromkeys(parts, 1 / self.steps))],
            contrasts[0].guesses[:, -1],
            contrasts[0].codes[:, -1],
            readings,
            shares={"ess": [ahead.read_shares for ahead in contrasts]},
            contrasts=[ahead.read_information for ahead in contrasts],
        )

    def predict(self, rows: Tensor) -> list[Pair]:
        """What contexts say of the codes k patches later, and these; k = 1 first."""
        codes, contexts = rows.split([self.latent, rows.shape[2] - self.latent], 2)
        n, t = len(rows), rows.shape[1] - self.steps
        check_horizon(rows.shape[1], self.steps, self.encoder)
        guesses = self.head(contexts[:, :t].flatten(0, 1))
        guesses = guesses.view(n, t, self.steps, self.latent)
        return [(guesses[:, :, k], codes[:, k + 1 :][:, :t]) for k in range(self.steps)]

    @property
    def facts(self) -> tuple[str, ...]:
        """How far it looks."""
        return (f"{count(self.steps, 'step')} ahead",)

    def chance(self, n: int, n_views: int = 1) -> float | None:
        """That of the objective among so many candidates."""
        n_contexts = self.n_patches - self.steps
        return self.objective.chance(1 + self.in_time.count(n, n_contexts))


class Ahead:
    """The predictions of one step ahead, the codes that came, and their negatives."""

    def __init__(
        self, negatives: InTime, guesses: Tensor, codes: Tensor, share: Share | None
    ) -> None:
        self.negatives, self.share = negatives, share
        self.guesses, self.codes = guesses, codes
        n, t = guesses.shape[:2]
        self.n_negatives = negatives.count(n if share is None else share.total, t)
        if self.n_negatives < 1:
            raise ShapeError(
                "A prediction is compared with other codes, but there are none among "
                f"{n} samples at {t} times: use larger batches, longer windows, "
                "fewer steps or other negatives."
            )

    @property
    def ceiling(self) -> float:
        """The most nats that so many candidates can show."""
        return math.log(self.n_negatives + 1)

    def compare(self, objective: Objective) -> Tensor:
        """The objective of these predictions."""
        t = self.guesses.shape[1]
        return objective.among(
            self.guesses,
            self.codes,
            self.sum_negatives,
            log_count=math.log(self.n_negatives),
            share=self.share and self.share.repeat(t),
        )

    def sum_negatives(
        self, u: Tensor, v: Tensor, scales: list[Any], *function: str
    ) -> Tensor:
        """Log-partitions, or other sums; what was asked is kept for the readings."""
        self.guesses, self.codes = u.detach(), v.detach()
        self.scale = scales[0].detach() if isinstance(scales[0], Tensor) else scales[0]
        return self.negatives.sums(u, v, scales, self.share, *function)

    @torch.no_grad()
    def read_sums(self, factors: Sequence[int]) -> Tensor:
        """Log-partitions at multiples of the scale."""
        scales = [factor * self.scale for factor in factors]
        return self.negatives.sums(self.guesses, self.codes, scales, self.share)

    def read_shares(self) -> Tensor:
        """Effective share of each prediction's negatives."""
        single, double = self.read_sums([1, 2])
        return effective_share(single, double, math.log(self.n_negatives))

    def read_information(self) -> tuple[Tensor, Tensor, Tensor]:
        """Each prediction's InfoNCE, the logarithm of its number of candidates, and 1
        where the code that came scores highest of them; equals share the 1.
        """
        scores = self.scale * (self.guesses * self.codes).sum(-1).flatten()
        share = self.share and self.share.repeat(self.guesses.shape[1])
        scores, sums = gather_last(scores, share), self.read_sums([1, SHARP])
        loss, sharp = softplus(sums[0] - scores), softplus(sums[1] - SHARP * scores)
        return loss, torch.full_like(loss, self.ceiling), (-sharp).exp()


def check_horizon(n_patches: int, steps: int, encoder: Encoder) -> None:
    """Refuse windows in which no context has all its steps ahead."""
    if n_patches > steps:
        return
    raise ShapeError(
        f"Predicting {steps} patches ahead needs windows of {steps + 1} patches or "
        f"more, and {encoder.name} makes {n_patches} of a window: use a longer "
        f"--window, or fewer steps."
    )
