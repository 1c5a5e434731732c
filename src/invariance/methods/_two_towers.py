r"""Two towers: a network for each side of a pair, and one space in which they meet.

$$u_i = W\,f(x_i),\qquad v_i = V\,g(t_i),\qquad
L = \frac1{|A||B|}\sum_{a\in A,\,b\in B} \ell(u^a, v^b)$$

x and t are the sides of a pair, an image and its caption, f and g their towers. A and B
are the views of either side, usually one each; views of one side are never contrasted
with each other. ℓ is CLIP's symmetric InfoNCE, SigLIP's questions, or any objective of
two views. f is the encoder that is evaluated and exported like any other.
"""

from itertools import product

from torch import Tensor, nn

from ..encoders import Encoder, Head, Towers
from ..errors import SettingError, ShapeError
from ..objectives import Objective
from ._learned_critic import Comparison, compare_by
from ._learner import Learner, Maybe, View
from ._learner_step import Step, make_step, shares_of


class TwoTowers(Learner):
    """A network and a head for each side of a pair.

    Args:
        encoder: Of the first side.
        head: Of the first side.
        objective: Of two views.
        other: The other side's encoder.
        other_head: As wide at its end as the first.
        n_first: Views of the first side; those that follow are the other's.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: Head,
        objective: Objective,
        other: Encoder,
        other_head: Head,
        *,
        n_first: int = 1,
    ) -> None:
        super().__init__(encoder, head, objective)
        if objective.takes != "pair":
            raise SettingError(
                "Two towers need an objective of two views, such as info_nce or "
                f"sig_lip: got {type(objective).__name__}."
            )
        if head.width != other_head.width:
            raise SettingError(
                "Two towers meet in rows of one width: got heads of "
                f"{head.width} and {other_head.width}."
            )
        self.other, self.other_head, self.n_first = other, other_head, n_first

    @property
    def other_online(self) -> nn.Sequential:
        """The other side's encoder and head, as one network."""
        return nn.Sequential(self.other, self.other_head)

    @property
    def towers(self) -> Towers:
        """Both encoders with their heads."""
        return Towers(self.encoder, self.head, self.other, self.other_head)

    def learn(self, views: list[View], labels: Maybe, ids: Maybe) -> Step:
        """Every view of the first side with every view of the other."""
        first, other = views[: self.n_first], views[self.n_first :]
        if not first or not other:
            raise ShapeError(
                f"Two towers take {self.n_first} of the first side's views, then the "
                f"other's: got {len(views)} in all."
            )
        ours = self.encode(self.online, first)
        theirs = self.encode(self.other_online, other)
        pairs: list[tuple[Tensor, ...]] = list(product(ours, theirs))
        if self.critic is not None:
            compared = compare_by(self.critic, self.objective, pairs, self.share)
        else:
            terms = [self.objective.terms(*pair) for pair in pairs]
            compared = Comparison(terms, shares_of(self.objective, pairs))
        return make_step(u=ours[0], v=theirs[0], **compared._asdict())

    def chance(self, n: int, n_views: int = 2) -> float | None:
        """That of the objective."""
        return self.objective.chance(n, n_views)
