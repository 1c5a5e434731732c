"""What to make of a run, in words: did it learn, collapse, saturate, stop?

``judge`` decides by the files of the run alone. ``train`` and ``evaluate`` store what
it says in ``verdict.json``; the terminal, the log, ``list runs`` and the report show
that.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..thresholds import (
    is_collapsed,
    is_saturated,
    is_temperature_bound,
    reachable_information,
)
from ._files import finite_number, resume_command, write_json
from ._record import Record, read_record
from ._scores import TRAINED, UNTRAINED

VERDICT = "verdict.json"
MOODS = ("good", "bad", "unsure")
GOALS = {
    "pairs": "to find partners",
    "future": "to predict what comes next",
    "tokens": "to name hidden tokens",
}
"""What is learned, where positives are not views of one sample."""


@dataclass(frozen=True)
class Measure:
    """How the main score of a protocol is talked about."""

    title: str
    name: str
    """At the beginning of a sentence."""
    unit: str = "%"
    by_label: bool = False
    """Whether it asks for labels, whatever the method is about."""
    asked: str = "what the labels ask for"
    """What was to be learned, where labels say it."""
    advice: str = "Train longer, or on more data."

    @property
    def share(self) -> bool:
        """Whether it is a part of a whole."""
        return self.unit == "%"

    def show(self, value: float) -> str:
        """A value with its unit."""
        if self.share:
            return f"{100 * value:.1f} %"
        return f"{round(value, 2) + 0.0:.2f} {self.unit}".rstrip()  # no "-0.00"

    def show_change(self, value: float) -> str:
        """How far apart two values are."""
        return f"{100 * value:.1f} points" if self.share else self.show(value)


LOOK_AT_VIEWS = (
    "Train longer, or look at the views: they may remove what tells the classes apart."
)
LOOK_AT_VIEWS_OF_NUMBERS = (
    "Train longer, or look at the views: they may remove what the target depends on."
)
MEASURES = {
    "zero_shot": Measure("zero-shot", "Zero-shot accuracy"),
    "pairs": Measure("partners found", "The share of partners found"),
    "rank_correlation": Measure(
        "rank correlation", "The rank correlation with the scores of pairs", unit=""
    ),
    "partner": Measure("partners found", "The share of partners found"),
    "steps_ahead": Measure(
        "next patch", "The information about the next patch of a {word}", unit="nats"
    ),
    "linear": Measure(
        "linear probe", "The linear probe", by_label=True, advice=LOOK_AT_VIEWS
    ),
    "knn": Measure("kNN", "kNN", by_label=True, advice=LOOK_AT_VIEWS),
    "ridge": Measure(
        "R² of a ridge regression",
        "R² of a ridge regression",
        unit="",
        by_label=True,
        asked="what the target asks for",
        advice=LOOK_AT_VIEWS_OF_NUMBERS,
    ),
    "knn_regression": Measure(
        "R² of kNN",
        "R² of a kNN regression",
        unit="",
        by_label=True,
        asked="what the target asks for",
        advice=LOOK_AT_VIEWS_OF_NUMBERS,
    ),
}
"""What shows whether a run learned: the first that it was scored by decides."""


@dataclass(frozen=True)
class Finding:
    """One thing to say about a run."""

    kind: str
    """What it is about, such as "learned" or "collapsed"."""
    mood: str
    """"good", "bad" or "unsure"."""
    title: str
    text: str
    command: str = ""
    """What to type next."""

    def __str__(self) -> str:
        return " ".join(filter(None, [f"{self.title}. {self.text}", self.command]))


def write_verdict(folder: Path) -> list[Finding]:
    """Judge a run by its files, and store what was found."""
    findings = judge(read_record(folder))
    plain = [dataclasses.asdict(finding) for finding in findings]
    advice = "The verdict of this run was not saved."
    write_json(folder / VERDICT, plain, advice=advice)
    return findings


def read_verdict(record: Record) -> list[Finding]:
    """The stored verdict; judged now where none is stored, as in an unfinished run."""
    try:
        stored = json.loads((record.folder / VERDICT).read_text(encoding="utf-8"))
        findings = [Finding(**finding) for finding in stored]
    except (OSError, ValueError, TypeError, RecursionError):
        return judge(record)
    whole = findings and all(finding.mood in MOODS for finding in findings)
    return findings if whole and record.finished else judge(record)


def judge(record: Record) -> list[Finding]:
    """Everything worth saying, what decides first."""
    findings = [
        _find_divergence(record),
        _find_last_collapse(record),
        _find_unfinished(record),
        _find_learning(record),
        _find_early_end(record),
        _find_better_epoch(record),
        _find_better_pixels(record),
        _find_last_saturation(record),
    ]
    return [finding for finding in findings if finding is not None]


def find_collapse(reading: Mapping[str, Any]) -> Finding | None:
    """A reading whose projections are all the same, or lie on one line."""
    spread = finite_number(reading.get("spread"))
    rank = finite_number(reading.get("effective_rank"))
    if spread is None or rank is None or not is_collapsed(spread, rank):
        return None
    return Finding(
        "collapsed",
        "bad",
        "Collapsed",
        f"All projections are nearly the same: spread {spread:.2f} of a healthy 1, "
        f"effective rank {rank:.1f}. Try a lower learning rate, a higher temperature, "
        "or a method with negatives.",
    )


def find_saturation(reading: Mapping[str, Any]) -> Finding | None:
    """A reading whose information bound is at the most that it can show."""
    nats = finite_number(reading.get("mi_nats"))
    ceiling = finite_number(reading.get("mi_ceiling"))
    reachable = find_reachable(reading)
    if nats is None or ceiling is None or reachable is None:
        return None
    if not is_saturated(nats, ceiling, reachable):
        return None
    narrow = is_temperature_bound(ceiling, reachable)
    more = "a lower temperature" if narrow else "more candidates"
    return Finding(
        "saturated",
        "unsure",
        "Saturated",
        f"The information bound, {nats:.2f} nats, is close to the most it can show, "
        f"{describe_limit(reading)}. Stronger views or {more} leave more to learn.",
    )


def describe_limit(reading: Mapping[str, Any]) -> str:
    """The most that a reading's bound can show, in words; empty if it is not known.

    >>> describe_limit({"mi_ceiling": 4.85, "mi_reachable": 1.97, "temperature": 0.5})
    '1.97 at temperature 0.5 (log n is 4.85)'
    >>> describe_limit({"mi_ceiling": 4.85})
    'log n = 4.85'
    """
    ceiling = finite_number(reading.get("mi_ceiling"))
    reachable = find_reachable(reading)
    if ceiling is None or reachable is None:
        return ""
    if ceiling - reachable < 0.005:  # no difference in two digits
        return f"log n = {ceiling:.2f}"
    temperature = finite_number(reading.get("temperature"))
    at = "the temperature of this reading"
    if temperature is not None:
        at = f"temperature {temperature:.3g}"
    return f"{reachable:.2f} at {at} (log n is {ceiling:.2f})"


def find_reachable(reading: Mapping[str, Any]) -> float | None:
    """The most that a reading's bound can show at its temperature, if it has one.

    Runs of older versions do not say it, but it follows from what they say.
    """
    reachable = finite_number(reading.get("mi_reachable"))
    if reachable is not None:
        return reachable
    ceiling = finite_number(reading.get("mi_ceiling"))
    temperature = finite_number(reading.get("temperature"))
    if ceiling is None or temperature is None or ceiling <= 0 or temperature <= 0:
        return ceiling
    return reachable_information(math.exp(ceiling), temperature)


def _find_divergence(record: Record) -> Finding | None:
    if not record.readings or "loss" not in record.readings[-1]:
        return None
    if record.last("loss") is not None:
        return None
    text = (
        "The last loss is not a finite number. Try a lower learning rate, or clip the "
        "gradient (--optim.clip-norm 1)."
    )
    return Finding("diverged", "bad", "Diverged", text)


def _find_last_collapse(record: Record) -> Finding | None:
    """By the last reading; the first epoch of a run that goes on is too early."""
    if not record.readings:
        return None
    last = record.readings[-1]
    early = not record.finished and last["epoch"] <= 1
    return None if early else find_collapse(last)


def _find_last_saturation(record: Record) -> Finding | None:
    """By the mean over the last epoch, the number that is shown everywhere else."""
    if not record.readings:
        return None
    nats = record.mean_of_last_epoch("mi_nats")
    return find_saturation({**record.readings[-1], "mi_nats": nats})


def _find_unfinished(record: Record) -> Finding | None:
    if record.finished:
        return None
    text = "There is no reading yet."
    if record.readings:
        text = f"The last reading is at {record.reached}."
    text += " If it is no longer running, it can continue from its last checkpoint."
    command = resume_command(record.folder)
    return Finding("unfinished", "unsure", "Unfinished", text, command)


def _find_early_end(record: Record) -> Finding | None:
    if not record.finished or not record.ended:
        return None
    epoch = record.readings[-1]["epoch"]
    of = "" if record.epochs is None else f" of {record.epochs:g}"
    text = (
        f"After epoch {epoch:.4g}{of}: {record.ended}. The learning rate had not "
        f"come down by then; a run planned for {epoch:.4g} epochs may do better."
    )
    return Finding("ended", "unsure", "Ended early", text)


def _find_learning(record: Record) -> Finding | None:
    """By the score that the method is about, where there is one; else by readings."""
    protocol = next(iter(list_measures(record)), "linear")
    before, after = (
        record.scores.cell(features, protocol) for features in (UNTRAINED, TRAINED)
    )
    if before is None or after is None:
        if _find_divergence(record) or _find_last_collapse(record):
            return None  # the readings prove nothing then
        return _judge_by_readings(record)
    measure, was, now = MEASURES[protocol], before.mean, after.mean
    name = measure.name.format(word=record.word)
    goal = "" if measure.by_label else f" {_find_goal(record, protocol)}"
    gain = measure.show_change(abs(now - was))
    change = f"from {measure.show(was)} untrained to {measure.show(now)}"
    if after.ends[0] > before.ends[1]:
        text = f"{name} rose by {gain}, {change}."
        return Finding("learned", "good", f"It learned{goal}", text)
    if was == 1 and measure.share:
        text = (
            f"{name} was already at 100 % before training, so this test part cannot "
            "show whether it learned: use a harder or larger one."
        )
        return Finding("learned", "unsure", "Not known", text)
    level = measure.show(now) == measure.show(was)  # "fell by 0.00" says nothing
    if now > was and not level:
        text = (
            f"{name} rose by {gain}, {change}, which is within the margin of this test "
            f"part. Train longer or test on more {record.word}s."
        )
        return Finding("learned", "unsure", f"It may have learned{goal}", text)
    fell = f"stayed at {measure.show(now)}" if level else f"fell by {gain}, {change}"
    text = f"{name} {fell}. {measure.advice}"
    goal = goal or f" {measure.asked}"
    return Finding("learned", "bad", f"It did not learn{goal}", text)


def list_measures(record: Record) -> list[str]:
    """The protocols that a trained encoder was scored by, what it is about first."""
    return [
        protocol
        for protocol in MEASURES
        # any network of sequences is scored by steps ahead, whatever it learned
        if protocol != "steps_ahead" or record.positives == "future"
        if record.scores.cell(TRAINED, protocol) is not None
    ]


def _find_goal(record: Record, protocol: str = "") -> str:
    """What it was to learn."""
    if protocol == "rank_correlation":
        return "which pairs are alike"
    return GOALS.get(record.positives, f"to tell {record.word}s apart")


def _judge_by_readings(record: Record) -> Finding:
    """The bound over the last epoch beside the first reading."""
    why = "There are no labels to score it by. " if record.labeled is False else ""
    points, end = record.points("mi_nats"), record.mean_of_last_epoch("mi_nats")
    if len(points) < 2 or end is None:
        text = f"{why}There are too few readings."
        return Finding("learned", "unsure", "Not known yet", text)
    start = points[0][1]
    accuracy, chance = record.mean_of_last_epoch("accuracy"), _find_chance(record)
    text = f"{why}The information bound went from {start:.2f} to {end:.2f} nats"
    if accuracy is not None and chance is not None:
        share = f"{100 * accuracy:.1f} %"
        text += f", contrastive accuracy to {share} (chance is {100 * chance:.1f} %)"
    text += "; means over the last epoch."
    good = end > 0 and end - start > 0.1  # a bound below 0 certifies nothing
    title = "It learned" if good else "It did not learn"
    if not record.finished:
        title = "It is learning" if good else "It has not yet learned"
    mood = "good" if good else "bad"
    return Finding("learned", mood, f"{title} {_find_goal(record)}", text)


def _find_chance(record: Record) -> float | None:
    """Of contrastive accuracy; older runs say it by their ceiling, log n, alone."""
    chance, ceiling = record.last("accuracy_chance"), record.last("mi_ceiling")
    if chance is None and ceiling is not None:
        return math.exp(-ceiling)
    return chance


def _find_better_epoch(record: Record) -> Finding | None:
    """The best epoch, chosen without the test part, is clearly ahead of the last."""
    protocol = next(iter(list_measures(record)), "linear")
    last, best = (
        record.scores.cell(features, protocol) for features in (TRAINED, "best epoch")
    )
    if last is None or best is None or best.ends[0] <= last.ends[1]:
        return None
    measure = MEASURES[protocol]
    text = (
        f"The best epoch scores {measure.show(best.mean)}, the last one "
        f"{measure.show(last.mean)} ({measure.title}). Use the best one's encoder, "
        "or train for fewer epochs."
    )
    return Finding("better_before", "unsure", "An earlier epoch was better", text)


def _find_better_pixels(record: Record) -> Finding | None:
    """Raw pixels, or what else costs nothing, do better."""
    ahead = []
    decides = next(iter(list_measures(record)), "linear")
    by_label = ("knn", "linear", "knn_regression", "ridge")
    for protocol in by_label if MEASURES[decides].by_label else (decides,):
        measure = MEASURES[protocol]
        pixels = record.scores.cell(record.baseline, protocol)
        trained = record.scores.cell(TRAINED, protocol)
        if pixels is not None and trained is not None and pixels.mean > trained.mean:
            pair = f"{measure.show(pixels.mean)} against {measure.show(trained.mean)}"
            ahead.append(f"{measure.title} {pair}")
    if not ahead:
        return None
    text = f"score higher: {', '.join(ahead)}. Training longer may help."
    if record.baseline == "raw pixels":
        title, text = "Raw pixels are ahead", f"They {text}"
    else:
        title = "The simplest baseline is ahead"
        text = f"Its features, {record.baseline}, {text}"
    return Finding("behind_pixels", "unsure", title, text)
