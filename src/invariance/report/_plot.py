"""The curves of runs as one figure of matplotlib, for notebooks and papers.

What is drawn, and how far it could rise, is what the report says (``_curves``).
"""

import io
from collections.abc import Iterable
from math import ceil
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..errors import InvarianceError, SettingError
from ..folder import Record, read_record
from ..words import join_most
from ._charts import Chart
from ._curves import make_charts, name_runs, overlay_charts
from ._numbers import show_number

ACROSS = 3
WIDTH, HEIGHT = 3.6, 2.5  # inches of a chart
FEW = 12  # points that are marked one by one
FAINT = "0.45"  # a gray


class RunFigure(Figure):
    """A figure that a notebook shows once, whether or not it plots by itself."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=self.dpi)
        return file.getvalue()


def plot(runs: Any, *more: Any) -> Figure:
    """What training has logged, a chart per reading; several runs lie over each other.

    A notebook shows the figure; ``.savefig("run.pdf")`` keeps it.

    Args:
        runs: A run, its folder, or a list of them.
        more: Further runs, so that ``plot(a, b)`` is ``plot([a, b])``.
    """
    given = [*_list_runs(runs), *(run for one in more for run in _list_runs(one))]
    records = [read_record(folder) for folder in given]
    if not records:
        raise SettingError("There is no run to plot: the list is empty.")
    names = name_runs(records)
    if len(records) == 1:
        charts = [chart for _, chart in make_charts(records[0])]
    else:
        charts = [chart for chart, _ in overlay_charts(records, names)]
    if not charts:
        raise InvarianceError(
            f"There is nothing to plot yet: {join_most(names)} has no readings."
        )
    return _draw(charts, names, records)


def _list_runs(runs: Any) -> list[Path]:
    """The folders of one run or several."""
    run = getattr(runs, "folder", runs)  # what train returns
    if isinstance(run, str | Path):
        return [Path(run).expanduser()]
    if isinstance(runs, Iterable):
        return [folder for one in runs for folder in _list_runs(one)]
    raise SettingError(f"A plot is of runs or their folders: got {runs!r}.")


def _draw(charts: list[Chart], names: list[str], records: list[Record]) -> RunFigure:
    """The charts in rows, and above them whose they are."""
    across = min(ACROSS, len(charts))
    down = ceil(len(charts) / across)
    size = (WIDTH * across, HEIGHT * down + 0.4)
    figure = RunFigure(figsize=size, dpi=110, layout="constrained")
    for k, chart in enumerate(charts):
        axes = figure.add_subplot(down, across, k + 1)
        _draw_lines(axes, chart, numbered=len(records) == 1)
        _dress(axes, chart)
        if k >= len(charts) - across:  # nothing is below
            axes.set_xlabel(chart.x_label, fontsize=8)
    if len(records) == 1:
        title = ", ".join([names[0], *filter(None, [records[0].config.get("method")])])
        figure.suptitle(title, fontsize=11)
        return figure
    lines = [Line2D([], [], color=_color(k)) for k in range(len(names))]
    figure.legend(
        lines,
        names,
        loc="outside upper center",
        ncols=min(len(names), ACROSS),
        frameon=False,
        fontsize=9,
    )
    return figure


def _draw_lines(axes: Axes, chart: Chart, *, numbered: bool) -> None:
    """Each in its color; ``numbered`` writes how far it got, as the report does."""
    for k, series in enumerate(chart.series):
        if not series.points:  # it keeps its color
            continue
        xs, ys = zip(*series.points, strict=True)
        end = show_number(ys[-1] if series.end is None else series.end, chart.percent)
        if numbered and len(chart.series) == 1:
            axes.set_title(end, fontsize=9, loc="right", color=_color(k))
        axes.plot(*zip(*series.raw, strict=True), color=_color(k), lw=0.7, alpha=0.3)
        axes.plot(
            xs,
            ys,
            color=_color(k),
            lw=1.3,
            marker="." if len(xs) <= FEW else "",
            label=f"{series.name}  {end}",
        )
    if numbered and len(chart.series) > 1:
        axes.legend(frameon=False, fontsize=7, handlelength=1)
    if chart.ceiling is not None:
        words, value = chart.ceiling
        axes.axhline(value, color=FAINT, lw=1, ls="--")
        axes.annotate(
            words,
            (0, value),
            xycoords=("axes fraction", "data"),
            xytext=(4, -3),
            textcoords="offset points",
            va="top",
            color=FAINT,
            fontsize=7,
        )


def _dress(axes: Axes, chart: Chart) -> None:
    """Title, numbers and a light grid."""
    xs, ys = zip(*(p for series in chart.series for p in series.points), strict=True)
    axes.set_xlim(chart.start, 1.01 * max(chart.end, *xs))
    if chart.zero and min(ys) >= 0:
        ceiling = 0.0 if chart.ceiling is None else chart.ceiling[1]
        axes.set_ylim(0, 1.08 * max(*ys, ceiling) or 1)
    axes.set_title(chart.title, fontsize=9, loc="left")
    axes.tick_params(labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    if chart.percent:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:g} %"))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _color(k: int) -> str:
    return f"C{k % 10}"
