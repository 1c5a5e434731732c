"""Runs scored beside their baselines, from Python and from the command line."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import invariance as inv
from invariance.encoders import write_encoder
from invariance.errors import DataError, SettingError
from invariance.evaluation import Evaluation
from invariance.folder import read_record, read_rows, read_verdict
from invariance.runs import open_run, untrained_encoder
from invariance.training import make_plan

KINDS = ["raw pixels", "untrained encoder", "trained encoder", "best epoch"]
QUICK = ("--protocols", "knn")


def test_the_table_and_the_file(run, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    before = read_rows(run / "evaluation.jsonl")
    code, said, complained = command("evaluate", run)
    assert code == 0, complained
    head, *body = said.splitlines()
    assert re.split(r"  +", head)[:4] == ["pictures.npz", *KINDS[:3]]
    assert re.fullmatch(r"best epoch \([123]\)", re.split(r"  +", head)[4])
    rows = read_rows(run / "evaluation.jsonl")
    few = [r for r in rows if r["protocol"] == "few_labels_linear"]
    n_labels = [r["settings"]["n_labels"] for r in few]
    names = [re.split(r"  +", line)[0] for line in body]
    assert names[:4] == [
        "kNN, k = 20, T = 0.1",
        "linear probe",
        f"linear probe, {min(n_labels)} labels (1 %)",
        f"linear probe, {max(n_labels)} labels (10 %)",
    ]
    recalls = {f"retrieval, recall@{k}" for k in (1, 5, 10)}
    assert recalls | {"retrieval, MAP"} <= set(names)
    assert f"scores: {run}/evaluation.jsonl" in said
    assert "invariance report" in said.splitlines()[-1]
    assert list(dict.fromkeys(row["features"] for row in rows)) == KINDS
    linear = [r for r in rows if r["protocol"] == "linear" and r["seed"] == 0]
    old = [r for r in before if r["protocol"] == "linear"]
    assert [r["value"] for r in linear] == [r["value"] for r in old]  # replaced, equal
    assert rows == before  # training ended with the same evaluation
    assert len(linear) == len(KINDS)
    assert {r["settings"]["share"] for r in few} == {0.01, 0.1}
    assert {r["settings"]["draw"] for r in few} == {0, 1, 2}
    for r in rows:
        more = {"trained encoder": {"step"}, "raw pixels": {"plain"}}
        assert set(r) == more.get(r["features"], set()) | {
            *("features", "protocol", "metric", "data", "fingerprint", "parent"),
            *("value", "interval", "n_test", "seed", "epoch", "settings", "notes"),
        }


def test_progress_names_protocols_as_the_table_does(run, command):
    _, _, lines = command("evaluate", run, "--protocols", "few_labels_linear", "knn")
    n_labels = next(
        row["settings"]["n_labels"]
        for row in read_rows(run / "evaluation.jsonl")
        if row["protocol"] == "few_labels_linear"
    )
    for k in range(3):
        assert f"trained encoder: linear probe ({n_labels} labels, draw {k}) " in lines
    assert "raw pixels: kNN " in lines
    assert "few_labels" not in lines and "knn" not in lines


def test_a_run_that_cannot_be_scored_is_refused_before_others_are_scored(
    run, command, tmp_path
):
    other = shutil.copytree(run, tmp_path / "other")
    about = json.loads((other / "env.json").read_text())
    about["data"] = "given in Python"
    (other / "env.json").write_text(json.dumps(about))
    code, said, complained = command("evaluate", run, other, *QUICK)
    assert (code, said) == (2, "")
    assert "other was trained on an object given in Python" in complained
    assert "raw pixels" not in complained


def test_several_runs_give_mean_and_spread(run, command, tmp_path):
    other = shutil.copytree(run, tmp_path / "other")
    encoder = inv.load(run)
    for weight in encoder.parameters():
        nn.init.normal_(weight, std=0.3)
    write_encoder(encoder, other / "encoder.safetensors")
    (other / "encoder-best.safetensors").unlink()
    code, said, _ = command("evaluate", run, other, *QUICK, "--json")
    assert code == 0
    rows = [json.loads(line) for line in said.splitlines()]
    pixels = [row for row in rows if row.get("features") == "raw pixels"]
    assert [row["run"] for row in pixels] == [str(run), str(other)]
    assert pixels[0]["value"] == pixels[1]["value"]
    rows = [row for row in rows if row.get("features") == "trained encoder"]
    assert [row["run"] for row in rows] == [str(run), str(other)]
    a, b = (row["value"] for row in rows)
    code, said, _ = command("evaluate", run, other, *QUICK)
    mean, spread = 50 * (a + b), 100 * abs(a - b) / 2**0.5
    assert f"{mean:.1f} ± {spread:.1f}" in said
    assert "standard deviation over 2 runs" in said


def test_fewer_images_answer_another_question(run):
    whole = inv.evaluate(run, protocols=["knn"])
    part = inv.evaluate(run, protocols=["knn"], limit=40)
    kept = [
        r
        for r in read_rows(run / "evaluation.jsonl")
        if (r["protocol"], r["features"]) == ("knn", "trained encoder")
    ]
    assert [r["settings"].get("limit") for r in kept] == [None, 40]
    assert [r["value"] for r in kept] == whole.values("knn") + part.values("knn")
    assert kept[1]["settings"]["n_train"] == 40


def test_seeds_repeat_what_draws_at_random(run):
    found = inv.evaluate(run, protocols=["knn", "clustering"], seeds=3)
    assert len(found.values("knn")) == 1
    assert len(found.values("clustering")) == 3
    assert len(found.values("clustering", metric="ari")) == 3
    assert "±" in str(found)


def test_every_protocol_that_trains_and_the_twin(run):
    found = inv.evaluate(
        run,
        protocols=["linear_sgd", "fine_tune", "few_labels_fine_tune"],
        settings={
            "fine_tune": {"epochs": 1, "min_steps": 2},
            "linear_sgd": {"epochs": 1},
        },
        supervised=True,
        limit=120,
    )
    kinds = {row["features"] for row in found.rows}
    assert kinds == {*KINDS[1:], "supervised twin"}  # pixels have nothing to train
    assert all(0 <= row["value"] <= 1 for row in found.rows)
    assert all(
        row["settings"]["n_train"] == 120
        for row in found.rows
        if row["protocol"] in ("linear_sgd", "fine_tune")
    )
    (twin,) = found.values("supervised", "supervised twin")
    assert twin > 0.8  # a glance tells the classes apart
    assert len(found.values("few_labels_fine_tune")) == 6
    assert "supervised" in str(found)


def test_the_untrained_encoder_is_the_one_training_began_with(run):
    there = open_run(run)
    begun, why, _ = untrained_encoder(there)
    plan = make_plan(there.settings)
    assert why == "" and begun is not None
    theirs = plan.untrained.state_dict()
    assert begun.state_dict().keys() == theirs.keys()
    assert all(torch.equal(v, theirs[k]) for k, v in begun.state_dict().items())


def test_asking_leaves_the_generators_alone(run):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    untrained_encoder(open_run(run))
    assert torch.equal(before, torch.get_rng_state())


def test_raw_pixels_and_the_encoder_are_scored_as_by_hand(run, pictures):
    from invariance.data import load
    from invariance.evaluation import knn, raw_pixels

    images = pictures(240)
    parts = [load(images, split=split) for split in ("train", "test")]
    truth = [p.labels for p in parts]
    found = inv.evaluate(run, protocols=["knn"])
    h = [raw_pixels(p.samples) for p in parts]
    mine = knn(h[0], truth[0], h[1], truth[1])
    assert found.values("knn", "raw pixels") == [mine.value]
    encoder = inv.load(run)
    with torch.no_grad():
        h = [encoder(p.samples.float() / 255) for p in parts]
    mine = knn(h[0], truth[0], h[1], truth[1])
    assert found.values("knn") == [mine.value]


# ------------------------------------------------------- settings and metrics


def test_more_than_five_classes_have_a_top5(run, command, pictures, tmp_path):
    images, labels = pictures(160, n_classes=8)
    np.savez(tmp_path / "eight.npz", images=images, labels=labels)
    words = ("--data", "eight.npz", "--protocols", "knn", "linear", "--json")
    code, said, complained = command("evaluate", run, *words)
    assert code == 0, complained
    rows = [json.loads(line) for line in said.splitlines() if '"value"' in line]
    pairs = [rows[i : i + 2] for i in range(0, len(rows), 2)]
    assert len(pairs) == 2 * len(KINDS)
    for first, second in pairs:
        assert (first["metric"], second["metric"]) == ("accuracy", "top5")
        assert first["value"] <= second["value"] and len(second["interval"]) == 2
        assert first["settings"] == second["settings"]
    code, said, _ = command("evaluate", run, *words[:-1])
    assert "kNN, top-5, k = 20" in said and "linear probe, top-5" in said
    own = [r for r in read_rows(run / "evaluation.jsonl") if r["data"] != "eight.npz"]
    assert {r["metric"] for r in own} >= {"accuracy", "nmi"} and "top5" not in {
        r["metric"] for r in own
    }


def test_several_classes_per_image(run, command, pictures, tmp_path):
    images, labels = pictures(120)
    tags = np.stack([labels == 0, labels < 2, labels > 1], 1)
    np.savez(tmp_path / "tags.npz", images=images, labels=tags)
    code, said, complained = command("evaluate", run, "--data", "tags.npz")
    assert code == 0, complained
    lines = [line for line in said.splitlines() if ", MAP" in line]
    assert [re.split(r"  +", line)[0] for line in lines] == [
        *("kNN, MAP, k = 20, T = 0.1", "kNN, MAP of 11 points, k = 20, T = 0.1"),
        *("linear probe, MAP", "linear probe, MAP of 11 points"),
    ]
    before = (run / "evaluation.jsonl").read_bytes()
    words = ("--data", "tags.npz", "--protocols", "clustering")
    code, said, complained = command("evaluate", run, *words)
    assert code == 2 and said == ""
    assert "clustering needs one class per image, and images of tags.npz" in complained
    assert (run / "evaluation.jsonl").read_bytes() == before


def test_a_preset_stands_beside_the_usual_scores(run, command, tmp_path):
    usual = inv.evaluate(run, protocols="knn")
    code, said, complained = command("evaluate", run, "--preset", "instance_knn")
    assert code == 0, complained
    assert "kNN, k = 200, T = 0.07, as instance_knn" in said
    code, said, _ = command("evaluate", run, "--protocols", "knn", "--knn.k", "5")
    assert code == 0 and "kNN, k = 5, T = 0.1" in said
    rows = [
        r
        for r in read_rows(run / "evaluation.jsonl")
        if (r["protocol"], r["features"]) == ("knn", "trained encoder")
    ]
    assert [r.get("preset") for r in rows] == [None, "instance_knn", None]
    assert [r.get("changed") for r in rows] == [None, None, {"k": 5}]
    assert (
        rows[1]["settings"]["k"] == 200 and rows[1]["settings"]["temperature"] == 0.07
    )
    assert rows[0]["value"] == usual.values("knn")[0]
    code, said, _ = command("list", "runs", "--out", tmp_path)
    assert f" {100 * rows[0]['value']:.1f}" in said


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("--fine-tune.epochs", "3"), "fine_tune would have no effect on the quick"),
        (("--preset", "moco"), "Unknown preset 'moco'. Did you mean 'moco_linear'?"),
        (
            ("--preset", "moco_linear", "--protocols", "knn"),
            "The preset moco_linear is made of linear_sgd",
        ),
        (("--protocols", "knn", "--knn.k", "0"), "knn.k is 1 or more: got 0"),
    ],
)
def test_settings_without_effect_are_refused(run, command, words, sentence):
    before = (run / "evaluation.jsonl").read_bytes()
    code, said, complained = command("evaluate", run, *words)
    assert (code, said) == (2, "") and sentence in complained
    assert (run / "evaluation.jsonl").read_bytes() == before


# ------------------------------------------------------------- other data


def test_other_classes_sizes_and_channels(run, command, pictures, tmp_path):
    images, labels = pictures(90, seed=1, size=20, n_classes=3)
    grey = images[..., 0]
    np.savez(tmp_path / "grey.npz", images=grey, labels=labels)
    code, said, complained = command("evaluate", run, "--data", "grey.npz", *QUICK)
    assert code == 0, complained
    assert "grey.npz" in said.splitlines()[0]
    assert (
        "note: Images of grey.npz were resized and given three equal channels: "
        "1x20x20, the encoder takes 3x16x16." in said
    )
    assert {"pictures.npz", "grey.npz"} == {
        row["data"] for row in read_rows(run / "evaluation.jsonl")
    }


def test_a_class_of_the_test_part_alone_is_said(run, tmp_path, command):
    for part, name in (
        ("train", "a"),
        ("train", "b"),
        ("test", "a"),
        ("test", "c"),
    ):
        folder = tmp_path / "set" / part / name
        folder.mkdir(parents=True, exist_ok=True)
        for k in range(6):
            pixels = np.random.default_rng(k).integers(0, 255, (16, 16, 3), np.uint8)
            Image.fromarray(pixels).save(folder / f"{k}.png")
    code, said, complained = command("evaluate", run, "--data", "set", *QUICK)
    assert code == 0, complained
    assert "6 of the test samples count as wrong" in said


def test_unreadable_files_are_left_out_and_said(run, tmp_path, command):
    for name in ("a", "b"):
        (tmp_path / "set" / name).mkdir(parents=True)
        for k in range(30):
            pixels = np.random.default_rng(k).integers(0, 255, (40, 40, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "set" / name / f"{k}.png")
    (tmp_path / "set" / "a" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nxxx")
    code, said, complained = command("evaluate", run, "--data", "set", *QUICK)
    assert code == 0, complained
    assert "1 unreadable image was left out: a/broken.png" in said
    assert "resized: 3x40x40, the encoder takes 3x16x16" in said


@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda f: np.save(f / "x.npy", np.zeros((20, 8, 8), np.uint8)), "no labels"),
        (
            lambda f: np.savez(
                f / "x.npz", images=np.zeros((20, 8, 8), np.uint8), labels=np.zeros(20)
            ),
            "has a single class",
        ),
        (lambda f: (f / "x.npz").write_bytes(b"no"), "x.npz"),
        (lambda f: (f / "x.png").write_bytes(b"no"), "is a file: expected a folder"),
        (lambda f: (f / "x").mkdir(), "holds no images"),
        (lambda f: None, "There is no folder"),
    ],
    ids=["unlabelled", "one class", "broken", "a picture", "empty", "missing"],
)
def test_what_cannot_be_scored_is_one_sentence(run, command, tmp_path, make, sentence):
    make(tmp_path)
    names = [p.name for p in tmp_path.iterdir() if p.name.startswith("x")] or ["x"]
    before = (run / "evaluation.jsonl").read_bytes()
    code, said, complained = command("evaluate", run, "--data", names[0])
    assert code == 2 and said == ""
    assert sentence in complained and complained.count("\n") == 1
    assert (run / "evaluation.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["nowhere"], "There is no run at 'nowhere'"),
        ([], "Name a run folder"),
        (["run", "--seeds", "0"], "seeds is 1 or more: got 0."),
        (["run", "--limit", "1"], "limit is 2 or more: got 1."),
        (["run", "--device", "tpu"], "The device 'tpu' cannot be used"),
    ],
)
def test_wrong_words(run, command, words, sentence):
    code, _, complained = command("evaluate", *words)
    assert code == 2 and sentence in complained


def test_a_table_fits_the_terminal(run, monkeypatch):
    found = Evaluation(tuple(read_rows(run / "evaluation.jsonl")), ())
    tables = {}
    for columns in (119, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        tables[columns] = str(found)
        assert max(map(len, tables[columns].splitlines())) <= columns
    wide, narrow = ({*re.findall(r"[\d.]{3,}", table)} for table in tables.values())
    assert narrow == wide  # no number is lost


def test_only_signs_that_are_in_the_table_are_explained():
    row = {
        **{"data": "d", "features": "trained encoder", "protocol": "knn"},
        **{"metric": "accuracy", "value": 0.5, "interval": [0.4, 0.6], "n_test": 90},
        **{"settings": {}, "notes": []},
    }
    alone = str(Evaluation((row,)))
    assert "in brackets the 95 % interval" in alone and "±" not in alone
    several = [{**row, "run": name} for name in ("a", "b")]
    together = str(Evaluation(tuple(several)))
    assert "± the standard deviation over 2 runs" in together
    assert "in brackets" not in together


@pytest.mark.parametrize(("n", "said"), [(1, "by 100 points"), (4, "by 25 points")])
def test_a_handful_of_test_images_is_said_to_tell_little(n, said):
    row = {
        **{"data": "d", "features": "raw pixels", "protocol": "map", "metric": "map"},
        **{"value": 0.5, "interval": None, "n_test": n, "settings": {}, "notes": []},
    }
    *_, count, warning = str(Evaluation((row,))).splitlines()
    assert count.endswith(f" {n} test image{'s' * (n > 1)}, held out.")
    assert said in warning
    assert "say almost nothing" not in str(Evaluation(({**row, "n_test": 10},)))


def test_an_unknown_protocol_is_named(run):
    with pytest.raises(
        SettingError, match=r"Unknown protocol 'kn'\. Did you mean 'knn'"
    ):
        inv.evaluate(run, protocols=["kn"])


def test_a_run_on_objects_asks_for_them(tmp_path, pictures):
    images, labels = pictures(80)
    settings = inv.Train(
        epochs=1,
        batch_size=16,
        hidden=16,
        width=8,
        evaluate=False,
        knn_every=0,
        quiet=True,
        out=str(tmp_path),
    )
    network = nn.Sequential(nn.Conv2d(3, 6, 3, 2), nn.ReLU())
    made = inv.train(settings, data=(images, labels), encoder=network)
    with pytest.raises(DataError, match="module called 'Sequential'"):
        inv.evaluate(made, protocols=["knn"])
    fresh = nn.Sequential(nn.Conv2d(3, 6, 3, 2), nn.ReLU())
    with pytest.raises(DataError, match="an object given in Python"):
        inv.evaluate(made, protocols=["knn"], network=fresh)
    found = inv.evaluate(made, data=(images, labels), protocols=["knn"], network=fresh)
    assert {row["features"] for row in found.rows} == {"raw pixels", "trained encoder"}
    assert any("untrained encoder is left out" in note for note in found.notes)


def test_an_unfinished_run_can_be_scored(run):
    n_steps = {row.get("step") for row in read_rows(run / "evaluation.jsonl")} - {None}
    (run / "encoder.safetensors").unlink()
    (run / "encoder-best.safetensors").unlink()
    newest = max(path.name for path in (run / "checkpoints").iterdir())
    found = inv.evaluate(run, protocols=["knn"])
    assert [row["features"] for row in found.rows] == KINDS[:3]
    kept = read_rows(run / "evaluation.jsonl")[-1]
    assert f"{kept['step']:08}" in newest and n_steps == {open_run(run).step}


def test_a_best_epoch_that_is_the_last_is_not_scored_twice(run):
    there = open_run(run)
    write_encoder(there.encoder, run / "encoder-best.safetensors", epoch=3, knn=1.0)
    found = inv.evaluate(run, protocols=["knn"])
    assert found.values("knn", "best epoch") == found.values("knn")
    assert {r["epoch"] for r in found.rows if r["features"] == "best epoch"} == {3}


@pytest.mark.parametrize("words", [("evaluate",), ("diagnose",)])
def test_data_that_moved_are_named_and_can_be_given(words, run, command, tmp_path):
    config = run / "config.yaml"
    told = config.read_text()
    there = re.search("data: (.*)", told)[1]
    config.write_text(told.replace(there, "old/pictures"))
    about = json.loads((run / "env.json").read_text())
    about["images"]["path"] = "/old/pictures"
    (run / "env.json").write_text(json.dumps(about))
    code, said, complained = command(*words, run)
    assert (code, said) == (2, "")
    assert "run was trained on 'old/pictures', which is gone" in complained
    assert "--data FOLDER" in complained
    code, _, complained = command(*words, run, "--data", there)
    assert code == 0, complained


def test_a_search_in_data_that_moved_says_how_to_name_them(run, command, tmp_path):
    config = run / "config.yaml"
    told = config.read_text()
    config.write_text(told.replace(re.search("data: (.*)", told)[1], "old/pictures"))
    about = json.loads((run / "env.json").read_text())
    about["images"]["path"] = "/old/pictures"
    (run / "env.json").write_text(json.dumps(about))
    Image.new("RGB", (16, 16)).save(tmp_path / "query.png")
    code, said, complained = command("search", run, "--query", "query.png")
    assert (code, said) == (2, "")
    assert "run was trained on 'old/pictures', which is gone" in complained
    assert "name the data to search after the run" in complained


def test_transfer_to_data_of_the_same_name_is_kept_apart(
    run, command, pictures, tmp_path
):
    before = read_rows(run / "evaluation.jsonl")
    learned = [str(finding) for finding in read_verdict(read_record(run))]
    images, labels = pictures(60, seed=5)
    (tmp_path / "other").mkdir()
    np.savez(tmp_path / "other" / "pictures.npz", images=images, labels=labels % 2)
    code, _, complained = command("evaluate", run, "--data", "other/pictures.npz")
    assert code == 0, complained
    rows = read_rows(run / "evaluation.jsonl")
    assert rows[: len(before)] == before  # none of its own was replaced
    assert len({row["fingerprint"] for row in rows}) == 2
    scores = read_record(run).scores
    own = Path(before[0]["parent"]) / "pictures.npz"
    assert {line.data for line in scores.lines} == {str(own), "other/pictures.npz"}
    assert scores.data == str(own)
    cell = scores.cell("trained encoder", "knn")
    assert [r["value"] for r in before if r["protocol"] == "knn"][2] == cell.mean
    assert [str(finding) for finding in read_verdict(read_record(run))] == learned


def test_the_same_data_elsewhere_are_the_run_s_own(run, command, tmp_path):
    before = read_rows(run / "evaluation.jsonl")
    moved = tmp_path / "moved.npz"
    place = json.loads((run / "env.json").read_text())["images"]["path"]
    shutil.copy(place, moved)
    assert command("evaluate", run, "--data", moved, *QUICK)[0] == 0
    after = read_rows(run / "evaluation.jsonl")
    assert len(after) == len(before)
    knn = [
        [r["value"] for r in rows if r["protocol"] == "knn"] for rows in (before, after)
    ]
    assert knn[0] == knn[1]


def test_rows_of_an_older_version_give_way_to_new_ones(run, command):
    rows = read_rows(run / "evaluation.jsonl")
    old = [
        {k: v for k, v in r.items() if k not in ("fingerprint", "parent")} for r in rows
    ]
    (run / "evaluation.jsonl").write_text("".join(json.dumps(r) + "\n" for r in old))
    about = json.loads((run / "env.json").read_text())
    mark = about.pop("images")["fingerprint"]
    (run / "env.json").write_text(json.dumps(about))
    assert read_record(run).scores.cell("trained encoder", "knn") is not None
    assert command("evaluate", run, *QUICK)[0] == 0
    after = read_rows(run / "evaluation.jsonl")
    assert len(after) == len(rows)
    assert {row["fingerprint"] for row in after} == {mark}
    assert json.loads((run / "env.json").read_text())["images"]["fingerprint"] == mark


def reseeded(run, to, **changes):
    """A copy of a run whose settings say otherwise."""
    copy = shutil.copytree(run, to)
    text = (copy / "config.yaml").read_text()
    for name, value in changes.items():
        text = re.sub(f"(?m)^( *){name}: .*$", rf"\g<1>{name}: {value}", text)
    (copy / "config.yaml").write_text(text)
    return copy


def test_other_settings_are_lines_of_their_own(run, command, tmp_path):
    second = reseeded(run, tmp_path / "second", seed=7, log_every=3, device="cpu")
    dcl = reseeded(run, tmp_path / "dcl", method="dcl", seed=8)
    code, said, complained = command("evaluate", run, dcl, second, run, *QUICK)
    assert code == 0, complained
    lines = said.splitlines()
    assert lines[1] == "kNN, k = 20, T = 0.1"
    assert lines[2].startswith("  method=simclr (2 runs)") and lines[2].count("±") == 4
    assert lines[3].startswith("  method=dcl (dcl)") and "±" not in lines[3]
    assert "note: These runs differ in method, not only in their seeds" in said
    assert said.count("evaluation.jsonl") == 3  # a run named twice is one
    found = inv.evaluate([run, dcl], protocols=["knn"])
    assert {row["setting"] for row in found.rows} == {
        "method=simclr (run)",
        "method=dcl (dcl)",
    }


def test_a_repeated_seed_is_no_spread(run, tmp_path):
    twin = shutil.copytree(run, tmp_path / "twin")
    found = inv.evaluate([run, twin], protocols=["knn"])
    assert any("run and twin have the same seed" in note for note in found.notes)


def test_a_file_of_scores_that_was_damaged_is_mended(run, command, tmp_path):
    path = run / "evaluation.jsonl"
    kept = read_rows(path)
    path.write_bytes(b"\xff\xfe\x00{\n[]\n3\n" + path.read_bytes())
    (run / "metrics.jsonl").write_bytes(b"[]\n\xff")
    code, said, _ = command("list", "runs", "--out", tmp_path)
    assert code == 0 and "linear" in said
    code, _, complained = command("evaluate", run, *QUICK)
    assert code == 0, complained
    linear = [row for row in kept if row["protocol"] == "linear"]
    assert [r for r in read_rows(path) if r["protocol"] == "linear"] == linear


@pytest.mark.parametrize(
    "words, name",
    [
        (("evaluate", *QUICK), "evaluation.jsonl"),
        (("evaluate", *QUICK, "--json"), "evaluation.jsonl"),
        (("diagnose",), "diagnostics.json"),
        (("diagnose", "--json"), "diagnostics.json"),
    ],
)
def test_what_cannot_be_kept_is_shown_all_the_same(words, name, run, command):
    (run / name).unlink()
    (run / name).mkdir()  # as good as a folder that may not be written to
    code, said, complained = command(words[0], run, *words[1:])
    assert code == 2
    assert ("kNN" if words[0] == "evaluate" else "rank") in said or "knn" in said
    last = complained.splitlines()[-1]
    assert last.startswith("invariance: ") and name in last
    assert "--resume" not in last and "see them" not in said


def test_python_gets_scores_that_cannot_be_kept(run):
    for name in ("evaluation.jsonl", "diagnostics.json"):
        (run / name).unlink()
        (run / name).mkdir()
    found = inv.evaluate(run, protocols="knn")
    assert found.values("knn") and "evaluation.jsonl" in found.unsaved[0]
    assert "Could not write diagnostics.json" in inv.diagnose(run).notes[-1]


def test_a_limit_that_leaves_images_out_is_in_the_row_of_training_too(
    tmp_path, pictures, monkeypatch
):
    monkeypatch.setattr("invariance.training._finish.LIMIT", 60)
    settings = inv.Train(epochs=1, batch_size=16, quiet=True, out=str(tmp_path))
    images, labels = pictures(120)
    made = inv.train(settings, data=(images, labels))
    assert {row["settings"]["limit"] for row in made.evaluation.rows} == {60}
    assert "fitted on at most 60 images" in str(made.evaluation)
