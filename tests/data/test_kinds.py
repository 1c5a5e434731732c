"""Samples that are not images: vectors, a kind of one's own, pairs."""

import numpy as np
import pytest
import torch

import invariance as inv
from invariance.data import KINDS, Kind, Samples, Vector, kind_of, load
from invariance.errors import DataError, SettingError
from invariance.evaluation import encode_images


class Word(Kind):
    """A word of any length as its first letters."""

    name = word = "word"
    dtype = torch.int64

    def read(self, raw):
        """The letters."""
        if not raw:
            raise DataError("an empty word")
        return torch.tensor([ord(letter) for letter in raw])

    def collate(self, samples):
        """Zeros after the end."""
        batch = torch.zeros((len(samples), *self.shape), dtype=self.dtype)
        for row, sample in zip(batch, samples, strict=True):
            row[: len(sample)] = sample[: len(row)]
        return batch

    def show(self, sample):
        """The word."""
        return "".join(chr(letter) for letter in sample.tolist() if letter)


@pytest.fixture
def rows():
    """Sixty rows of four numbers, each on a scale of its own."""
    dice = np.random.default_rng(0)
    return (dice.normal(size=(60, 4)) * [1, 10, 100, 0]).astype(np.float32)


WORDS = ["one", "two", "three", "seventeen", "", "six"]


@pytest.mark.parametrize("storage", ["resident", "streamed"])
def test_a_table_of_numbers_is_rows_of_them(rows, tmp_path, storage):
    np.savez(tmp_path / "rows.npz", vectors=rows, labels=np.arange(60) % 3)
    np.save(tmp_path / "rows.npy", rows)
    for data in (rows, torch.tensor(rows), tmp_path / "rows.npy"):
        source = load(data, split="all", storage=storage, workers=0)
        assert isinstance(source.kind, Vector) and source.shape == (4,)
        (batch,) = source.batches([torch.tensor([3, 59])])
        assert batch.equal(torch.tensor(rows[[3, 59]]))
    labeled = load(tmp_path / "rows.npz", storage=storage)
    assert labeled.origin.n_held_out == 60 - len(labeled)
    assert labeled.labels is not None and len(labeled.class_names) == 3
    np.testing.assert_allclose(source.kind.spread, rows.std(0), rtol=1e-3)


class Typed(Kind):
    """Numbers of one type or another."""

    name = word = "typed"

    def __init__(self, shape, dtype):
        super().__init__(shape)
        self.dtype = dtype

    def read(self, raw):
        """The numbers, rounded."""
        return torch.tensor(raw).to(self.dtype)


@pytest.mark.parametrize("dtype", ["bfloat16", "bool", "int64", "complex128"])
@pytest.mark.parametrize(("storage", "workers"), [("resident", 0), ("streamed", 2)])
def test_samples_of_any_type_keep_it(rows, storage, workers, dtype):
    dtype = getattr(torch, dtype)
    samples = Samples(list(rows), Typed((4,), dtype))
    source = load(samples, split="all", storage=storage, workers=workers)
    (batch,) = source.batches([torch.tensor([59, 3])])
    assert batch.equal(torch.tensor(rows[[59, 3]]).to(dtype))


def test_a_kind_is_the_same_after_its_description(rows):
    kind = load(rows).kind
    assert kind_of(kind.describe()) == kind
    assert kind_of(kind.describe()) != Vector((4,))
    assert load(rows[:5], split="all", kind=kind).kind.spread == kind.spread
    with pytest.raises(SettingError, match=r"add its class to inv\.data\.KINDS"):
        kind_of({"name": "smell", "shape": [3]}).read("rose")


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (np.array([["a", "b"]]), None, "holds <U1 values: expected numbers"),
        (np.zeros((0, 3)), None, "empty, of shape"),
        (np.zeros((9, 8, 8)), "vector", r"vectors come as \(n, width\)"),
        (np.zeros((9, 8)), "image", "images come as"),
        (np.zeros((9, 8)), Vector((7,)), "rows of 8 numbers: expected 7"),
        (Samples([], Vector((7,))), None, "give at least two samples"),
    ],
)
def test_what_is_no_vector(data, kind, message):
    with pytest.raises(DataError, match=message):
        load(data, kind=kind, split="all")


def test_an_unknown_kind_is_answered_with_the_nearest(rows):
    with pytest.raises(SettingError, match="Did you mean 'vector'"):
        load(rows, kind="vectro")


def test_rows_that_are_not_finite_are_left_out(rows):
    rows[7, 2] = np.nan
    source = load(rows, split="all")
    assert len(source) == 59
    assert source.unreadable == {"row 7": "some numbers are NaN or infinite"}


@pytest.mark.parametrize("storage", ["resident", "streamed"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_kind_of_ones_own_reads_and_collates(storage, workers):
    samples = Samples(WORDS, Word((5,)), labels=[0, 0, 0, 1, 1, 1])
    source = load(samples, split="all", storage=storage, workers=workers)
    (batch,) = source.batches([torch.tensor([3, 0])])
    assert [source.kind.show(row) for row in batch] == ["seven", "one"]
    assert batch.dtype == torch.int64
    (last,) = source.batches([torch.tensor([4])])
    assert source.kind.show(last[0]) == "six"  # the empty one is left out or replaced
    assert source.unreadable == {"word 4": "an empty word"}


@pytest.mark.parametrize("storage", ["resident", "streamed"])
def test_a_batch_of_another_shape_is_answered_in_a_sentence(storage):
    class Ragged(Word):
        collate = Kind.collate

    with pytest.raises(DataError, match=r"word|Ragged"):
        source = load(Samples(WORDS, Ragged((5,))), split="all", storage=storage)
        next(source.batches([torch.arange(2)]))


@pytest.mark.parametrize("storage", ["resident", "streamed"])
@pytest.mark.parametrize("workers", [0, 2])
def test_pairs_stay_together_whatever_is_broken(rows, storage, workers):
    """Word i belongs to row i; neither comes with another's partner."""
    rows = rows[:6].copy()
    rows[:, 0], rows[1, 1] = range(6), np.nan
    words = Samples(WORDS, Word((5,)))
    pairs = Samples(rows, Vector((4,)), labels=[0, 0, 1, 1, 1, 1], other=words)
    source = load(pairs, split="all", storage=storage, workers=workers)
    index = [torch.arange(len(source)), torch.tensor([0, 1])]
    seen = list(source.pairs(index))
    for first, other in seen:
        shown = [source.other.kind.show(word) for word in other]
        assert shown == [WORDS[int(number)][:5] for number in first[:, 0]]
    assert [len(first) for first, _ in seen] == [len(source), 2]
    assert len(source.other) == len(source) == {"resident": 4, "streamed": 6}[storage]


def test_sides_of_different_lengths_are_no_pairs(rows):
    with pytest.raises(DataError, match="60 first sides of pairs and 6 second ones"):
        Samples(rows, Vector((4,)), other=Samples(WORDS, Word((5,))))


def test_a_part_of_pairs_is_the_same_part_of_both_sides(rows):
    other = Samples(-rows, Vector((4,)))
    labels = np.arange(60) % 2
    for split in ("train", "test"):
        pairs = Samples(rows, Vector((4,)), labels=labels, other=other)
        part = load(pairs, split=split, n=3)
        ((first, second),) = part.pairs([torch.arange(len(part))])
        assert len(part) == 3 and first.equal(-second)


def test_plain_features_are_those_of_the_kind(rows):
    source = load(rows)
    assert encode_images(None, source).equal(torch.tensor(rows))
    words = load(Samples(WORDS[:3], Word((5,))), split="all")
    table = torch.nn.EmbeddingBag(128, 7, mode="sum")
    assert encode_images(table, words).shape == (3, 7)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_in_the_catalogue_says_what_it_is(name):
    kind = KINDS[name]
    assert kind.name == name and kind.word and kind.baseline


def test_a_row_of_numbers_is_shown_as_bars():
    kind = inv.data.Vector((3,), spread=(1.0, 1.0, 1.0))
    up, down = kind.show(torch.ones(3)), kind.show(-torch.ones(3))
    assert up.size == down.size and up.tobytes() != down.tobytes()


def test_a_query_of_numbers_is_written_out_or_in_a_file(tmp_path):
    kind = Vector((3,))
    assert kind.shape_words == "3 numbers"
    np.save(tmp_path / "row.npy", np.array([1.0, 2.5, 3.0]))
    for query in ("[1, 2.5, 3]", str(tmp_path / "row.npy")):
        called, raw = kind.open(query)
        assert called == query and kind.read(raw).tolist() == [1.0, 2.5, 3.0]
    for query in ("[1, 2", "none.npy"):
        with pytest.raises(DataError, match=r"cannot be read as .* or write it as \[0"):
            kind.open(query)


@pytest.mark.parametrize(
    ("data", "kind"), [([1, 2], "vector"), ([{"a": 1}] * 2, "row"), ([[], "a"], "text")]
)
def test_data_that_are_not_of_the_kind_that_was_asked_for(data, kind):
    message = f"type list, cannot be read as samples of the kind {kind}: check"
    with pytest.raises(DataError, match=message):
        load(data, kind=kind)
