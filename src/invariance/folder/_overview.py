"""The runs in a folder, each with its settings, how far it got and its final scores.

Reads what it can: a broken or half-written file takes nothing from the other runs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InvarianceError
from ._config import flatten
from ._files import CONFIG
from ._record import Record, read_record
from ._scores import TRAINED
from ._where import holds, parse


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
    state = {
        "folder": str(folder),
        "finished": record.finished,
        "epoch": record.last("epoch"),
        "loss": record.last("loss"),
        "knn": _score(record, "knn"),
        "linear": _score(record, "linear"),
    }
    return Overview(folder, {**complete(flatten(record.config)), **state})


def _score(record: Record, protocol: str) -> float | None:
    """Accuracy of the trained encoder, or what was read while it trained."""
    cell = record.scores.cell(TRAINED, protocol)
    if cell is not None:
        return cell.mean
    readings = record.points(protocol)
    return readings[-1][1] if readings else None
