"""One change at a time: each is made, scored on held-out images, and resumed."""

import json

import pytest
import torch

import recipe
from invariance.views import Draws, RandomResizedCrop

QUICK = ("--encoder", "tiny", "--epochs", "1", "--batch-size", "16", "--hidden", "16")


def test_runs_are_rows_and_a_second_call_takes_up_the_rest(folder, tmp_path, capsys):
    lines = tmp_path / "rows.jsonl"
    words = [str(folder), "--lines", str(lines), "--parallel", "1", "--seeds", "0"]
    words += [*QUICK, "--image-size", "16"]
    job = recipe.Job("base", 0, (*QUICK, "--image-size", "16"))
    done = {"job": job.values, "held_out": {"knn": 90.0, "linear": 90.0, "n": 8}}
    lines.write_text(json.dumps(done) + "\n")
    assert recipe.main([*words, "--only", "base", "decay", "tau 0.5"]) == 0
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [row["job"]["change"] for row in rows] == [
        "base",
        "decay matrices",
        "tau 0.5",
    ]
    assert rows[1]["settings"]["optim.decay"] == "matrices"
    assert rows[2]["settings"]["temperature"] == 0.5
    assert all("test" not in row and row["held_out"]["n"] == 8 for row in rows)
    table = lines.with_suffix(".md").read_text()
    assert table in capsys.readouterr().out
    assert "| tau 0.5 | 1 |" in table


def test_the_table_has_the_spread_and_the_paired_difference():
    scores = {"base": (60.0, 62.0, 61.0), "tau 0.1": (61.0, 63.5, 62.0)}
    rows = [
        {
            "job": recipe.Job(change, seed, ()).values,
            "held_out": {"knn": score, "linear": score + 1},
        }
        for change, values in scores.items()
        for seed, score in enumerate(values)
    ]
    text = recipe.make_table(rows, ())
    assert "| base | 3 | 61.00 ± 1.00 |  | 62.00 ± 1.00 |  |" in text
    # 1.0, 1.5 and 1.0 more: 1.17, and 4.30 standard errors to each side
    assert "| tau 0.1 | 3 | 62.17 ± 1.26 | +1.17 [+0.45, +1.88] |" in text
    one = recipe.make_table(rows[::3], ())
    assert "| tau 0.1 | 1 | 61.00 | +1.00 [no interval: one run] |" in one


@pytest.mark.parametrize("change", ["norm in the head", "rate x 2"])
def test_a_change_is_what_it_says(change, folder):
    job = recipe.Job(change, 0, (*QUICK, "--image-size", "16"))
    row = recipe.do_job(job, folder, threads=1)
    assert row["held_out"]["n"] == 8
    if change == "rate x 2":
        assert row["settings"]["optim.lr"] == pytest.approx(0.48)


def test_every_change_can_be_asked_for():
    base = recipe.read_flags([*recipe.BASE, *QUICK])
    for change in recipe.CHANGES.values():
        words = [str(word) for word in change.flags(base)]
        settings = recipe.read_flags([*recipe.BASE, *QUICK, *words])
        assert isinstance(change.objects(settings), dict)


def test_the_last_norm_of_every_block_is_filled():
    encoder = recipe.fill_last_norms(1.0, recipe.read_flags([]))["encoder"]
    last = [p for name, p in encoder.named_parameters() if name.endswith("bn2.weight")]
    assert len(last) == 8 and all((p == 1).all() for p in last)


def test_a_plain_crop_of_the_whole_image_is_the_image():
    crop = recipe.PlainCrop(RandomResizedCrop(8, (1.0, 1.0), (1.0, 1.0)), "bilinear")
    images = torch.rand(3, 3, 8, 8)
    draws = Draws(seed=0, epoch=0, samples=torch.arange(3), view=0)
    torch.testing.assert_close(crop(images, draws), images)
    right = crop.apply(images, torch.tensor([[0, 4, 8, 4]]).expand(3, 4))
    left = crop.apply(images.flip(3), torch.tensor([[0, 0, 8, 4]]).expand(3, 4))
    torch.testing.assert_close(right, left.flip(3))
    first = 0.25 * images[..., 3] + 0.75 * images[..., 4]  # a quarter beside its middle
    torch.testing.assert_close(right[..., 0], first)
