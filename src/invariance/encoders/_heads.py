r"""Projection heads: from the features h that are kept to the rows z that are trained.

    none      z = h
    linear    z = W h
    mlp2      z = W2 relu(bn(W1 h))
    mlp3      z = W3 relu(bn(W2 relu(bn(W1 h))))

The head is thrown away after training: it takes the damage of the objective, and h
stays rich. A last batch norm, without scale or shift, keeps each coordinate alive.

A predictor, p = W2 relu(bn(W1 z)), sits on one branch of byol and sim_siam only and
guesses the other branch's row, which keeps them from giving every sample one answer.
"""

from itertools import pairwise
from typing import Any

from torch import nn

from ..errors import SettingError, choose

HEADS = {"none": 0, "linear": 1, "mlp2": 2, "mlp3": 3}  # number of linear layers


class Head(nn.Sequential):
    """Layers, the width of what comes out of them, and what ``build_head`` was told."""

    def __init__(self, *layers: nn.Module, width: int, settings: dict[str, Any]):
        super().__init__(*layers)
        self.width, self.settings = width, settings


def build_head(
    kind: str,
    width: int,
    hidden: int = 512,
    out: int = 128,
    *,
    batch_norm: bool = True,
    last_batch_norm: bool = False,
) -> Head:
    """A head by name; its output width is ``head.width``.

    Args:
        kind: "none", "linear", "mlp2" or "mlp3".
        width: of the features that come in.
        hidden: width of the layers in between.
        out: width of the rows that go out; "none" keeps ``width``.
        batch_norm: after every layer in between.
        last_batch_norm: after the last layer, without scale and shift.

    >>> import torch
    >>> build_head("mlp2", 256, 512, 128)(torch.zeros(4, 256)).shape
    torch.Size([4, 128])
    >>> build_head("none", 256).width
    256
    >>> build_head("mpl2", 256)
    Traceback (most recent call last):
    invariance.errors.SettingError: Unknown head 'mpl2'. Did you mean 'mlp2'?
    """
    n_layers = choose(HEADS, kind, "head")
    if min(width, hidden, out) < 1:
        raise SettingError(
            "width, hidden and out need to be 1 or more: "
            f"got {width}, {hidden} and {out}."
        )
    widths = [width, *[hidden] * (n_layers - 1), *[out] * (n_layers > 0)]
    layers: list[nn.Module] = []
    for step, (before, after) in enumerate(pairwise(widths), start=1):
        last = step == n_layers
        normalized = last_batch_norm if last else batch_norm
        layers.append(nn.Linear(before, after, bias=not normalized))
        if normalized:
            layers.append(nn.BatchNorm1d(after, affine=not last))
        if not last:
            layers.append(nn.ReLU(inplace=True))
    if not n_layers and last_batch_norm:
        layers.append(nn.BatchNorm1d(width, affine=False))
    settings = {
        "kind": kind,
        "width": width,
        "hidden": hidden,
        "out": out,
        "batch_norm": batch_norm,
        "last_batch_norm": last_batch_norm,
    }
    return Head(*layers, width=widths[-1], settings=settings)


class Predictor(nn.Sequential):
    """A two-layer perceptron that keeps the width of its rows.

    SimSiam narrows in between (2048 -> 512 -> 2048), BYOL widens (256 -> 4096 -> 256).

    >>> import torch
    >>> predictor = Predictor(128, hidden=32)
    >>> predictor(torch.zeros(4, 128)).shape
    torch.Size([4, 128])
    """

    def __init__(self, width: int, hidden: int):
        if min(width, hidden) < 1:
            raise SettingError(
                f"width and hidden need to be 1 or more: got {width} and {hidden}."
            )
        super().__init__(
            nn.Linear(width, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, width),
        )
        self.width = width
