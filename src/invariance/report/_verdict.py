"""Words from numbers: did it learn, collapse, saturate, stop?

The bounds are those of the warnings in training: spread below 0.1 or effective rank
below 1.5 is a collapse, a bound within 0.2 nats of its ceiling is saturated.
"""

import math
import shlex
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from ._files import RunFiles
from ._numbers import minus
from ._scores import tabulated

Mood = Literal["good", "bad", "unsure"]


@dataclass(frozen=True)
class Finding:
    """One thing to say about a run."""

    mood: Mood
    word: str
    text: str
    command: str = ""
    """What to type next."""


def verdict(run: RunFiles) -> list[Finding]:
    """Everything worth saying, what decides first."""
    found = [diverged(run), collapsed(run), unfinished(run), learned(run)]
    found += [better_before(run), behind_pixels(run), saturated(run)]
    return [finding for finding in found if finding is not None]


def diverged(run: RunFiles) -> Finding | None:
    """The last loss is not a number."""
    if not run.readings or "loss" not in run.readings[-1]:
        return None
    if run.last("loss") is not None:
        return None
    advice = "Try a lower learning rate, or clip the gradient (--optim.clip-norm 1)."
    return Finding("bad", "Diverged", f"The last loss is not a finite number. {advice}")


def collapsed(run: RunFiles) -> Finding | None:
    """All projections are the same, or lie on one line."""
    spread, rank = run.last("spread"), run.last("effective_rank")
    early = not run.finished and bool(run.readings) and run.readings[-1]["epoch"] <= 1
    if spread is None or rank is None or early or (spread >= 0.1 and rank >= 1.5):
        return None
    return Finding(
        "bad",
        "Collapsed",
        f"All projections are nearly the same: spread {spread:.2f} of a healthy 1, "
        f"effective rank {rank:.1f}. Try a lower learning rate, a higher temperature, "
        "or a method with negatives.",
    )


def unfinished(run: RunFiles) -> Finding | None:
    """No encoder has been written."""
    if run.finished:
        return None
    text = "There is no reading yet."
    if run.readings:
        of = "" if run.epochs is None else f" of {run.epochs:g}"
        text = f"The last reading is at epoch {run.readings[-1]['epoch']:.4g}{of}."
    again = f"invariance train --resume {shlex.quote(str(run.folder))}"
    text += " If it is not running any more, go on with:"
    return Finding("unsure", "Unfinished", text, again)


def learned(run: RunFiles) -> Finding | None:
    """By the linear probe where there is one, otherwise by the readings."""
    before, after = _score(run, "untrained encoder"), _score(run, "trained encoder")
    if before is None or after is None:
        broken = diverged(run) or collapsed(run)  # then the readings prove nothing
        return None if broken else _learned_by_readings(run)
    (was, _, was_high), (now, now_low, _) = before, after
    gain = f"{100 * abs(now - was):.1f} points"
    change = f"from {100 * was:.1f} % untrained to {100 * now:.1f} %"
    if now_low > was_high:
        text = f"The linear probe rose by {gain}, {change}."
        return Finding("good", "It learned", text)
    if was == 1:
        text = "The linear probe is right on every test image already before training, "
        advice = "so the test part cannot show it: take one that is harder or larger."
        return Finding("unsure", "Not known", text + advice)
    if now > was:
        text = f"The linear probe rose by {gain}, {change}, which is within the margin "
        advice = "of this test part. Train longer or test on more images."
        return Finding("unsure", "Perhaps it learned", text + advice)
    fell = f"fell by {gain}" if now < was else "stayed as it was"
    text = f"The linear probe {fell}, {change}. Train longer, or look at the views: "
    advice = "they may remove what tells the classes apart."
    return Finding("bad", "It did not learn what the labels ask for", text + advice)


def better_before(run: RunFiles) -> Finding | None:
    """The best epoch, chosen without the test part, is clearly ahead of the last."""
    last, best = (_score(run, name) for name in ("trained encoder", "best epoch"))
    if last is None or best is None or best[1] <= last[2]:
        return None
    pair = f"{100 * best[0]:.1f} % against {100 * last[0]:.1f} %"
    text = f"The best epoch scores {pair} of the last by the linear probe. "
    advice = "Use its encoder, or train for fewer epochs."
    return Finding("unsure", "It was better before", text + advice)


def behind_pixels(run: RunFiles) -> Finding | None:
    """Raw pixels, which cost nothing, do better."""
    worse = []
    for kind, name in (("knn", "kNN"), ("linear", "the linear probe")):
        pixels, own = (_score(run, f, kind) for f in ("raw pixels", "trained encoder"))
        if pixels is not None and own is not None and pixels[0] > own[0]:
            pair = f"{100 * pixels[0]:.1f} % against {100 * own[0]:.1f} %"
            worse.append(f"{name} ({pair})")
    if not worse:
        return None
    text = f"They score higher by {' and '.join(worse)}. Training longer may help."
    return Finding("unsure", "Raw pixels are ahead", text)


def saturated(run: RunFiles) -> Finding | None:
    """The bound has no room left above it."""
    nats, ceiling = run.last("mi_nats"), run.last("mi_ceiling")
    if nats is None or ceiling is None or ceiling - nats >= 0.2:
        return None
    return Finding(
        "unsure",
        "Saturated",
        f"The information bound, {nats:.2f} nats, is at its ceiling log n = "
        f"{ceiling:.2f} and cannot show more with this batch. Stronger views or a "
        "larger batch leave more to learn.",
    )


def _learned_by_readings(run: RunFiles) -> Finding:
    """The bound over the last epoch beside the first reading."""
    why = "There are no labels to score it by. " if run.labelled is False else ""
    points = run.points("mi_nats")
    if len(points) < 2:
        return Finding("unsure", "Not known yet", f"{why}There are too few readings.")
    start, end = points[0][1], _last_epoch(points)
    accuracy, ceiling = _last_epoch(run.points("accuracy")), run.last("mi_ceiling")
    first = minus(f"{start:.2f}")
    text = f"{why}The information bound went from {first} to {end:.2f} nats"
    if accuracy is not None and ceiling is not None:
        chance = f"{100 * math.exp(-ceiling):.1f} %"
        text += f", contrastive accuracy to {100 * accuracy:.1f} % (chance is {chance})"
    text += "; means over the last epoch."
    good = end is not None and end - start > 0.1
    word = "It learned" if good else "It did not learn"
    if not run.finished:
        word = "It is learning" if good else "It has not yet learned"
    return Finding("good" if good else "bad", f"{word} to tell images apart", text)


def _last_epoch(points: list[tuple[float, float]]) -> float | None:
    return fmean(v for e, v in points if e > points[-1][0] - 1) if points else None


def _score(
    run: RunFiles, features: str, protocol: str = "linear"
) -> tuple[float, float, float] | None:
    """Accuracy on the run's own data, and where it may well be."""
    scores = tabulated(run.scores or [], run.config.get("data", ""))
    cell = scores.cell(features, protocol)
    return None if cell is None else (cell.mean, *cell.ends)
