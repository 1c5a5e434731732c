"""Run folders made up in a moment."""

import json
import math

import pytest
import yaml

from invariance.report import write_report

N_READINGS, EPOCHS = 20, 4
DEFAULTS = {"data": "shapes", "epochs": 20, "seed": 0, "optim": {"lr": None}}


def reading(k, **changes):
    """Of a run that learns well."""
    epoch = k * EPOCHS / N_READINGS
    return {
        "step": k,
        "epoch": epoch,
        "loss": 5 - epoch / 2,
        "mi_nats": 0.05 + epoch / 2,
        "mi_ceiling": math.log(64),
        "accuracy": 0.1 + epoch / 10,
        "ess": 0.6,
        "alignment": 1.3 - epoch / 5,
        "uniformity": -2.5,
        "effective_rank": 40.0 - epoch,
        "spread": 0.9,
        "lr": 0.001,
        **changes,
    }


def score(accuracy):
    ends = [accuracy - 0.03, accuracy + 0.03]
    settings = {"k": 20, "n_train": 1000}
    about = {"accuracy": accuracy, "interval": ends, "n_test": 1000}
    return about | {"name": "knn", "settings": settings, "notes": []}


def scores(pixels=0.2, untrained=0.3, trained=0.6):
    rows = {
        "raw pixels": pixels,
        "untrained encoder": untrained,
        "trained encoder": trained,
    }
    return [
        {"features": name, "knn": score(value), "linear": score(value)}
        for name, value in rows.items()
    ]


@pytest.fixture
def made(tmp_path):
    """Write a run folder; a file that is None is left out, bytes are written as is."""

    def make(*, name="run", finished=True, **changes):
        folder = tmp_path / name
        folder.mkdir()
        config = DEFAULTS | {"method": "simclr", "epochs": EPOCHS, "batch_size": 64}
        env = {"python": "3.11", "command": "invariance train --epochs 4"}
        contents = {
            "config": config,
            "env": env | {"packages": {"torch": "2.9"}},
            "metrics": [reading(k) for k in range(1, N_READINGS + 1)],
            "evaluation": scores(),
        } | changes
        writers = {
            "config.yaml": yaml.safe_dump,
            "env.json": json.dumps,
            "metrics.jsonl": lambda rows: "".join(json.dumps(r) + "\n" for r in rows),
            "evaluation.json": json.dumps,
        }
        for file, write in writers.items():
            value = contents[file.split(".")[0]]
            if isinstance(value, bytes):
                (folder / file).write_bytes(value)
            elif value is not None:
                (folder / file).write_text(write(value), encoding="utf-8")
        if finished:
            (folder / "encoder.safetensors").write_bytes(b"")
        return folder

    return make


@pytest.fixture
def page(made):
    """The text of the report of a made-up run."""

    def make(defaults=None, **changes):
        return write_report(made(**changes), defaults).read_text(encoding="utf-8")

    return make
