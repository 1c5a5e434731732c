r"""A temperature that is learned with the network, as in CLIP: the log of its inverse.

$$\tau = e^{-a}\ \text{with a learned},\qquad \tau\ge\tau_{\min}$$

Beside it, how to read a temperature of any kind: a number, a tensor or a learned one.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ..checked_rows import is_transforming
from ..errors import SettingError
from ..plain_numbers import check_positive_number, plain_number


class LearnedTemperature(nn.Module):
    """A temperature that is trained: its inverse's logarithm is a parameter.

    It never falls below ``minimum``: a batch that is solved would drive it to zero. Do
    not decay it. With a minimum of 0.024 or above (1/42), a GPU computes a loss of two
    views and its gradient in one fused operation. With a lower one, such as CLIP's
    0.01, exponentials could overflow there, and the loss goes through the streamed log-
    partition instead: same numbers, memory still linear, a few more passes.

    Settings:
        start (above 0): What a learned temperature begins at.
        minimum (above 0): What a learned temperature never falls below; GPUs are
            fastest with 0.024 or more.

    >>> temperature = LearnedTemperature(0.07)
    >>> temperature
    LearnedTemperature(0.07, minimum=0.025)
    >>> round(temperature.log_scale.item(), 3)  # log 1/0.07
    2.659
    """

    def __init__(self, start: float | int = 0.1, *, minimum: float | int = 0.025):
        super().__init__()
        start, minimum = plain_number(start), plain_number(minimum)
        check_positive_number("start", start)
        check_positive_number("minimum", minimum)
        if start < minimum:
            raise SettingError(
                f"A learned temperature starts at its minimum {minimum} or above: got "
                f"{start}."
            )
        self.log_scale = nn.Parameter(torch.tensor(-math.log(start)))
        self.minimum = minimum

    def scale(self) -> Tensor:
        """The inverse temperature, at most ``1 / minimum``."""
        most = -math.log(self.minimum)
        if is_transforming():  # nothing may be changed in there
            return self.log_scale.clamp(max=most).exp()
        with torch.no_grad():  # the parameter itself, or it could not come back
            self.log_scale.clamp_(max=most)
        return self.log_scale.exp()

    def __float__(self) -> float:
        return max(math.exp(-float(self.log_scale.detach())), float(self.minimum))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({float(self):.4g}, minimum={self.minimum})"


def scale_of(temperature: Any) -> float | Tensor:
    """The inverse of a temperature that is a number, a tensor or learned."""
    if isinstance(temperature, LearnedTemperature):
        return temperature.scale()
    return 1 / temperature


def largest_scale(temperature: Any) -> float | None:
    """What the inverse of a learned temperature cannot exceed; None for others."""
    learned = isinstance(temperature, LearnedTemperature)
    return 1 / temperature.minimum if learned else None


def value_of(temperature: Any) -> float | int | Tensor:
    """A temperature as a number or a tensor."""
    learned = isinstance(temperature, LearnedTemperature)
    return 1 / temperature.scale() if learned else temperature
