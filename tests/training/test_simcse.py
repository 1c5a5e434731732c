"""Runs on sentences: dropout as views, or pairs; resumed, killed, learned."""

import json

import pytest
import torch

import invariance as inv
from invariance.errors import DataError, SettingError
from invariance.training import Train, make_plan, train

WORDS = ["red fox", "old dog", "wet cat", "big cow", "shy owl", "fat pig"]
SENTENCES = [f"the {a} met the {b}" for a in WORDS for b in WORDS]


@pytest.fixture
def little(small):
    """Settings of a run on sentences."""

    def make(**changes):
        return small(**{"method": "simcse", "encoder": "auto"} | changes)

    return make


def step_of(plan, ids):
    """The first step of a plan on these samples."""
    [sides] = plan.batches([ids], "cpu")
    return plan.learner(plan.see(sides, ids, 0))


def test_two_views_are_the_sentence_twice_and_dropout_tells_them_apart(little):
    plan = make_plan(little(), data=SENTENCES)
    [sides] = plan.batches([torch.arange(8)], "cpu")
    first, second = plan.see(sides, torch.arange(8), 0)
    assert torch.equal(first, second) and first.dtype == torch.long
    step = step_of(plan, torch.arange(8))
    assert (step.u - step.v).abs().max() > 1e-3
    plan.learner.eval()
    step = step_of(plan, torch.arange(8))
    assert torch.equal(step.u, step.v)
    assert plan.learner.objective.temperature == 0.05


def test_pairs_are_each_others_positives_and_scored_pairs_are_not(little):
    pairs = [(s, f"{s} again") for s in SENTENCES]
    plan = make_plan(little(), data=pairs)
    assert (len(plan.views), len(plan.other_views)) == (1, 1)
    [sides] = plan.batches([torch.arange(3)], "cpu")
    shown = [plan.source.kind.show(v[0]) for v in plan.see(sides, torch.arange(3), 0)]
    assert shown[1] == f"{shown[0]} again"
    scored = [(*pair, k % 5) for k, pair in enumerate(pairs)]
    plan = make_plan(little(), data=scored)
    assert (len(plan.views), plan.other_views) == (2, None)


def test_words_are_left_out_of_each_view_by_itself(little):
    plan = make_plan(little(views="drop_words", options={"p": 0.3}), data=SENTENCES)
    [sides] = plan.batches([torch.arange(30)], "cpu")
    first, second = plan.see(sides, torch.arange(30), 0)
    text = plan.source.kind
    n_words = [[len(text.show(row).split()) for row in v] for v in (first, second)]
    assert not torch.equal(first, second)
    assert all(sum(n) < 0.85 * 7 * 30 for n in n_words)  # of seven words each
    assert {*text.show(first[0]).split()} <= {*text.show(sides[0][0]).split()}


@pytest.mark.parametrize("changes", [{}, {"micro_batch": 6}])
def test_stopping_changes_nothing_not_even_dropout(
    little, stopped_after, readings, newest, changes
):
    settings = little(**changes)
    whole = train(settings, data=SENTENCES).folder
    folder = stopped_after(3, settings, data=SENTENCES)
    train(Train(resume=str(folder), quiet=True), data=SENTENCES)
    assert readings(folder) == readings(whole)
    one, two = (newest(f)["learner"] for f in (folder, whole))
    assert all(one[key].equal(two[key]) for key in two)


def test_killed_it_goes_on_as_if_nothing_had_been(tmp_path, survive_a_kill):
    (tmp_path / "a.txt").write_text("\n".join(SENTENCES))
    survive_a_kill(
        *("a.txt", "--method", "simcse", "--epochs", "3", "--batch-size", "8"),
        *("--hidden", "16", "--width", "8", "--no-evaluate"),
        step=6,
    )


def test_it_learns_what_a_bag_of_words_cannot_know(little):
    run = train(
        little(
            data="paraphrases",
            limit=1000,
            batch_size=64,
            hidden=128,
            width=128,
            log_every=1000,
        )
    )
    scores = inv.evaluate(run, protocols=["rank_correlation", "partner"])

    def find(protocol, features):
        [value] = scores.values(protocol, features)[:1]
        return value

    trained = "trained encoder"
    for other in ("untrained encoder", "bag of words"):
        assert find("rank_correlation", trained) > find("rank_correlation", other) + 0.2
        assert find("partner", trained) > find("partner", other) + 0.1
    lines = (run.folder / "evaluation.jsonl").read_text().splitlines()
    row = next(r for r in map(json.loads, lines) if r["metric"] == "spearman")
    assert row["protocol"] == "rank_correlation" and row["n_test"] == 1200


def test_a_dry_run_speaks_of_sentences(little, capsys):
    result = train(little(dry_run=True, quiet=False), data=SENTENCES)
    assert result.word == "sentence"
    said = capsys.readouterr().out
    assert "sentences (16, 16) int64 -> views" in said and "text_tiny" in said


def test_what_does_not_suit_sentences_is_answered(little, tmp_path, pictures):
    for changes, message in (
        ({"encoder": "resnet18"}, "'resnet18' is not a network for sentences"),
        ({"encoder": "text_tiny", "pretrained": True}, "no pretrained weights"),
        ({"views": "simclr"}, "for samples of the kind image"),
        ({"image_size": 32}, "image_size is for samples of the kind image"),
    ):
        with pytest.raises(SettingError, match=message):
            train(little(**changes), data=SENTENCES)
    with pytest.raises(DataError, match="learns from samples of the kind text"):
        train(little(), data=pictures)
    (tmp_path / "one.txt").write_text("only this\n")
    with pytest.raises(DataError, match="has 1 readable sentence"):
        train(little(data=str(tmp_path / "one.txt")))


def test_a_pretrained_model_reads_with_its_own_tokenizer(little, tmp_path):
    import transformers  # seconds, which others need not wait for

    known = inv.data.Text.fit(["the owl and the pig", "a cow"], length=12)
    place = tmp_path / "model"
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=known.tokenizer, pad_token="[PAD]"
    ).save_pretrained(place)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=known.vocabulary, **size)
    transformers.BertModel(config).save_pretrained(place)
    settings = little(encoder=f"transformers/{place}", pretrained=True)
    run = train(settings, data=SENTENCES)
    encoder = inv.load(run.folder)
    assert encoder.kind.vocabulary == known.vocabulary
    tokens = encoder.kind.read("a cow")
    assert torch.equal(tokens[:12], known.read("a cow"))
    assert encoder(tokens[None]).shape == (1, 16)


def test_views_that_dropout_alone_tells_apart_are_not_compared_without_it(little):
    run = train(little(epochs=1, evaluate=True), data=SENTENCES)
    kept = json.loads((run.folder / "diagnostics.json").read_text())
    result = inv.diagnose(run.folder, data=SENTENCES, keep=False)
    for names in (
        {(r["name"], r["of"]) for r in kept["readings"]},
        {(r.name, r.of) for r in result.readings},
    ):
        assert {("uniformity", "h"), ("effective rank", "z")} <= names
        compared = {"alignment", "contrastive accuracy", "mutual information"}
        assert not compared & {name for name, _ in names}
    assert "the same here, since dropout is off" in " ".join(result.notes)
    words = inv.diagnose(
        train(little(epochs=1, views="drop_words"), data=SENTENCES).folder,
        data=SENTENCES,
        keep=False,
    )
    assert words["alignment", "z"].value > 0
