"""Ours beside lightly's: what a row becomes in the table, and what is refused."""

import pytest
from scipy import stats

import peers_training
from intervals import correlate, paired, welch


def row_of(who, seed, knn, seconds):
    recipe = {"epochs": 25, "batch_size": 512}
    return {
        "who": who,
        "version": "1.0",
        "seed": seed,
        "n_train": 50_000,
        "recipe": recipe,
        "device": "a GPU",
        "knn": knn,
        "images_per_second": 1000 / seconds,
        "images_per_second_from_files": 900 / seconds,
        "epoch_seconds": seconds,
    }


def test_the_table_says_who_is_faster_and_whether_knn_is_as_good():
    ours = [row_of("invariance", seed, 68.2 + 0.1 * seed, 1) for seed in range(3)]
    theirs = [row_of("lightly", seed, 68.3 + 0.1 * seed, 8) for seed in range(3)]
    text = peers_training.make_table([*ours, *theirs])
    assert "50,000 images, a GPU; epochs 25, batch_size 512." in text
    assert "| invariance 1.0 | 3 | 68.30 ± 0.10 | 1,000 | 900 | 1.00 |" in text
    assert "8.0 times as fast" in text and "no lower than lightly's" in text
    worse = [row | {"knn": row["knn"] - 2} for row in ours]
    assert "Its kNN is lower than lightly's" in peers_training.judge(worse, theirs)
    assert "One seed says nothing" in peers_training.judge(ours[:1], theirs)


def test_a_crowded_run_counts_by_its_score_alone():
    ours = [row_of("invariance", seed, 68.2, 1) for seed in (0, 1)]
    quiet = row_of("lightly", 0, 68.0, 8)
    crowded = row_of("lightly", 1, 69.0, 16) | {"crowded": True}
    text = peers_training.make_table([*ours, quiet, crowded])
    assert "| lightly 1.0 | 2 | 68.50 ± 0.71 | 125 | 112 | 8.00 |" in text
    assert "8.0 times as fast" in text
    text = peers_training.make_table([*ours, crowded])
    assert "| lightly 1.0 | 1 | 69.00 | - | - | - |" in text
    assert "Speeds are not compared" in text and "times as fast" not in text


def test_the_recipe_is_what_ours_is_told():
    recipe = peers_training.Recipe(25, 512)
    settings = recipe.settings(3, ["--machine.precision", "32"])
    assert settings.optim.name == "sgd" and settings.optim.lr_scaling == "none"
    assert (settings.optim.lr, settings.temperature, settings.seed) == (0.24, 0.2, 3)
    assert settings.machine.precision == "32" and settings.encoder == "resnet18"


def test_a_peer_that_is_not_there_is_named(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(peers_training, "installed", lambda _: None)
    lines = ["--lines", str(tmp_path / "rows.jsonl")]
    assert peers_training.main([str(folder), "--who", "lightly", *lines]) == 2
    assert "lightly is not installed" in capsys.readouterr().err


def test_intervals_are_those_of_scipy():
    a, b = [1.0, 2.5, 3.0, 4.5], [0.5, 2.0, 2.25, 3.0]
    gap = welch(a, b)
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert (gap.low, gap.high) == pytest.approx((interval.low, interval.high))
    gap = paired(a, b)
    interval = stats.ttest_rel(a, b).confidence_interval()
    assert (gap.low, gap.high) == pytest.approx((interval.low, interval.high))
    link = correlate(a, [0.5, 2.0, 1.0, 3.0])
    interval = stats.pearsonr(a, [0.5, 2.0, 1.0, 3.0]).confidence_interval()
    assert (link.low, link.high) == pytest.approx(
        (interval.low, interval.high), abs=1e-4
    )
    assert welch([1.0], [2.0]).low == -float("inf")
