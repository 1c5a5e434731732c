"""Text towers: padding is hidden, dropout is repeatable, names build them."""

import io
import itertools
import sys

import pytest
import torch

import invariance as inv
from invariance.encoders import GradCache, TextTower, build_text_tower
from invariance.errors import SettingError
from invariance.randomness import random_states, set_random_states

TOKENS = torch.tensor([[1, 9, 8, 7, 2, 0, 0, 0], [1, 5, 2, 0, 0, 0, 0, 0]])


def make_tower(**settings):
    torch.manual_seed(0)
    size = {"vocabulary": 12, "length": 8, "width": 16, "heads": 2}
    return TextTower(**size | settings)


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_padding_changes_nothing(pooling):
    tower = make_tower(pooling=pooling).eval()
    short = make_tower(pooling=pooling, length=5).eval()
    weights = tower.state_dict()
    short.load_state_dict(weights | {"positions": weights["positions"][:5]})
    torch.testing.assert_close(tower(TOKENS), short(TOKENS[:, :5]))


def test_other_words_and_another_order_give_other_rows():
    tower = make_tower().eval()
    base = tower(TOKENS[:1])
    for changed in (
        TOKENS[:1].flip(1),
        TOKENS[:1].clone().index_fill_(1, torch.tensor(1), 3),
    ):
        assert (tower(changed) - base).abs().max() > 1e-3


def test_nothing_but_padding_still_gives_numbers():
    assert make_tower().eval()(torch.zeros(2, 8, dtype=torch.long)).isfinite().all()


def test_dropout_differs_by_row_and_repeats_with_the_generator():
    tower = make_tower(dropout=0.3)
    states = random_states()
    both = tower(TOKENS[:1].repeat(2, 1))
    assert (both[0] - both[1]).abs().max() > 1e-2
    set_random_states(states)
    assert torch.equal(tower(TOKENS[:1].repeat(2, 1)), both)
    assert torch.equal(tower.eval()(TOKENS), tower(TOKENS))


def test_pieces_repeat_the_dropout_that_they_were_encoded_with():
    tower = make_tower(dropout=0.3)
    tokens = TOKENS.repeat(4, 1)
    torch.manual_seed(3)
    GradCache(tower, micro_batch=3)(tokens).square().sum().backward()
    pieces = [p.grad.clone() for p in tower.parameters()]
    tower.zero_grad()
    torch.manual_seed(3)  # the same pieces by hand
    edges = [0, 2, 5, 8]
    rows = [tower(tokens[a:b]) for a, b in itertools.pairwise(edges)]
    torch.cat(rows).square().sum().backward()
    for mine, by_hand in zip(pieces, tower.parameters(), strict=True):
        torch.testing.assert_close(mine, by_hand.grad)


def test_it_is_exported_and_works_in_half_precision():
    tower = make_tower(pooling="last").eval()
    batch = torch.export.Dim("n")
    program = torch.export.export(tower, (TOKENS,), dynamic_shapes=({0: batch},))
    kept = io.BytesIO()
    torch.export.save(program, kept)
    kept.seek(0)
    again = torch.export.load(kept).module()
    torch.testing.assert_close(again(TOKENS.repeat(3, 1)), tower(TOKENS.repeat(3, 1)))
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(tower(TOKENS), again(TOKENS), rtol=0.1, atol=0.1)


@pytest.mark.parametrize("name", list(inv.encoders.TEXT_TOWERS))
def test_every_name_builds_a_tower_whose_parameters_all_learn(name):
    tower = build_text_tower(name, vocabulary=300, length=8)
    tower(TOKENS).square().sum().backward()
    assert all(p.grad is not None for p in tower.parameters())


def test_a_model_of_transformers_by_its_type():
    tower = build_text_tower("transformers/distilbert", vocabulary=300, length=8)
    rows = tower.eval()(TOKENS)
    assert rows.shape == (2, 768)
    other = torch.cat([TOKENS[:, :5], torch.zeros(2, 3, dtype=torch.long)], 1)
    torch.testing.assert_close(tower(other), rows)
    with pytest.raises(SettingError, match="at most 512 tokens: got 600"):
        build_text_tower("transformers/distilbert", vocabulary=300, length=600)


def test_pretrained_weights_come_with_their_own_tokenizer(tmp_path):
    import transformers  # seconds, which the other tests need not wait for

    sentences = ["the cat sat", "a dog ran home", "the dog sat"]
    trained = inv.data.Text.fit(sentences, length=12)
    signs = {"pad_token": "[PAD]", "mask_token": "[MASK]"}
    saved = transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained.tokenizer, **signs
    )
    saved.save_pretrained(tmp_path)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=trained.vocabulary, **size)
    model = transformers.BertModel(config).eval()
    model.save_pretrained(tmp_path)

    name = f"transformers/{tmp_path}"
    kind = inv.data.Text.fit(sentences, tokenizer=inv.encoders.load_tokenizer(name))
    assert kind.vocabulary == trained.vocabulary and kind.pad == trained.pad
    tokens = kind.read("the dog ran")[None]
    assert torch.equal(tokens[:, :12], trained.read("the dog ran")[None])
    tower = build_text_tower(
        name,
        vocabulary=kind.vocabulary,
        length=kind.length,
        pad=kind.pad,
        pretrained=True,
    ).eval()
    real = tokens != kind.pad
    states = model(input_ids=tokens, attention_mask=real.long()).last_hidden_state
    torch.testing.assert_close(tower(tokens)[0], states[0][real[0]].mean(0))
    with pytest.raises(SettingError, match="fewer tokens than these sentences"):
        build_text_tower(name, vocabulary=9999, length=8, pretrained=True)


def test_what_cannot_be_built_is_refused_in_one_sentence(monkeypatch):
    with pytest.raises(SettingError, match="Did you mean 'text_tiny'"):
        build_text_tower("text_tinny", vocabulary=300, length=8)
    with pytest.raises(SettingError, match="no pretrained weights"):
        build_text_tower("text_tiny", vocabulary=300, length=8, pretrained=True)
    for wrong in ({"dropout": 1.0}, {"pooling": "max"}, {"heads": 3}):
        with pytest.raises(SettingError):
            make_tower(**wrong)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(SettingError, match=r"pip install .invariance\[text\]"):
        build_text_tower("transformers/bert", vocabulary=300, length=8)
