"""Several runs on one page."""

import itertools
import json
import re

import pytest
from tests.made_runs import DEFAULTS, gallery, reading, scores

from invariance.errors import InvarianceError
from invariance.report import write_comparison

from .test_report import EVIL, Reader, lines_of

CONFIG = DEFAULTS | {"method": "simclr", "epochs": 4, "batch_size": 64}


@pytest.fixture
def compared(made):
    """The page of runs, each given as changes of the made-up one."""

    def compare(**runs):
        folders = [made(name=name, **changes) for name, changes in runs.items()]
        return Reader(write_comparison(folders).read_text(encoding="utf-8"))

    return compare


def test_curves_lie_over_each_other(compared):
    read = compared(a={}, b={"metrics": None}, c={})
    assert lines_of(read)["Loss"] == [20, 20]
    lines = [x for x in read.all("g") if x.get("data-run")][:2]
    assert [x["class"] for x in lines] == ["s0", "s2"]  # the one in between has its own


def test_every_curve_has_its_own_caption(compared):
    knn = [reading(k, knn=0.5) for k in range(1, 5)]
    text = compared(a={"metrics": knn}, b={"metrics": knn}).text
    for caption in (
        "Views matched How often a view finds its partner in the batch.",
        "kNN accuracy By the labels, among training samples.",
        "Alignment Lower is better: views of one sample close together.",
        "Uniformity Lower is better: samples spread out.",
    ):
        assert caption in " ".join(text.split())


def test_labels_stand_apart_beside_all_lines(compared):
    runs = {name: {} for name in "abcdef"}  # all end in the same place
    runs["g"] = {"metrics": [reading(k) for k in range(1, 9)]}  # and one before
    read = compared(**runs)
    labels = [x for x in read.all("text") if x.get("class", "").startswith("last")]
    of_loss = labels[:7]
    assert len({label["x"] for label in of_loss}) == 1
    heights = sorted(float(label["y"]) for label in of_loss)
    assert all(b - a >= 12.9 for a, b in itertools.pairwise(heights))
    assert heights[0] > 0 and heights[-1] < 180
    many = compared(**{f"run{k}": {} for k in range(14)})
    assert not [x for x in many.all("text") if "last" in x.get("class", "")]


def test_an_unfinished_run_says_how_to_go_on(compared):
    text = " ".join(compared(a={}, b={"finished": False}).text.split())
    assert "The last reading is at step 20, epoch 4 of 4." in text
    assert re.search("last checkpoint. invariance train --resume .*/b", text)
    assert "4 of 4 unfinished" in text


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (0.7, "b ahead of a by 10.0 points, more than the margin"),
        (0.61, "b ahead of a by 1.0 points, which is within the margin"),
        (0.6, "a and b level"),
    ],
)
def test_it_says_which_run_is_ahead(compared, second, words):
    read = compared(a={}, b={"evaluation": scores(trained=second)})
    assert f"The linear probe puts {words}" in read.text


def test_scores_on_different_data_are_not_compared(compared):
    other = [row | {"data": "cifar10"} for row in scores()]
    read = compared(a={}, b={"evaluation": other})
    assert "no score says which is better" in read.text


@pytest.mark.parametrize("parent", ["", "photos"])
def test_other_data_of_the_same_name_are_not_compared(compared, parent):
    rows = {
        name: [
            row | {"data": "train", "fingerprint": mark, "parent": parent}
            for row in scores(trained=value)
        ]
        for name, mark, value in (("a", "5e0001", 0.6), ("b", "a70002", 0.9))
    }
    read = compared(a={"evaluation": rows["a"]}, b={"evaluation": rows["b"]})
    assert "no score says which is better" in read.text
    assert "on train (a70002)" in read.text


def test_the_same_data_are_compared_whatever_else_was_scored(compared):
    own = {"data": "train", "fingerprint": "5e0001"}
    more = {"data": "train", "fingerprint": "a70002"}
    first = [row | own for row in scores()]
    second = [row | own for row in scores(trained=0.7)] + [r | more for r in scores()]
    images = {"images": own}
    read = compared(
        a={"evaluation": first, "env": images}, b={"evaluation": second, "env": images}
    )
    assert "The linear probe puts b ahead of a by 10.0 points" in read.text


def test_only_settings_that_differ_are_shown(compared):
    read = compared(a={"config": CONFIG}, b={"config": CONFIG | {"method": "dcl"}})
    assert "simclr" in read.words and "dcl" in read.words
    assert "batch_size" not in read.words and "mean over seeds" not in read.words
    assert "They ran in the same environment." in read.words


def test_settings_left_open_are_compared_by_what_they_came_to(compared):
    used = {"temperature": 0.5, "batch_size": 64}
    env = {"used": used, "started": "2026-11-16 03:32", "command": "invariance train"}
    later = env | {"started": "2026-11-17 03:32", "used": used | {"batch_size": 32}}
    read = compared(
        a={"config": CONFIG | {"temperature": None, "batch_size": None}, "env": env},
        b={"config": CONFIG | {"temperature": 0.5, "batch_size": 32}, "env": later},
    )
    assert "temperature" not in read.words and "batch_size" in read.words
    assert "They ran in the same environment." in read.words


def test_runs_that_differ_in_their_seed_have_a_mean(compared):
    runs = {
        name: {"config": CONFIG | {"seed": k}, "evaluation": scores(trained=value)}
        for k, (name, value) in enumerate({"a": 0.5, "b": 0.6, "c": 0.7}.items())
    }
    read = compared(**runs, d={"config": CONFIG | {"method": "dcl"}})
    assert "mean over seeds" in read.words and "a, b and c" in read.words
    assert "60.0 %" in read.words and "± 10.0, 3 runs" in read.words
    assert "same seed" not in read.text


def test_seeds_of_an_older_version_count_as_seeds(made):
    new = CONFIG | {
        "seed": 1,
        "hold_out": "auto",
        "optim": {"lr": None, "decay": "auto"},
    }
    env = {"format": 4, "used": {"optim.lr": 0.004, "optim.decay": "matrices"}}
    folders = [
        made(name="old", config=CONFIG, env={"format": 2}),
        made(name="new", config=new, env=env | {"images": {"n_held_out": 100}}),
    ]
    read = Reader(write_comparison(folders, defaults=new).read_text(encoding="utf-8"))
    assert "mean over seeds" in read.words and "old and new" in read.words
    assert "hold_out" not in read.words and "optim.decay" not in read.words
    folders[1] = made(name="all", config=new, env=env | {"images": {"n_held_out": 0}})
    read = Reader(write_comparison(folders, defaults=new).read_text(encoding="utf-8"))
    assert "mean over seeds" not in read.words and "hold_out" in read.words


def seeds(**runs):
    """Runs of one setting: of each its seed and what its trained encoder scored."""
    return {
        name: {
            "config": CONFIG | {"seed": seed},
            "evaluation": None if value is None else scores(trained=value),
        }
        for name, (seed, value) in runs.items()
    }


def test_a_mean_over_runs_of_one_seed_says_so(compared):
    text = compared(**seeds(a=(0, 0.5), b=(0, 0.5), c=(1, 0.6))).text
    assert "a and b have the same seed" in text


def test_a_mean_is_shown_where_there_are_several_values(compared):
    read = compared(**seeds(a=(0, 0.5), b=(1, 0.6), c=(2, None)))
    assert "a, b and c" in read.words and "± 7.1, 2 runs" in read.words


@pytest.mark.parametrize("value", [None, 0.5])
def test_a_mean_of_less_than_two_values_has_no_column(compared, value):
    dcl = {"config": CONFIG | {"method": "dcl"}}
    read = compared(**seeds(a=(0, value), b=(1, None)), other=dcl)
    assert "mean over seeds" not in read.text


def test_curves_reach_as_far_as_any_run_has_come(compared):
    planned = {"config": CONFIG | {"epochs": 200}, "finished": False}
    lines = compared(a={}, b=planned).all("polyline")
    assert lines
    last = [float(line["points"].split()[-1].split(",")[0]) for line in lines]
    assert min(last) > 300  # of 360, with room for the labels


def test_a_run_without_labels_misses_no_scores(compared):
    bare = {"evaluation": None, "gallery": gallery(6, labels=False)}
    text = compared(a={}, b=bare).text
    assert "there are no labels in these data" in text
    assert "evaluation.jsonl is missing" not in text


def test_kept_epochs_have_a_chart_per_reading(made):
    folders = [made(name=name) for name in "ab"]
    kept = [{"epoch": k, "knn": 0.5, "pool_nats": 2.0} for k in (1, 2)]
    for folder in folders:
        text = "".join(json.dumps(row) + "\n" for row in kept)
        (folder / "kept.jsonl").write_text(text)
    text = Reader(write_comparison(folders).read_text(encoding="utf-8")).text
    assert "Held-out kNN of kept epochs" in text
    assert "Information of kept epochs, by the pool" in text


def test_the_table_of_runs_says_what_each_is_and_came_to(compared):
    read = compared(
        a={"evaluation": scores(trained=0.7)},
        b={"evaluation": None, "finished": False, "gallery": None},
    )
    values = [td["data-value"] for td in read.all("td") if "data-value" in td]
    assert "0.7" in values and "It learned" in values and "Unfinished" in values
    heads = read.words[read.words.index("run") :][:6]
    assert heads == ["run", "verdict", "linear probe", "kNN", "nats shared", "rank"]
    assert "64" in read.words and "training" not in heads  # nobody timed them


def test_pictures_that_runs_share_are_in_the_page_once(made):
    folders = [made(name=name) for name in "abc"]
    other = gallery(6) | {"columns": 3}
    folders.append(made(name="d", gallery=other))
    text = write_comparison(folders).read_text(encoding="utf-8")
    assert text.count("data:image/jpeg;base64,") == 2
    assert text.count('id="gallery"') == 4 and text.count("<template") == 3
    read = Reader(text)
    assert [x["value"] for x in read.all("option")] == ["0", "1", "2", "3"]
    assert "Of a:" in read.text  # for who has no script


def test_maps_that_would_make_the_page_too_large_are_named(made, monkeypatch):
    folders = [made(name=name) for name in "abc"]
    one = len(write_comparison(folders[:2]).read_text(encoding="utf-8"))
    monkeypatch.setattr("invariance.report._maps.MOST", one // 10)
    text = write_comparison(folders).read_text(encoding="utf-8")
    assert text.count('id="gallery"') == 1
    assert "since this page would become too large: the maps of b and c." in text


def test_a_run_without_pictures_has_no_map_and_says_so(compared):
    read = compared(a={"gallery": None}, b={}, c={"gallery": None, "finished": False})
    assert [x["value"] for x in read.all("option")] == ["1"]
    assert "a: no map, gallery/ is missing or broken." in read.text
    assert "c: no map, the run is not finished." in read.text


def test_runs_with_little_to_say(compared):
    nothing = dict.fromkeys(("config", "metrics", "evaluation", "gallery"))
    read = compared(a=nothing, b=nothing | {"finished": False})
    assert "There are no scores to compare." in read.text
    assert "There are no readings to draw." in read.text


def test_names_are_text(made):
    folders = [made(name=EVIL), made(name="b")]
    text = write_comparison(folders).read_text(encoding="utf-8")
    assert "<img" not in text and EVIL in Reader(text).text


def test_runs_of_one_name_are_told_apart(made, tmp_path):
    first = made()
    (tmp_path / "more").mkdir()
    second = made(name="more/run")
    path = write_comparison([first, second])
    assert path.parent == tmp_path and path.name.endswith("-vs-more-run.html")


def test_many_long_names_make_a_short_one(made):
    folders = [made(name=letter * 60) for letter in "abc"]
    path = write_comparison(folders)
    assert path.name.startswith("comparison-of-3-") and len(path.name) < 40
    assert write_comparison(folders) == path


def test_one_run_is_no_comparison(made):
    folder = made()
    with pytest.raises(InvarianceError, match="two different runs"):
        write_comparison([folder, folder])
