"""Did it learn? The encoder beside raw pixels and beside itself before training."""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..diagnostics import Diagnosis, diagnosis
from ..evaluation import Score, as_row, knn, linear_probe
from ..evaluation._rows import NAME, Row, with_rows
from ._checkpoint import write_whole
from ._features import features, rows_of, view_features
from ._plan import Plan, one_class
from ._readings import UNTEMPERED

ROWS = 5000  # of the training part that the probes see, evenly spread
DIAGNOSED = 1000
SAME = "The best epoch by kNN on training images is the last one."


@dataclass(frozen=True)
class Result:
    """One line of the final table."""

    features: str
    knn: Score
    linear: Score
    epoch: int | None = None
    """Of the best epoch."""

    def rows(self, data: str) -> Iterator[Row]:
        """What evaluation.jsonl keeps of it."""
        for score in (self.knn, self.linear):
            yield as_row(score, features=self.features, data=data)


def evaluate_run(
    plan: Plan,
    encoder: nn.Module,
    device: Any,
    best: tuple[nn.Module, int] | None = None,
) -> tuple[list[Result], list[str]]:
    """Scores of three or four kinds of features, and what to make of them in words."""
    train, test = plan.source, plan.test
    if test is None:
        remark = (
            "no labels in these data, so nothing to score: the readings above "
            "(accuracy, nats, rank) say whether it learned."
        )
        return [], [remark]
    assert train.labels is not None and test.labels is not None
    if one_class(train.labels):
        remark = (
            "a single class in these data, so nothing to score: the readings above "
            "(accuracy, nats, rank) say whether it learned."
        )
        return [], [remark]
    few = rows_of(train, ROWS)
    truth = (train.labels[few], test.labels)
    kinds: dict[str, nn.Module | None] = {
        "raw pixels": None,
        "untrained encoder": plan.untrained.to(device),
        "trained encoder": encoder,
    }
    last = best is not None and best[1] == plan.settings.epochs
    if best is not None and not last:
        kinds["best epoch"] = best[0].to(device)
    results = []
    for name, network in kinds.items():
        a = features(train, few, network, device)
        b = features(test, torch.arange(len(test)), network, device)
        data = a, truth[0], b, truth[1]
        results.append(Result(name, knn(*data), linear_probe(*data)))
    if best is not None:
        found = results[-1] if last else results.pop()
        results.append(as_best(found, best[1], last))
    return results, [verdict(results)]


def as_best(result: Result, epoch: int, last: bool) -> Result:
    """The scores of the best epoch, said to be so."""
    note = SAME if last else f"Epoch {epoch}, best by kNN on training images."
    near, linear = (
        dataclasses.replace(score, notes=(note, *score.notes))
        for score in (result.knn, result.linear)
    )
    return Result("best epoch", near, linear, epoch)


def write_scores(results: Iterable[Result], folder: Path, data: str) -> None:
    """Add the lines of the final table to the run's scores."""
    path = folder / NAME
    text = with_rows(path, [row for result in results for row in result.rows(data)])
    write_whole(path, lambda file: file.write(text))


def diagnose_run(
    plan: Plan, encoder: nn.Module, head: nn.Module | None, device: Any
) -> Diagnosis:
    """Quick readings of h and z, from views of images that were not trained on."""
    source = plan.held_out
    if source is None or len(source) < 2:
        source = plan.source
    rows = rows_of(source, DIAGNOSED)
    # an epoch that training has not seen: other views of the same recipe
    h, z = view_features(
        source,
        rows,
        plan.views,
        encoder,
        head,
        device,
        seed=plan.settings.seed,
        epoch=plan.settings.epochs,
    )
    labels = None if source.labels is None else source.labels.cpu()[rows]
    temperature = float(getattr(plan.learner.objective, "temperature", UNTEMPERED))
    return diagnosis(h, z, labels=labels, temperature=temperature)


def table(results: Iterable[Result]) -> list[str]:
    """Lines to print: one kind of features a line."""
    results = list(results)
    if not results:
        return []
    lines = [f"{'features':<20}{'kNN':>8}{'linear probe':>15}   95 % of the probe"]
    for row in results:
        low, high = row.linear.interval or (0.0, 1.0)
        name = row.features + (f" ({row.epoch})" if row.epoch else "")
        lines.append(
            f"{name:<20}{row.knn.accuracy:>8.1%}{row.linear.accuracy:>15.1%}"
            f"   {low:.1%} to {high:.1%}"
        )
    first = results[0]
    lines.append(
        f"kNN: k = {first.knn.settings.get('k')}, cosine; linear: logistic regression "
        f"on frozen features; {first.knn.n_test:,} test images never trained on"
    )
    if results[-1].epoch:
        lines.append("best epoch: by kNN on training images, the test part untouched")
    return lines


def verdict(results: Iterable[Result]) -> str:
    """Whether training helped, in one sentence."""
    by_name = {result.features: result.linear for result in results}
    before, after = by_name["untrained encoder"], by_name["trained encoder"]
    gain = after.value - before.value
    if (after.interval or (0,))[0] > (before.interval or (0, 1))[1]:
        return f"It learned: the linear probe rose by {100 * gain:.1f} points."
    if before.value == 1:
        return (
            f"The untrained encoder is right on all {before.n_test:,} test images "
            "already: they cannot show whether it learned."
        )
    if gain > 0:
        return (
            f"Perhaps it learned: {100 * gain:.1f} points more than untrained, within "
            "the margin of this test part. Train longer or test on more images."
        )
    return (
        "It did not learn what the labels ask for: no better than untrained. Train "
        "longer, or look at the views: they may remove what tells the classes apart."
    )
