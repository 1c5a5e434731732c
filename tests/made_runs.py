"""Run folders made up in a moment, for tests that read them."""

import json
import math

import pytest
import yaml
from PIL import Image

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


def score(features, value, protocol="linear", **changes):
    return {
        "features": features,
        "protocol": protocol,
        "metric": "accuracy",
        "data": "shapes",
        "value": value,
        "interval": [value - 0.03, value + 0.03],
        "n_test": 1000,
        "seed": 0,
        "settings": {"k": 20} if protocol == "knn" else {"l2": 0.1},
        "notes": [],
        **changes,
    }


def scores(pixels=0.2, untrained=0.3, trained=0.6):
    rows = {
        "raw pixels": pixels,
        "untrained encoder": untrained,
        "trained encoder": trained,
    }
    kinds = ("knn", "linear")
    return [score(name, value, k) for name, value in rows.items() for k in kinds]


def diagnostics():
    return {
        "readings": [
            {
                "name": "uniformity",
                "of": "h",
                "value": -2.3,
                "unit": "nats",
                "ideal": -3.9,
                "ceiling": None,
                "meaning": "How evenly the sphere is covered.",
            }
        ],
        "spectrum": {"h": [1.0, 0.5, 0.1, 0.0], "z": [1.0, 0.01]},
        "similarities": {
            "edges": [-1.0, 0.0, 0.5, 1.0],
            "positive": [0.0, 0.5, 1.5],
            "negative": [0.5, 1.0, 0.0],
        },
    }


def colour(i):
    """Of picture i: no two are alike, so that a picture tells which it is."""
    return (40 + 37 * i % 200, 60 + 53 * i % 180, 255 - 29 * i % 230)


def gallery(n=30, *, labels=True, names=None):
    """n pictures of one colour each in three classes, on a spiral."""
    angles = [0.6 * i for i in range(n)]
    near = [[(i + k) % n for k in range(1, min(11, n))] for i in range(n)]
    return {
        "size": 16,
        "columns": 7,
        "count": n,
        "of": 5 * n,
        "source": "test",
        "names": names or [f"pictures/{i}.png" for i in range(n)],
        "labels": [i % 3 for i in range(n)] if labels else None,
        "class_names": ["cat", "dog", "owl"] if labels else [],
        "clusters": [i % 4 for i in range(n)],
        "map": [[(4 + a) * math.cos(a), (4 + a) * math.sin(a)] for a in angles],
        "neighbours": near,
        "scores": [[round(1 - 0.05 * k, 2) for k in range(len(r))] for r in near],
    }


def write_gallery(folder, about):
    place = folder / "gallery"
    place.mkdir()
    (place / "gallery.json").write_text(json.dumps(about), encoding="utf-8")
    size, columns, n = about["size"], about["columns"], about["count"]
    sheet = Image.new("RGB", (size * columns, size * -(-n // columns)))
    for i in range(n):
        box = (i % columns * size, i // columns * size)
        sheet.paste(Image.new("RGB", (size, size), colour(i)), box)
    sheet.save(place / "thumbnails.jpg", quality=95, subsampling=0)
    Image.new("RGB", (40, 20), "green").save(place / "views.png")


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
            "diagnostics": diagnostics(),
            "gallery": gallery(6),  # few: every element costs time under the checks
        } | changes

        def lines(rows):
            return "".join(json.dumps(row) + "\n" for row in rows)

        writers = {
            "config.yaml": yaml.safe_dump,
            "env.json": json.dumps,
            "metrics.jsonl": lines,
            "evaluation.jsonl": lines,
            "diagnostics.json": json.dumps,
        }
        for file, write in writers.items():
            value = contents[file.split(".")[0]]
            if isinstance(value, bytes):
                (folder / file).write_bytes(value)
            elif value is not None:
                (folder / file).write_text(write(value), encoding="utf-8")
        pictures = contents["gallery"]
        if isinstance(pictures, bytes):
            (folder / "gallery").mkdir()
            (folder / "gallery/gallery.json").write_bytes(pictures)
        elif pictures is not None:
            write_gallery(folder, pictures)
        if finished:
            (folder / "encoder.safetensors").write_bytes(b"")
        return folder

    return make
