"""``invariance estimate``: how much two variables share, by several estimators."""

import json
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro import conf

from ..words import align, count
from ._estimate_figure import draw

if TYPE_CHECKING:
    import numpy as np

    from ..estimators import Checkpoint, Estimate

FIGURES = (".png", ".pdf", ".svg", ".jpg", ".webp")
HEAD = ("estimator", "nats", "bits", "error", "ceiling", "lower bound", "steps", "s")
USUAL = ("auto", "info_nce", "smile", "gaussian")


@dataclass(frozen=True)
class EstimateCommand:
    """Estimate the mutual information of two variables in files."""

    x: Annotated[str, conf.Positional, conf.arg(metavar="FILE")]
    """An .npy, .npz, .csv or .parquet file, or some columns of one:
    FILE:COLUMN,COLUMN."""
    y: Annotated[str, conf.Positional, conf.arg(metavar="FILE")]
    """The other variable, row by row. For labels in a file of 'invariance embed':
    FILE:label."""
    estimators: tuple[str, ...] = USUAL
    """Which to run, or 'all'; 'invariance list estimators' says what each can claim."""
    critic: str | None = None
    """bilinear, separable (the default), concatenated, additive or cosine."""
    seed: int = 0
    """Seed of the split, the weights and the batches."""
    batch_size: int | None = None
    """Rows per training step; 256 unless set."""
    max_steps: int | None = None
    """Most training steps, 3,000 unless set; validation rows can stop it earlier."""
    weight_decay: float | None = None
    """Pull of the weights to zero, times the learning rate, at each step."""
    spectral_norm: bool = False
    """Keep the gain of every layer of the critic at one."""
    gradient_penalty: str | None = None
    """Pull the critic's slopes to one ('wgan') or to zero ('zero')."""
    penalty_weight: float | None = None
    """Weight of the penalty; 0.1 unless set."""
    alpha: float | None = None
    """For interpolated: 1 is InfoNCE, 0 is TUBA; 0.5 unless set."""
    clip: float | None = None
    """For smile: limit for the scores of pairs that do not belong together; 5 unless
    set."""
    fraction: float | None = None
    """For vince: the share of other rows that is used, hardest first; 0.5 unless
    set."""
    max_rows: int | None = None
    """Use at most this many rows, drawn at random."""
    drop_missing: bool = False
    """Leave out rows with NaN or infinite numbers."""
    device: str = "cpu"
    """Where networks are trained: cpu, cuda or auto."""
    figure: Annotated[str, conf.arg(metavar="FILE", help_behavior_hint="")] = ""
    """Draw the training curves with their ceilings into this file, such as
    curves.png."""
    json: bool = False
    """Print only JSON."""
    quiet: bool = False
    """Show no progress."""

    def run(self) -> int:
        """Estimate, print the table, draw the figure."""
        from ..errors import DataError
        from ..estimators import locate_variable
        from ..progress import tell_loading

        for which in (self.x, self.y):
            locate_variable(which)  # before PyTorch is loaded, which takes seconds
        tell_loading(quiet=self.quiet or self.json)
        names = self._check_flags()
        x, y, notes = self._read_variables()
        columns = [z.shape[1] if z.ndim > 1 else 1 for z in (x, y)]
        if not self.json:
            widths = " and ".join(count(n, "column") for n in columns)
            print(f"{self.x} and {self.y}: {len(x):,} rows, {widths}")
            for note in notes:
                print(f"  {note}")
        results, refused = self._estimate(x, y, names)
        figure, problem = None, None
        try:
            if self.figure:
                title = f"{self.x} and {self.y}"
                figure = draw([e for e, _ in results], Path(self.figure), title=title)
        except DataError as cause:  # raised after the numbers, which took the time
            problem = cause
        if self.json:
            answer = {
                "x": self.x,
                "y": self.y,
                "rows": len(x),
                "x_columns": columns[0],
                "y_columns": columns[1],
                "notes": notes,
                "estimates": [{**e.as_dict(), "seconds": s} for e, s in results],
                "refused": refused,
                "figure": str(figure) if figure else None,
            }
            print(json.dumps(answer))
        else:
            show(results, refused)
            if figure:
                print(f"figure: {figure}")
        if problem is not None:
            raise problem
        return 0

    def _check_flags(self) -> tuple[str, ...]:
        """The names of the estimators; flags that cannot work are refused."""
        from ..devices import choose_device
        from ..errors import SettingError
        from ..estimators import ESTIMATORS, find_estimator, read_training

        if self.figure and Path(self.figure).suffix.lower() not in FIGURES:
            raise SettingError(
                f"The figure {self.figure!r} has no ending that can be drawn: use "
                f"{', '.join(FIGURES)}."
            )
        if self.max_rows is not None and self.max_rows < 4:
            raise SettingError(f"--max-rows must be at least 4, got {self.max_rows}.")
        names = tuple(ESTIMATORS) if self.estimators == ("all",) else self.estimators
        if not names:
            raise SettingError(
                "Name an estimator, or leave --estimators out for the usual ones."
            )
        takes = {name: find_estimator(name).settings for name in names}
        given = self._get_settings()
        known = {setting for settings in takes.values() for setting in settings}
        if unused := [name for name in given if name not in known]:
            takers = [n for n, e in ESTIMATORS.items() if unused[0] in e.settings]
            raise SettingError(
                f"--{unused[0].replace('_', '-')} would do nothing here: it is for "
                f"{', '.join(takers)}. Name one with --estimators, or leave it out."
            )
        for name, settings in takes.items():
            read_training(name, {s: v for s, v in given.items() if s in settings})
        choose_device(self.device)
        return names

    def _get_settings(self) -> dict[str, Any]:
        """What was set of the training, by the names of ``estimate_mi``."""
        from ..estimators import ESTIMATORS

        known = {name for e in ESTIMATORS.values() for name in e.settings}
        names = [f.name for f in fields(self) if f.name in known]
        values = {name: getattr(self, name) for name in names}
        return {k: v for k, v in values.items() if v is not None and v is not False}

    def _read_variables(self) -> "tuple[np.ndarray, np.ndarray, list[str]]":
        """Both variables, and notes on how their rows were matched or drawn."""
        import numpy as np

        from ..errors import DataError
        from ..estimators import pair_rows, read_variable

        x, y, note = pair_rows(read_variable(self.x), read_variable(self.y))
        notes = [note] if note else []
        if len(x) != len(y):
            raise DataError(
                f"{self.x} has {len(x):,} rows and {self.y} {len(y):,}: row i of one "
                "must belong to row i of the other. Leave out rows without a partner."
            )
        most = len(x) if self.max_rows is None else self.max_rows
        if most < len(x):
            rows = np.sort(np.random.default_rng(self.seed).permutation(len(x))[:most])
            notes.append(f"{most:,} of {len(x):,} rows drawn at random")
            x, y = x[rows], y[rows]
        return np.array(x), np.array(y), notes

    def _estimate(
        self, x: "np.ndarray", y: "np.ndarray", names: tuple[str, ...]
    ) -> "tuple[list[tuple[Estimate, float]], dict[str, str]]":
        """Estimates with their seconds, and the estimators that refused, with reasons.

        An estimator that does not suit the data is a line of the table; data that suit
        none are an error.
        """
        from ..errors import DataError
        from ..estimators import Training, estimate_mi, find_estimator, heed_bounds
        from ..progress import Progress

        results: list[tuple[Estimate, float]] = []
        refused: dict[str, str] = {}
        ran: list[str] = []
        given = self._get_settings()
        for name in names:
            start = time.perf_counter()
            method = find_estimator(name)
            quiet = self.json or self.quiet or not method.trained
            most = self.max_steps or Training().max_steps
            steps = Progress(most, unit=f"steps of {name}", quiet=quiet)

            def show_step(c: "Checkpoint", steps: Progress = steps) -> None:
                steps.reach(c.step, f"validation {c.validation:.3f} nats")

            try:
                with steps:
                    estimate = estimate_mi(
                        x,
                        y,
                        estimator=name,
                        seed=self.seed,
                        drop_missing=self.drop_missing,
                        device=self.device,
                        progress=show_step,
                        **{s: v for s, v in given.items() if s in method.settings},
                    )
            except DataError as error:
                if len(names) == 1:
                    raise
                refused[name] = str(error)
                continue
            results.append((estimate, round(time.perf_counter() - start, 3)))
            ran.append(name)
            if estimate.exact:
                break  # the other estimators would answer the same
        if not results:
            raise DataError(next(iter(refused.values())))
        if "auto" in ran:
            place = ran.index("auto")
            estimate, seconds = results[place]
            results[place] = heed_bounds(estimate, (e for e, _ in results)), seconds
        return results, refused


def show(results: "list[tuple[Estimate, float]]", refused: dict[str, str]) -> None:
    """The table, and the first answer in words."""
    rows = [
        (
            e.estimator,
            *(f"{v:.3f}" if not e.withheld else "-" for v in (e.nats, e.bits)),
            f"{e.std_error:.3f}" if not e.withheld else "-",
            "none" if e.ceiling is None else f"{e.ceiling:.2f}",
            describe_claim(e),
            str(e.steps or ""),
            f"{seconds:.1f}",
        )
        for e, seconds in results
    ]
    words = [HEAD.index(title) for title in ("estimator", "lower bound")]
    print("", *align([HEAD, *rows], words), "", sep="\n")
    first = results[0][0]
    print(first.sentence)
    if first.reason and first.reason not in first.sentence:
        print(f"Why: {first.reason}.")
    for note in first.notes:
        print(f"Note: {note}")
    for e, _ in results[1:]:
        if e.withheld:
            print(f"Withheld: {e.sentence}")
    for name, why in refused.items():
        print(f"Not run: {name}: {why}")


def describe_claim(e: "Estimate") -> str:
    """What the number is, in a word or two."""
    if e.withheld:
        return "withheld"
    if e.exact:
        return "exact"
    claim = "no"
    if e.lower_bound:  # at least 0 is always true, and certifies nothing
        claim = "certified" if e.floor > 0 else "none certified"
    return claim + ", SATURATED" * e.saturated
