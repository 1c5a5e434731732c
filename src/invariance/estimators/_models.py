r"""What the training loop trains: a critic with its bound, or a conditional density.

The density q(y|x) is read by Barber and Agakov's bound: how much better x predicts y
than nothing does.

$$I \ge H(Y) + E_p\big[\log q(y\mid x)\big]$$

A bound for any q, if the entropy of Y is known. For labels it is their entropy less the
cross-entropy of a classifier. For numbers H(Y) is not known and is replaced by the
cross-entropy of a Gaussian model of y, which makes the value a difference of two
models, and no bound.
"""

import math
from abc import abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ..critics import (
    Critic,
    Lift,
    Lifted,
    Residual,
    build_critic,
    gaussian_critic,
    gradient_penalty,
    mlp,
)
from ._bounds import Bound, Memory
from ._request import Training

JACKKNIFE_BLOCKS = 12
SCALES = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)


def jackknife(
    value: Callable[..., Tensor], scores: Tensor, *by_row: Tensor
) -> tuple[float, float]:
    r"""``value(scores, *by_row)`` with its standard error, whatever the bound.

    $$\widehat{\mathrm{var}} =
    \frac{b-1}{b}\sum_{k=1}^b\big(\hat I_{(k)} - \bar I\big)^2$$

    over b blocks of samples, each left out of rows and columns at once, as the entries
    of a critic matrix share samples.
    """
    n = scores.shape[-1]
    blocks = min(JACKKNIFE_BLOCKS, n)
    block = torch.arange(n, device=scores.device) * blocks // n
    without = []
    for k in range(blocks):
        keep = (block != k).nonzero().squeeze(1)
        part = scores.index_select(-2, keep).index_select(-1, keep)
        without.append(value(part, *(z[keep] for z in by_row)).item())
        del part
    left = torch.tensor(without, dtype=torch.float64)
    spread = (left - left.mean()).square().sum() * (blocks - 1) / blocks
    return value(scores, *by_row).item(), spread.sqrt().item()


class Model(nn.Module):
    """Something with a loss to train and a value to read."""

    @abstractmethod
    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """What a training step minimizes."""

    @abstractmethod
    def value(self, x: Tensor, y: Tensor) -> Tensor:
        """Nats on paired rows."""

    @abstractmethod
    def measure(self, x: Tensor, y: Tensor) -> tuple[float, float]:
        """Nats on paired rows that were not trained on, and their standard error."""

    def criterion(self, x: Tensor, y: Tensor) -> Tensor:
        """What early stopping maximizes on validation rows."""
        return self.value(x, y)

    def calibrate(self, x: Tensor, y: Tensor) -> None:
        """Take back what validation rows say is claimed too boldly, where one can."""


class CriticModel(Model):
    """A critic, the helper network of its bound, and the bound."""

    def __init__(
        self, bound: Bound, name: str, x: Tensor, y: Tensor, options: Training
    ) -> None:
        super().__init__()
        self.bound, self.options, self.memory = bound, options, Memory()
        self.scale = nn.Buffer(torch.ones(()))
        learned = build_critic(
            name,
            x.shape[1] + 1,
            y.shape[1] + 1,
            width=options.width,
            depth=options.depth,
            embed=options.embed,
            spectral_norm=options.spectral_norm,
        )
        self.critic: Critic = Lifted(learned, Lift(x), Lift(y))
        if options.base == "gaussian":
            self.critic = Residual(gaussian_critic(x, y), self.critic)
        self.helper: nn.Module | None = None
        if bound.helper != "none":
            inputs = x.shape[1] + (y.shape[1] if bound.helper == "dual" else 0)
            self.helper = mlp(inputs, 1, width=64, depth=2)

    def parts(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The critic matrix and the helper's numbers."""
        scores = self.critic(x, y)
        if self.helper is None:
            return scores, scores.new_zeros(len(x))
        if self.bound.helper == "baseline":
            return scores, self.helper(x).squeeze(1)
        # the best dual is log Z(x) - g(x, y): learning what is to be added to -g keeps
        # the level of g from drifting away from the dual
        bent = self.helper(torch.cat([x, y], 1)).squeeze(1)
        return scores, bent - scores.diagonal()

    def score_pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """The calibrated score of each pair (less the helper's, if part of it)."""
        scores = self.critic.score_pairs(x, y)
        if self.helper is not None and self.bound.log_ratio == "helper":
            both = torch.cat([x, y], 1) if self.bound.helper == "dual" else x
            scores = scores - self.helper(both).squeeze(1)
        return self.scale * scores

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """The bound's loss, with the penalty where one is wanted."""
        loss = self.bound.loss(*self.parts(x, y), self.memory)
        kind, weight = self.options.gradient_penalty, self.options.penalty_weight
        if kind != "none" and weight:
            loss = loss + weight * gradient_penalty(self.critic, x, y, kind=kind)
        return loss

    def value(self, x: Tensor, y: Tensor) -> Tensor:
        return self.bound.value(*self._read(x, y))

    @torch.no_grad()
    def measure(self, x: Tensor, y: Tensor) -> tuple[float, float]:
        """The bound, and its error by the jackknife."""
        return jackknife(self.bound.value, *self._read(x, y))

    def criterion(self, x: Tensor, y: Tensor) -> Tensor:
        """Minus the loss, or the value where the loss is constant."""
        return self._criterion(*self._read(x, y))

    @torch.no_grad()
    def calibrate(self, x: Tensor, y: Tensor) -> None:
        """Scale the critic down as far as these rows ask for, if need be to nothing.

        Few rows make critics too sure of themselves. A critic that is scaled is still a
        critic, so bounds stay bounds.
        """
        parts = self.parts(x, y)
        fits = torch.stack(
            [self._criterion(*self.bound.temper(*parts, scale)) for scale in SCALES]
        )
        self.scale.fill_(SCALES[int(fits.nan_to_num(nan=-math.inf).argmax())])

    def weigh_base(self, x: Tensor, y: Tensor) -> None:
        """Trust the fixed start no further than these rows do, before training."""
        if isinstance(self.critic, Residual):
            self.calibrate(x, y)
            self.critic.trust.copy_(self.scale)

    def _read(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.bound.temper(*self.parts(x, y), self.scale)

    def _criterion(self, scores: Tensor, helper: Tensor) -> Tensor:
        if self.bound.select_by_value:
            return self.bound.value(scores, helper)
        return -self.bound.loss(scores, helper, {})


def barber_agakov(
    log_q: Float[Tensor, " n"], entropy: float | int | Tensor
) -> Float[Tensor, ""]:
    """The bound from log q(y_i|x_i) and the entropy of Y, in nats."""
    return entropy + log_q.mean()


class DensityModel(Model):
    """q(y|x), read by Barber and Agakov's bound."""

    entropy = 0.0
    """Of y, or of its model where log q is relative to that."""

    @abstractmethod
    def log_q(
        self, x: Float[Tensor, "n d"], y: Float[Tensor, "n e"]
    ) -> Float[Tensor, " n"]:
        """Log q(y|x) of each pair."""

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return -self.log_q(x, y).mean()

    def value(self, x: Tensor, y: Tensor) -> Tensor:
        """Entropy (or the margin's cross-entropy) less the conditional one."""
        return barber_agakov(self.log_q(x, y), self.entropy)

    @torch.no_grad()
    def measure(self, x: Tensor, y: Tensor) -> tuple[float, float]:
        """The value, and the error of the mean of log q."""
        error = self.log_q(x, y).double().std() / math.sqrt(len(x))
        return self.value(x, y).item(), error.item()


class Classifier(DensityModel):
    """q(y|x) of labels, which are y's one column: a softmax over the classes."""

    def __init__(self, x_width: int, labels: Int[Tensor, " m"]) -> None:
        super().__init__()
        self.entropy = label_entropy(labels)
        self.logits = mlp(x_width, int(labels.max()) + 1, width=128, depth=2)

    def log_q(self, x: Tensor, y: Tensor) -> Tensor:
        """Log q of each row's label."""
        return -cross_entropy(self.logits(x), y[:, 0].long(), reduction="none")


class Regressor(DensityModel):
    """q(y|x) of numbers: normal around a network, with a network's spread.

    y is first whitened with the covariance of the training rows, so that the model of
    the margin is a standard normal and ``log_q`` is relative to it.
    """

    def __init__(self, x: Tensor, y: Tensor) -> None:
        super().__init__()
        self.mean = nn.Buffer(y.mean(0))
        centered = (y - self.mean).double()
        values, vectors = torch.linalg.eigh(centered.T @ centered / len(y))
        keep = values > 1e-10 * values[-1]
        self.white = nn.Buffer((vectors[:, keep] / values[keep].sqrt()).to(y.dtype))
        d = self.white.shape[1]
        self.net = mlp(x.shape[1], 2 * d, width=128, depth=2)
        self.linear = nn.Linear(x.shape[1], d)
        for layer in (self.net[-1], self.linear):
            for p in layer.parameters():
                nn.init.zeros_(p)  # starts as the margin: no information yet

    def log_q(self, x: Tensor, y: Tensor) -> Tensor:
        """Log q(y|x) - log q(y): what the pair is worth in nats."""
        white = (y - self.mean) @ self.white
        bend, log_spread = self.net(x).chunk(2, 1)
        log_spread = 5 * torch.tanh(log_spread / 5)
        error = (white - self.linear(x) - bend) * (-log_spread).exp()
        conditional = -0.5 * error.square() - log_spread
        return (conditional + 0.5 * white.square()).sum(1)


def label_entropy(label: Int[Tensor, " n"]) -> float:
    """The entropy of labels with Miller and Madow's correction, in nats."""
    counts = label.bincount().double()
    counts = counts[counts > 0]
    p = counts / counts.sum()
    return (-(p * p.log()).sum() + (len(p) - 1) / (2 * len(label))).item()
