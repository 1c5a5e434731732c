"""The predictor: what keeps byol and sim_siam from giving every sample one answer.

    p = W2 relu(bn(W1 z))

It sits on one branch only and guesses the other branch's row; the width stays. SimSiam
narrows in between (2048 -> 512 -> 2048), BYOL widens (256 -> 4096 -> 256).
"""

from torch import nn

from ..errors import SettingError


class Predictor(nn.Sequential):
    """A two-layer perceptron that keeps the width of its rows.

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
