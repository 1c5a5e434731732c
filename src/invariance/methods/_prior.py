r"""Prior matching: summaries that a discriminator cannot tell from uniform draws.

$$\max_D\ E_{y\sim U[0,1]^d}\log\sigma(D(y)) + E_x\log(1-\sigma(D(\sigma(z_x)))),\qquad
\min_z\ E_x\,\mathrm{softplus}(-D(\sigma(z_x)))$$

A summary z goes through a sigmoid into the unit cube, where a uniform row is what it
should look like (Hjelm et al. 2019: adversarial matching, as in adversarial
autoencoders). The encoder's half is the usual one that does not saturate, where the
paper writes the minimax. Both halves are parts of one loss, so one optimizer takes
both: the discriminator's half sees summaries without gradient, the encoder's half a
discriminator without gradient. Where nothing can be told apart the discriminator pays
2 log 2 and the encoder log 2.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import softplus

from ..partition import Share, gather_last
from ..randomness import draw_words, shift


class UniformPrior(nn.Module):
    """A discriminator between summaries and uniform rows.

    Args:
        width: Of the summaries.
        hidden: Width of its two layers in between.
        seed: Of the uniform rows. How often they were drawn is part of the state, so a
            resumed run goes on with the same ones.
    """

    n_drawn: Tensor

    def __init__(self, width: int, hidden: int, seed: int = 0) -> None:
        super().__init__()
        self.width, self.seed = width, seed
        self.discriminator = nn.Sequential(
            nn.Linear(width, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 1),
        )
        self.register_buffer("n_drawn", torch.tensor(0))

    def draw(self, n: int) -> Float[Tensor, "{n} d"]:
        """Uniform rows: others each time, the same on every process."""
        self.n_drawn += 1
        words = draw_words(self.seed, self.n_drawn, n * self.width)
        return shift(words, 40).float().view(n, self.width) * 2.0**-24

    def forward(
        self, z: Float[Tensor, "n d"], share: Share | None
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """What the encoder pays, and what the discriminator pays."""
        rows = z.to(torch.promote_types(z.dtype, torch.float32)).sigmoid()
        everyone = self.draw(len(z) if share is None else share.total)
        draws = everyone if share is None else everyone[share.own_rows]
        frozen = {k: p.detach() for k, p in self.discriminator.named_parameters()}
        fooled = functional_call(self.discriminator, frozen, rows)
        uniform, seen = (self.discriminator(x) for x in (draws.to(rows), rows.detach()))
        fooled, uniform, seen = (
            gather_last(x.squeeze(1), share) for x in (fooled, uniform, seen)
        )
        return (
            softplus(-fooled).mean(),
            softplus(-uniform).mean() + softplus(seen).mean(),
        )
