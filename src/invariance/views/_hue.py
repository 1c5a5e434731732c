r"""The colour circle turned, with lightness and saturation kept.

With $M, m$ the largest and smallest channel, $C = M - m$ and the hue $H \in [0, 6)$,

$$R = m + C\,[\,|H - 3| - 1\,]_0^1,\quad G = m + C\,[\,2 - |H - 2|\,]_0^1,\quad
B = m + C\,[\,2 - |H - 4|\,]_0^1$$

gives the channels back; turning replaces H by $(H + 6\,\text{shift}) \bmod 6$. It is
the HSV hue of torchvision and Pillow, written without a case for each sixth of the
circle.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def turn_hue(
    images: Float[Tensor, "n 3 h w"], shift: Float[Tensor, " n"]
) -> Float[Tensor, "n 3 h w"]:
    """Each image's colours moved by its share of a whole turn, from -0.5 to 0.5."""
    red, green, blue = images.unbind(1)
    low, high = images.amin(1), images.amax(1)  # far faster than aminmax on a CPU
    chroma = high - low
    # hue times chroma, counted from green, blue or red, whichever is largest; on a CPU
    # lerp with a sign of 0 or 1 is several times faster than a comparison and a where
    from_green = torch.add(blue - red, chroma, alpha=2)
    from_blue = torch.add(red - green, chroma, alpha=4)
    hue = torch.lerp(from_green, from_blue, (high - green).sign_())
    hue = torch.lerp(green - blue, hue, (high - red).sign_())
    hue.div_(chroma.clamp(min=1e-12))  # a grey pixel is 0 / 1e-12: it stays grey
    # a whole turn is added to keep it positive, so that its fraction is the remainder
    hue.mul_(1 / 6).add_((shift + 1).view(-1, 1, 1)).frac_().mul_(6)
    share = torch.stack([hue - 3, hue - 2, hue - 4], 1).abs_()
    share[:, 0].sub_(1)
    share[:, 1:].neg_().add_(2)
    return share.clamp_(0, 1).mul_(chroma[:, None]).add_(low[:, None])
