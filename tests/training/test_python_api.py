"""The same from Python: objects instead of names, encoders loaded back."""

import copy
import dataclasses
import inspect
import json
import pickle
import shlex
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
import yaml
from torch import nn
from torch.utils.data import TensorDataset

import invariance as inv
from invariance.cli import main
from invariance.encoders import build_encoder, standardize
from invariance.errors import (
    DataError,
    NotFiniteError,
    SettingError,
    ShapeError,
    TrainingError,
)
from invariance.methods import Method
from invariance.training import Optim, Run
from invariance.views import GaussianNoise, RandomHorizontalFlip, ViewSet


class Own(nn.Module):
    """Somebody's network, with a weight used twice."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3, 2, 1), nn.Conv2d(6, 6, 3, 1, 1)
        self.third = nn.Conv2d(6, 6, 3, 1, 1)
        self.third.weight = self.second.weight

    def forward(self, x):
        return self.third(self.second(self.first(x).relu()).relu())


def outputs(encoder):
    return encoder(torch.linspace(0, 1, 2 * 3 * 16 * 16).view(2, 3, 16, 16))


def test_a_finished_run(small, pictures):
    run = inv.train(small(), data=pictures)
    assert isinstance(run, Run) and run.evaluation is None
    assert {path.name for path in run.folder.iterdir()} >= {
        "checkpoints",
        "config.yaml",
        "encoder.safetensors",
        "env.json",
        "metrics.jsonl",
        "train.log",
    }
    assert [m["step"] for m in run.metrics] == list(range(1, 9))
    encoder = run.encoder()
    assert not encoder.training and outputs(encoder).shape == (2, 256)
    again = inv.load(run.folder / "encoder.safetensors")
    assert torch.equal(outputs(encoder), outputs(again))
    with pytest.raises(TrainingError, match=r"is finished.*--start-from"):
        inv.train(inv.Train(resume=str(run.folder)))


def test_a_finished_run_is_continued_on_its_own_data(small, tmp_path, capsys):
    data = str(tmp_path / "my pictures.npy")
    np.save(data, np.random.default_rng(0).integers(0, 255, (32, 16, 16, 3), np.uint8))
    settings = small(data=data, method="dcl", out=str(tmp_path / "my runs"))
    folder = inv.train(settings).folder
    assert main(["train", "--resume", str(folder)]) == 2
    said = capsys.readouterr().err
    advised = shlex.split(said[said.index("invariance train --config") :])[1:]
    assert main([*advised, "--out", str(tmp_path), "--quiet"]) == 0
    new = yaml.safe_load((tmp_path / folder.name / "config.yaml").read_text())
    assert (new["data"], new["start_from"]) == (data, str(folder))
    assert new["method"] == "dcl"


def test_a_function_reads_the_learner_after_each_epoch(small, pictures):
    plain = inv.train(small(), data=pictures)
    seen = []

    def look(epoch, learner):
        seen.append((epoch, learner.training))
        learner.eval()
        return {"pool_nats": float(epoch)}

    run = inv.train(small(log_every=3), data=pictures, each_epoch=look)
    assert seen == [(1, True), (2, True)]
    assert [(m["step"], m.get("pool_nats")) for m in run.metrics] == [
        (3, None),
        (4, 1.0),
        (6, None),
        (8, 2.0),
    ]
    # it looked, and training went on as if it had not
    assert run.metrics[-1]["loss"] == plain.metrics[-1]["loss"]


@pytest.fixture
def pass_time(monkeypatch):
    """Has the clock that steps are timed by move on by so many seconds."""
    clock, passed = time.perf_counter, []
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + sum(passed))
    return passed.append


def test_what_is_done_between_epochs_is_not_in_the_speed(small, pictures, pass_time):
    def look(epoch, learner):
        pass_time(1000)  # far longer than a step on any machine
        return {}

    settings = small(log_every=1)
    run = inv.train(settings, data=pictures, each_epoch=look)
    rates = [m.get("time/images_per_second") for m in run.metrics]
    assert rates[0] is None and len(rates) == 8  # the first step is a warm-up
    assert all(settings.batch_size / rate < 1000 for rate in rates[1:])


def test_what_a_reading_takes_is_not_in_the_speed(
    small, pictures, pass_time, monkeypatch
):
    def read_slowly(*rows):
        pass_time(1000)
        return inv.alignment(*rows)

    monkeypatch.setattr("invariance.training._readings.alignment", read_slowly)
    settings = small(log_every=2)
    run = inv.train(settings, data=pictures)
    rates = [m["time/images_per_second"] for m in run.metrics[1:]]
    assert len(rates) == 3
    assert all(2 * settings.batch_size / rate < 1000 for rate in rates)


def test_what_reads_an_epoch_is_a_function(small, pictures, our_errors):
    with pytest.raises(SettingError, match=r"each_epoch is a function .* got 3\."):
        inv.train(small(), data=pictures, each_epoch=3)
    machine = inv.Machine(device="cpu", devices=2, strategy="fsdp")
    with pytest.raises(SettingError, match="each_epoch is called only by the first"):
        inv.train(small(machine=machine), data=pictures, each_epoch=lambda *_: {})


def test_an_unfinished_run_has_an_encoder_too(small, pictures, stopped_after):
    folder = stopped_after(2, small(), data=pictures)
    encoder = inv.load(folder)
    assert not (folder / "encoder.safetensors").exists()
    assert outputs(encoder).shape == (2, 256) and not encoder.training


def test_a_module_of_ones_own(small, pictures, stopped_after):
    run = inv.train(small(), data=pictures, encoder=Own())
    with pytest.raises(
        DataError, match=r"module called 'Own': pass it as network=module"
    ):
        run.encoder()
    encoder = run.encoder(network=Own())
    assert outputs(encoder).shape == (2, 6)
    other = nn.Conv2d(3, 6, 3)
    with pytest.raises(DataError, match="weights do not fit 'Conv2d'"):
        inv.load(run.folder, network=other)
    folder = stopped_after(2, small(), data=pictures, encoder=Own())
    assert outputs(inv.load(folder, network=Own())).shape == (2, 6)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_module_of_ones_own_keeps_its_memory_format(dry_run, small, pictures):
    plain = nn.Conv2d(3, 6, 3)
    last = nn.Conv2d(6, 6, 3).to(memory_format=torch.channels_last)
    before = [plain.weight.clone(), last.weight.clone()]
    settings = small(epochs=1, dry_run=dry_run)
    inv.train(settings, data=pictures, encoder=nn.Sequential(plain, last))
    for layer, weight in zip((plain, last), before, strict=True):
        assert layer.weight.stride() == weight.stride()
        assert torch.equal(layer.weight, weight) == dry_run


def test_weights_of_1x1_are_stored_channels_last_as_torch_does(small, pictures):
    """Like their gradients: ddp would copy each of these, and warn of that."""
    layer = nn.Conv2d(6, 8, 1)
    strides = set()
    layer.weight.register_hook(lambda _: strides.add(layer.weight.stride()))
    wanted = copy.deepcopy(layer).to(memory_format=torch.channels_last).weight.stride()
    encoder = nn.Sequential(nn.Conv2d(3, 6, 3), layer)
    inv.train(small(epochs=1), data=pictures, encoder=encoder)
    assert strides == {wanted}


def test_what_cannot_be_loaded(tmp_path):
    with pytest.raises(DataError, match=r"no run or encoder file at .*list runs"):
        inv.load(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no encoder and no checkpoint"):
        inv.load(tmp_path)
    (tmp_path / "x.safetensors").write_bytes(b"not one")
    with pytest.raises(DataError, match="not an encoder of this package"):
        inv.load(tmp_path / "x.safetensors")


def test_a_pretrained_network_keeps_its_large_stem(tmp_path):
    """Its weights are for the published stem, also where images are small."""
    from invariance.encoders import build_encoder, standardize
    from invariance.encoders import write_encoder as write

    encoder = build_encoder("resnet10t", image_size=32, stem="large")
    encoder = standardize(encoder, [0.5] * 3, [0.2] * 3).eval()
    write(encoder, tmp_path / "encoder.safetensors")
    images = torch.rand(2, 3, 32, 32)
    loaded = inv.load(tmp_path / "encoder.safetensors")
    assert torch.equal(loaded(images), encoder(images))


def test_starting_from_another_run(small, pictures):
    first = inv.train(small(), data=pictures)
    still = Optim(lr=1e-12, weight_decay=0.0)
    settings = small(start_from=str(first.folder), optim=still)
    second = inv.train(settings, data=pictures)
    assert second.folder != first.folder
    before, after = first.encoder().state_dict(), second.encoder().state_dict()
    for name, weight in before.items():
        if "weight" in name:
            torch.testing.assert_close(after[name], weight)
    grey = np.asarray(pictures[0])[..., 0]
    with pytest.raises(SettingError, match="--start-from needs the same one"):
        inv.train(settings, data=grey)
    mine = inv.train(small(), data=pictures, encoder=Own())
    settings = small(start_from=str(mine.folder), epochs=1)
    inv.train(settings, data=pictures, encoder=Own())
    with pytest.raises(DataError, match="do not fit"):
        inv.train(settings, data=pictures, encoder=nn.Conv2d(3, 6, 3))


def test_arrays_pairs_and_data_sets(small, pictures):
    images, labels = pictures
    tensors = torch.from_numpy(images).permute(0, 3, 1, 2)
    kinds = [images, tensors, (images, labels), (tensors, torch.from_numpy(labels))]
    kinds.append(TensorDataset(tensors, torch.from_numpy(labels)))
    settings = small(epochs=1, hold_out="tenth")  # whether there are labels or not
    runs = [inv.train(settings, data=data) for data in kinds]
    losses = [[m["loss"] for m in run.metrics] for run in runs]
    assert all(loss == losses[0] for loss in losses)
    assert {run.folder.name.partition("-")[0] for run in runs} == {"data"}


def test_own_arrays_are_not_viewed_as_shapes(small, pictures, capsys):
    """The recipe for shapes turns images by any angle, which others may not bear."""
    from invariance.training import make_plan
    from invariance.views import RandomRotation

    views = make_plan(small(), data=pictures).views
    assert not any(isinstance(op, RandomRotation) for op in views.pipelines[0])
    views = make_plan(small(limit=40)).views
    assert any(isinstance(op, RandomRotation) for op in views.pipelines[0])


def test_views_of_ones_own(small, pictures):
    seen = []

    def own(images):
        seen.append(images.shape)
        return 1 - images

    views = ViewSet([[RandomHorizontalFlip()], [GaussianNoise(0.1), own], [own]])
    inv.train(small(epochs=1), data=pictures, views=views)
    assert len(seen) == 8 and seen[0] == (16, 3, 16, 16)
    with pytest.raises(SettingError, match="needs two views or more"):
        inv.train(small(), data=pictures, views=ViewSet([[own]]))


def test_a_method_of_ones_own(small, pictures, capsys):
    mine = Method(objective="info_nce", settings={"temperature": 0.2}, head="linear")
    run = inv.train(small(quiet=False, hidden=None), data=pictures, method=mine)
    assert {m["temperature"] for m in run.metrics} == {0.2}
    assert run.folder.name == "data-info_nce"
    assert "method: info_nce (2 views, InfoNCE(" in capsys.readouterr().out


def test_an_encoder_object_is_not_spoiled_by_a_dry_run(small, pictures):
    network = Own()
    before = copy.deepcopy(network.state_dict())
    inv.train(small(dry_run=True), data=pictures, encoder=network)
    assert all(torch.equal(before[k], v) for k, v in network.state_dict().items())


def test_labels_give_knn_readings_and_a_final_table(small, pictures, capsys):
    images, labels = pictures
    settings = small(knn_every=1, evaluate=True)
    run = inv.train(settings, data=(images, labels))
    knn = {m["step"]: m["knn"] for m in run.metrics if "knn" in m}
    assert knn.keys() == {4, 8} and all(0 <= value <= 1 for value in knn.values())
    kinds = dict.fromkeys(row["features"] for row in run.evaluation.rows)
    assert list(kinds) == [
        "raw pixels",
        "untrained encoder",
        "trained encoder",
        "best epoch",
    ]
    lines = (run.folder / "evaluation.jsonl").read_text().splitlines()
    written = [json.loads(line) for line in lines]
    steps = {row.pop("step") for row in written if "step" in row}
    assert steps == {run.metrics[-1]["step"]}
    assert written == list(run.evaluation.rows)
    assert {row["n_test"] for row in written} == {6}
    assert {row["data"] for row in written} == {"the array"}
    run = inv.train(settings, data=images)
    assert not any("knn" in m for m in run.metrics) and run.evaluation is None
    assert not (run.folder / "encoder-best.safetensors").exists()
    readings = json.loads((run.folder / "diagnostics.json").read_text())["readings"]
    assert {r["of"] for r in readings} == {"h", "z"}
    assert not any(r["name"] == "tolerance" for r in readings)
    assert "no labels in these data" in capsys.readouterr().out


def test_json_and_quiet(small, pictures, capsys):
    inv.train(small(json=True, quiet=False), data=pictures)
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum("loss" in r for r in records) == 8
    assert any("run folder" in r.get("note", "") for r in records)
    inv.train(small(quiet=True), data=pictures)
    quiet = capsys.readouterr().out.splitlines()
    inv.train(small(quiet=False), data=pictures)
    plain = capsys.readouterr().out.splitlines()
    assert len(quiet) <= 4 and quiet[-2].startswith("run folder:")
    assert len(plain) >= 8 and any(line.split()[:1] == ["2/2"] for line in plain)


def test_signs_are_printed_as_they_are(small, pictures, tmp_path, capsys):
    out = tmp_path / ("a [bold] :cat: 1.5 in a very " + "long " * 30 + "folder")
    run = inv.train(small(epochs=1, quiet=False, out=str(out)), data=pictures)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == f"run folder: {run.folder}".split() for line in lines)


def test_resume_goes_alone(small, pictures, stopped_after):
    folder = stopped_after(2, small(), data=pictures)
    with pytest.raises(TrainingError, match="with --resume, only the place"):
        inv.train(inv.Train(resume=str(folder), epochs=3), data=pictures)
    with pytest.raises(TrainingError, match="There is no run to resume"):
        inv.train(inv.Train(resume=str(folder / "not")), data=pictures)
    with pytest.raises(TrainingError, match="does not fit what is being trained"):
        inv.train(inv.Train(resume=str(folder)), data=pictures, encoder=Own())
    fewer = pictures[0][:60], pictures[1][:60]
    with pytest.raises(TrainingError, match=r"on \d+ images, and now there are \d+"):
        inv.train(inv.Train(resume=str(folder)), data=fewer)
    others = 255 - pictures[0], pictures[1]  # as many, but others
    with pytest.raises(
        TrainingError, match=r"on \d+ images, and these are different ones"
    ):
        inv.train(inv.Train(resume=str(folder)), data=others)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda state: state.pop("metrics") and state, "has no metrics: it is damaged"),
        (lambda state: [1, 2], "None of the 1 checkpoints in"),
    ],
)
def test_a_checkpoint_that_is_none(
    change, message, small, pictures, stopped_after, newest
):
    folder = stopped_after(1, small(), data=pictures)
    (path,) = (folder / "checkpoints").iterdir()
    torch.save(change(newest(folder)), path)
    with pytest.raises(TrainingError, match=message):
        inv.train(inv.Train(resume=str(folder)), data=pictures)


def test_a_checkpoint_from_before_counts_were_kept(
    small, pictures, stopped_after, newest
):
    folder = stopped_after(1, small(), data=pictures)
    (path,) = (folder / "checkpoints").iterdir()
    state = newest(folder)
    del state["samples"]
    torch.save(state, path)
    run = inv.train(inv.Train(resume=str(folder), quiet=True), data=pictures)
    assert (run.folder / "encoder.safetensors").exists()


def test_supcon_needs_labels(small, pictures):
    with pytest.raises(DataError, match=r"supcon learns from labels.*has none"):
        inv.train(small(method="supcon"), data=pictures[0])


def test_a_single_class_is_not_scored_and_not_learned_from(small, pictures, capsys):
    alone = pictures[0], np.zeros_like(pictures[1])
    run = inv.train(small(evaluate=True, epochs=1), data=alone)
    said = capsys.readouterr().out
    assert "a single class in these data, so nothing to score" in said
    assert run.evaluation is None and (run.folder / "encoder.safetensors").exists()
    with pytest.raises(DataError, match=r"supcon tells classes apart, but .* only one"):
        inv.train(small(method="supcon"), data=alone)


def test_a_test_part_that_is_too_easy_is_said_to_be(small, pictures, capsys):
    images, labels = pictures
    easy = np.repeat((labels % 2 * 250)[:, None, None, None], 16, 1)
    easy = np.broadcast_to(easy, images.shape).astype(np.uint8)
    inv.train(small(evaluate=True, epochs=1), data=(easy, labels % 2))
    said = capsys.readouterr().out
    assert "already at 100 % before training" in said
    assert "did not learn" not in said


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"batch_size": "16"}, "Train.batch_size must be int: got '16'"),
        ({"epochs": 1.5}, "Train.epochs must be int: got 1.5"),
        ({"optim": {"lrr": 1}}, "Unknown setting 'lrr' in Train.optim. Did you"),
        ({"head": "mlp9"}, "Train.head: Unknown value 'mlp9'"),
    ],
)
def test_settings_of_the_wrong_kind(settings, message, our_errors):
    with pytest.raises(SettingError, match=message):
        inv.train(inv.Train(**settings))


def test_settings_that_are_none(our_errors):
    with pytest.raises(SettingError, match=r"come as Train\(.*got 'shapes'"):
        inv.train("shapes")


def test_views_by_name_belong_into_the_settings(small, pictures, our_errors):
    with pytest.raises(SettingError, match="as Train\\(views='weak'\\)"):
        inv.train(small(), data=pictures, views="weak")


def test_paths_and_numbers_of_numpy_are_settings(small, pictures, tmp_path, our_errors):
    np.savez(tmp_path / "pictures.npz", images=pictures[0], labels=pictures[1])
    settings = small(data=tmp_path / "pictures.npz", epochs=np.int64(1))
    run = inv.train(settings)
    assert f"data: {tmp_path}/pictures.npz" in (run.folder / "config.yaml").read_text()
    assert inv.load(run)(torch.rand(2, 3, 16, 16)).shape == (2, 256)


@pytest.mark.parametrize(
    "images, message",
    [
        (torch.zeros(2, 3, 16, 16, dtype=torch.uint8), "divide pixels by 255"),
        (torch.full((2, 3, 16, 16), 200.0), r"in \[0, 1\]: got 200 to 200\. Divide"),
        (torch.full((2, 3, 16, 16), -2.1), "leave out Normalize"),
        (torch.full((2, 3, 16, 16), torch.nan), "some are NaN"),
        (torch.zeros(2, 16, 16, 3), r"shape \(n, 3, height, width\): got \(2, 16, 16"),
        (torch.zeros(3, 16, 16), "One image needs"),
        (np.zeros((2, 3, 16, 16), np.float32), "not ndarray: use torch.from_numpy"),
    ],
)
def test_images_that_are_none_for_an_encoder(images, message, our_errors):
    encoder = standardize(build_encoder("tiny", image_size=16), [0.5] * 3, [0.2] * 3)
    with pytest.raises((ShapeError, NotFiniteError), match=message):
        encoder.eval()(images)


def test_a_misspelt_name_is_answered_with_the_nearest():
    with pytest.raises(AttributeError, match="Did you mean 'info_nce'"):
        _ = inv.infonce
    with pytest.raises(SettingError, match="Expected a run, its folder or an encoder"):
        inv.load(3)


WRONG = {
    "inv.Train(epoch=3)": "'epoch' of Train. Did you mean 'epochs'?",
    "inv.Train(lr=3)": "'lr' of Train. It belongs to optim: optim=Optim(lr=...).",
    "inv.Optim(momentun=3)": "'momentun' of Optim. Did you mean 'momentum'?",
    "inv.Machine(gpu=3)": "'gpu' of Machine. Known: capture, compile, ",
    "inv.Machine(n_processes=3)": "Unknown setting 'n_processes' of Machine.",
    "inv.Train('photos')": "have names, as in Train(data='photos'): got 1 without one",
    "dataclasses.replace(inv.Train(), epoch=3)": "'epoch' of Train. Did you mean",
    "inv.Method(objektive='dcl')": "Did you mean 'objective'?",
}
ASK = """
import dataclasses, sys
import invariance as inv
for call in sys.argv[1:]:
    try:
        eval(call)
    except TypeError as error:
        print(error)
assert "torch" not in sys.modules
"""


def test_a_misspelt_setting_is_answered_with_the_nearest():
    # apart, since the shape checks of these tests answer before the settings do
    answer = subprocess.run(
        [sys.executable, "-c", ASK, *WRONG], capture_output=True, text=True, check=True
    )
    lines = answer.stdout.splitlines()
    for line, message in zip(lines, WRONG.values(), strict=True):
        assert message in line


def test_settings_remain_a_dataclass():
    settings = inv.Train(epochs=3, optim=inv.Optim(lr=0.5))
    assert pickle.loads(pickle.dumps(settings)) == copy.deepcopy(settings) == settings
    assert dataclasses.replace(settings, epochs=4).optim.lr == 0.5
    names = [field.name for field in dataclasses.fields(inv.Train)]
    assert list(inspect.signature(inv.Train).parameters) == names


def test_a_verdict_that_cannot_be_kept_is_shown(small, pictures, monkeypatch, capsys):
    def fail(folder):
        raise DataError("Could not write verdict.json: the disk is full.")

    monkeypatch.setattr("invariance.training._finish.write_verdict", fail)
    run = inv.train(small(), data=pictures)
    text = capsys.readouterr().out
    assert "Could not write verdict.json" in text and "to tell images apart" in text
    assert (run.folder / "encoder.safetensors").exists()
