r"""Text towers: tokens in, one row of features per sentence out.

Ours is a transformer with the norm before each part and padding hidden from all:

$$h^0 = E_{t} + P,\qquad
h^{k+1/2} = h^k + A(\mathrm{LN}(h^k)),\qquad
h^{k+1} = h^{k+1/2} + F(\mathrm{LN}(h^{k+1/2}))$$

    name         layers   width   heads   weights besides the table of tokens
    text_tiny    2        128     4       0.4 million
    text_small   4        256     4       3.2 million
    text_base    12       512     8       38 million, as the text tower of CLIP

A row is the mean of the last layer over the sentence's tokens, or its first or last
token. Dropout is what makes two views of one sentence differ (SimCSE); it is drawn from
PyTorch's generator, so that a checkpoint and a batch encoded twice repeat it.

"transformers/NAME" is any model of that library: a type such as "transformers/bert", a
name on its hub, or a folder. It is an extra, imported only when asked for.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from ..errors import DataError, SettingError, choose, unknown
from ._network import hub_without_retries

POOLINGS = ("mean", "first", "last")
TRANSFORMERS = "transformers/"
NO_CODE = {"trust_remote_code": False}  # a model may come with code, which is not run
TEXT_TOWERS: dict[str, dict[str, int]] = {
    "text_tiny": {"layers": 2, "width": 128, "heads": 4},
    "text_small": {"layers": 4, "width": 256, "heads": 4},
    "text_base": {"layers": 12, "width": 512, "heads": 8},
}
"""Our text towers by name: what ``TextTower`` is told."""


class TextTower(nn.Module):
    """A transformer over tokens.

    Args:
        vocabulary: Different tokens.
        length: Tokens of a sentence, padding included.
        pad: The token that stands for nothing.
        width: Of the features.
        layers: Blocks of attention and two linear maps.
        heads: Of each attention.
        dropout: Probability, after the embedding, of attention, and of each part.
        pooling: "mean" over the sentence's tokens, its "first" token or its "last".

    >>> tower = TextTower(vocabulary=300, length=8).eval()
    >>> tower(torch.tensor([[1, 70, 71, 2, 0, 0, 0, 0]])).shape
    torch.Size([1, 128])
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        length: int,
        pad: int = 0,
        width: int = 128,
        layers: int = 2,
        heads: int = 4,
        dropout: float = 0.1,
        pooling: str = "mean",
    ) -> None:
        super().__init__()
        check_tower(width, heads, dropout, pooling)
        self.pad, self.pooling = pad, pooling
        self.table = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.01 * torch.randn(length, width))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(
            *(Block(width, heads, dropout) for _ in range(layers))
        )
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.table.weight, std=0.02)
        for name, weight in self.blocks.named_parameters():
            if weight.ndim == 2:
                # each block adds to the sum: the deeper, the less
                last = name.endswith(("out.weight", "down.weight"))
                scale = (2 * layers) ** -0.5 if last else 1.0
                nn.init.normal_(weight, std=scale * width**-0.5)

    def forward(self, tokens: Int[Tensor, "n length"]) -> Float[Tensor, "n e"]:
        """One row per sentence."""
        return pool(self.states(tokens), find_real(tokens, self.pad), self.pooling)

    def states(self, tokens: Int[Tensor, "n length"]) -> Float[Tensor, "n length e"]:
        """The last layer: a row per token."""
        h = self.dropout(self.table(tokens) + self.positions)
        seen = find_real(tokens, self.pad)[:, None, None, :]
        for block in self.blocks:
            h = block(h, seen)
        return self.norm(h)


class Block(nn.Module):
    """Attention, then two linear maps, each added to what comes in."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.p = heads, dropout
        self.before_attention, self.before_maps = (
            nn.LayerNorm(width) for _ in range(2)
        )
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, h: Float[Tensor, "n l e"], seen: Bool[Tensor, "n 1 1 l"]
    ) -> Float[Tensor, "n l e"]:
        """The next layer."""
        h = h + self.dropout(self.attend(self.before_attention(h), seen))
        maps = self.down(functional.gelu(self.up(self.before_maps(h))))
        return h + self.dropout(maps)

    def attend(
        self, h: Float[Tensor, "n l e"], seen: Bool[Tensor, "n 1 1 l"]
    ) -> Float[Tensor, "n l e"]:
        """Each token's mixture of the tokens that are seen."""
        parts = self.qkv(h).unflatten(2, (3, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=seen, dropout_p=self.p if self.training else 0.0
        )
        return self.out(mixed.transpose(1, 2).flatten(2))


class Pretrained(nn.Module):
    """A model of ``transformers``, padding hidden, and one row per sentence."""

    def __init__(self, model: Any, pad: int, pooling: str = "mean") -> None:
        super().__init__()
        self.model, self.pad, self.pooling = model, pad, pooling

    def forward(self, tokens: Int[Tensor, "n length"]) -> Float[Tensor, "n e"]:
        """One row per sentence."""
        return pool(self.states(tokens), find_real(tokens, self.pad), self.pooling)

    def states(self, tokens: Int[Tensor, "n length"]) -> Float[Tensor, "n length e"]:
        """The last layer: a row per token."""
        seen = find_real(tokens, self.pad).long()
        return self.model(input_ids=tokens, attention_mask=seen).last_hidden_state

    @property
    def table(self) -> nn.Embedding:
        """What each token is turned into first."""
        return self.model.get_input_embeddings()


def find_real(tokens: Int[Tensor, "n length"], pad: int) -> Bool[Tensor, "n length"]:
    """Which tokens are no padding; the first never is, since a mean needs one."""
    first = torch.arange(tokens.shape[1], device=tokens.device) == 0
    return (tokens != pad) | first


def pool(
    h: Float[Tensor, "n l e"], real: Bool[Tensor, "n l"], pooling: str
) -> Float[Tensor, "n e"]:
    """One row per sentence.

    >>> h, real = torch.tensor([[[1.0], [3], [9]]]), torch.tensor([[True, True, False]])
    >>> [pool(h, real, pooling).item() for pooling in ("mean", "first", "last")]
    [2.0, 1.0, 3.0]
    """
    if pooling == "first":
        return h[:, 0]
    if pooling == "last":
        # by sums, which every exporter knows: real tokens from here on are one
        real = real & (real.long().flip(1).cumsum(1).flip(1) == 1)
    weights = real.to(h.dtype)
    return (h * weights[:, :, None]).sum(1) / weights.sum(1, keepdim=True)


def build_text_tower(
    name: str,
    *,
    vocabulary: int,
    length: int,
    pad: int = 0,
    pretrained: bool = False,
    dropout: float | None = None,
    pooling: str = "mean",
) -> nn.Module:
    """A text tower by name.

    Args:
        name: One of ``TEXT_TOWERS``, or "transformers/" and one of its names.
        vocabulary: Different tokens.
        length: Tokens of a sentence.
        pad: The token that stands for nothing.
        pretrained: Whether to fetch the trained weights; of transformers only, and for
            sentences that its own tokenizer has read.
        dropout: Probability; None is 0.1, or what the model of transformers has.
        pooling: "mean", "first" or "last".
    """
    if name.startswith(TRANSFORMERS):
        return from_transformers(
            name, vocabulary, length, pad, pretrained, dropout, pooling
        )
    size = choose(TEXT_TOWERS, name, "text tower")
    if pretrained:
        raise SettingError(
            f"{name!r} has no pretrained weights: leave pretrained out, or name a "
            "model such as 'transformers/bert-base-uncased'."
        )
    return TextTower(
        vocabulary=vocabulary,
        length=length,
        pad=pad,
        dropout=0.1 if dropout is None else dropout,
        pooling=pooling,
        **size,
    )


def from_transformers(
    name: str,
    vocabulary: int,
    length: int,
    pad: int,
    pretrained: bool,
    dropout: float | None,
    pooling: str,
) -> nn.Module:
    """A model of the library, with our vocabulary unless it is pretrained."""
    transformers = import_transformers(name)
    short = name.removeprefix(TRANSFORMERS)
    tokens = {"vocab_size": vocabulary, "pad_token_id": pad}
    auto = transformers.AutoModel
    with explain_failure(name, pretrained):
        if short in transformers.CONFIG_MAPPING and not pretrained:
            config = transformers.AutoConfig.for_model(short, **tokens)
            model = auto.from_config(config)
        else:
            with hub_without_retries():
                if pretrained:
                    model = auto.from_pretrained(short, **NO_CODE)
                else:
                    config = transformers.AutoConfig.from_pretrained(
                        short, **tokens, **NO_CODE
                    )
                    model = auto.from_config(config)
    if vocabulary > model.get_input_embeddings().num_embeddings:
        raise SettingError(
            f"The pretrained {name!r} knows fewer tokens than these sentences have "
            f"({vocabulary:,}): read them with its own tokenizer."
        )
    longest = getattr(model.config, "max_position_embeddings", None) or length
    if length > longest:
        raise SettingError(
            f"{name!r} takes sentences of at most {longest} tokens: got {length}."
        )
    if dropout is not None:
        for part in model.modules():
            if isinstance(part, nn.Dropout):
                part.p = dropout
    return Pretrained(model, pad, pooling)


def load_tokenizer(name: str) -> Any:
    """The tokenizer of a pretrained model, for ``invariance.data.load``."""
    transformers = import_transformers(name)
    short = name.removeprefix(TRANSFORMERS)
    with explain_failure(name, pretrained=True), hub_without_retries():
        loaded = transformers.AutoTokenizer.from_pretrained(
            short, use_fast=True, **NO_CODE
        )
    tokenizer = getattr(loaded, "backend_tokenizer", None)
    pad = loaded.pad_token or loaded.eos_token
    if tokenizer is None or pad is None:
        raise SettingError(
            f"The tokenizer of {name!r} is not one of the library tokenizers, or has "
            "no token for padding: use another model, or leave pretrained out."
        )
    tokenizer.enable_padding(pad_token=pad, pad_id=loaded.convert_tokens_to_ids(pad))
    return tokenizer


def import_transformers(name: str) -> Any:
    """The library, or a sentence about the extra."""
    try:
        import transformers
    except ImportError:
        raise SettingError(
            f'{name!r} needs the library transformers: pip install "invariance[text]".'
        ) from None
    return transformers


@contextlib.contextmanager
def explain_failure(name: str, pretrained: bool) -> Iterator[None]:
    """One sentence for whatever transformers says of a name it cannot build."""
    try:
        yield
    except OSError as cause:  # of a download, and of a name that nobody has
        why = " ".join(str(cause).split("\n")[0].split()).rstrip(".")
        raise DataError(
            f"{name!r} could not be downloaded ({why}): check the name, connect to "
            "the network once, or name a type such as 'transformers/bert'."
        ) from None
    except (TypeError, ValueError, AttributeError, KeyError) as cause:
        why = " ".join(str(cause).split("\n")[0].split()).rstrip(".")
        raise SettingError(
            f"transformers could not build {name!r}, pretrained={pretrained}: {why}."
        ) from cause


def check_tower(width: int, heads: int, dropout: float, pooling: str) -> None:
    """Refuse settings that cannot work."""
    if heads < 1 or width % heads:
        raise SettingError(
            f"width is a multiple of heads: got {width} and {heads} heads."
        )
    if not 0 <= dropout < 1:
        raise SettingError(f"dropout is at least 0 and below 1: got {dropout}.")
    if pooling not in POOLINGS:
        raise SettingError(unknown("pooling", pooling, POOLINGS))
