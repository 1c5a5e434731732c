"""Both towers of a run on pairs, with the heads that lead into one space.

    encoder.safetensors     the first side's encoder, as of any run
    other.safetensors       the other side's
    heads.safetensors       both heads, which other runs throw away

Features of two encoders cannot be compared; their projections can, by the cosine. That
is what naming images by their captions, and finding images by a sentence, works with.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from ..errors import DataError
from ..folder import ENCODER, OTHER_ENCODER, PAIR_HEADS
from ._encoder import Encoder
from ._encoder_file import (
    UNREADABLE,
    copy_weights,
    load_encoder,
    part_of,
    read_tensors,
    write_tensors,
)
from ._heads import build_head

AT_ONCE = 256  # samples


class Towers(nn.Module):
    """Two encoders and their heads.

    Args:
        encoder: The first side's.
        head: From its features to the common space.
        other: The other side's encoder.
        other_head: From its features to the common space.
    """

    encoder: Encoder
    head: nn.Module
    other: Encoder
    other_head: nn.Module

    def __init__(
        self, encoder: Encoder, head: nn.Module, other: Encoder, other_head: nn.Module
    ) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.other, self.other_head = other, other_head

    @torch.no_grad()
    def project(self, features: Float[Tensor, "n e"]) -> Float[Tensor, "n d"]:
        """Features of the first side's encoder in the common space, of length 1."""
        return project(self.head, features)

    @torch.no_grad()
    def encode_other(self, samples: Sequence[Any]) -> Float[Tensor, "n d"]:
        """What the other side's kind can read, such as sentences, in that space."""
        kind: Any = self.other.kind
        return self.encode_tokens(kind.collate([kind.read(one) for one in samples]))

    @torch.no_grad()
    def encode_tokens(self, batch: Tensor) -> Float[Tensor, "n d"]:
        """The same of samples that have been read."""
        self.other.eval()
        place = next(self.other.parameters()).device
        kind: Any = self.other.kind
        rows = [
            self.other(kind.prepare(part.to(place))) for part in batch.split(AT_ONCE)
        ]
        return project(self.other_head, torch.cat(rows))


def project(head: nn.Module, features: Float[Tensor, "n e"]) -> Float[Tensor, "n d"]:
    """Unit rows in float32 on the CPU."""
    head.eval()
    first = next(head.parameters(), features)
    rows = head(features.to(first.device, first.dtype))
    return normalize(rows.float(), dim=1).cpu()


def write_heads(towers: Towers, path: Path, *, advice: str = "") -> None:
    """Write both heads, and how to build them."""
    sides = {"first": towers.head, "other": towers.other_head}
    tensors = copy_weights(nn.ModuleDict(sides))
    about = {side: head.settings for side, head in sides.items()}
    write_tensors(tensors, about, path, advice=advice)


def load_towers(folder: Path) -> Towers | None:
    """The towers of a run's folder, ready to use; None of a run without pairs."""
    if not all(
        (folder / name).exists() for name in (ENCODER, OTHER_ENCODER, PAIR_HEADS)
    ):
        return None
    path = folder / PAIR_HEADS
    try:
        about, tensors = read_tensors(path)
        heads = []
        for side in ("first", "other"):
            head = build_head(**about[side])
            head.load_state_dict(part_of(tensors, side))
            heads.append(head)
    except UNREADABLE as cause:
        raise DataError(f"{path} is damaged: {cause}.") from None
    encoder, other = (load_encoder(folder / name) for name in (ENCODER, OTHER_ENCODER))
    return Towers(encoder, heads[0], other, heads[1]).eval()
