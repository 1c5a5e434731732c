"""The small-batch study's table, verdicts and figures, from its rows alone.

    python benchmarks/small_batch_report.py            # small_batch.md and two .png
    python benchmarks/small_batch_report.py --lines FILE --note "On a busy machine."

``HOW`` says how accuracies are compared; it stands below the table, too.
"""

import argparse
import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from intervals import Difference, correlate, paired, pearson, show_mean, welch
from small_batch import (
    FIRST,
    LINES,
    OBJECTIVES,
    STANDS_FOR,
    Row,
    fill_in,
    read_rows,
)

HOW = """\
Accuracies are those of the final runs on the test set: mean ± standard deviation over
seeds. Differences of means come with a 95 % interval: paired by seed where the batch is
the same (same first weights, order and views), Welch's otherwise. "Better" holds if the
interval lies above 0, "no worse by more than half a point" if it lies above -0.5; one
that lies below does not hold, and all else is not decided. Correlations are over all
points of the final runs' curves, read on held-out training images. Their intervals come
from drawing whole lines of the table, as the points of one line hang together. "No
link" holds if the interval ends below 0.3, and does not hold if it lies above 0.
"""
MARGIN = 0.5  # points within which two accuracies count as the same
LINK = 0.3  # a correlation below it explains less than a tenth of the variance
FEWEST = 6  # lines of the table that a correlation's interval is drawn from
MODERATE = (0.15, 0.4)  # shares of the negatives, as the FlatNCE paper has it
DRAWS = 2000
CHOOSING = ("knob", "rate")
SCORES = ("held_out", "test")
HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided"
MEASURES = {"linear": "linear probe", "knn": "kNN"}


@dataclass(frozen=True)
class Verdict:
    """What the rows say about a claim."""

    claim: str
    word: str
    because: tuple[str, ...]

    def __str__(self) -> str:
        lines = "\n".join(f"  - {line}" for line in self.because)
        return f"- **{self.claim}: {self.word}.**\n{lines}"


@dataclass(frozen=True)
class Finals:
    """Final runs, by objective, control and batch."""

    rows: Sequence[Row]

    def scores(
        self, objective: str, batch: int, control: str = "fixed", of: str = "linear"
    ) -> dict[int, float]:
        """Accuracy on the test set by seed."""
        rows = self.cell(objective, batch, control)
        return {row["job"]["seed"]: row["test"][of] for row in rows}

    def cell(self, objective: str, batch: int, control: str) -> list[Row]:
        """The runs of one cell of the table, one per seed.

        All are of the longest training and of one setting. A choice that came out
        otherwise in a later call leaves runs of another setting behind: the setting
        with the most seeds counts, of two the later one.
        """
        wanted = {"objective": objective, "batch_size": batch, "control": control}
        rows = [
            row
            for row in self.rows
            if row["job"]["stage"] == "final"
            and "test" in row
            and wanted.items() <= row["job"].items()
        ]
        by_setting: dict[Any, dict[int, Row]] = {}
        for row in keep_longest(rows):
            job = row["job"]
            setting = by_setting.pop((job["knob"], job["lr"]), {})
            by_setting[job["knob"], job["lr"]] = setting | {job["seed"]: row}
        most = max(reversed(by_setting.values()), key=len, default={})
        return list(most.values())

    def shared_seeds(self, a: tuple[str, int], b: tuple[str, int]) -> list[int]:
        """Seeds by which two cells are compared pair by pair; none otherwise."""
        seeds = sorted(self.scores(*a).keys() & self.scores(*b).keys())
        return seeds if a[1] == b[1] and len(seeds) > 1 else []

    def compare(
        self, a: tuple[str, int], b: tuple[str, int], of: str = "linear"
    ) -> Difference | None:
        """Mean of one cell less that of another; None while one is empty."""
        x, y = self.scores(*a, of=of), self.scores(*b, of=of)
        if not x or not y:
            return None
        if seeds := self.shared_seeds(a, b):
            return paired([x[s] for s in seeds], [y[s] for s in seeds])
        return welch(list(x.values()), list(y.values()))

    def count_seeds(self, a: tuple[str, int], b: tuple[str, int]) -> str:
        """How many runs a comparison has, in words."""
        if pairs := self.shared_seeds(a, b):
            return f"{len(pairs)} seeds"
        x, y = len(self.scores(*a)), len(self.scores(*b))
        return f"{x} seed{'s' * (x > 1)}" if x == y else f"{x} and {y} seeds"


def keep_longest(rows: Sequence[Row]) -> list[Row]:
    """Those that trained for most epochs."""
    longest = max((row["job"]["epochs"] for row in rows), default=0)
    return [row for row in rows if row["job"]["epochs"] == longest]


def is_better(gap: Difference | None) -> str:
    """Whether a difference is above 0, by its interval; equal runs are not better."""
    if gap is None:
        return OPEN
    if gap.low > 0:
        return HOLDS
    return FAILS if gap.high <= 0 else OPEN


def is_no_worse(gap: Difference | None) -> str:
    """Whether a difference is not below minus the margin, by its interval."""
    if gap is None:
        return OPEN
    if gap.low >= -MARGIN:
        return HOLDS
    return FAILS if gap.high < -MARGIN else OPEN


def is_no_link(correlation: Difference) -> str:
    """Whether a correlation is small; one that is not evident may still be large."""
    if correlation.low > 0:
        return FAILS
    return HOLDS if correlation.high < LINK else OPEN


def all_hold(words: Sequence[str]) -> str:
    """A claim of several parts holds if all do, and fails if one does."""
    if FAILS in words:
        return FAILS
    return HOLDS if words and set(words) == {HOLDS} else OPEN


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """The four claims."""
    finals = Finals(rows)
    return [
        judge_efficiency(finals),
        judge_dhel(finals),
        judge_ess(rows),
        judge_information(rows),
    ]


def judge_efficiency(finals: Finals) -> Verdict:
    """FlatNCE at 32 does what InfoNCE does at 256, and more than InfoNCE at 32."""
    flat, words, because = ("FlatNCE", 32), [], []
    for other, judge_gap, what in (
        (("InfoNCE", 256), is_no_worse, f"no worse by more than {MARGIN} points"),
        (("InfoNCE", 32), is_better, "better"),
    ):
        gap = finals.compare(flat, other)
        words.append(judge_gap(gap))
        because.append(describe_gap(finals, flat, other, gap, what, words[-1]))
    for other in (("NT-Xent", 256), ("NT-Xent", 32)):  # to compare with
        gap = finals.compare(flat, other)
        if gap is not None:
            because.append(describe_gap(finals, flat, other, gap))
    claim = (
        "FlatNCE at batch 32 matches InfoNCE at batch 256 and is better than it at 32"
    )
    return Verdict(claim, all_hold(words), tuple(because))


def judge_dhel(finals: Finals) -> Verdict:
    """DHEL is better than the softmax objectives it set out from."""
    words, because = [], []
    for other in ("InfoNCE", "NT-Xent", "DCL"):
        a, b = ("DHEL", 32), (other, 32)
        gap = finals.compare(a, b)
        words.append(is_better(gap))
        because.append(describe_gap(finals, a, b, gap, "better", words[-1]))
    claim = "DHEL is better than InfoNCE, NT-Xent and DCL at batch 32"
    return Verdict(claim, all_hold(words), tuple(because))


def describe_gap(
    finals: Finals,
    a: tuple[str, int],
    b: tuple[str, int],
    gap: Difference | None,
    asked: str = "",
    word: str = "",
) -> str:
    """Two cells, their difference in both measures, and what was asked of it."""
    name = f"{a[0]} at {a[1]} less {b[0]} at {b[1]}"
    if gap is None:
        return f"{name}: runs are missing."
    also = finals.compare(a, b, of="knn")
    question = f" Asked: {asked}: {word}." if asked else ""
    seeds = finals.count_seeds(a, b)
    return f"{name}, linear: {gap} points ({seeds}); kNN: {also}.{question}"


def judge_ess(rows: Sequence[Row]) -> Verdict:
    """Accuracy by the ESS that FlatNCE was held at; the middle should be the top."""
    claim = "A moderate ESS (0.15 to 0.4) is best"
    scores: dict[float, dict[int, float]] = {}
    runs = [r for r in rows if r["job"]["stage"] == "sweep" and "held_out" in r]
    for row in keep_longest(runs):
        by_seed = scores.setdefault(row["job"]["knob"], {})
        by_seed[row["job"]["seed"]] = row["held_out"]["linear"]
    sides = {
        "moderate": [t for t in scores if MODERATE[0] <= t <= MODERATE[1]],
        "lower": [t for t in scores if t < MODERATE[0]],
        "higher": [t for t in scores if t > MODERATE[1]],
    }
    if not all(sides.values()):
        return Verdict(claim, OPEN, ("Runs are missing.",))
    best = {
        side: max(targets, key=lambda t: fmean(scores[t].values()))
        for side, targets in sides.items()
    }
    words, because = [], []
    for side in ("lower", "higher"):
        a, b = scores[best["moderate"]], scores[best[side]]
        seeds = sorted(a.keys() & b.keys())
        gap = paired([a[s] for s in seeds], [b[s] for s in seeds]) if seeds else None
        words.append(is_better(gap))
        because.append(
            f"FlatNCE held at {best['moderate']:g} less at {best[side]:g}, the best "
            f"{side} one, linear on held-out images: {gap} points: {words[-1]}."
        )
    means = ", ".join(
        f"{t:g}: {show_mean(list(scores[t].values()))}" for t in sorted(scores)
    )
    return Verdict(claim, all_hold(words), (*because, f"All: {means}."))


def judge_information(rows: Sequence[Row]) -> Verdict:
    """Accuracy goes with the information of a pool, not with that of mini-batches."""
    claim = "True MI correlates with accuracy, mini-batch MI does not"
    groups = [
        [row["curve"] for row in same if row.get("curve")]
        for name, _, _, same in cells(rows)
        if name not in STANDS_FOR  # each run once
    ]
    groups = [group for group in groups if group]
    runs = [run for group in groups for run in group]
    if not runs:
        return Verdict(claim, OPEN, ("Runs are missing.",))
    true, batch = (
        draw_correlations(groups, name) for name in ("sharp_nats", "batch_nats")
    )
    over = (
        f"Over {sum(map(len, runs))} points of {len(runs)} runs in {len(groups)} lines "
        "of the table, correlation with kNN"
    )
    if len(groups) < FEWEST:
        words = [OPEN]
        because = [
            f"{over}: true MI {true.mean:+.2f}, mini-batch MI {batch.mean:+.2f}. "
            f"With fewer than {FEWEST} lines there is no interval."
        ]
    else:
        words = [is_better(true), is_no_link(batch)]
        because = [
            f"{over}: true MI {true} ({words[0]}), mini-batch MI {batch} (no link: "
            f"{words[1]})."
        ]
    for name, what in (("sharp_nats", "true MI"), ("batch_nats", "mini-batch MI")):
        links = [pearson(*columns([run], name)) for run in runs if len(run) > 2]
        links = [link for link in links if math.isfinite(link)]
        if links:
            because.append(
                f"Within one run, {what}: from {min(links):+.2f} to {max(links):+.2f}."
            )
    ends = [average_ends(group) for group in groups]
    for name, what in (
        ("sharp_nats", "true MI"),
        ("pool_nats", "true MI at the temperature trained with"),
        ("batch_nats", "mini-batch MI"),
    ):
        link = correlate(*columns([ends], name))
        if math.isfinite(link.mean):
            because.append(f"Of each line's last points, averaged, {what}: {link}.")
    return Verdict(claim, all_hold(words), tuple(because))


def average_ends(runs: Sequence[Sequence[Row]]) -> Row:
    """The last points of runs that differ in their seed, as one point."""
    names = ("knn", "sharp_nats", "pool_nats", "batch_nats")
    return {name: fmean(run[-1][name] for run in runs) for name in names}


def columns(runs: Sequence[Sequence[Row]], name: str) -> tuple[list[float], ...]:
    """Information and accuracy of all points of runs."""
    points = [point for run in runs for point in run]
    return [p[name] for p in points], [p["knn"] for p in points]


def draw_correlations(
    groups: Sequence[Sequence[Sequence[Row]]], name: str
) -> Difference:
    """Pearson's correlation of all points, with an interval by drawing groups of runs.

    Runs of one group differ in their seed alone and say nearly the same: drawing runs,
    as if each were another trial, would make the interval too narrow.
    """
    dice, values = random.Random(0), []
    for _ in range(DRAWS):
        drawn = dice.choices(groups, k=len(groups))
        values.append(pearson(*columns([r for group in drawn for r in group], name)))
    values = sorted(value for value in values if math.isfinite(value))
    all_runs = [run for group in groups for run in group]
    if not values:
        return Difference(math.nan, -1.0, 1.0)
    low, high = values[int(0.025 * len(values))], values[int(0.975 * len(values))]
    return Difference(pearson(*columns(all_runs, name)), low, high)


def cells(rows: Sequence[Row]) -> Iterator[tuple[str, str, int, list[Row]]]:
    """Objective, control and batch of every cell that has runs."""
    finals = Finals(rows)
    batches = sorted({row["job"]["batch_size"] for row in rows})
    for control in ("fixed", "ess"):
        for name in OBJECTIVES:
            for batch in batches:
                if same := finals.cell(name, batch, control):
                    yield name, control, batch, same


def make_table(rows: Sequence[Row]) -> str:
    """One line per cell: accuracy, readings and what was chosen."""
    lines = [
        "| objective | batch | linear, % | kNN, % | seeds, epochs | ESS | true MI | "
        "mini-batch MI | chosen | images/s of one run |",
        "| :--- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | :--- | ---: |",
    ]
    for name, control, batch, same in cells(rows):
        job, last = same[0]["job"], [row["curve"][-1] for row in same if row["curve"]]
        knob = "ESS" if control == "ess" else "gamma" if name == "KCL" else "tau"
        shares = [row["ess"] for row in same if row["ess"] is not None]
        line = [
            name + (", ESS held" if control == "ess" else ""),
            str(batch),
            *(show_mean([row["test"][of] for row in same]) for of in MEASURES),
            f"{len(same)}, {job['epochs']}",
            f"{fmean(shares):.2f}" if shares else "-",
            *(
                mean_or_dash([p[of] for p in last])
                for of in ("sharp_nats", "batch_nats")
            ),
            f"{knob} {job['knob']:g}, rate {job['lr']:g}",
            # the last of several runs at a time have less company
            f"{median(row['images_per_second'] for row in same):,.0f}",
        ]
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines)


def make_tries(rows: Sequence[Row]) -> str:
    """One line per knob that was tried beside the chosen one, and what it gains."""
    finals, tries = Finals(rows), {}
    for row in rows:
        if row["job"]["stage"] == "try" and "test" in row:
            job = row["job"]
            key = job["objective"], job["batch_size"], job["knob"], job["lr"]
            tries.setdefault(key, {})[job["seed"]] = row["test"]
    lines = [
        "| objective | batch | tried | seeds | linear, % | to the chosen | kNN, % | "
        "to the chosen |",
        "| :--- | ---: | :--- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for (name, batch, knob, lr), tests in sorted(tries.items()):
        symbol = "gamma" if name == "KCL" else "tau"
        line = [name, str(batch), f"{symbol} {knob:g}, rate {lr:g}", str(len(tests))]
        for of in MEASURES:
            chosen = finals.scores(name, batch, of=of)
            seeds = sorted(tests.keys() & chosen.keys())
            pair = [tests[s][of] for s in seeds], [chosen[s] for s in seeds]
            line.append(show_mean([test[of] for test in tests.values()]))
            line.append(str(paired(*pair)) if len(seeds) > 1 else "-")
        lines.append("| " + " | ".join(line) + " |")
    about = "Final runs with a knob that was not chosen; no verdict uses them."
    return "\n\n".join(("## Other knobs", about, "\n".join(lines))) if tries else ""


def make_choices(rows: Sequence[Row]) -> str:
    """One line per objective and batch: every short run, and the best of them."""
    lines = [
        "| objective | batch | best | all that were tried |",
        "| :--- | ---: | :--- | :--- |",
    ]
    for (name, control, batch), scores in tried(rows).items():
        knob = "ESS" if control == "ess" else "gamma" if name == "KCL" else "tau"
        best = max(scores, key=scores.__getitem__)
        cells = [
            name + (", ESS held" if control == "ess" else ""),
            str(batch),
            f"{knob} {best[0]:g}, rate {best[1]:g}: {scores[best]:.1f} %",
            "; ".join(
                f"{k:g}, {lr:g}: {score:.1f}" for (k, lr), score in scores.items()
            ),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    jobs = [row["job"] for row in rows if row["job"]["stage"] in CHOOSING]
    epochs, seeds = ({job[name] for job in jobs} for name in ("epochs", "seed"))
    about = (
        f"Linear probe on held-out training images after {show_all(epochs)} epochs, "
        f"seed {show_all(seeds)}. An interval is over settings, not over seeds."
    )
    gaps = [f"- {gap}" for gap in compare_choices(rows)]
    return "\n\n".join(
        filter(None, ("## Short runs", about, "\n".join(lines), "\n".join(gaps)))
    )


def tried(rows: Sequence[Row]) -> dict[tuple[str, str, int], dict[Any, float]]:
    """Held-out accuracy by knob and rate, of each objective, control and batch."""
    scores: dict[tuple[str, str, int], dict[Any, float]] = {}
    runs = [r for r in rows if r["job"]["stage"] in CHOOSING and "held_out" in r]
    longest = max((row["job"]["epochs"] for row in runs), default=0)
    for row in runs:
        job = row["job"]
        if job["epochs"] == longest:
            cell = scores.setdefault(
                (job["objective"], job["control"], job["batch_size"]), {}
            )
            cell[job["knob"], job["lr"]] = row["held_out"]["linear"]
    return scores


def compare_choices(rows: Sequence[Row]) -> Iterator[str]:
    """FlatNCE less InfoNCE, over what both were tried with: temperature and rate."""
    scores = tried(rows)
    for batch in sorted({batch for _, _, batch in scores}):
        info, flat = (scores.get((name, "fixed", batch), {}) for name in FIRST)
        same = [setting for setting in flat if setting in info]
        if len(same) > 1:
            gap = paired([flat[s] for s in same], [info[s] for s in same])
            yield (
                f"FlatNCE less InfoNCE at batch {batch}, in the {len(same)} settings "
                f"that both were tried with: {gap} points."
            )


def compare_twins(rows: Sequence[Row]) -> Iterator[str]:
    """Whether the runs of an objective are those that stand for them elsewhere."""
    for name, other in STANDS_FOR.items():
        done = [row for row in rows if "held_out" in row]
        theirs = {key_of(row): row for row in done if row["job"]["objective"] == other}
        pairs = [
            (row, theirs[key_of(row)])
            for row in done
            if row["job"]["objective"] == name and key_of(row) in theirs
        ]
        same = [a for a, b in pairs if all(a.get(k) == b.get(k) for k in SCORES)]
        if pairs:
            yield (
                f"{name} has the gradient of {other}: of {len(pairs)} pairs of runs "
                f"that differ in nothing else, {len(same)} have equal scores, to the "
                f"last digit. Other rows of {name} are those of {other}."
            )


def key_of(row: Row) -> tuple[Any, ...]:
    """What names a run, but for the objective."""
    return tuple(v for name, v in row["job"].items() if name != "objective")


def show_all(values: Iterable[Any]) -> str:
    return ", ".join(map(str, sorted(values)))


def describe_runs(rows: Sequence[Row]) -> str:
    """What was trained, on how much and where, as the rows have it."""
    kinds: dict[str, set[str]] = {}
    for row in rows:
        if "settings" in row:
            kind = (
                f"{row['settings']['encoder']}, {row['n_train']:,} CIFAR-10 images to "
                f"train on, {row['device']}, torch {row['versions']['torch']}"
            )
            kinds.setdefault(kind, set()).add(row["date"].split()[0])
    lines = (f"{kind}, {show_all(dates)}." for kind, dates in sorted(kinds.items()))
    return "\n".join(lines)


def mean_or_dash(values: Sequence[float]) -> str:
    return f"{fmean(values):.2f}" if values else "-"


def draw_batches(rows: Sequence[Row], path: Path) -> None:
    """Accuracy against batch size, a line per objective, bars of one deviation."""
    figure, axes = start_figure(len(MEASURES))
    for ax, (of, title) in zip(axes, MEASURES.items(), strict=True):
        lines: dict[tuple[str, str], list[tuple[int, list[float]]]] = {}
        for name, control, batch, same in cells(rows):
            scores = [row["test"][of] for row in same]
            lines.setdefault((name, control), []).append((batch, scores))
        for shift, ((name, control), points) in enumerate(lines.items()):
            aside = 1.02 ** (shift - len(lines) / 2)  # bars that do not hide each other
            ax.errorbar(
                [batch * aside for batch, _ in points],
                [fmean(scores) for _, scores in points],
                [stdev(s) if len(s) > 1 else 0.0 for _, s in points],
                label=name + (", ESS held" if control == "ess" else ""),
                color=f"C{list(OBJECTIVES).index(name)}",
                linestyle="--" if control == "ess" else "-",
                marker="o",
                markersize=4,
                capsize=2,
            )
        ticks = sorted({batch for points in lines.values() for batch, _ in points})
        ax.set_xscale("log", base=2)
        ax.set_xticks(ticks, [str(batch) for batch in ticks])
        ax.set_xlabel("batch size")
        ax.set_ylabel(f"{title}, accuracy on the test set, %")
    save_figure(figure, axes, path)


def draw_information(rows: Sequence[Row], path: Path) -> None:
    """Accuracy against information over training: true and of mini-batches."""
    figure, axes = start_figure(2)
    kinds = {"sharp_nats": "true MI (pool), nats", "batch_nats": "mini-batch MI, nats"}
    for ax, (of, title) in zip(axes, kinds.items(), strict=True):
        for name, control, _, same in cells(rows):
            if name in STANDS_FOR:
                continue
            points = [point for row in same for point in row["curve"]]
            label = name + (", ESS held" if control == "ess" else "")
            ax.scatter(
                [point[of] for point in points],
                [point["knn"] for point in points],
                s=8,
                color=f"C{list(OBJECTIVES).index(name)}",
                marker="x" if control == "ess" else "o",
                label=label,
            )
        ax.set_xlabel(title)
        ax.set_ylabel("kNN on held-out images, %")
    save_figure(figure, axes, path)


def save_figure(figure: Any, axes: Any, path: Path) -> None:
    """With one legend beside all panels."""
    handles, labels = axes[0].get_legend_handles_labels()
    if labels:
        each = dict(zip(labels, handles, strict=True))
        beside = {"loc": "outside right center", "fontsize": 8, "handlelength": 4}
        figure.legend(each.values(), each.keys(), **beside)
    figure.savefig(path)


def start_figure(n: int) -> tuple[Any, Any]:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(
        1, n, figsize=(4.8 * n + 1.4, 4), layout="constrained", dpi=150
    )


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lines", type=Path, default=LINES)
    parser.add_argument("--note", default="", help="a sentence below what was trained")
    given = parser.parse_args(words)
    trained = read_rows(given.lines)
    if not trained:
        parser.error(f"There are no runs in {given.lines}.")
    rows = fill_in(trained)
    verdicts = "\n".join(str(verdict) for verdict in judge(rows))
    failed = [row for row in rows if "failed" in row]
    lost = "".join(f"\n- {row['job']}: {row['failed']}" for row in failed)
    finals = [row for row in rows if row["job"]["stage"] == "final" and "test" in row]
    answers = (make_table(rows), HOW.rstrip()) if finals else ()
    short = make_choices(rows) if tried(rows) else ""
    twins = "\n".join(compare_twins(trained))
    parts = describe_runs(rows), given.note, verdicts, twins, *answers
    parts += make_tries(rows), short
    text = "\n\n".join(filter(None, ("# The small-batch study", *parts))).rstrip()
    text += f"\n\nFailed:{lost}\n" if lost else "\n"
    given.lines.with_suffix(".md").write_text(text, encoding="utf-8")
    figures: dict[str, Callable[[Sequence[Row], Path], None]] = {}
    if finals:
        figures["_information"] = draw_information
    if len({row["job"]["batch_size"] for row in finals}) > 1:
        figures[""] = draw_batches
    for name, draw in figures.items():
        draw(rows, given.lines.with_name(f"{given.lines.stem}{name}.png"))
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
