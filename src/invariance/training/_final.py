"""Did it learn? The encoder beside raw pixels and beside itself before training."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..data import ImageSource
from ..evaluation import Score, knn, linear_probe, raw_pixels
from ._plan import Plan

ROWS = 5000  # of the training part that the probes see, evenly spread
MONITOR_ROWS = 2000
CHUNK = 500


@dataclass(frozen=True)
class Result:
    """One line of the final table."""

    features: str
    knn: Score
    linear: Score


def evaluate_run(
    plan: Plan, encoder: nn.Module, device: Any
) -> tuple[list[Result], list[str]]:
    """Scores of three kinds of features, and what to make of them in words."""
    train, test = plan.source, plan.test
    if test is None:
        remark = (
            "no labels in these data, so nothing to score: the readings above "
            "(accuracy, nats, rank) say whether it learned."
        )
        return [], [remark]
    few = rows_of(train, ROWS)
    assert train.labels is not None and test.labels is not None
    truth = (train.labels[few], test.labels)
    kinds: dict[str, nn.Module | None] = {
        "raw pixels": None,
        "untrained encoder": plan.untrained.to(device),
        "trained encoder": encoder,
    }
    results = []
    for name, network in kinds.items():
        a = features(train, few, network, device)
        b = features(test, torch.arange(len(test)), network, device)
        scores = [rate(a, truth[0], b, truth[1]) for rate in (knn, linear_probe)]
        results.append(Result(name, *scores))
    return results, [verdict(results, len(train.class_names))]


def knn_reading(plan: Plan, encoder: nn.Module, device: Any) -> float | None:
    """KNN accuracy of the encoder as it is; None without labels."""
    train, test = plan.source, plan.test
    if test is None:
        return None
    learning = encoder.training
    some, others = rows_of(train, MONITOR_ROWS), rows_of(test, MONITOR_ROWS // 2)
    a, b = (features(s, r, encoder, device) for s, r in ((train, some), (test, others)))
    encoder.train(learning)
    assert train.labels is not None and test.labels is not None
    return knn(a, train.labels[some], b, test.labels[others]).accuracy


def rows_of(source: ImageSource, most: int) -> Tensor:
    """At most so many row numbers, evenly spread."""
    return torch.linspace(0, len(source) - 1, min(len(source), most)).round().long()


@torch.no_grad()
def features(
    source: ImageSource, rows: Tensor, encoder: nn.Module | None, device: Any
) -> Tensor:
    """Features of these rows, on the CPU; pixels where there is no encoder."""
    if encoder is not None:
        encoder.eval()
    found = []
    for images in source.batches(rows.split(CHUNK), device=device):
        if encoder is None:
            found.append(raw_pixels(images).float().cpu())
        else:
            found.append(encoder(images.float() / 255).float().cpu())
    return torch.cat(found)


def table(results: Iterable[Result]) -> list[str]:
    """Lines to print: one kind of features a line."""
    results = list(results)
    if not results:
        return []
    lines = [f"{'features':<20}{'kNN':>8}{'linear probe':>15}   95 % of the probe"]
    for row in results:
        low, high = row.linear.interval
        lines.append(
            f"{row.features:<20}{row.knn.accuracy:>8.1%}{row.linear.accuracy:>15.1%}"
            f"   {low:.1%} to {high:.1%}"
        )
    first = results[0]
    lines.append(
        f"kNN: k = {first.knn.settings.get('k')}, cosine; linear: logistic regression "
        f"on frozen features; {first.knn.n_test:,} test images never trained on"
    )
    return lines


def verdict(results: list[Result], n_classes: int) -> str:
    """Whether training helped, in one sentence."""
    _, before, after = results
    gain = after.linear.accuracy - before.linear.accuracy
    apart = after.linear.interval[0] > before.linear.interval[1]
    if apart:
        return f"It learned: the linear probe rose by {100 * gain:.1f} points."
    if gain > 0:
        return (
            f"Perhaps it learned: {100 * gain:.1f} points more than untrained, within "
            "the margin of this test part. Train longer or test on more images."
        )
    return (
        "It did not learn what the labels ask for: no better than untrained. Train "
        "longer, or look at the views: they may remove what tells the classes apart."
    )
