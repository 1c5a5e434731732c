"""Names are never used twice; metrics are cut to what a checkpoint knows."""

import errno
import json

import pytest

from invariance.errors import TrainingError
from invariance.folder import (
    Metrics,
    describe_environment,
    new_folder,
    read_metrics,
    read_settings,
    to_yaml,
    write_json,
)
from invariance.training import Optim, Train, train


def test_a_taken_name_gets_a_number(tmp_path):
    made = [new_folder(tmp_path / "runs", "mine").name for _ in range(3)]
    assert made == ["mine", "mine-2", "mine-3"]
    assert (tmp_path / "runs" / "mine-3" / "checkpoints").is_dir()


def test_a_file_of_that_name_counts_too(tmp_path):
    (tmp_path / "mine").write_text("")
    assert new_folder(tmp_path, "mine").name == "mine-2"


@pytest.mark.parametrize("name", ["a/b", "", "..", "a\\b", "what?"])
def test_names_that_are_no_names(name, tmp_path):
    with pytest.raises(TrainingError, match="choose a plain name"):
        new_folder(tmp_path, name)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        TrainingError,
        match=r"Cannot make a run folder in [^\[]*file: [^\[]* Choose another place",
    ):
        new_folder(tmp_path / "file", "mine")


def test_metrics_are_cut_at_a_position(tmp_path):
    path = tmp_path / "metrics.jsonl"
    first = Metrics(path)
    first.write({"step": 1})
    position = first.position
    first.write({"step": 2})
    first.close()
    path.write_bytes(path.read_bytes() + b'{"step": 3, "lo')
    assert [m["step"] for m in read_metrics(path)] == [1, 2]
    second = Metrics(path, position)
    second.write({"step": 5})
    second.close()
    assert [m["step"] for m in read_metrics(path)] == [1, 5]


def test_metrics_on_a_full_disk_say_so(tmp_path):
    class Full:
        name = str(tmp_path / "metrics.jsonl")

        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    metrics = Metrics(tmp_path / "metrics.jsonl")
    metrics.close()
    metrics.file = Full()
    with pytest.raises(TrainingError, match=r"No space left on device.*--resume"):
        metrics.write({"step": 1})


def test_the_environment_is_plain_json():
    about = json.loads(json.dumps(describe_environment("cpu")))
    assert about["device"] == "cpu" and about["packages"]["torch"]


def run_of(folder, settings, **env):
    """A folder with the settings of a run, and what it says of its making."""
    folder.mkdir()
    (folder / "config.yaml").write_text(to_yaml(settings))
    write_json(folder / "env.json", describe_environment("cpu") | env)
    return folder


def test_one_row_of_an_old_run_stays_one_row(tmp_path):
    old = run_of(tmp_path / "old", Train(options={"k": 1.0, "outer": 1.0}), format=1)
    assert repr(read_settings(old, Train).options) == "{'k': 1, 'outer': 1.0}"
    new = run_of(tmp_path / "new", Train(options={"k": 1.0}))
    assert repr(read_settings(new, Train).options) == "{'k': 1.0}"


def test_vince_of_an_old_run_stays_weighted(tmp_path):
    for method in ("vince", "vince_plus", "ball"):
        old = run_of(tmp_path / method, Train(method=method), format=2)
        expected = {} if method == "ball" else {"weighted": True}
        assert read_settings(old, Train).options == expected
    new = run_of(tmp_path / "new", Train(method="vince"), format=3)
    assert read_settings(new, Train).options == {}


def test_weight_decay_of_an_old_run_still_spares_biases_and_norms(tmp_path):
    settings = Train(optim=Optim(name="sgd"))
    old = run_of(tmp_path / "old", settings, format=3)
    assert read_settings(old, Train).optim.decay == "matrices"
    new = run_of(tmp_path / "new", settings)
    assert read_settings(new, Train).optim.decay == "auto"


def test_a_run_of_a_newer_version_is_refused(tmp_path):
    run = run_of(tmp_path / "run", Train(), format=99, invariance="7.0")
    with pytest.raises(TrainingError, match=r"written by invariance 7\.0.*update"):
        train(Train(resume=str(run)))


def test_resuming_without_the_data_says_which(tmp_path):
    run = run_of(tmp_path / "run", Train(data="old/photos"))
    before = sorted(run.iterdir())
    with pytest.raises(TrainingError, match="was training on 'old/photos', which is"):
        train(Train(resume=str(run)))
    assert sorted(run.iterdir()) == before
