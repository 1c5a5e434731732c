"""Sentences from files and lists: pairs, labels, scores, and what is wrong in words."""

import json

import pytest
import torch

import invariance as inv
from invariance.errors import DataError

WORDS = ["red fox", "old dog", "wet cat", "big cow", "shy owl", "fat pig"]
SENTENCES = [f"the {a} met the {b}" for a in WORDS for b in WORDS]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def show_all(source):
    [batch] = source.batches([torch.arange(len(source))])
    return [source.kind.show(row) for row in batch]


def test_a_text_file_has_a_sentence_per_line(tmp_path):
    source = inv.data.load(write(tmp_path / "a.txt", "\n".join(["", *SENTENCES, ""])))
    assert show_all(source) == SENTENCES
    assert source.kind.name == "text" and source.labels is None and source.other is None
    assert any("1 empty line was left out" in str(note) for note in source.notes)


@pytest.mark.parametrize("storage", ["resident", "streamed"])
def test_columns_are_found_by_their_usual_names(tmp_path, storage):
    rows = [
        {"id": k, "text": text, "label": text.split()[1]}
        for k, text in enumerate(SENTENCES)
    ]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    parts = [
        inv.data.load(path, split=split, storage=storage, workers=0)
        for split in ("train", "test")
    ]
    assert sorted(text for part in parts for text in show_all(part)) == sorted(
        SENTENCES
    )
    assert parts[0].kind == parts[1].kind  # the tokenizer of the training part
    assert parts[0].class_names == ("big", "fat", "old", "red", "shy", "wet")
    texts = show_all(parts[0])
    assert parts[0].class_names[parts[0].labels[0]] == texts[0].split()[1]


def test_every_format_gives_the_same_sentences(tmp_path):
    import pyarrow
    import pyarrow.parquet

    table = {"id": [*range(36)], "text": [f'{s}, "yes"' for s in SENTENCES]}
    rows = [
        (k, text.replace('"', '""')) for k, text in zip(*table.values(), strict=True)
    ]
    write(tmp_path / "a.csv", "\n".join(["id,text", *(f'{k},"{t}"' for k, t in rows)]))
    write(
        tmp_path / "a.tsv", "\n".join(["id\ttext", *(f'{k}\t"{t}"' for k, t in rows)])
    )
    write(tmp_path / "a.txt", "\ufeff" + "\r\n".join(table["text"]))
    items = [{"id": k, "text": t} for k, t in zip(*table.values(), strict=True)]
    write(tmp_path / "a.ndjson", "\n\n".join(map(json.dumps, items)))
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "a.parquet")
    paths = sorted(tmp_path.iterdir())
    assert len(paths) == 5
    for path in paths:
        assert show_all(inv.data.load(path)) == table["text"], path.name


def test_two_columns_are_pairs_and_a_score_makes_them_scored(tmp_path):
    pairs = [f"{s},{s} again" for s in SENTENCES]
    path = write(tmp_path / "a.csv", "\n".join(["sentence1,sentence2", *pairs]))
    source = inv.data.load(path)
    assert show_all(source.other) == [f"{s} again" for s in show_all(source)]
    assert source.scores is None and 0 < source.origin.n_held_out < 12
    assert any("two that mean the same" in str(note) for note in source.notes)
    alone = inv.data.load(path, text_column="sentence2")
    assert alone.other is None and len(alone) == len(SENTENCES)
    other = inv.data.load(path, text_column="sentence2,sentence1", split="all")
    assert show_all(other.other) == SENTENCES
    scored = [f"{row},{k}" for k, row in enumerate(pairs)]
    path = write(tmp_path / "b.csv", "\n".join(["sentence1,sentence2,score", *scored]))
    source = inv.data.load(path, split="all")
    assert source.scores.tolist() == [float(k) for k in range(len(pairs))]


def test_lists_of_sentences_pairs_and_scored_pairs():
    source = inv.data.load(SENTENCES)
    assert show_all(source) == SENTENCES
    labeled = inv.data.load((SENTENCES, [k % 2 for k in range(36)]), split="all")
    assert labeled.labels.tolist() == [k % 2 for k in range(36)]
    scored = [(s, s.upper(), 0.5) for s in SENTENCES]
    source = inv.data.load(scored, split="all")
    assert show_all(source.other)[0] == SENTENCES[0].upper()
    assert source.scores.unique().tolist() == [0.5]


def test_a_part_read_with_the_kind_of_another_has_its_tokens():
    kind = inv.data.load(SENTENCES).kind
    source = inv.data.load(["other words entirely", "and more"], kind=kind)
    assert source.kind == kind


def test_the_same_sentence_is_never_in_both_parts():
    pairs = [(s, f"{s} {k}") for s in SENTENCES for k in range(3)]
    train, test = (show_all(inv.data.load(pairs, split=s)) for s in ("train", "test"))
    assert test and not {*train} & {*test}


def test_lines_that_cannot_be_read_are_left_out_and_named(tmp_path):
    lines = [b"text,label", *(f"{s},a".encode() for s in SENTENCES)]
    lines[3:3] = [b",a", b"caf\xe9,a", b"one,two,three", b"no label, "]
    source = inv.data.load(write(tmp_path / "a.csv", b"\n".join(lines)), split="all")
    assert len(source) == len(SENTENCES)
    assert source.unreadable == {
        "line 4": "an empty sentence",
        "line 5": "not UTF-8 text",
        "line 6": "3 columns instead of 2",
        "line 7": "it has no label",
    }
    assert any("4 unreadable sentences were left out" in str(n) for n in source.notes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"a.csv has no sentence|has no columns"),
        (b"id,body of\n1,x\n2,y\n", "It has id, body of: name it with --text-column"),
        (b"text\nonly one\n", "has 1 readable sentence, and contrasting sentences"),
        (b"text\n\xff\xfe\n\xff\n", "None of the 2 sentences of a.csv can be read"),
        (b"text\n" + b"a b\n" * 20 + b'""\n' * 9, "9 of the 29 sentences"),
        (b'text,x\n"a b,1\nc d,2\n', "quotation mark in line 2"),
        ("text\na b\nc d\n".encode("utf-16"), "is written in UTF-16: save it as UTF-8"),
        (
            "a b\nc d\n".encode("utf-16-le"),
            r"not UTF-8 text|name it with --text-column",
        ),
        (b"text\n" + b"a b\n" * 5, "All 5 sentences of a.csv are the same"),
        (b"sentence,sentence2,score\na,b,c\nd,e,f\n", "its score is not a number"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_sentence(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        inv.data.load(write(tmp_path / "a.csv", content), kind="text")


def test_broken_lines_of_json_cost_one_line_each(tmp_path):
    lines = [json.dumps({"text": s}) for s in SENTENCES]
    lines[2:2] = ["[1]", '{"text": ', '{"other": 1}', '{"text": 3}']
    source = inv.data.load(write(tmp_path / "a.jsonl", "\n".join(lines)))
    assert show_all(source) == SENTENCES
    reasons = list(source.unreadable.values())
    assert source.unreadable.keys() == {f"line {k}" for k in (3, 4, 5, 6)}
    assert reasons[0] == "not a JSON object" and reasons[1].startswith("not JSON")
    assert {"NoneType instead of text", "int instead of text"} < {*reasons}


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        inv.data.load(write(tmp_path / "a.parquet", "no"))
    with pytest.raises(DataError, match="is a file: expected a folder"):
        inv.data.load(write(tmp_path / "a.docx", "no"))


def test_a_column_that_is_not_there(tmp_path):
    path = write(tmp_path / "a.csv", "id,body\n1,a b\n2,c d\n")
    with pytest.raises(DataError, match=r"no column 'bdy' .* Did you mean 'body'"):
        inv.data.load(path, text_column="bdy")
    with pytest.raises(DataError, match="Sentences come one by one"):
        inv.data.load([("a", "b", 1.0, 2.0)] * 3)
    with pytest.raises(DataError, match="36 sentences and 2 labels"):
        inv.data.load((SENTENCES, [0, 1]))


def test_long_sentences_are_cut_and_that_is_said(tmp_path):
    long = [f"{k} " + "many words " * 200 for k in range(50)]
    source = inv.data.load(write(tmp_path / "a.txt", "\n".join(long)))
    assert source.shape == (128,)
    assert any("longer than 128 tokens" in str(note) for note in source.notes)


def test_the_generated_paraphrases_mean_what_they_say():
    train = inv.data.load("paraphrases", n=300)
    test = inv.data.load("paraphrases", split="test", n=300)
    assert train.kind == test.kind and train.scores is None
    assert len(train.class_names) == 10 == len(test.labels.unique())
    assert sorted(test.scores.unique().tolist()) == pytest.approx(
        [0, 0.2, 0.4, 0.6, 0.8, 1]
    )
    firsts, seconds = show_all(train), show_all(train.other)
    assert not {*firsts} & {*show_all(test)}
    assert sum(a == b for a, b in zip(firsts, seconds, strict=True)) < 5
    shorter = inv.data.load("paraphrases", n=20)
    assert show_all(shorter) == firsts[:20]
