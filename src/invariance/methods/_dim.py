r"""Deep InfoMax: every place of an image should know the summary of the whole.

$$L_{\text{local}} = \frac1{M}\sum_{m=1}^{M} \ell\big(l^m, s\big),\qquad
L_{\text{global}} = \ell(g, s),\qquad
l^m_i = P\,f^m(x_i),\quad g_i = G\,f(x_i),\quad s_i = S\,h(x_i)$$

f is the encoder's feature map with M places, h the features that it makes of it, P, G
and S heads: P sees one place, G the whole map, S the features (Hjelm et al. 2019). Rows
are scored by their inner product, and ℓ is InfoNCE, the Jensen-Shannon loss or
Donsker and Varadhan's, of anchors l^m_i with the summaries of all samples of the batch
as candidates. The views paper (5.2) reads the local form as InfoNCE amortized over a
family of views: each place is a view of the image, and the summary is another.

Of one view of each image its own places are compared with its own summary, as in the
paper. Then whatever all places share pays, color first of all. Of several views those
of one are compared with the summary of another (AMDIM, Bachman et al. 2019), and only
what the views share pays.

With InfoNCE, independent samples and a network that was not fitted to them, log n -
L_local is on average a lower bound of the mean information between a place and the
summary, at most log n. The same is read off the scores of the other two losses
("mi_nats"). Their own values claim less: see ``jsd`` and ``dv``.

All M n anchors are compared with n summaries in one stream over tiles: no n M x n
scores are held.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..encoders import Encoder, Head, Mapped
from ..errors import SettingError, ShapeError, choose
from ..negatives import InTime
from ..objectives import Objective, Terms
from ..partition import (
    Share,
    gather_last,
    gather_rows,
    log_partitions,
    row_sums,
    take_whole_gradient,
)
from ..plain_numbers import check_number
from ._cpc import Ahead
from ._learner import Learner, Maybe, View, split_views
from ._learner_step import Step, make_step
from ._prior import UniformPrior

WHICH = {"local": ("local",), "global": ("global",), "both": ("global", "local")}


class DeepInfoMax(Learner):
    """Rows of places, of the whole map, or of both, find the summary of their image.

    Settings:
        which (local, global, both): What is compared with the summary: every place of
            the feature map, the whole map, or both.
        stage (-1 or less): Which feature map: -1 is the encoder's last, -2 that of the
            stage before; none: -2 where there are several.
        prior_weight (0 or more): Of making summaries look like uniform draws to a
            discriminator; 0 leaves it out.

    Args:
        encoder: One with feature maps.
        make_head: From the width of what comes in to a head.
        objective: Of anchors among candidates.
        seed: Of the uniform draws.
    """

    def __init__(
        self,
        encoder: Encoder,
        make_head: Callable[[int], Head],
        objective: Objective,
        *,
        which: str = "local",
        stage: int | None = None,
        prior_weight: float | int = 0.1,
        seed: int = 0,
    ) -> None:
        kinds = choose(WHICH, which, "which")
        check_number("prior_weight", prior_weight)
        if prior_weight < 0:
            raise SettingError(f"prior_weight is 0 or more: got {prior_weight}.")
        mapped = Mapped(encoder, stage)
        n_channels, *size = mapped.shape
        head = make_head(encoder.width)
        super().__init__(encoder, head, objective)
        self.mapped = (mapped,)  # in a tuple, or the encoder would be saved twice
        self.which, self.prior_weight, self.map_size = which, prior_weight, (*size,)
        self.kinds = kinds
        self.place_head = make_head(n_channels) if "local" in kinds else None
        n_numbers = n_channels * size[0] * size[1]
        self.map_head = make_head(n_numbers) if "global" in kinds else None
        heads = [h for h in (head, self.place_head, self.map_head) if h is not None]
        if len({h.width for h in heads}) > 1:
            raise SettingError(
                "Places and summaries are compared in rows of one width, so the head "
                'cannot be "none": use "linear" or "mlp2".'
            )
        self.prior = None
        if prior_weight:
            self.prior = UniformPrior(head.width, 2 * head.width, seed)

    def learn(self, views: list[View], labels: Maybe, ids: Maybe) -> Step:
        """Each view's places, or its whole map, among the summaries of the others."""
        n = len(views[0]) if self.share is None else self.share.total
        if n < 2:
            raise ShapeError(
                "A place finds the summary of its own image among those of others, so "
                f"Deep InfoMax needs at least 2 samples: got {n}."
            )
        network = Places(self.mapped[0], self.head, self.place_head, self.map_head)
        whole, parts = split_views(self.encode(network, views), views)
        terms, local = [], []
        for rows in whole:
            others = [other for other in (*whole, *parts) if other is not rows]
            anchors = [
                self.compare_with(other, rows[:, :1]) for other in others or [rows]
            ]
            costs = {
                kind: torch.stack([x[kind].compare(self.objective) for x in anchors])
                for kind in self.kinds
            }
            costs = {kind: each.mean() for kind, each in costs.items()}
            if self.prior is not None:
                fooled, discriminator_cost = self.prior(rows[:, 0], self.share)
                costs |= {"prior": fooled, "discriminator": discriminator_cost}
            terms.append(Terms(costs, {"prior": self.prior_weight}))
            local += [contrast[self.kinds[-1]] for contrast in anchors]
        readings: dict[str, Tensor] = {}
        if not getattr(self.objective, "normalize", True):
            # long rows reach any score, whatever the temperature
            readings["mi_reachable"] = terms[0].total.new_full((), local[0].ceiling)
        shares: dict[str, Any] = {}
        if self.objective.negatives is not None:
            shares["ess"] = [contrast.read_shares for contrast in local]
        return make_step(
            terms,
            local[0].codes.squeeze(1),
            local[0].guesses.mean(1),
            readings,
            shares=shares,
            contrasts=[contrast.read_information for contrast in local],
        )

    def compare_with(self, rows: Tensor, summaries: Tensor) -> dict[str, Ahead]:
        """The anchors of a view, of each kind, with the summaries that they look for.

        Args:
            rows: Of ``Places``.
            summaries: Of the same view or of another, (n, 1, d).
        """
        first_place = 2 if "global" in self.kinds else 1
        anchors = {"global": rows[:, 1:2], "local": rows[:, first_place:]}
        return {
            kind: Ahead(SUMMARIES, anchors[kind], summaries, self.share)
            for kind in self.kinds
        }

    def compile_encoders(self, **how: Any) -> None:
        """The pass that gives the map as well."""
        super().compile_encoders(**how)
        self.mapped[0].compile(**how)

    @property
    def compares_views(self) -> bool:
        """No: parts of views are compared with summaries."""
        return False

    def chance(self, n: int, n_views: int = 1) -> float | None:
        """That of the objective among n summaries, and of a blind discriminator."""
        chance = self.objective.chance(n)
        if chance is None:
            return None
        blind = (2 + self.prior_weight) * math.log(2)
        prior = 0.0 if self.prior is None else blind
        return len(self.kinds) * chance + prior

    @property
    def facts(self) -> tuple[str, ...]:
        """What is compared with summaries, and how much the prior weighs."""
        height, width = self.map_size
        places = f"{self.which}: a map of {height}x{width} places"
        prior = f"prior {self.prior_weight:g}"
        return (places,) if self.prior is None else (places, prior)


class Places(nn.Module):
    """An image's summary, and the rows of its map and of its places, where asked for.

    Args:
        mapped: Features and a map.
        head: Of features, to summaries.
        place_head: Of one place's channels.
        map_head: Of the whole map.
    """

    def __init__(
        self,
        mapped: Mapped,
        head: Head,
        place_head: Head | None,
        map_head: Head | None,
    ) -> None:
        super().__init__()
        self.mapped, self.head = mapped, head
        self.place_head, self.map_head = place_head, map_head

    def forward(self, images: Float[Tensor, "n k H W"]) -> Float[Tensor, "n r d"]:
        """The summary first, then the map's row, then those of places."""
        features, maps = self.mapped(images)
        rows = [self.head(features)[:, None]]
        if self.map_head is not None:
            if maps.shape[1:] != self.mapped.shape:
                raise ShapeError(
                    "The global form sees whole maps of one size, "
                    f"{self.mapped.shape}: got one of {tuple(maps.shape[1:])}. Use "
                    "views of the images' own size, or which=local."
                )
            rows.append(self.map_head(maps.flatten(1))[:, None])
        if self.place_head is not None:
            places = maps.flatten(2).transpose(1, 2)
            flat = self.place_head(places.flatten(0, 1))
            rows.append(flat.unflatten(0, places.shape[:2]))
        return torch.cat(rows, 1)


def sum_strangers(
    u: Float[Tensor, "n m d"],
    v: Float[Tensor, "n 1 d"],
    scales: Sequence[Any],
    share: Share | None,
    function: str = "exp",
) -> Float[Tensor, "k a"]:
    """Sums over the summaries of all other samples, per scale and anchor.

    Args:
        u: A sample's anchors.
        v: Its summary.
        scales: Factors on the scores.
        share: Whose samples these are.
        function: "exp" gives logarithms of sums of exponentials, "softplus" its sums.
    """
    m = u.shape[1]
    # a summary meets the anchors of all processes, as a parameter does
    columns = take_whole_gradient(gather_rows(v.squeeze(1), share=share), share)
    everyone = torch.arange(len(columns), device=u.device)
    own_ids = everyone if share is None else everyone[share.own_rows]
    rows = u.flatten(0, 1)
    ids: Any = {"row_ids": own_ids.repeat_interleave(m), "column_ids": everyone}
    if function == "exp":
        sums = log_partitions(rows, columns, scales=scales, **ids)
    else:
        each = [row_sums(scale * rows, columns, function, **ids) for scale in scales]
        sums = torch.stack(each)
    return gather_last(sums, share and share.repeat(m))


SUMMARIES = InTime(sum_strangers, lambda n, m: n - 1)
