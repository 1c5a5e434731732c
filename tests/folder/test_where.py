"""Runs chosen by an expression, and what a list of runs says about each."""

import json

import pytest
import yaml

from invariance.errors import SettingError
from invariance.folder import overviews
from invariance.training import complete_settings

SETTINGS = {
    "optim": {"lr": 0.05},
    "method": "dcl",
    "temperature": None,
    "epochs": 20,
    "pretrained": False,
    "name": "a",
}


@pytest.mark.parametrize(
    "expression, holds",
    [
        ("optim.lr < 0.1", True),
        ("optim.lr < 0.1 and method == 'simclr'", False),
        ("optim.lr > 0.1 or method == 'dcl'", True),
        ("not (epochs == 20)", False),
        ("10 < epochs <= 20", True),
        ("10 < epochs < 20", False),
        ("method in ('dcl', 'simclr')", True),
        ("method not in ['dcl']", False),
        ("'cl' in method", True),
        ("temperature < 1", False),
        ("temperature >= 1", False),
        ("1 > temperature", False),
        ("temperature == None", True),
        ("temperature is None", True),
        ("temperature is not none", False),
        ("pretrained", False),
        ("not pretrained and true", True),
        ("epochs > -1", True),
        ("options.prior > 0.1", False),
        ("method != 'dcl'", False),
    ],
)
def test_expressions(expression, holds, tmp_path):
    make(tmp_path, "a", **SETTINGS)
    assert len(list(overviews(tmp_path, expression))) == holds


@pytest.mark.parametrize(
    "expression, message",
    [
        ("optim.rl < 0.1", "Unknown setting 'optim.rl'. Did you mean 'optim.lr'?"),
        ("epochs > 3 or metod == 'x'", "Unknown setting 'metod'"),
        ("method == dcl", "A text needs quotation marks: 'dcl'"),
        ("__import__('os').system('id')", "is not understood"),
        ("().__class__", "is not understood|Unknown setting"),
        ("[x for x in (1, 2)]", "is not understood"),
        ("(lambda: 1)()", "is not understood"),
        ("epochs ** 9999999", "is not understood"),
        ("epochs = 3", "is not an expression"),
        ("", "is not an expression"),
        ("(" * 5000, "is not an expression"),
        ("epochs < 'three'", "cannot be compared"),
        ("epochs in 3", "cannot be compared"),
    ],
)
def test_what_is_not_understood_is_refused(expression, message, tmp_path):
    make(tmp_path, "a", **SETTINGS)
    with pytest.raises(SettingError, match=message.replace("?", r"\?")):
        list(overviews(tmp_path, expression))


def make(folder, run_name, lines=None, **settings):
    run = folder / run_name
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(yaml.safe_dump(settings))
    if lines is not None:
        text = "\n".join(json.dumps(line) for line in lines)
        (run / "evaluation.jsonl").write_text(text + "\nhalf a li")
    return run


def line(value, features="trained encoder", protocol="linear", **more):
    told = {"features": features, "protocol": protocol, "metric": "accuracy"}
    return told | {"data": "shapes", "seed": 0, "settings": {}, "value": value} | more


def names(folder, expression=None):
    runs = overviews(folder, expression, complete=complete_settings)
    return [run.folder.name for run in runs]


def test_runs_are_chosen_by_settings_and_scores(tmp_path):
    make(tmp_path, "a", optim={"lr": 0.05})
    make(tmp_path, "b", optim={"lr": 0.5}, method="dcl")
    scores = [line(0.9, "raw pixels"), line(0.4, protocol="knn"), line(0.7)]
    make(tmp_path, "c", scores)
    make(tmp_path, "d", optim={"name": "sgd"})
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.yaml").write_text("{[")
    (tmp_path / "emptied").mkdir()  # which is not the same as all defaults, {}
    (tmp_path / "emptied" / "config.yaml").write_text("\n")
    assert names(tmp_path) == ["a", "b", "broken", "c", "d", "emptied"]
    assert names(tmp_path, "optim.lr < 0.1") == ["a", "c"]  # c: adamw's default
    assert names(tmp_path, "optim.lr == 0.12") == ["d"]  # sgd's default
    assert names(tmp_path, "method == 'simclr' and linear > 0.6") == ["c"]
    assert names(tmp_path, "knn > 0.5") == []
    with pytest.raises(SettingError, match="Unknown setting"):
        names(tmp_path, "lr < 1")
    with pytest.raises(SettingError, match="is not an expression"):
        names(tmp_path / "nothing", "lr <")


def test_scores_are_those_of_the_trained_encoder_on_its_own_data(tmp_path):
    make(
        tmp_path,
        "a",
        lines=[
            line(0.2, "raw pixels"),
            line(0.5),
            line(0.8, seed=1),
            line(0.6),  # replaces the 0.5
            line(0.1, data="mnist"),
            line(0.4, protocol="knn"),
            line(0.3, protocol="knn", metric="recall@1"),
        ],
    )
    (run,) = overviews(tmp_path)
    assert run.values["linear"] == pytest.approx(0.7)
    assert run.values["knn"] == pytest.approx(0.4)
    assert (run.values["state"], run.values["epoch"]) == ("stopped", None)


@pytest.mark.parametrize(("last", "loss"), [(1.0, 2.0), (float("nan"), None)])
def test_the_loss_is_the_mean_over_the_last_epoch(last, loss, tmp_path):
    readings = [(0.5, 9.0), (1.0, 8.0), (1.5, 3.0), (2.0, last)]
    text = [json.dumps({"epoch": epoch, "loss": x}) for epoch, x in readings]
    run = make(tmp_path, "a")
    (run / "metrics.jsonl").write_text("\n".join(text))
    (found,) = overviews(tmp_path)
    assert found.values["loss"] == loss
