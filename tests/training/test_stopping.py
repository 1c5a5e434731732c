"""A run may end before its last epoch, in order: by patience, or by a function."""

import dataclasses
import json

import pytest

import invariance as inv
from invariance.errors import SettingError
from invariance.folder import read_record
from invariance.training import Stopping, Train

SMALL = Train(
    data="shapes",
    limit=64,
    batch_size=32,
    image_size=16,
    epochs=6,
    knn_every=0,
    evaluate=False,
    quiet=True,
    checkpoint_seconds=0.0,
)
# a gain that no loss can make: the second epoch has none, the third ends it
ENDS = Stopping(patience=2, reading="loss", min_gain=100.0)


def run_small(out, **changes):
    return inv.train(dataclasses.replace(SMALL, out=str(out), **changes))


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    return run_small(tmp_path_factory.mktemp("runs"), name="ended", stop=ENDS)


def test_a_run_without_gain_ends_as_a_finished_run(ended):
    record = read_record(ended.folder)
    assert record.finished
    last = ended.metrics[-1]
    assert (last["step"], last["epoch"]) == (6, 3.0)
    assert last["ended"].startswith("the loss has not fallen below ")
    assert last["ended"].endswith(" by more than 100 for 2 epochs")
    assert not any("ended" in reading for reading in ended.metrics[:-1])


def test_log_verdict_and_report_say_why(ended):
    log = (ended.folder / "train.log").read_text()
    assert "Ended after epoch 3 of 6: the loss has not fallen below" in log
    finding = next(f for f in ended.verdict if f.kind == "ended")
    assert finding.text.startswith("After epoch 3 of 6: the loss has not fallen")
    assert "The learning rate had not come down" in finding.text
    page = (ended.folder / "report.html").read_text()
    assert "Ended early" in page and "3 of 6 epochs" in page


def test_stopped_and_resumed_it_ends_at_the_same_reading(ended, tmp_path):
    def interrupt(epoch, learner):
        if epoch == 2:
            raise KeyboardInterrupt

    settings = dataclasses.replace(SMALL, out=str(tmp_path), name="again", stop=ENDS)
    with pytest.raises(KeyboardInterrupt):
        inv.train(settings, each_epoch=interrupt)
    assert not read_record(tmp_path / "again").finished
    again = inv.train(Train(resume=str(tmp_path / "again"), quiet=True))
    assert untimed(again) == untimed(ended)
    encoders = [
        (run.folder / "encoder.safetensors").read_bytes() for run in (again, ended)
    ]
    assert encoders[0] == encoders[1]


def test_one_that_was_killed_while_it_scored_trains_no_further(tmp_path):
    run = run_small(tmp_path, name="scoring", stop=ENDS)
    (run.folder / "encoder.safetensors").unlink()
    before = (run.folder / "metrics.jsonl").read_bytes()
    again = inv.train(Train(resume=str(run.folder), quiet=True))
    assert (run.folder / "metrics.jsonl").read_bytes() == before
    assert read_record(again.folder).finished


def test_functions_are_called_in_turn_and_may_end_the_run(tmp_path):
    calls = []

    def count(epoch, learner):
        calls.append(epoch)
        return {"mine": 10.0 * epoch}

    def end(epoch, learner):
        if epoch == 2:
            raise inv.Stop("it is good enough.")

    run = inv.train(
        dataclasses.replace(SMALL, out=str(tmp_path), name="told"),
        each_epoch=[count, end],
    )
    assert calls == [1, 2]
    assert [r["mine"] for r in run.metrics if "mine" in r] == [10.0, 20.0]
    assert run.metrics[-1]["ended"] == "it is good enough"
    assert next(f for f in run.verdict if f.kind == "ended")


def test_patience_may_follow_a_number_of_ones_own(tmp_path):
    settings = dataclasses.replace(
        SMALL,
        out=str(tmp_path),
        name="own",
        stop=Stopping(patience=1, reading="mine"),
    )
    values = iter([0.1, 0.3, 0.2, 0.4])
    run = inv.train(settings, each_epoch=lambda *_: {"mine": next(values)})
    assert run.metrics[-1]["epoch"] == 3.0
    assert run.metrics[-1]["ended"] == "mine has not risen above 0.3 for 1 epoch"


def test_a_number_that_nobody_returns_is_refused(tmp_path):
    stop = Stopping(patience=1, reading="mine")
    settings = dataclasses.replace(SMALL, out=str(tmp_path), stop=stop)
    with pytest.raises(SettingError, match="no function has returned a number"):
        inv.train(settings, each_epoch=lambda *_: {"other": 1.0})


def test_in_the_last_epoch_there_is_nothing_to_end(tmp_path):
    def end(epoch, learner):
        if epoch == 2:
            raise inv.Stop("now")

    settings = dataclasses.replace(SMALL, out=str(tmp_path), epochs=2)
    run = inv.train(settings, each_epoch=end)
    assert "ended" not in run.metrics[-1]


def test_patience_follows_knn_where_there_are_labels(tmp_path):
    stop = Stopping(patience=1, min_gain=1.0)  # more than kNN can gain
    run = run_small(tmp_path, stop=stop, knn_every=1)
    assert run.metrics[-1]["epoch"] == 2.0
    assert run.metrics[-1]["ended"].startswith("kNN among training samples has not")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"stop": Stopping(min_gain=0.1)}, "add --stop.patience 10"),
        ({"stop": Stopping(patience=5, reading="loss")}, "cannot run out within 6"),
        (
            {"stop": Stopping(patience=1), "knn_every": 3},
            "cannot run out within 6 epochs, with one reading every 3",
        ),
        ({"stop": Stopping(patience=2, reading="knn")}, "--knn-every 0 takes none"),
        (
            {"stop": Stopping(patience=2, reading="knn"), "labels": False}
            | {"knn_every": 1},
            "needs labels",
        ),
        ({"stop": Stopping(patience=2, reading="los")}, "Did you mean 'loss'?"),
        ({"stop": Stopping(patience=0)}, "stop.patience must be at least 1"),
    ],
)
def test_what_could_never_end_a_run_is_refused(changes, message, tmp_path):
    with pytest.raises(SettingError, match=message.replace("?", r"\?")):
        run_small(tmp_path, **changes)
    assert not list(tmp_path.iterdir())


def untimed(run):
    lines = (run.folder / "metrics.jsonl").read_text().splitlines()
    return [
        {k: v for k, v in json.loads(line).items() if not k.startswith("time/")}
        for line in lines
    ]
