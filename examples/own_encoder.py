"""An encoder of your own in ``inv.train``: any module that turns images into rows.

    python examples/own_encoder.py                    # generated images
    python examples/own_encoder.py --data photos      # any folder of images

You write the network; the rest is as in every run: views, schedule, exact resume,
scores beside raw pixels, a report. A file cannot rebuild a class of yours, so give
``inv.load`` a network to fill.
"""

import torch
import tyro
from torch import Tensor, nn

import invariance as inv


class Block(nn.Module):
    """A convolution per channel, then two layers at each place, added to the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(width, width, 5, padding=2, groups=width),
            nn.BatchNorm2d(width),
            nn.Conv2d(width, 2 * width, 1),
            nn.GELU(),
            nn.Conv2d(2 * width, width, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """As many maps as came in."""
        return x + self.layers(x)


class PatchNet(nn.Module):
    """Patches of 4 x 4 pixels, a few blocks, and the mean over all places.

    Images come as floats from 0 to 1, (n, 3, h, w), and leave as rows (n, width).
    """

    def __init__(self, width: int = 128, depth: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 4, stride=4),
            *(Block(width) for _ in range(depth)),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        )

    def forward(self, images: Tensor) -> Tensor:
        """One row per image."""
        return self.layers(images).mean((2, 3))


def main(
    data: str = "shapes",
    epochs: int = 10,
    limit: int | None = None,
    width: int = 128,
    out: str = "runs",
) -> tuple[inv.Run, nn.Module]:
    """Train, and use the encoder on two images."""
    torch.manual_seed(0)  # of the network's first weights
    settings = inv.Train(data=data, epochs=epochs, limit=limit, out=out, quiet=True)
    run = inv.train(settings, encoder=PatchNet(width))  # ends with a table of scores

    encoder = inv.load(run, network=PatchNet(width))
    images = inv.data.shapes(2)[0] / 255
    cosine = nn.functional.cosine_similarity(*encoder(images), dim=0)
    print(f"cosine of the features of two images: {cosine:.3f}")
    return run, encoder


if __name__ == "__main__":
    tyro.cli(main)
