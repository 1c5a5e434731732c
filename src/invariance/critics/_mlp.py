"""The small network inside critics, baselines and duals."""

from itertools import pairwise

from torch import nn
from torch.nn.utils.parametrizations import spectral_norm as bounded


def linear(inputs: int, outputs: int, *, spectral_norm: bool = False) -> nn.Module:
    """A linear layer; ``spectral_norm`` divides its matrix by its largest gain.

    Layers of gain one make a critic 1-Lipschitz for each of its layers' product, which
    also caps the information it can show.
    """
    layer = nn.Linear(inputs, outputs)
    return bounded(layer) if spectral_norm else layer


def mlp(
    inputs: int, outputs: int, *, width: int, depth: int, spectral_norm: bool = False
) -> nn.Sequential:
    """``depth`` hidden layers of ``width`` units with ReLU, and a linear one."""
    sizes = [inputs, *[width] * depth]
    hidden = [
        part
        for a, b in pairwise(sizes)
        for part in (linear(a, b, spectral_norm=spectral_norm), nn.ReLU())
    ]
    return nn.Sequential(
        *hidden, linear(sizes[-1], outputs, spectral_norm=spectral_norm)
    )
