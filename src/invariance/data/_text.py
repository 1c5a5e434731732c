"""Sentences: a byte-pair tokenizer trained on the spot, and tokens of one length.

    "The cat sat."  ->  [BEGIN] The cat sat . [END] [PAD] [PAD]  ->  (length,) int64

The tokenizer begins with the 256 bytes and joins the pairs that the given sentences
have most often, so that it can write down any text and no word is unknown. The length
fits 99 in 100 of the sentences; longer ones are read up to there. All of it is one JSON
string, which travels in the encoder's file.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from ..errors import DataError, SettingError
from ._kind import Kind
from ._split import spread

PAD, BEGIN, END, MASK = SPECIAL = ("[PAD]", "[BEGIN]", "[END]", "[MASK]")
VOCABULARY = 8192
SHORTEST, LONGEST = 16, 128
"""Tokens per sentence, where no length is asked for."""
COVERED = 0.99
"""Share of the sentences that are read whole, where LONGEST allows it."""
LEARNED_FROM = 1_000_000
"""Sentences that the tokenizer learns from, at most."""
WORDS = 2048
"""Columns of a bag of words, at most."""
NO_CAPTION = -1  # in place of every token of a caption that an image does not have


@final
class Text(Kind):
    """Sentences as tokens.

    Args:
        tokenizer: One of the library ``tokenizers`` that pads to a fixed length, or its
            JSON; ``Text.fit`` trains one.

    >>> text = Text.fit(["the cat sat", "the dog sat", "a dog ran"])
    >>> tokens = text.read("the dog ran")
    >>> tokens.shape == text.shape, tokens.dtype, text.show(tokens)
    (True, torch.int64, 'the dog ran')
    """

    name = "text"
    word = "sentence"
    baseline = "bag of words"
    encoder = "text_tiny"
    views = "same"
    dtype = torch.long

    def __init__(self, tokenizer: Any) -> None:
        from tokenizers import Tokenizer  # not by those who read no sentence

        if isinstance(tokenizer, str):
            tokenizer = Tokenizer.from_str(tokenizer)
        padding = tokenizer.padding
        if not padding or not padding["length"] or not tokenizer.truncation:
            raise SettingError(
                "The tokenizer of sentences needs a fixed length: call its "
                "enable_padding(length=...) and enable_truncation(...)."
            )
        tokenizer.encode_special_tokens = True  # "[PAD]" in a sentence is four signs
        self.tokenizer = tokenizer
        self.length: int = padding["length"]
        self.pad: int = padding["pad_id"]
        super().__init__((self.length,))

    @classmethod
    def fit(
        cls,
        sentences: Sequence[str],
        *,
        vocabulary: int = VOCABULARY,
        length: int | None = None,
        tokenizer: Any = None,
    ) -> "Text":
        """The kind that fits these sentences.

        Args:
            sentences: What to learn from; the same ones give the same tokenizer.
            vocabulary: Different tokens, at most.
            length: Tokens of a sentence, the first and the last sign included; None
                fits 99 in 100 of the sentences; it is 16 at least and 128 at most.
            tokenizer: One that is trained already, of the library ``tokenizers``; None
                trains one.
        """
        least = len(SPECIAL) + 256  # the signs, and a token for every byte
        if vocabulary < least:
            raise SettingError(
                f"A vocabulary has at least {least} tokens: got {vocabulary}."
            )
        if length is not None and length < 3:
            raise SettingError(
                "A sentence has at least 3 tokens, its two ends included: got a "
                f"length of {length}."
            )
        chosen = [sentences[i] for i in spread(len(sentences), LEARNED_FROM)]
        chosen = [text for text in chosen if explain_unusable(text) is None]
        if not chosen:
            raise DataError(
                "No sentence to train a tokenizer on: give at least one that is not "
                "empty."
            )
        if tokenizer is None:
            tokenizer = train_tokenizer(chosen, vocabulary)
        tokenizer = type(tokenizer).from_str(tokenizer.to_str())  # not the caller's own
        padding = tokenizer.padding or {}
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if length is None:
            sample = [chosen[i] for i in spread(len(chosen), 10_000)]
            counts = sorted(len(tokenizer.encode(text).ids) for text in sample)
            covering = counts[int(COVERED * (len(counts) - 1))]
            length = min(max(covering, SHORTEST), LONGEST)
        tokenizer.enable_truncation(length)
        pad = padding.get("pad_token", PAD)
        tokenizer.enable_padding(
            length=length,
            pad_token=pad,
            pad_id=padding.get("pad_id", tokenizer.token_to_id(pad)),
        )
        return cls(tokenizer)

    @property
    def shape_words(self) -> str:
        """The length in sentences to people."""
        return f"up to {self.length} tokens"

    @property
    def vocabulary(self) -> int:
        """How many different tokens there are."""
        return self.tokenizer.get_vocab_size()

    @property
    def mask(self) -> int:
        """The token that stands for a hidden one."""
        for sign in (MASK, "<mask>"):
            if (number := self.tokenizer.token_to_id(sign)) is not None:
                return int(number)
        raise SettingError("This tokenizer has no token for hidden ones.")

    @property
    def special(self) -> tuple[int, ...]:
        """The tokens that are no part of a sentence: padding, ends, the mask."""
        added = self.tokenizer.get_added_tokens_decoder()
        return tuple(sorted(i for i, token in added.items() if token.special))

    def read(self, raw: Any) -> Int64[Tensor, " length"]:
        """A sentence's tokens; raises for one that is empty or no text.

        >>> Text.fit(["a b", "c d"]).read("  ")
        Traceback (most recent call last):
        invariance.errors.DataError: an empty sentence
        """
        why = explain_unusable(raw)
        if why is not None:
            raise DataError(why)
        text = raw.decode() if isinstance(raw, bytes) else raw
        return torch.tensor(self.tokenizer.encode(text).ids, dtype=torch.long)

    def is_cut(self, raw: str) -> bool:
        """Whether a sentence is longer than what is read of it."""
        return bool(self.tokenizer.encode(raw).overflowing)

    def plain(self, batch: Int64[Tensor, "n length"]) -> Float[Tensor, "n e"]:
        """A bag of words: how often each token occurs, the signs left out.

        Of a large vocabulary several tokens share a column.

        >>> text = Text.fit(["a b a", "b b"])
        >>> one, other = text.plain(torch.stack([text.read("a b"), text.read("b a")]))
        >>> one.equal(other), one.sum()
        (True, tensor(2.))
        """
        width = min(self.vocabulary, WORDS)
        signs = torch.tensor(self.special, device=batch.device)
        counted = (~torch.isin(batch, signs)).float()
        bags = counted.new_zeros(len(batch), width)
        return bags.scatter_add_(1, batch % width, counted)

    def show(self, sample: Int64[Tensor, " length"]) -> str:
        """The sentence again, as far as it was read."""
        return str(self.tokenizer.decode(sample.tolist())).strip()

    def describe(self) -> dict[str, Any]:
        """All that is needed to read sentences in the same way."""
        return {"name": self.name, "tokenizer": self.tokenizer.to_str()}

    def __repr__(self) -> str:
        return f"Text({self.vocabulary} tokens, {self.length} per sentence)"


class Captions(Kind):
    """Several sentences about one thing, of which a view shows one.

    Args:
        text: How a sentence is read.
        most: Sentences per sample; those that one has not are NO_CAPTION throughout.

    >>> captions = Captions(Text.fit(["a dog", "a cat"]), most=2)
    >>> tokens = captions.read(["a dog"])
    >>> tokens.shape, captions.show(tokens)
    (torch.Size([2, 16]), 'a dog')
    """

    name = "captions"
    word = "caption"
    baseline = "bag of words"
    dtype = torch.long
    views = "one_caption"

    def __init__(self, text: Text | Mapping[str, Any], most: int) -> None:
        if not isinstance(text, Text):
            text = Text(**{k: v for k, v in text.items() if k != "name"})
        super().__init__((most, text.length))
        self.text, self.most = text, most
        self.encoder = text.encoder

    @property
    def seen(self) -> Text:
        """One sentence."""
        return self.text

    @property
    def shape_words(self) -> str:
        """The length of one in sentences to people, and how many there are."""
        each = f", {self.most} of each image at most" if self.most > 1 else ""
        return f"{self.text.shape_words}{each}"

    def read(self, raw: Any) -> Int64[Tensor, "most length"]:
        """A sentence, or the first few of several."""
        several = [raw] if isinstance(raw, str) else list(raw)[: self.most]
        if not several:
            raise DataError("no caption")
        tokens = torch.full(self.shape, NO_CAPTION)
        tokens[: len(several)] = torch.stack([self.text.read(one) for one in several])
        return tokens

    def plain(self, batch: Int64[Tensor, "n most length"]) -> Float[Tensor, "n e"]:
        """A bag of the words of all sentences."""
        n, most, length = batch.shape
        present = (batch[:, :, :1] != NO_CAPTION).float()
        rows = batch.masked_fill(batch == NO_CAPTION, self.text.pad).view(-1, length)
        return (self.text.plain(rows).view(n, most, -1) * present).sum(1)

    def show(self, sample: Int64[Tensor, "..."]) -> str:
        """All sentences, or the one of a view."""
        rows = sample.view(-1, sample.shape[-1])
        return " / ".join(self.text.show(row) for row in rows if row[0] != NO_CAPTION)

    def describe(self) -> dict[str, Any]:
        """How a sentence is read, and how many there are."""
        return {"name": self.name, "text": self.text.describe(), "most": self.most}


def train_tokenizer(sentences: Sequence[str], vocabulary: int) -> Any:
    """A byte-pair tokenizer of these sentences, without a fixed length."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from tokenizers.processors import TemplateProcessing
    from tokenizers.trainers import BpeTrainer

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Strip()]
    )
    # a word is the same token at the beginning of a sentence and within it
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(take_batches(sentences), trainer)
    ends = [(sign, tokenizer.token_to_id(sign)) for sign in (BEGIN, END)]
    tokenizer.post_processor = TemplateProcessing(
        single=f"{BEGIN} $A {END}", special_tokens=ends
    )
    # its threads do not survive a fork: without this, workers that read would warn
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return tokenizer


def take_batches(sentences: Sequence[str], size: int = 1000) -> Iterator[list[str]]:
    """Sentences as ``tokenizers`` takes them quickly."""
    for start in range(0, len(sentences), size):
        yield list(sentences[start : start + size])


def explain_unusable(raw: object) -> str | None:
    r"""Why this is no sentence, in a few words; None for one that is.

    >>> explain_unusable(b"caf\xe9"), explain_unusable("caf\u00e9")
    ('not UTF-8 text', None)
    """
    if isinstance(raw, bytes):
        try:
            raw = raw.decode()
        except UnicodeDecodeError:
            return "not UTF-8 text"
    if not isinstance(raw, str):
        return f"{type(raw).__name__} instead of text"
    if "\0" in raw:  # as in UTF-16 without its mark
        return "not UTF-8 text"
    if not raw.strip():
        return "an empty sentence"
    try:
        raw.encode()
    except UnicodeEncodeError:  # bytes that could not be read, kept as surrogates
        return "not UTF-8 text"
    return None
