"""Names are never used twice; metrics are cut to what a checkpoint knows."""

import errno
import json

import pytest

from invariance.errors import TrainingError
from invariance.training._run_folder import (
    Metrics,
    environment,
    new_folder,
    read_metrics,
)


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
    with pytest.raises(TrainingError, match="Cannot make a run folder"):
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
    about = json.loads(json.dumps(environment("cpu")))
    assert about["device"] == "cpu" and about["packages"]["torch"]
