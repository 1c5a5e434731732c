r"""Logistic regressions of one set of rows at several strengths of their penalty.

$$f_\lambda(W) = \frac1n\sum_i -\log\operatorname{softmax}(x_i W)_{y_i}
  + \frac\lambda2\lVert W\rVert^2$$

with a bias that is not penalized; where a row may be of several classes, a sigmoid per
class instead of the softmax. Newton's method with conjugate gradients solves all
strengths together, so that a step is one matrix product for all of them: on a GPU, and
for few rows on a CPU, most of the time would else go into starting small operations.
Both are preconditioned with $X^\top X / 2n + \lambda$, the upper bound of the
curvature, without which correlated features (raw pixels) take ten times the steps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from ._predictions import Targets

# The largest entry of the gradient at which a fit ends, and one among several that are
# only compared with each other; scikit-learn ends all of its own at 1e-4.
GRADIENT_TOLERANCE, ROUGH_TOLERANCE = 1e-6, 1e-4
ELEMENTS_AT_ONCE = 2**24  # of the largest array that several strengths need: 128 MiB
# multiplications in a product above which it is no faster together than one by one
BUSY = {"cpu": 2**21, "cuda": 2**32}
ON_HOST = 2**22  # multiplications that a CPU has done before a GPU has been told to
SUFFICIENT = 1e-4  # share of the decrease foretold that a step must bring
HALVINGS = 30  # of a step that brings too little

Weights = Float[Tensor, "e1 k c"]  # the last row is the bias
Rows = Float[Tensor, "n k c"]


@dataclass(frozen=True)
class Fit:
    """A fitted classifier."""

    weight: Float[Tensor, "e c"]
    bias: Float[Tensor, " c"]
    slope: float  # largest entry of the gradient where the solver stopped

    def logits(self, x: Float[Tensor, "m e"]) -> Float[Tensor, "m c"]:
        return torch.addmm(self.bias.to(x), x, self.weight.to(x))


class Logistic:
    """Rows of mean 0 and their classes, or 0 and 1 (and -1, unknown) for each class."""

    def __init__(self, x: Float[Tensor, "n e"], y: Targets, n_classes: int) -> None:
        if x.numel() * n_classes < ON_HOST:
            x, y = x.cpu(), y.cpu()
        self.x = torch.cat([x, x.new_ones(len(x), 1)], 1)
        self.several = y.ndim == 2
        classes = torch.arange(n_classes, device=y.device)
        truth = y == 1 if self.several else y[:, None] == classes
        self.truth = truth.to(x.dtype)[:, None]
        self.known = (y >= 0)[:, None] if self.several else None
        self.half_gram = self.x.T @ self.x / (2 * len(x))

    def walk(
        self, strengths: Sequence[float], max_steps: int
    ) -> Iterator[tuple[float, Fit]]:
        """Each strength with a rough fit; small problems are fitted together.

        Otherwise each starts where the one before ended: go from strong to weak.
        """
        largest = max(self.half_gram.numel(), self.truth.numel())
        product = self.x.numel() * self.truth.shape[2]
        busy = BUSY.get(self.x.device.type, BUSY["cuda"])
        some = max(1, min(ELEMENTS_AT_ONCE // largest, busy // product))
        near = None
        for start in range(0, len(strengths), some):
            few = strengths[start : start + some]
            fits = self.fit(few, max_steps, ROUGH_TOLERANCE, near)
            yield from zip(few, fits, strict=True)
            near = fits[-1]

    @torch.no_grad()
    def fit(
        self,
        strengths: Sequence[float],
        max_steps: int,
        tolerance: float = GRADIENT_TOLERANCE,
        near: Fit | None = None,
    ) -> list[Fit]:
        """The minimum at each strength, from ``near`` if a fit near it is known."""
        with torch.autocast(self.x.device.type, enabled=False):
            search = Search(self, strengths, tolerance, near)
            left = max_steps
            while left > 0 and bool(search.going.any()):
                left -= max(1, search.step(left))
            slopes = search.slopes.tolist()
            weights = search.weights.unbind(1)
        fits = zip(weights, slopes, strict=True)
        return [Fit(w[:-1].contiguous(), w[-1], slope) for w, slope in fits]

    def push(self, weights: Weights) -> Rows:
        """Weights to rows: one matrix product for all strengths."""
        product = self.x @ weights.flatten(1)
        return product.unflatten(1, weights.shape[1:])

    def pull(self, rows: Rows) -> Weights:
        """Rows to weights, averaged."""
        if self.known is not None:
            rows = rows * self.known
        # in this order a CPU takes a quarter of the time of x.T @ rows
        product = (rows.flatten(1).T @ self.x).T / len(rows)
        return product.unflatten(1, rows.shape[1:])

    def losses(self, logits: Rows) -> Float[Tensor, " k"]:
        """The mean loss of a row at each strength."""
        if self.known is None:
            correct = (logits * self.truth).sum(2)
            return (logits.logsumexp(2) - correct).mean(0)
        each = (softplus(logits) - logits * self.truth) * self.known
        return each.sum(2).mean(0)

    def bend(self, chance: Rows, rows: Rows) -> Rows:
        """How the chances of the classes change where the logits change by ``rows``."""
        if self.several:
            return chance * (1 - chance) * rows
        moved = chance * rows
        return moved - chance * moved.sum(2, keepdim=True)


class Search:
    """Where Newton's method stands at each of the strengths."""

    def __init__(
        self,
        problem: Logistic,
        strengths: Sequence[float],
        tolerance: float,
        near: Fit | None,
    ) -> None:
        self.problem, self.tolerance = problem, tolerance
        n_classes, gram = problem.truth.shape[2], problem.half_gram
        size = (len(gram), len(strengths))
        self.penalty = gram.new_tensor(strengths).expand(size).clone()
        self.penalty[-1] = 0  # the bias is free
        # without a penalty directions that no row has must not stop the square root,
        # nor must what rounding makes of them
        rounding = 10 * len(gram) * torch.finfo(gram.dtype).eps
        least = max(1e-9, rounding) * gram.diagonal().mean()
        ridge = torch.diag_embed(torch.maximum(self.penalty.T, least))
        self.lower = torch.linalg.cholesky(gram + ridge)
        self.penalty = self.penalty[:, :, None]
        weights = gram.new_zeros(*size, n_classes)
        if near is not None:
            weights += torch.cat([near.weight, near.bias[None]])[:, None]
        self.look(weights, problem.push(weights))

    def look(self, weights: Weights, logits: Rows) -> None:
        """Note value, chances and gradient at these weights."""
        self.weights, self.logits = weights, logits
        self.values = self.value(weights, logits)
        self.chance = logits.sigmoid() if self.problem.several else logits.softmax(2)
        self.gradient = self.problem.pull(self.chance - self.problem.truth)
        self.gradient += self.penalty * weights
        self.slopes = self.gradient.abs().amax((0, 2))
        self.going = self.slopes > self.tolerance

    def value(self, weights: Weights, logits: Rows) -> Float[Tensor, " k"]:
        """What is minimized, at each strength."""
        return self.problem.losses(logits) + inner(self.penalty * weights, weights) / 2

    def step(self, most: int) -> int:
        """One of Newton's steps; returns how many of conjugate gradients it took."""
        direction, taken = self.solve(most)
        moved, foretold = self.problem.push(direction), inner(self.gradient, direction)
        # what rounding alone may add to a value
        noise = 100 * torch.finfo(moved.dtype).eps * (1 + self.values.abs())
        share = self.going.to(moved.dtype)
        for _ in range(HALVINGS):
            weights = self.weights + share[:, None] * direction
            logits = self.logits + share[:, None] * moved
            wanted = self.values + SUFFICIENT * share * foretold + noise
            enough = self.value(weights, logits) <= wanted
            if bool(enough.all()):
                break
            share = torch.where(enough, share, share / 2)
        self.look(weights, logits)
        return taken

    def solve(self, most: int) -> tuple[Weights, int]:
        """The way to the minimum of the parabola here, nearly, and the steps taken.

        The nearer to the minimum, the more exactly: far away a rough direction serves
        as well, and at the end the method still converges faster than linearly.
        """
        direction, rest = torch.zeros_like(self.weights), -self.gradient
        nearer = self.precondition(rest)
        along, size = nearer, inner(rest, nearer)
        aim = size * size.sqrt().clamp(max=0.25)
        active = self.going & (size > 0)
        taken = 0
        while taken < most and bool(active.any()):
            taken += 1
            bent = self.problem.bend(self.chance, self.problem.push(along))
            curved = self.problem.pull(bent) + self.penalty * along
            curvature = inner(along, curved)
            active = active & (curvature > 0)
            length = torch.where(active, size / curvature, 0.0)[:, None]
            direction, rest = direction + length * along, rest - length * curved
            nearer = self.precondition(rest)
            before, size = size, inner(rest, nearer)
            active = active & (size > aim)
            along = nearer + torch.where(active, size / before, 0.0)[:, None] * along
        return direction, taken

    def precondition(self, rows: Weights) -> Weights:
        """Divided by the curvature's upper bound."""
        return torch.cholesky_solve(rows.transpose(0, 1), self.lower).transpose(0, 1)


def inner(a: Weights, b: Weights) -> Float[Tensor, " k"]:
    """An inner product for each strength."""
    return (a * b).sum((0, 2))
