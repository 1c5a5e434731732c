"""Rows of evaluation.jsonl: later answers replace earlier ones."""

import json

from invariance.evaluation import Score, make_row
from invariance.folder import keep_rows, read_rows


def row(value, **changes):
    settings = {"k": 20, "n_train": 50} | changes.pop("settings", {})
    score = Score("knn", value, 10, (0.1, 0.9), settings, ("A note.",))
    return make_row(score, features="raw pixels", data="shapes") | changes


def test_what_a_row_holds():
    assert json.loads(json.dumps(row(0.5))) == {
        "features": "raw pixels",
        "protocol": "knn",
        "metric": "accuracy",
        "data": "shapes",
        "value": 0.5,
        "interval": [0.1, 0.9],
        "n_test": 10,
        "seed": 0,
        "epoch": None,
        "settings": {"k": 20, "n_train": 50},
        "notes": ["A note."],
    }


def test_a_later_answer_replaces_an_earlier_one(tmp_path):
    path = tmp_path / "evaluation.jsonl"
    keep_rows(tmp_path, [row(0.1), row(0.2, seed=1)])
    kept = [row(0.3, settings={"n_train": 99}), row(0.4, data="other")]
    keep_rows(tmp_path, kept)
    assert [r["value"] for r in read_rows(path)] == [0.2, 0.3, 0.4]
    asked = row(0.5, settings={"k": 5})  # another question
    keep_rows(tmp_path, [asked])
    assert [r["value"] for r in read_rows(path)] == [0.2, 0.3, 0.4, 0.5]


def test_rows_know_the_step_of_the_trained_encoder(tmp_path):
    rows = [row(0.1), row(0.2, features="trained encoder")]
    keep_rows(tmp_path, rows, step=7)
    kept = read_rows(tmp_path / "evaluation.jsonl")
    assert [r.get("step") for r in kept] == [None, 7]


def test_broken_lines_are_passed_over(tmp_path):
    path = tmp_path / "evaluation.jsonl"
    good = json.dumps(row(0.1))
    path.write_text(f'{good}\n[1]\n\n{{"features": "x", "val')
    assert read_rows(path) == [row(0.1)]


def test_only_a_line_feed_ends_a_row(tmp_path):
    """Names may hold other signs at which Python ends a line, such as U+2028."""
    strange = "a\u2028b\x85c\x0bd"
    keep_rows(tmp_path, [row(0.5, data=strange)])
    keep_rows(tmp_path, [row(0.7, data="shapes")])
    names = [one["data"] for one in read_rows(tmp_path / "evaluation.jsonl")]
    assert names == [strange, "shapes"]
