"""Rows of the study on CIFAR-10 become full-size rows of claims."""

import pytest

from invariance.papers import CLAIMS
from invariance.papers.flatnce import fixed_ess, small_batch, true_mi_accuracy

POINT = {"epoch": 10, "knn": 57.5, "batch_nats": 2.36, "pool_nats": 2.88}


def make_line(stage="final", control="fixed", batch_size=32, epochs=100, **more):
    """As benchmarks/small_batch.py writes it."""
    return {
        "job": {
            "stage": stage,
            "objective": "FlatNCE",
            "control": control,
            "batch_size": batch_size,
            "knob": 0.3,
            "lr": 0.2,
            "epochs": epochs,
            "seed": 1,
        },
        "held_out": {"knn": 60.0, "linear": 70.0},
        "test": {"knn": 61.0, "linear": 71.0},
        "ess": 0.29,
        "curve": [POINT],
        **more,
    }


FINAL = make_line()
SWEEP = make_line("sweep", "ess", 256, 30)
CHOICE = make_line("knob", epochs=10)
FAILED = {"job": FINAL["job"], "failed": "it diverged"}


@pytest.mark.parametrize(
    ("claim", "line", "value"),
    [
        (small_batch, FINAL, {"accuracy": 71.0}),
        (fixed_ess, SWEEP, {"accuracy": 70.0, "ess": 0.29}),
        (
            true_mi_accuracy,
            FINAL,
            {"accuracy": [57.5], "pool_nats": [2.88], "batch_nats": [2.36]},
        ),
    ],
)
def test_only_finished_answers_of_the_study_become_rows(claim, line, value):
    (row,) = claim.from_study([CHOICE, FAILED, line])
    assert row.values == value
    assert row.settings in CLAIMS[claim.__name__.rpartition(".")[2]].sizes["full"]


def test_other_objectives_of_the_study_are_left_out():
    other = make_line()
    other["job"]["objective"] = "DHEL"
    assert small_batch.from_study([other]) == []
