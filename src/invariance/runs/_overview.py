"""The runs in a folder, each with its settings, how far it got and its final scores.

Reads what it can: a broken or half-written file takes nothing from the other runs.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..training import Train
from ..training._config import to_dict
from ..training._run_folder import read_metrics
from ..training._schedule import PEAKS
from ._where import parsed, where

TRAINED = "trained encoder"


@dataclass(frozen=True)
class Overview:
    """One run.

    Attributes:
        folder: of the run.
        values: settings by their dotted names, and finished, epoch, loss, knn, linear.
        broken: why its settings cannot be read; empty when they can.
    """

    folder: Path
    values: dict[str, Any]
    broken: str = ""

    def line(self) -> str:
        """How far it got, and its scores."""
        if self.broken:
            return self.broken
        v = self.values
        parts = ["finished" if v["finished"] else "unfinished"]
        epoch = v["epoch"]
        parts.append("no reading yet" if epoch is None else f"epoch {epoch:.1f}")
        if v["knn"] is not None:
            parts.append(f"kNN {v['knn']:.1%}")
        if v["linear"] is not None:
            parts.append(f"linear {v['linear']:.1%}")
        return ", ".join(parts)


def overviews(folder: str | Path, expression: str | None = None) -> Iterator[Overview]:
    """The runs below a folder for which the expression holds.

    Args:
        folder: of run folders.
        expression: such as "optim.lr < 0.1 and knn > 0.8"; None takes all.
    """
    if expression is not None:
        parsed(expression)  # wrong ones are refused even where there are no runs
    for path in sorted(p.parent for p in Path(folder).glob("*/config.yaml")):
        run = overview(path)
        if expression is None or (not run.broken and where(expression, run.values)):
            yield run


def overview(folder: Path) -> Overview:
    """One run; settings that its file leaves out are the defaults."""
    try:
        found = yaml.safe_load((folder / "config.yaml").read_text("utf-8")) or {}
        settings = dotted(to_dict(Train())) | dotted(found)
    except (OSError, ValueError, AttributeError, yaml.YAMLError):
        return Overview(folder, {}, broken="config.yaml cannot be read")
    if settings.get("optim.lr") is None:
        settings["optim.lr"] = PEAKS.get(str(settings.get("optim.name")))
    metrics: list[dict[str, Any]] = []
    with contextlib.suppress(OSError, ValueError):
        metrics = [m for m in read_metrics(folder / "metrics.jsonl") if "epoch" in m]
    last = metrics[-1] if metrics else {}
    monitored = next((m["knn"] for m in metrics[::-1] if "knn" in m), None)
    state = {
        "folder": str(folder),
        "finished": (folder / "encoder.safetensors").exists(),
        "epoch": last.get("epoch"),
        "loss": last.get("loss"),
        "knn": monitored,
        "linear": None,
    }
    return Overview(folder, settings | state | scores(folder))


def scores(folder: Path) -> dict[str, float]:
    """Accuracies of the trained encoder on the run's own data, means over seeds."""
    rows: list[Any] = []
    with contextlib.suppress(OSError, ValueError):
        for row in json.loads((folder / "evaluation.json").read_text("utf-8")):
            for protocol in ("knn", "linear"):
                value = row[protocol]["accuracy"]
                told = {"protocol": protocol, "metric": "accuracy", "value": value}
                rows.append(told | {"features": row["features"]})
    with contextlib.suppress(OSError):
        text = (folder / "evaluation.jsonl").read_text("utf-8", errors="replace")
        for line in text.splitlines():
            with contextlib.suppress(ValueError):
                rows.append(json.loads(line))
    return {p: mean for p in ("knn", "linear") if (mean := final(rows, p)) is not None}


def final(rows: list[Any], protocol: str) -> float | None:
    """The mean of one protocol; a later row of the same kind replaces an earlier."""
    wanted = {"features": TRAINED, "protocol": protocol, "metric": "accuracy"}
    ours = [
        row
        for row in rows
        if isinstance(row, dict) and wanted.items() <= row.items()
        if isinstance(row.get("value"), int | float)
    ]
    if not ours:
        return None
    data = ours[0].get("data")  # training scores its own data first
    kind = ("seed", "settings")
    latest = {
        json.dumps([row.get(k) for k in kind], sort_keys=True): float(row["value"])
        for row in ours
        if row.get("data") == data
    }
    return sum(latest.values()) / len(latest)


def dotted(values: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Nested settings by dotted names.

    >>> dotted({"optim": {"lr": 0.1}, "epochs": 3})
    {'optim.lr': 0.1, 'epochs': 3}
    """
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict) and value:
            flat |= dotted(value, f"{before}{name}.")
        else:
            flat[f"{before}{name}"] = value
    return flat
