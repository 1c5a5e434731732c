"""Every setting of a run changes what it trains, or is known to do something else."""

import dataclasses

import pytest

import invariance as inv
from invariance.errors import SettingError
from invariance.methods import Method
from invariance.training import (
    Attack,
    Ess,
    Federated,
    Machine,
    Optim,
    Stopping,
    Train,
    make_plan,
)
from invariance.views import RandomHorizontalFlip, ViewSet

CHANGES = {  # each gives other losses than the settings of ``small``
    "method": {"method": "dcl"},
    "encoder": {"encoder": "resnet10t"},
    "epochs": {"epochs": 1},
    "batch_size": {"batch_size": 8},
    "micro_batch": {"micro_batch": 8},  # as batch norms see it
    "temperature": {"temperature": 0.2},
    "options": {"options": {"normalize": "false"}},
    "views": {"views": "weak"},
    "views_drop": {"views_drop": ("gray",)},
    "views_strength": {"views_strength": {"crop": 0.5}},
    "views_adversarial": {"views_adversarial": "first"},
    "n_views": {"n_views": 3},
    "critic": {"method": "info_nce", "critic": "separable"},
    "head": {"head": "mlp3"},
    "hidden": {"hidden": 24},
    "width": {"width": 12},
    "image_size": {"image_size": 12},
    "limit": {"limit": 48},
    "seed": {"seed": 1},
    "optim.name": {"optim": Optim(name="sgd")},
    "optim.lr": {"optim": Optim(lr=0.01)},
    "optim.lr_scaling": {"optim": Optim(lr_scaling="none")},
    "optim.weight_decay": {"optim": Optim(weight_decay=0.5)},
    "optim.decay": {"optim": Optim(weight_decay=0.5, decay="all")},
    "optim.momentum": {"optim": Optim(name="sgd", momentum=0.5)},
    "optim.warmup": {"optim": Optim(warmup=0.5)},
    "optim.clip_norm": {"optim": Optim(name="sgd", clip_norm=0.01)},
    "optim.accumulate": {"optim": Optim(accumulate=2)},
    "ess.target": {"ess": Ess(target=0.3)},
    "ess.end": {"ess": Ess(target=0.3, end=0.9)},
    "ess.schedule": {"ess": Ess(schedule=(0.3, 0.9, 0.3))},
    "ess.rate": {"ess": Ess(target=0.3, rate=0.2)},
    "attack.epsilon": {"views_adversarial": "first", "attack": Attack(epsilon=0.1)},
    "attack.steps": {"views_adversarial": "first", "attack": Attack(steps=2)},
    "attack.step_size": {"views_adversarial": "first", "attack": Attack(step_size=0.1)},
    "attack.norm": {"views_adversarial": "first", "attack": Attack(norm="l2")},
}
BESIDE = {  # what a change is compared with, where it needs company
    "optim.decay": {"optim": Optim(weight_decay=0.5)},
    "optim.momentum": {"optim": Optim(name="sgd")},
    "optim.clip_norm": {"optim": Optim(name="sgd")},
    "ess.end": {"ess": Ess(target=0.3)},
    "ess.schedule": {"ess": Ess(target=0.3)},
    "ess.rate": {"ess": Ess(target=0.3)},
    "critic": {"method": "info_nce"},
    **{
        f"attack.{name}": {"views_adversarial": "first"}
        for name in ("epsilon", "steps", "step_size", "norm")
    },
}
ELSEWHERE = {  # what it decides is tested under that name
    **{
        f"federated.{field.name}": "test_federated"
        for field in dataclasses.fields(Federated)
    },
    **{f"stop.{field.name}": "test_stopping" for field in dataclasses.fields(Stopping)},
    "data": "test_python_api: arrays, folders and names",
    "pretrained": "test_build_encoder",
    "other_encoder": "test_any_samples: two encoders",
    "captions": "test_clip and data/: which file",
    "image_column": "data/: captions and their images",
    "text_column": "data/: captions and sentences",
    "columns": "data/test_tables: which columns go in",
    "target": "data/test_tables: what becomes the labels",
    "window": "test_sequence_runs",
    "stride": "test_sequence_runs",
    "time_column": "data/: tables of values in time",
    "start_from": "test_python_api: starting from another run",
    "storage": "test_exact_resume: the same numbers from memory and from files",
    "workers": "data/: decoding processes",
    "labels": "data/: labels or none",
    "hold_out": "data/: how many images are held out",
    "data_root": "data/: where named sets are looked for",
    "out": "folder/: where a run is written",
    "name": "folder/: what it is called",
    "trackers": "test_trackers",
    "log_every": "test_python_api: how often readings are written",
    "knn_every": "test_best_epoch",
    "keep_every": "test_kept_epochs",
    "checkpoint_seconds": "test_interruptions",
    "evaluate": "test_python_api: scores at the end",
    "resume": "test_exact_resume",
    "dry_run": "test_dry_run",
    "quiet": "test_python_api: what is printed",
    "json": "test_python_api: what is printed",
}


def names_of(kind, before=""):
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(field.default_factory):
            yield from names_of(field.default_factory, f"{field.name}.")
        else:
            yield f"{before}{field.name}"


def test_every_setting_is_tried_here_or_elsewhere():
    machine = {f"machine.{field.name}" for field in dataclasses.fields(Machine)}
    known = {*CHANGES, *ELSEWHERE, *machine}  # where it runs changes no decision
    assert {*names_of(Train)} - known == set()


@pytest.fixture(scope="module")
def usual():
    return {}


@pytest.mark.parametrize("name", CHANGES)
def test_it_changes_the_losses(name, small, pictures, usual):
    def losses(changes):
        run = inv.train(small(**changes), data=pictures)
        return [reading["loss"] for reading in run.metrics]

    beside = BESIDE.get(name, {})
    if repr(beside) not in usual:
        usual[repr(beside)] = losses(beside)
    assert losses(CHANGES[name]) != usual[repr(beside)]


def test_views_of_one_s_own_have_their_number_and_their_strength(small, pictures):
    views = ViewSet([[RandomHorizontalFlip()]] * 2)
    used = [
        make_plan(small(), data=pictures, views=v).outcome()["used"]["views"]
        for v in (None, views)
    ]
    assert used == ["simclr", "your own"]
    with pytest.raises(SettingError, match="The view set makes 2 views, and n_views"):
        make_plan(small(n_views=3), data=pictures, views=views)
    for changes in ({"views_drop": ("flip",)}, {"views_strength": {"flip": 0.5}}):
        with pytest.raises(SettingError, match=r"use invariance.views.weaken on its"):
            make_plan(small(**changes), data=pictures, views=views)
    with pytest.raises(SettingError, match="Unknown option 'strength'"):
        make_plan(small(options={"strength": 0.5}), data=pictures, views=views)


def test_a_run_that_was_started_goes_on_with_settings_without_effect(small, pictures):
    settings = small(views="byol", n_views=4, head="none")
    with pytest.raises(SettingError, match="hidden is the width of layers"):
        make_plan(settings, data=pictures)
    assert len(make_plan(settings, data=pictures, started=True).views) == 2


@pytest.mark.parametrize(
    "method, refused",
    [
        ("simclr", True),
        ("moco", True),
        ("byol", False),
        ("simsiam", False),
        ("nnclr", False),
    ],
)
def test_hidden_is_the_predictor_s_too(method, refused, small, pictures):
    options = {"size": 20} if method in ("moco", "nnclr") else {}
    settings = small(method=method, head="linear", options=options)
    if refused:
        with pytest.raises(SettingError, match="hidden is the width of layers"):
            make_plan(settings, data=pictures)
    else:
        wide, narrow = (
            make_plan(dataclasses.replace(settings, hidden=h), data=pictures)
            for h in (256, 16)
        )
        assert str(wide.learner.predictor) != str(narrow.learner.predictor)


def test_what_has_a_test_part_holds_nothing_out(small):
    for asked in ("nothing", "tenth"):
        with pytest.raises(
            SettingError, match="hold_out is for data without their own test"
        ):
            make_plan(small(data="shapes", limit=64, hold_out=asked))


def test_views_options_reach_the_recipe(small, pictures):
    settings = small(
        method="swav",
        views="multi_crop",
        options={"n_local": 3, "local_size": 10, "n_prototypes": 6, "blur": 0.5},
    )
    plan = make_plan(settings, data=pictures)
    assert [view[0].size for view in plan.views.pipelines] == [16, 16, 10, 10, 10]
    assert len(plan.learner.objective.prototypes) == 6
    assert (
        len(make_plan(small(views="multi_crop", n_views=6), data=pictures).views) == 6
    )


def test_the_first_lines_say_how_it_differs(small, pictures):
    settings = small(
        method="moco",
        options={"size": 32, "symmetric": True, "momentum": 0.999},
        views_drop=("gray",),
        views_strength={"crop": 0.5},
    )
    facts = "\n".join(make_plan(settings, data=pictures).facts())
    assert "momentum twin at 0.999, symmetric, negatives: queue (0 of 32 rows" in facts
    assert "InfoNCE(temperature=0.2, normalize=True)" in facts
    assert "views: without gray, crop at 0.5 of its strength" in facts
    facts = "\n".join(make_plan(small(method="byol"), data=pictures).facts())
    assert "momentum twin at 0.95 rising to 1" in facts and "views: " not in facts


def test_a_method_of_one_s_own_accepts_what_its_parts_do(small, pictures):
    mine = Method(objective="dcl", negatives="bank")
    plan = make_plan(
        small(options={"weight_sigma": 0.5, "bank_momentum": 0.25}),
        data=pictures,
        method=mine,
    )
    assert plan.learner.objective.weight_sigma == 0.5
    assert plan.learner.negatives.momentum == 0.25
    with pytest.raises(SettingError, match="Unknown option 'negatives'"):
        make_plan(small(options={"negatives": "cross"}), data=pictures, method=mine)


def test_a_batch_beyond_width_plus_one_has_no_simplex(small, pictures):
    def facts(**changes):
        return "\n".join(make_plan(small(**changes), data=pictures).facts())

    assert "16 samples are more than the 9 that can all be equally far" in facts()
    assert "simplex" not in facts(width=15)
    assert "simplex" not in facts(method="vicreg")  # nothing repels there
