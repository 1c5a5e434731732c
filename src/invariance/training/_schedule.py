r"""The learning rate at a step: a rise, then a cosine down to zero.

A pure function of the step: there is no state to save.
"""

import math

from ._settings import PEAKS, Optim


def peak_rate(optim: Optim, samples: int) -> float:
    """The highest learning rate for this many samples per step.

    >>> peak_rate(Optim(name="sgd", lr=0.1, lr_scaling="linear"), 512)
    0.2
    """
    lr = PEAKS[optim.name] if optim.lr is None else optim.lr
    ratio = samples / 256
    factor = {"linear": ratio, "sqrt": math.sqrt(ratio), "none": 1.0}
    return lr * factor[optim.lr_scaling]


def rate_at(step: int, n_steps: int, peak: float, warmup: float) -> float:
    """Learning rate of step 0, 1, ..., n_steps - 1.

    >>> [round(rate_at(s, 10, 1.0, 0.2), 2) for s in (0, 1, 2, 6, 9)]
    [0.5, 1.0, 1.0, 0.5, 0.04]
    """
    rising = round(n_steps * warmup)
    if step < rising:
        return peak * (step + 1) / rising
    share = (step - rising) / max(n_steps - rising, 1)
    return peak * (1 + math.cos(math.pi * share)) / 2
