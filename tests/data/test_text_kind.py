"""Sentences become tokens of one length, and come back."""

import json
import pickle

import pytest
import torch

import invariance as inv
from invariance.errors import DataError, SettingError

SENTENCES = ["the cat sat on the mat", "a dog ran home", "the dog sat"] * 5


@pytest.fixture(scope="module")
def text():
    return inv.data.Text.fit(SENTENCES)


def test_a_sentence_comes_back_whatever_its_letters(text):
    for sentence in ("the cat ran", "Ça va? 日本", "[PAD] and [END] are words"):
        wide = inv.data.Text.fit([sentence, *SENTENCES], length=64)
        assert wide.show(wide.read(sentence)) == sentence
    assert text.read("the cat").dtype == torch.long
    assert text.read("the cat").shape == text.shape == (text.length,)


def test_the_length_fits_all_but_the_longest_sentences():
    long = " ".join(["word"] * 40)
    few = inv.data.Text.fit([long] + ["word " * 20] * 300)
    assert few.length == 22  # its two ends included
    assert few.is_cut(long) and not few.is_cut("word word")
    assert few.show(few.read(long)) == " ".join(["word"] * 20)
    assert inv.data.Text.fit(["word " * 500] * 3).length == 128
    assert inv.data.Text.fit(["a", "b"]).length == 16


def test_the_same_sentences_give_the_same_tokenizer_and_its_json_all_of_it(text):
    again = inv.data.Text.fit(SENTENCES)
    assert again == text and again.describe() == text.describe()
    description = json.loads(json.dumps(text.describe()))
    rebuilt = inv.data.kind_of(description)
    assert torch.equal(rebuilt.read("a cat ran"), text.read("a cat ran"))
    assert rebuilt.pad == text.pad and rebuilt.mask == text.mask
    assert pickle.loads(pickle.dumps(text)) == text


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ("", "an empty sentence"),
        ("\t ", "an empty sentence"),
        (b"caf\xe9", "not UTF-8 text"),
        ("caf\udce9", "not UTF-8 text"),
        (3.5, "float instead of text"),
    ],
)
def test_what_is_no_sentence_is_refused_in_words(text, raw, why):
    with pytest.raises(DataError, match=f"^{why}$"):
        text.read(raw)


def test_settings_that_cannot_work_are_refused():
    with pytest.raises(SettingError, match="at least 260 tokens"):
        inv.data.Text.fit(SENTENCES, vocabulary=100)
    with pytest.raises(SettingError, match="length of 2"):
        inv.data.Text.fit(SENTENCES, length=2)
    with pytest.raises(DataError, match="o sentence to train a tokenizer on"):
        inv.data.Text.fit(["", " "])


def test_a_bag_of_words_knows_words_and_not_their_order(text):
    batch = text.collate([text.read(s) for s in ("cat sat", "sat cat", "cat cat sat")])
    one, other, third = text.plain(batch)
    assert torch.equal(one, other) and one.sum() == 2
    assert third.max() == 2 and third.sum() == 3
