"""What the training loop trains: a critic with its bound, or a conditional density."""

from abc import abstractmethod

import torch
from torch import Tensor, nn

from ..critics import (
    Critic,
    Residual,
    build_critic,
    gaussian_critic,
    gradient_penalty,
    mlp,
)
from ._barber_agakov import Classifier, Regressor, barber_agakov, label_entropy
from ._bounds import Bound, Memory
from ._options import Training


class Model(nn.Module):
    """Something with a loss to train and a value to read."""

    @abstractmethod
    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """What a training step minimises."""

    @abstractmethod
    def value(self, x: Tensor, y: Tensor) -> Tensor:
        """Nats on paired rows."""

    @abstractmethod
    def criterion(self, x: Tensor, y: Tensor) -> Tensor:
        """What early stopping maximises on validation rows."""


class CriticModel(Model):
    """A critic, the helper network of its bound, and the bound."""

    def __init__(
        self, bound: Bound, name: str, x: Tensor, y: Tensor, options: Training
    ) -> None:
        super().__init__()
        self.bound, self.options, self.memory = bound, options, Memory()
        learned = build_critic(
            name,
            x.shape[1],
            y.shape[1],
            width=options.width,
            depth=options.depth,
            embed=options.embed,
            spectral_norm=options.spectral_norm,
        )
        self.critic: Critic = learned
        if options.base == "gaussian":
            self.critic = Residual(gaussian_critic(x, y), learned)
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

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """The bound's loss, with the penalty where one is wanted."""
        loss = self.bound.loss(*self.parts(x, y), self.memory)
        kind, weight = self.options.gradient_penalty, self.options.penalty_weight
        if kind != "none" and weight:
            loss = loss + weight * gradient_penalty(self.critic, x, y, kind=kind)
        return loss

    def value(self, x: Tensor, y: Tensor) -> Tensor:
        """The bound."""
        return self.bound.value(*self.parts(x, y))

    def criterion(self, x: Tensor, y: Tensor) -> Tensor:
        """Minus the loss, or the value where the loss is constant."""
        if self.bound.select_by_value:
            return self.value(x, y)
        return -self.bound.loss(*self.parts(x, y), {})


class DensityModel(Model):
    """q(y|x): a classifier of labels, or normal around a network."""

    def __init__(self, x: Tensor, y: Tensor, classes: int, entropy: float) -> None:
        super().__init__()
        self.classes, self.entropy = classes, entropy
        self.q: Classifier | Regressor = (
            Classifier(x.shape[1], classes) if classes else Regressor(x, y)
        )

    def log_q(self, x: Tensor, y: Tensor) -> Tensor:
        """Log q(y|x), relative to the margin's model for numbers."""
        return self.q.log_q(x, y[:, 0].long() if self.classes else y)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """The cross-entropy."""
        return -self.log_q(x, y).mean()

    def value(self, x: Tensor, y: Tensor) -> Tensor:
        """Entropy (or the margin's cross-entropy) less the conditional one."""
        return barber_agakov(self.log_q(x, y), self.entropy)

    def criterion(self, x: Tensor, y: Tensor) -> Tensor:
        """The value."""
        return self.value(x, y)


def density_model(x: Tensor, y: Tensor, labels: Tensor | None) -> DensityModel:
    """A density for numbers, or for ``labels`` (of all rows), which y then holds."""
    if labels is None:
        return DensityModel(x, y, 0, 0.0)
    return DensityModel(x, y, int(labels.max()) + 1, label_entropy(labels))
