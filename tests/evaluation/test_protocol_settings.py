"""Settings and presets: all are heeded, none is ignored, each has its own line."""

import inspect
import re

import pytest
import torch
from torch import nn

import invariance as inv
from invariance.cli import main
from invariance.data import Resident
from invariance.errors import DataError, SettingError
from invariance.evaluation import (
    GROUPS,
    OPTIMIZERS,
    PRESETS,
    PROTOCOLS,
    SCHEDULES,
    Evaluation,
    attack_probe,
    evaluate_encoders,
    few_labels_linear,
    fit_classifier,
    knn,
    linear_probe,
    linear_sgd,
    make_task,
    name_classes,
    plan_protocols,
    steps_ahead,
)
from invariance.folder import tabulate

FUNCTIONS = {
    "knn": knn,
    "linear": linear_probe,
    "linear_sgd": linear_sgd,
    "fine_tune": fit_classifier,
    "few_labels": few_labels_linear,
    "zero_shot": name_classes,
    "steps_ahead": steps_ahead,
    "attack": attack_probe,
}
# for every setting, a value that is not the default
OTHERS = {
    "knn": {"k": 3, "temperature": 0.5},
    "linear": {"l2": 0.7},
    "linear_sgd": {
        **{"epochs": 2, "batch_size": 8, "lr": 0.01, "momentum": 0.1},
        **{"weight_decay": 0.5, "schedule": "constant", "standardize": False},
        **{"augment": False},
    },
    "fine_tune": {
        **{"epochs": 2, "min_steps": 9, "batch_size": 8, "lr": 0.02},
        **{"weight_decay": 5.0, "optimizer": "sgd", "momentum": 0.1},
        **{"schedule": "step", "augment": False},
    },
    "few_labels": {"shares": (0.5,), "draws": 2},
    "attack": {
        **{"epsilon": 0.01, "steps": 2, "step_size": 0.001, "norm": "l2"},
        **{"restarts": 2, "images": 9},
    },
}
QUICK = {"fine_tune": {"epochs": 1, "min_steps": 4}, "linear_sgd": {"epochs": 1}}


@pytest.fixture(scope="module")
def task():
    g = torch.Generator().manual_seed(0)
    labels = torch.arange(90) % 3
    images = torch.randint(0, 200, (90, 3, 8, 8), generator=g, dtype=torch.uint8)
    images[torch.arange(90), labels, :4] += 30
    train = Resident(images[:60], labels[:60], name="blots")
    test = Resident(images[60:], labels[60:], name="blots")
    return make_task(train, test, limit=None, device="cpu")


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.ReLU())


def score(task, encoder, protocol, settings):
    plan = plan_protocols(protocol, settings=settings)
    rows = evaluate_encoders(task, {"trained encoder": encoder}, plan=plan)
    return [row for row in rows if row["metric"] == "accuracy"]


@pytest.mark.parametrize(
    "group, key",
    [  # those of pairs are in test_pairs.py
        (group, key) for group in OTHERS for key in GROUPS[group]
    ],
)
def test_every_setting_is_heeded_and_stands_in_the_row(task, encoder, group, key):
    protocol = next(name for name, p in PROTOCOLS.items() if group in p.takes)
    quick = {g: v for g, v in QUICK.items() if g in PROTOCOLS[protocol].takes}
    usual = score(task, encoder, protocol, quick)
    own = {**quick.get(group, {}), key: OTHERS[group][key]}
    rows = score(task, encoder, protocol, quick | {group: own})
    assert all(row["changed"][key] == OTHERS[group][key] for row in rows)
    assert all("preset" not in row for row in rows)
    given = [row["settings"] for row in rows]
    assert given != [row["settings"] for row in usual]
    if group != "few_labels":
        assert plan_protocols(protocol, settings={group: own}).settings[group] == own
    else:
        assert len(rows) != len(usual)


def test_all_are_those_that_suit_the_data(task):
    suited = plan_protocols("all").suit(task)
    assert {"knn", "attacked", "fine_tune"} <= {*suited}
    assert not {"zero_shot", "pairs", "steps_ahead", "ridge"} & {*suited}
    with pytest.raises(DataError, match="steps_ahead is for sequence data"):
        plan_protocols(["knn", "steps_ahead"]).suit(task)
    with pytest.raises(DataError, match="ridge predicts a number per image"):
        plan_protocols("ridge").suit(task)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_can_be_asked_for(name):
    plan = plan_protocols(preset=name)
    assert plan.protocols == PRESETS[name].protocols
    for group, values in PRESETS[name].settings.items():
        assert set(values) <= set(GROUPS[group])
        assert any(group in PROTOCOLS[p].takes for p in plan.protocols)
        allowed = inspect.signature(FUNCTIONS[group]).parameters
        assert {*values} <= {*allowed, "augment", "shares"}
    assert re.search(r"20\d\d|FlatNCE", PRESETS[name].source)


def test_settings_go_before_the_preset_s():
    plan = plan_protocols(preset="moco_linear", settings={"linear_sgd": {"epochs": 1}})
    assert plan.settings["linear_sgd"]["epochs"] == 1
    assert plan.settings["linear_sgd"]["lr"] == 30
    assert PRESETS["moco_linear"].settings["linear_sgd"]["epochs"] == 100


def test_presets_are_lines_of_their_own(task, encoder):
    rows = []
    for asked in (
        {"protocols": "knn"},
        {"preset": "instance_knn"},
        {"protocols": "knn", "settings": {"knn": {"k": 5}}},
        {"protocols": "linear"},
        {"preset": "flatnce_linear"},
        {"preset": "flatnce_linear", "settings": {"linear": {"l2": 0.25}}},
    ):
        plan = plan_protocols(**asked)
        rows += evaluate_encoders(task, {"trained encoder": encoder}, plan=plan)
    assert [(row.get("preset"), row.get("changed")) for row in rows] == [
        (None, None),
        ("instance_knn", None),
        (None, {"k": 5}),
        (None, None),
        ("flatnce_linear", None),
        ("flatnce_linear", {"l2": 0.25}),
    ]
    for order in (rows, rows[::-1]):
        table = tabulate(order, "blots")
        assert all(
            len(line.cells["trained encoder"].values) == 1 for line in table.lines
        )
        assert len(table.lines) == 6
        usual = [table.cell("trained encoder", name) for name in ("knn", "linear")]
        assert [cell.mean for cell in usual] == [rows[0]["value"], rows[3]["value"]]
    shown = str(Evaluation(tuple(rows)))
    assert "T = 0.07, as instance_knn  " in shown  # with all 60 rows for 200
    assert "as flatnce_linear  " in shown and "as flatnce_linear, l2 0.25  " in shown


def test_rows_from_before_there_was_a_choice_ask_the_same(task, encoder):
    """Their settings have the names that they had, so the next one replaces them."""
    (row,) = score(task, encoder, "fine_tune", {"fine_tune": {"min_steps": 2}})
    assert set(row["settings"]) == {
        *("epochs", "min_steps", "batch_size", "lr", "weight_decay"),
        *("augmented", "n_train", "seed"),
    }
    (row,) = score(task, encoder, "linear_sgd", {"linear_sgd": {"epochs": 1}})
    assert set(row["settings"]) == {
        *("epochs", "batch_size", "lr", "momentum", "augmented", "n_train", "seed"),
    }


@pytest.mark.parametrize(
    "asked, message",
    [
        (
            {"protocols": "knn", "settings": {"fine_tune": {"epochs": 5}}},
            "Settings of fine_tune would have no effect on knn: leave them out, or "
            "ask for fine_tune or few_labels_fine_tune",
        ),
        ({"settings": {"linear_sgd": {"lr": 1}}}, "linear_sgd would have no effect"),
        (
            {"protocols": "knn", "settings": {"knn": {"kk": 5}}},
            r"Unknown setting of knn 'kk'\. Did you mean 'k'",
        ),
        ({"settings": {"knm": {}}}, "Unknown group of settings 'knm'. Did you mean"),
        ({"preset": "moco"}, "Unknown preset 'moco'. Did you mean 'moco_linear'"),
        (
            {"preset": "moco_linear", "protocols": "knn"},
            "The preset moco_linear is made of linear_sgd: leave the protocols out",
        ),
        ({"protocols": ()}, "Name a protocol: knn, linear"),
    ],
)
def test_what_would_have_no_effect_is_refused(asked, message):
    with pytest.raises(SettingError, match=message):
        plan_protocols(**asked)


@pytest.mark.parametrize(
    "protocol, settings, message",
    [
        ("knn", {"knn": {"k": 0}}, "knn.k is 1 or more: got 0"),
        ("knn", {"knn": {"temperature": 0.0}}, "must be a positive number"),
        ("linear", {"linear": {"l2": -1.0}}, "linear.l2 is 0 or more"),
        ("fine_tune", {"fine_tune": {"lr": 0.0}}, "lr must be a positive number"),
        (
            "fine_tune",
            {"fine_tune": {"momentum": 1.0}},
            "momentum is 0 or more and below 1",
        ),
        (
            "fine_tune",
            {"fine_tune": {"weight_decay": -1.0}},
            "weight_decay is 0 or more",
        ),
        ("fine_tune", {"fine_tune": {"min_steps": -1}}, "min_steps is 0 or more"),
        ("fine_tune", {"fine_tune": {"optimizer": "adamv"}}, "Did you mean 'adam"),
        ("linear_sgd", {"linear_sgd": {"schedule": "cos"}}, "Did you mean 'cosine'"),
        ("few_labels_linear", {"few_labels": {"shares": ()}}, "at least one: got"),
        ("few_labels_linear", {"few_labels": {"shares": 2.0}}, "parts of the labels"),
        ("few_labels_linear", {"few_labels": {"draws": 0}}, "draws is 1 or more"),
    ],
)
def test_values_that_cannot_work_are_refused(
    task, encoder, protocol, settings, message
):
    with pytest.raises(SettingError, match=message):
        score(task, encoder, protocol, settings)


# --------------------------------------------------------------- the command line


def test_flags_are_the_settings(capsys, monkeypatch):
    """Names, choices and the defaults in the help, each held to its function."""
    monkeypatch.setenv("COLUMNS", "80")  # wider help stands in two columns
    with pytest.raises(SystemExit):
        main(["evaluate", "--help-all"])
    words = re.sub(r"[│\s]+", " ", capsys.readouterr().out)
    flags = set(re.findall(r"--([a-z-]+\.[a-z0-9-]+) ", words))
    keys = {f"{group}.{key}" for group, keys in GROUPS.items() for key in keys}
    assert flags == {key.replace("_", "-") for key in keys}
    for group, keys in GROUPS.items():
        defaults = inspect.signature(FUNCTIONS[group]).parameters
        for key in keys:
            flag = f"--{group}.{key}".replace("_", "-")
            about = words.split(f"{flag} ")[1].split("--")[0]
            told = re.search(r"Default: (.*?)\. ", about)
            default = defaults[key].default if key in defaults else None
            if isinstance(default, (int, float, str)):
                assert told[1] == str(default), flag
            choices = {"schedule": SCHEDULES, "optimizer": OPTIMIZERS}.get(key, ())
            assert ",".join(choices) in about
    assert ",".join(PROTOCOLS) in words.replace(", ", ",")


def test_several_classes_per_image():
    g = torch.Generator().manual_seed(0)
    tags = torch.randint(2, (80, 3), generator=g).to(torch.int8)
    images = torch.randint(0, 120, (80, 1, 6, 6), generator=g, dtype=torch.uint8)
    parts = [
        Resident(images[s], tags=tags[s], name="scenes")
        for s in (slice(50), slice(50, None))
    ]
    task = make_task(*parts, limit=40, device="cpu")
    rows = evaluate_encoders(task, {"raw pixels": None})
    assert [(r["protocol"], r["metric"]) for r in rows] == [
        *(("knn", "map"), ("knn", "map11"), ("linear", "map"), ("linear", "map11")),
    ]
    assert all(r["settings"]["limit"] == 40 for r in rows)
    shown = str(inv.evaluation.Evaluation(tuple(rows)))
    assert "kNN, MAP, k = 20" in shown and "linear probe, MAP of 11 points" in shown
    with pytest.raises(
        DataError,
        match="retrieval, clustering need one class per image, and images of scenes "
        "may show several: use knn, linear, linear_sgd, fine_tune",
    ):
        plan = plan_protocols(["knn", "retrieval", "clustering"])
        evaluate_encoders(task, {"raw pixels": None}, plan=plan)


def test_scores_taken_beside_the_device_are_the_same(task, monkeypatch):
    plan, lines = plan_protocols(), ([], [])
    alone = evaluate_encoders(
        task, {"raw pixels": None}, plan=plan, say=lines[0].append
    )
    idle = "invariance.evaluation._evaluator.leaves_cores_idle"  # as with a GPU
    monkeypatch.setattr(idle, lambda _: True)
    beside = evaluate_encoders(
        task, {"raw pixels": None}, plan=plan, say=lines[1].append
    )
    assert "clustering" in {row["protocol"] for row in alone}
    assert beside == alone
    assert sorted(lines[0]) == sorted(lines[1])
