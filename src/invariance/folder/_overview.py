"""The runs in a folder, each with its settings, how far it got and its final scores.

Reads what it can: a broken or half-written file takes nothing from the other runs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InvarianceError
from ._config import flatten
from ._files import CONFIG
from ._record import Record, read_record
from ._scores import TRAINED, split_by_data
from ._where import holds, parse


@dataclass(frozen=True)
class Overview:
    """One run.

    Attributes:
        folder: of the run.
        values: settings by their dotted names, and finished, epoch, loss; knn and
            linear are scores on the test part, training_knn is what was read among
            training images.
        broken: why its settings cannot be read; empty when they can.
    """

    folder: Path
    values: dict[str, Any]
    broken: str = ""
    images: dict[str, Any] = field(default_factory=dict)
    """What is known of its images."""

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
        elif v["training_knn"] is not None:
            parts.append(f"kNN among training samples {v['training_knn']:.1%}")
        if v["linear"] is not None:
            parts.append(f"linear {v['linear']:.1%}")
        return ", ".join(parts)


def overviews(
    out: str | Path,
    expression: str | None = None,
    *,
    complete: Callable[[dict[str, Any]], Mapping[str, Any]] = dict,
) -> Iterator[Overview]:
    """The runs below a folder for which the expression holds.

    Args:
        out: Folder of run folders.
        expression: Such as "optim.lr < 0.1 and knn > 0.8"; None takes all.
        complete: Fills in the settings, by dotted names, that a file leaves out.
    """
    if expression is not None:
        parse(expression)  # a wrong one is refused even where there are no runs
    for path in sorted(p.parent for p in Path(out).glob(f"*/{CONFIG}")):
        run = _overview(path, complete)
        if expression is None or (not run.broken and holds(expression, run.values)):
            yield run


def _overview(
    folder: Path, complete: Callable[[dict[str, Any]], Mapping[str, Any]]
) -> Overview:
    try:
        record = read_record(folder)
    except InvarianceError as cause:
        return Overview(folder, {}, broken=str(cause))
    except OSError:
        return Overview(folder, {}, broken=f"{CONFIG} cannot be read")
    if record.settings_broken:
        return Overview(folder, {}, broken=f"{CONFIG} cannot be read")
    readings = record.points("knn")
    state = {
        "folder": str(folder),
        "finished": record.finished,
        "epoch": record.last("epoch"),
        "loss": record.last("loss"),
        "knn": _score(record, "knn"),
        "linear": _score(record, "linear"),
        "training_knn": readings[-1][1] if readings else None,
    }
    settings = complete(flatten(record.config))
    return Overview(folder, {**settings, **state}, images=record.images)


def _score(record: Record, protocol: str) -> float | None:
    """Accuracy of the trained encoder on the test part of the run's own data."""
    cell = record.scores.cell(TRAINED, protocol)
    return None if cell is None else cell.mean


def name_data(runs: Sequence[Overview]) -> list[str]:
    """What the data of each run are called; two sets of one name are told apart."""
    rows = [
        {
            "data": run.images.get("name") or Path(str(run.values.get("data"))).name,
            "fingerprint": run.images.get("fingerprint"),
            "parent": run.images.get("parent"),
            "number": k,
        }
        for k, run in enumerate(runs)
    ]
    names = {
        row["number"]: name
        for name, group in split_by_data(rows).items()
        for row in group
    }
    return [names[k] for k in range(len(runs))]
