"""``invariance estimate``: how much two variables share, by several estimators."""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro import conf

if TYPE_CHECKING:
    from ..estimators import Checkpoint, Estimate

DRAWN = (".png", ".pdf", ".svg", ".jpg", ".webp")
USUAL = ("auto", "info_nce", "smile", "gaussian")


@dataclass(frozen=True)
class EstimateCommand:
    """Estimate the mutual information of two variables in files."""

    x: Annotated[str, conf.Positional, conf.arg(metavar="FILE")]
    """An .npy, .npz, .csv or .parquet file, or a part of one: FILE:COLUMN,COLUMN."""
    y: Annotated[str, conf.Positional, conf.arg(metavar="FILE")]
    """The other variable, row by row. A file of 'invariance embed' has FILE:label."""
    estimators: tuple[str, ...] = USUAL
    """Which to run, or 'all'; 'invariance list estimators' says what each claims."""
    critic: str = "separable"
    """bilinear, separable, concatenated, additive or cosine."""
    seed: int = 0
    """Of the split, the weights and the batches."""
    batch_size: int = 256
    """Rows a training step."""
    max_steps: int = 3000
    """Training steps at most; validation rows stop it earlier."""
    max_rows: int | None = None
    """Use at most so many rows, drawn at random."""
    drop_missing: bool = False
    """Leave rows with NaN or infinite numbers out."""
    device: str = "cpu"
    """Where networks are trained."""
    figure: str = "information.png"
    """Where to draw the training curves with their ceilings; '' draws nothing."""
    json: bool = False
    """Print JSON only."""
    quiet: bool = False
    """Show no progress."""

    def run(self) -> int:
        """Estimate, print the table, draw the figure."""
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        from ..errors import DataError, SettingError, unknown
        from ..estimators import ESTIMATORS

        names = tuple(ESTIMATORS) if self.estimators == ("all",) else self.estimators
        if not names:
            raise SettingError("Name an estimator, or leave the usual ones.")
        for name in names:
            if name not in ESTIMATORS:
                raise SettingError(unknown("estimator", name, ESTIMATORS))
        ending = Path(self.figure).suffix.lower()
        if self.figure and ending not in DRAWN:
            raise SettingError(
                f"The figure {self.figure!r} has no ending that can be drawn: use "
                f"{', '.join(DRAWN)}, or '' for no figure."
            )
        x, y, notes = self._variables()
        if not self.json:
            print(f"{self.x} and {self.y}: {len(x):,} rows, {width(x)} and {width(y)}")
            for note in notes:
                print(f"  {note}")
        results, refused = self._estimates(x, y, names)
        picture, problem = None, None
        try:
            picture = self._draw([e for e, _ in results]) if self.figure else None
        except DataError as cause:  # told after the numbers, which took the time
            problem = cause
        if self.json:
            print(json.dumps(self._as_json(x, y, notes, results, refused, picture)))
        else:
            show(results, refused)
            if picture:
                print(f"figure: {picture}")
        if problem is not None:
            raise problem
        return 0

    def _variables(self) -> Any:
        import numpy as np

        from ..data import paired, read_variable
        from ..errors import DataError, SettingError

        x, y, note = paired(read_variable(self.x), read_variable(self.y))
        notes = [note] if note else []
        if len(x) != len(y):
            raise DataError(
                f"{self.x} has {len(x):,} rows and {self.y} {len(y):,}: row i of one "
                "must belong to row i of the other. Leave out what has no partner."
            )
        most = self.max_rows
        if most is not None and most < 4:
            raise SettingError(f"--max-rows must be at least 4, got {most}.")
        if most is not None and most < len(x):
            rows = np.random.default_rng(self.seed).permutation(len(x))[:most]
            notes.append(f"{most:,} of {len(x):,} rows drawn at random")
            x, y = x[np.sort(rows)], y[np.sort(rows)]
        return np.array(x), np.array(y), notes

    def _estimates(self, x: Any, y: Any, names: tuple[str, ...]) -> Any:
        """Estimates with their seconds, and the estimators that refused, with reasons.

        An estimator that does not suit the data is a line of the table; data that suit
        none are an error.
        """
        from ..errors import DataError
        from ..estimators import estimate_mi

        results: list[tuple[Estimate, float]] = []
        refused: dict[str, str] = {}
        for name in names:
            start = time.perf_counter()
            watch = None if self.json or self.quiet else watcher(name)
            try:
                e = estimate_mi(
                    x,
                    y,
                    estimator=name,
                    critic=self.critic,
                    seed=self.seed,
                    batch_size=self.batch_size,
                    max_steps=self.max_steps,
                    drop_missing=self.drop_missing,
                    device=self.device,
                    progress=watch,
                )
            except DataError as error:
                if len(names) == 1:
                    raise
                refused[name] = str(error)
                continue
            results.append((e, time.perf_counter() - start))
            if e.std_error == 0:
                break  # settled without estimating: the others would say the same
        if not results:
            raise DataError(next(iter(refused.values())))
        return results, refused

    def _draw(self, results: "list[Estimate]") -> Path:
        from ._estimate_figure import draw

        return draw(results, Path(self.figure), title=f"{self.x} and {self.y}")

    def _as_json(
        self, x: Any, y: Any, notes: Any, results: Any, refused: Any, picture: Any
    ) -> dict[str, Any]:
        return {
            "x": self.x,
            "y": self.y,
            "rows": len(x),
            "x_columns": int(x.shape[1]) if x.ndim > 1 else 1,
            "y_columns": int(y.shape[1]) if y.ndim > 1 else 1,
            "notes": notes,
            "estimates": [{**e.as_dict(), "seconds": round(s, 3)} for e, s in results],
            "refused": refused,
            "figure": str(picture) if picture else None,
        }


def width(z: Any) -> str:
    """How many columns, in words."""
    n = z.shape[1] if z.ndim > 1 else 1
    return f"{n} column{'s' * (n != 1)}"


def claim(e: "Estimate") -> str:
    """What the number is, in a word or two."""
    if e.std_error == 0:
        return "exact"
    return ("certified" if e.lower_bound else "no") + ", SATURATED" * e.saturated


def watcher(name: str) -> "Callable[[Checkpoint], None]":
    """Prints a line that rewrites itself on a terminal, or one now and then."""
    live = sys.stderr.isatty()

    def say(c: "Checkpoint") -> None:
        text = f"  {name}: step {c.step}, validation {c.validation:.3f} nats"
        if live:
            print(f"\r{text:<70}", end="", file=sys.stderr, flush=True)
        elif c.step and c.step % 1000 == 0:
            print(text, file=sys.stderr, flush=True)

    return say


def show(results: "list[tuple[Estimate, float]]", refused: dict[str, str]) -> None:
    """The table, and the first answer in words."""
    if sys.stderr.isatty():
        print("\r" + " " * 72 + "\r", end="", file=sys.stderr, flush=True)
    head = (
        "estimator",
        "nats",
        "bits",
        "error",
        "ceiling",
        "lower bound",
        "steps",
        "s",
    )
    rows = [
        (
            e.estimator,
            f"{e.nats:.3f}",
            f"{e.bits:.3f}",
            f"{e.std_error:.3f}",
            "none" if e.ceiling is None else f"{e.ceiling:.2f}",
            claim(e),
            str(e.steps or ""),
            f"{s:.1f}",
        )
        for e, s in results
    ]
    sizes = [max(len(r[k]) for r in [head, *rows]) for k in range(len(head))]
    print()
    for row in [head, *rows]:
        cells = [
            f"{c:<{n}}" if k in (0, 5) else f"{c:>{n}}"
            for k, (c, n) in enumerate(zip(row, sizes, strict=True))
        ]
        print("  ".join(cells).rstrip())
    print()
    first = results[0][0]
    print(first.sentence)
    if first.reason and first.reason not in first.sentence:
        print(f"Why: {first.reason}.")
    for note in first.notes:
        print(f"Note: {note}")
    for name, why in refused.items():
        print(f"Not run: {name}: {why}")
