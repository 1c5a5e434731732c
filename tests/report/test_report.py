"""One page from whatever a run folder holds: whole, safe, and never failing."""

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.made_runs import (
    DEFAULTS,
    N_READINGS,
    diagnostics,
    gallery,
    reading,
    score,
    scores,
)

from invariance.errors import InvarianceError
from invariance.report import write_report

MOST_POINTS = 400  # of one line; the other readings are not drawn
CHARTS = [
    "Loss",
    "Information",
    "Views matched, and kNN",
    "Alignment and uniformity",
    "Effective rank",
    "Spread",
    "Effective sample size",
    "Learning rate",
]  # and the speed, where somebody measured it
EVIL = "<img src=x onerror=alert(1)>\"'"


class Reader(HTMLParser):
    """Reads strictly: every element is closed, in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.found if name == tag]

    @property
    def text(self):
        return " ".join(self.words)


def lines_of(read):
    """Points of each line, by the label of its chart; raw readings are left out."""
    counts, label = {}, None
    for name, attributes in read.found:
        if name == "svg":
            label = attributes.get("aria-label", "").split(" by ")[0]
        elif name == "polyline" and attributes["class"] == "line raw":
            continue
        elif name == "polyline" and label != "Singular spectrum":
            counts.setdefault(label, []).append(len(attributes["points"].split()))
    return counts


def test_a_complete_run(page):
    read = Reader(page(DEFAULTS))
    headings = [name for name, _ in read.found if re.fullmatch("h[1-6]", name)]
    assert headings[:2] == ["h1", "h2"] and headings.count("h1") == 1
    for words in ("It learned", "raw pixels", "60.0 %", "57.0 to 63.0", "torch"):
        assert words in read.text
    assert "invariance train --config" in read.text
    assert "invariance train --epochs 4" in read.text
    assert not any("problem" in p.get("class", "") for p in read.all("p"))


def test_a_line_for_each_series_and_a_point_for_each_reading(page):
    metrics = [reading(k) for k in range(1, N_READINGS + 1)]
    metrics[9]["knn"], metrics[19]["knn"] = 0.4, 0.5
    counts = lines_of(Reader(page(metrics=metrics)))
    two = {"Views matched, and kNN": [20, 2], "Alignment and uniformity": [20, 20]}
    assert counts == {title: two.get(title, [20]) for title in CHARTS}


def test_the_ceiling_is_a_dashed_line(page):
    read = Reader(page())
    assert [x["class"] for x in read.all("line")].count("ceiling") == 1
    assert "at most log n = 4.16" in read.text


def test_every_drawing_is_described_and_its_numbers_are_finite(page):
    text = page()
    read = Reader(text)
    drawn = [svg for svg in read.all("svg") if "at epoch 4" in str(svg)]
    assert len(drawn) == len(CHARTS)
    for drawing in read.all("svg"):
        hidden = drawing.get("aria-hidden") == "true"
        assert hidden or (drawing["role"] and drawing["aria-label"])
    assert all(image["alt"] for image in read.all("img"))
    assert not re.search(r'="[^"]*\b(nan|inf)\b', text)


@pytest.mark.parametrize("value", [0.0, 1e-7, -3.0, 1e30, 5e-324])
def test_constant_and_extreme_values_are_drawn(page, value):
    text = page(metrics=[reading(k, loss=value) for k in (1, 2, 3)])
    assert lines_of(Reader(text))["Loss"] == [3]
    assert not re.search(r'="[^"]*\b(nan|inf)\b', text)


def test_one_reading_is_a_dot(page):
    assert lines_of(Reader(page(metrics=[reading(1)])))["Loss"] == [1]


def test_a_long_run_is_thinned(page):
    metrics = [reading(1, epoch=k / 1000, loss=float(k)) for k in range(5001)]
    read = Reader(page(metrics=metrics))
    (count,) = lines_of(read)["Loss"]
    assert MOST_POINTS / 2 < count <= MOST_POINTS
    # the mean over the last epoch, 4,001 to 5,000
    assert "not drawn" in read.text and "loss, epoch 5: 4,500" in read.text


def test_a_line_is_the_mean_over_an_epoch_with_the_batches_behind_it(page):
    jumps = [reading(k, loss=4.0 + 2 * (k % 2)) for k in range(1, 21)]
    flat = [reading(k, loss=5.0) for k in range(1, 21)]
    heights = {}
    for name, metrics in (("jumps", jumps), ("flat", flat)):
        text = page(name=name, metrics=metrics)
        text = text[text.index('aria-label="Loss by epoch') :]
        lines = re.findall(r'<polyline class="([\w ]+)" points="([^"]*)"', text)
        heights[name] = {
            kind: [float(point.split(",")[1]) for point in points.split()]
            for kind, points in lines[: 2 if name == "jumps" else 1]
        }
    assert set(heights["flat"]) == {"line"}  # where they are the same
    raw, mean = heights["jumps"]["line raw"], heights["jumps"]["line"]
    assert len(raw) == len(mean) == 20
    assert max(mean[5:]) - min(mean[5:]) < (max(raw) - min(raw)) / 4


def test_numbers_that_are_none_are_left_out_and_said(page):
    metrics = [reading(k) for k in range(1, 11)]
    metrics[4]["loss"] = float("nan")
    metrics[5]["loss"] = float("inf")
    metrics[6]["loss"] = None
    metrics[7]["loss"] = 10**400
    read = Reader(page(metrics=metrics))
    assert lines_of(read)["Loss"] == [6]
    assert "Left out: 4 that are not finite numbers." in read.text


def test_without_labels(page):
    read = Reader(page(evaluation=[], gallery=gallery(labels=False)))
    assert "there are no labels in these data" in read.text
    assert "It learned to tell images apart" in read.text


def test_without_evaluation(page):
    read = Reader(page(evaluation=None, config=DEFAULTS | {"evaluate": False}))
    assert "evaluation was switched off" in read.text


def test_an_unfinished_run_has_no_scores_yet(page):
    read = Reader(page(evaluation=None, finished=False))
    assert "No scores: the run is not finished." in read.text
    assert "evaluation.jsonl" not in read.text


def test_scores_of_an_unfinished_run_are_those_of_a_checkpoint(page):
    text = page(finished=False, evaluation=scores())
    assert "from a checkpoint" in text and "its newest checkpoint was scored" in text
    assert "final epoch" not in text and "The final epoch is scored" not in text


@pytest.mark.parametrize("content", [b"", b"- a\n- b\n", b"words"])
def test_a_file_of_settings_that_is_none_is_named(page, content):
    assert "config.yaml is empty or not what a run writes." in page(config=content)


def test_one_epoch_is_no_epochs(page):
    config = DEFAULTS | {"method": "simclr", "epochs": 1, "batch_size": 64}
    assert "simclr on shapes, 1 epoch, batches of 64" in page(config=config)


def test_the_line_on_top_tells_clients_and_attacks(page):
    config = DEFAULTS | {"method": "simclr", "epochs": 3, "batch_size": 64}
    clients = [{"name": str(k), "samples": 9, "batch": 9, "steps": 1} for k in (1, 2)]
    env = {"federated": {"clients": clients, "sentences": [], "labels": []}}
    text = page(config=config | {"views_adversarial": "all"}, env=env)
    assert "3 rounds of 2 clients, batches of 64, all views attacked" in text


def test_the_figures_on_top_are_no_single_batch(page):
    metrics = [reading(k, effective_rank=10.0 + k % 2) for k in range(1, 21)]
    text = page(metrics=metrics)
    assert "<b>10.4</b><small>directions per batch</small>" in text  # 2 of 5 are 11
    rank = {"name": "effective rank", "of": "z", "value": 12.9, "meaning": "So many."}
    text = page(name="read", metrics=metrics, diagnostics={"readings": [rank]})
    assert "<b>12.9</b><small>directions the projections use</small>" in text


def test_half_a_line_of_metrics(page):
    whole = json.dumps(reading(1)).encode() + b"\n"
    half = whole + json.dumps(reading(2)).encode() + b'\n{"step": 3, "lo\xc3'
    read = Reader(page(metrics=half, finished=False))
    assert lines_of(read)["Loss"] == [2]
    assert "1 line half written or broken" in read.text


@pytest.mark.parametrize(
    "file", ["config", "env", "metrics", "evaluation", "diagnostics", "gallery"]
)
@pytest.mark.parametrize(
    "content",
    [None, b"", b"{", b"[1, {", b"7", b"\xff\xfe", b'{"a": [}', b"[" * 9999, b'["a"]'],
)
def test_any_file_may_be_missing_or_broken(page, file, content):
    read = Reader(page(DEFAULTS, **{file: content}))
    if (file, content) == ("evaluation", b""):
        assert "No scores" in read.text
    else:
        said = rf"{file}\.\w+(:| is) (missing|half|1 line|empty)"
        assert re.search(said, read.text)


def test_an_empty_folder_but_for_one_file(page):
    nothing = dict.fromkeys(("config", "metrics", "evaluation", "diagnostics"))
    read = Reader(page(env={"python": "3.11"}, gallery=None, **nothing))
    for words in ("No map", "No scores", "No diagnostics", "No views", "no readings"):
        assert words in read.text


def test_scores_with_holes(page):
    rows = scores()
    rows[0]["value"] = None
    rows[1]["interval"] = ["a", None]
    del rows[2]["features"]
    rows[3]["settings"] = 7
    read = Reader(page(evaluation=rows))
    assert "?" in read.text and "1 line half written" in read.text


def test_whatever_is_in_the_files_is_shown_as_text(page):
    rows = scores()
    rows[0] |= {"features": EVIL, "notes": [EVIL]}
    rows[1] |= {"protocol": EVIL, "metric": EVIL, "data": EVIL}
    found = diagnostics()
    found["readings"][0] |= dict.fromkeys(("name", "unit", "meaning"), EVIL)
    pictures = gallery(names=[EVIL] * 30) | {"class_names": [EVIL] * 3, "source": EVIL}
    text = page(
        {"data": EVIL, EVIL: 1},
        name=EVIL.replace("/", ""),
        config={"data": EVIL, EVIL: EVIL, "epochs": EVIL, "a": {EVIL: [EVIL]}},
        env={"command": EVIL, EVIL: EVIL},
        evaluation=rows,
        diagnostics=found,
        gallery=pictures,
        finished=False,
    )
    read = Reader(text)
    assert len(read.all("img")) == 1 and len(read.all("script")) == 2
    assert not any("onerror" in attributes for _, attributes in read.found)
    assert "<img src=x" not in text and read.text.count(EVIL) >= 20


def test_nothing_is_loaded_from_anywhere(page):
    address = "https://example.org/x"
    text = page(config={"data": address}, env={"command": address})
    read = Reader(text)
    loads = {"src", "href", "srcset", "data", "action", "xlink:href"}
    for _, attributes in read.found:
        for name in loads & set(attributes):
            assert attributes[name].startswith(("#", "data:image/"))
        assert "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style
    policies = [m["content"] for m in read.all("meta") if "http-equiv" in m]
    assert "default-src 'none'" in policies[0] and "unsafe" not in policies[0]


def test_settings_asked_for_come_first_then_those_chosen_then_the_rest(page):
    config = {"data": "shapes", "epochs": 4, "seed": 7, "optim": {"lr": 0.5}}
    config |= {"encoder": "auto", "batch_size": None, "head": None}
    usual = DEFAULTS | {"encoder": "auto", "batch_size": None, "head": None}
    text = page(usual, config=config, env={"used": USED})
    text = text[text.index('id="settings"') : text.index('id="environment"')]
    rows = re.findall(
        r'"row">([\w.]+)</th><td>([^<]*)</td><td>(?:<mark>)?([^<]*)', text
    )
    asked = {
        ("epochs", "4", "asked for, not 20"),
        ("seed", "7", "asked for, not 0"),
        ("optim.lr", "0.5", "asked for"),
    }
    chosen = {("encoder", "tiny", "chosen"), ("batch_size", "64", "chosen")}
    rest = {("data", "shapes", "the default"), ("head", "not set", "the default")}
    assert [set(rows[:3]), set(rows[3:5]), set(rows[5:])] == [asked, chosen, rest]


USED = {"encoder": "tiny", "temperature": 0.5, "optim.lr": 0.004, "batch_size": 64}
ENV = {
    "used": USED | {"machine.precision": "bf16"},
    "parameters": 656856,
    "peak_rate": 0.0028284,
    "images": {"n_train": 600, "n_held_out": 60, "own_test": False, "n_classes": 10},
    "started": "2026-11-16 03:32",
    "device": "cuda:0",
    "gpu": "NVIDIA H200",
    "invariance": "0.1.0",
    "packages": {"torch": "2.9"},
}


def facts_of(text):
    """What is said at a glance: name, value, and what is below it."""
    text = text[text.index('<dl class="facts">') :]
    text = text[: text.index("</dl>")]
    facts = re.findall(r"<dt>(.*?)</dt><dd>(.*?)<small>(.*?)</small>", text)
    return {name: (value, below) for name, value, below in facts}


def test_the_page_says_what_learned_from_what_where_and_how_long(page):
    metrics = [
        reading(k, **{"time/images_per_second": 64.0} if k > 1 else {})
        for k in range(1, 91)
    ]
    config = {"data": "shapes", "epochs": 4, "batch_size": 64, "encoder": "auto"}
    config |= {"temperature": None, "optim": {"name": "adamw", "lr": None}}
    config |= {"machine": {"devices": 2, "nodes": 1}}
    facts = facts_of(page(env=ENV, config=config, metrics=metrics))
    assert facts == {
        "data": ("shapes", "10 classes"),
        "images": ("600 to train on", "60 held out"),
        "encoder": ("tiny", "656,856 parameters with the head"),
        "batch": ("64", ""),
        "epochs": ("4", "90 steps"),
        "temperature": ("0.5", "chosen"),
        "learning rate": ("up to 0.00283", "adamw"),
        "device": ("NVIDIA H200", "bfloat16, 2 processes"),
        "started": ("2026-11-16 03:32", "1 min 30 s of training"),
        "version": ("invariance 0.1.0", "PyTorch 2.9"),
    }


def test_an_older_run_says_what_it_knows(page):
    facts = facts_of(page())
    assert facts["data"] == ("shapes", "3 classes")  # as its gallery has it
    assert facts["batch"] == ("64", "") and facts["epochs"] == ("4", "20 steps")
    assert not {"encoder", "images", "temperature", "started", "device"} & set(facts)


def test_an_unfinished_run_says_how_far_it_got_everywhere(page):
    config = DEFAULTS | {"method": "simclr", "epochs": 20, "batch_size": 64}
    env = {"n_steps": 920}
    text = page(config=config, env=env, finished=False, evaluation=None)
    reached = "step 20 of 920, epoch 4 of 20"
    assert facts_of(text)["reached"] == (reached, "unfinished")
    assert f"batches of 64; unfinished, {reached}</p>" in text
    assert (
        f"The last reading is at {reached}. If it is no longer running, it can "
        "continue from its last checkpoint.</span><code>invariance train --resume"
    ) in text


@pytest.mark.parametrize("odd", ["words", 3, [1], {"a": {"b": 1}}])
def test_an_environment_of_anything_is_read(page, odd):
    env = dict.fromkeys([*ENV, "format", "command"], odd)
    env["format"] = 1
    assert "It learned" in page(env=env)


def test_defaults_that_are_kept_or_not_known(page, made):
    kept = write_report(made(name="b", config=DEFAULTS), DEFAULTS).read_text()
    assert "No setting was changed from its default." in kept and "<mark>" not in kept
    assert "<mark>" not in page(config=DEFAULTS | {"seed": 7})


def test_settings_cut_short_are_said(page):
    text = page(DEFAULTS, config=b"data: shapes\nepochs: 4\n")
    assert "Not in config.yaml: seed, optim." in text


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_a_name_that_no_encoding_can_write(made):
    folder = made(name="caf\udce9")
    assert b"caf?" in write_report(folder).read_bytes()


def test_it_can_be_made_again(made):
    folder = made()
    first = write_report(folder)
    before = first.read_bytes()
    assert write_report(str(folder)) == first == folder / "report.html"
    assert first.read_bytes() == before and not list(folder.glob("*.part"))


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(InvarianceError, match=r"no run in .*config\.yaml"):
        write_report(tmp_path)
    with pytest.raises(InvarianceError, match="no folder"):
        write_report(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(made):
    folder = made()
    (folder / "report.html").mkdir()
    with pytest.raises(InvarianceError, match="Could not write"):
        write_report(folder)
    assert not list(folder.glob("*.part"))


def test_readings_of_h_and_z_stand_side_by_side(page):
    found = diagnostics()
    first = found["readings"][0]
    found["readings"] += [first | {"of": "z", "value": -1.5, "meaning": "Of z."}]
    found["readings"] += [
        first
        | {"name": "noise", "of": "z", "value": n / 1000}
        | {"objective": name, "batch_size": n}
        for name in ("dcl", "kcl")
        for n in (16, 64)
    ]
    read = Reader(page(diagnostics=found))
    for words in ("−2.3 nats", "−1.5 nats", "ideal −3.9", "Of z.", "batches of 64"):
        assert words in read.text
    assert read.words.count("0.016") == 2 and "kcl" in read.words


@pytest.mark.parametrize(
    "found",
    [
        {"readings": 7, "spectrum": [1], "similarities": {"edges": [1, 0]}},
        {"readings": [None, {}], "spectrum": {"h": ["a"]}, "similarities": None},
        {"similarities": {"edges": [0, 1], "positive": [-1.0], "negative": [0, 0]}},
    ],
)
def test_diagnostics_that_make_no_sense(page, found):
    read = Reader(page(diagnostics=found))
    assert not read.all("polygon") and "Singular" not in read.text


def test_the_spectrum_and_the_similarities_are_drawn(page):
    read = Reader(page())
    labels = " ".join(svg.get("aria-label", "") for svg in read.all("svg"))
    assert "Singular spectrum by direction" in labels and "lowest 0.1," in labels
    assert (
        "Mean cosine of two views of one sample 0.62 and of two samples −0.12" in labels
    )
    kinds = [polygon["class"] for polygon in read.all("polygon")]
    assert kinds == ["area negative", "area positive"]


@pytest.mark.parametrize(
    "change",
    [
        {"count": 7},
        {"labels": [0]},
        {"neighbours": [[99]] * 6},
        {"map": [[0, float("nan")]] * 6},
        {"columns": 0},
        {"scores": [[0.5]] * 6},
        {"names": None},
        {"clusters": ["a"] * 6},
    ],
)
def test_a_gallery_that_contradicts_itself_is_not_shown(made, change):
    folder = made()
    path = folder / "gallery/gallery.json"
    path.write_text(json.dumps(gallery(6) | change))
    text = write_report(folder).read_text(encoding="utf-8")
    assert "gallery.json is half written or broken" in text and "<circle" in text
    assert 'id="plane"' not in text


def few_labels(*values):
    few = {"share": 0.01, "n_labels": 60}
    return [
        score("trained encoder", value, "few_labels_linear", settings=few | {"draw": k})
        for k, value in enumerate(values)
    ]


def test_draws_on_the_page(page):
    read = Reader(page(evaluation=scores() + few_labels(0.5, 0.6, 0.7)))
    assert "60.0 %" in read.text and "± 10.0, 3 draws" in read.text
    assert "60 labels (1 %)" in read.text
    assert "standard deviation over draws or seeds" in read.text


def test_gaps_in_the_table_are_said(page):
    rows = [score("best epoch", 0.7), *scores(), score("my own", 0.1, "knn")]
    text = page(evaluation=rows)
    assert text.count('aria-label="not measured"') == 2
    assert "was not chosen by its score" not in text
    assert "was not chosen by its score" in page(name="b")


def test_scores_that_are_no_shares(page):
    rows = [*scores(), score("trained encoder", 0.842, "clustering", metric="nmi")]
    read = Reader(page(evaluation=rows))
    assert "0.842" in read.text and "NMI" in read.text


def test_the_number_beside_a_line_is_no_single_batch(page):
    metrics = [reading(k, accuracy=0.9 if k == 20 else 0.1) for k in range(1, 21)]
    text = page(metrics=metrics)
    labels = re.findall(r'<text class="last s0"[^>]*>([^<]*)</text>', text)
    assert "26.0 %" in labels and "90.0 %" not in labels  # 4 of 5 are 10 %
    assert "0.001" in labels  # the rate ends where it ends


def test_a_healthy_effective_sample_size_is_the_same_everywhere(made):
    explained = (Path(__file__).parents[2] / "docs" / "report.md").read_text("utf-8")
    row = next(x for x in explained.splitlines() if "chart **Effective sample" in x)
    low, high = (float(x) for x in row.split("|")[3].split(" to "))
    page = write_report(made()).read_text("utf-8")
    assert f"healthy from {100 * low:.0f} to {100 * high:.0f} %" in page
