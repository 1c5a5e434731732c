"""Which measure of evenness tells accuracy best: Wasserstein, uniformity or another.

The maximum mean discrepancy with a Gaussian kernel is an increasing function of the
uniformity (see ``mmd_to_uniform``): both put encoders of one width in the same order.
"""

from collections.abc import Mapping
from typing import Any

import torch

from ... import (
    energy_distance_to_uniform,
    mmd_to_uniform,
    uniformity,
    wasserstein_to_uniform,
)
from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict
from .._small_runs import SMALLER, encode_codes, list_sizes, read_accuracy, train_small
from .._spread import Spread, compare, rank_correlation

# encoders of different quality: method and settings
ENCODERS: dict[str, dict[str, Any]] = {
    "InfoNCE, tau 0.1": {"method": "info_nce", "temperature": 0.1},
    "InfoNCE, tau 0.5": {"method": "info_nce", "temperature": 0.5},
    "DHEL, tau 0.3": {"method": "dhel", "temperature": 0.3},
    "DHEL, tau 1": {"method": "dhel", "temperature": 1.0},
    "KCL, gamma 16": {"method": "kcl", "options": {"gamma": 16.0}},
    "SimCLR, weak views": {
        "method": "simclr",
        "strength": 0.3,
    },
}
MEASURES = {
    "wasserstein": "Wasserstein",
    "uniformity": "uniformity",
    "mmd": "MMD",
    "energy": "energy distance",
}


def read_evenness(z: torch.Tensor) -> dict[str, float]:
    """How far rows are from an even cover of the sphere, in four measures."""
    return {
        "wasserstein": wasserstein_to_uniform(z),
        "uniformity": uniformity(z),
        "mmd": mmd_to_uniform(z),
        "energy": energy_distance_to_uniform(z),
    }


def measure(cell: Cell) -> Values:
    """Accuracy of the features, and evenness of the test codes' projections."""
    readings: dict[str, float] = {}

    def read(epoch: int, learner: Any) -> Mapping[str, float]:
        if epoch == cell["epochs"]:
            _, (z, _) = encode_codes(cell, learner.online)
            readings.update(read_evenness(z[:500]))
        return {}

    run = train_small(cell, each_epoch=read, **ENCODERS[cell["encoder"]])
    return {"accuracy": read_accuracy(cell, run), **readings}


def correlate(rows: Rows) -> dict[str, list[float]]:
    """Rank correlation of evenness and accuracy for each seed; 1: more even, better."""
    seeds = list(dict.fromkeys(rows["seed"]))
    return {
        name: [
            -rank_correlation(
                rows.where(seed=seed)[name], rows.where(seed=seed)["accuracy"]
            )
            for seed in seeds
        ]
        for name in MEASURES
    }


def judge(rows: Rows) -> Verdict:
    """Of all encoders, and of all but any one: six are too few for one to decide."""
    verdict, turned = judge_order(rows), []
    for encoder in dict.fromkeys(rows["encoder"]):
        others = Rows(row for row in rows if row["encoder"] != encoder)
        outcome = judge_order(others).outcome
        if outcome not in (verdict.outcome, "not decided"):
            turned.append(f"without '{encoder}': {outcome}")
    if not turned:
        return verdict
    return Verdict(
        "not decided",
        f"{verdict.because} That would be '{verdict.outcome}', but one encoder is "
        f"enough to turn it ({'; '.join(turned)}).",
    )


def judge_order(rows: Rows) -> Verdict:
    """The Wasserstein distance must order encoders better than uniformity."""
    by_name = correlate(rows)
    ahead = compare(by_name["wasserstein"], by_name["uniformity"])
    numbers = "Rank correlation of evenness with accuracy: "
    numbers += ", ".join(
        f"{words} {Spread.of(by_name[name])}" for name, words in MEASURES.items()
    )
    if Spread.of(by_name["wasserstein"]).is_below_zero:
        return Verdict(
            "does not hold",
            f"{numbers}. By the Wasserstein distance, more even projections go with "
            "lower accuracy here, so it does not tell which encoder is better.",
        )
    if ahead.is_above_zero:
        return Verdict("holds", f"{numbers}.")
    if ahead.is_below_zero:
        return Verdict("does not hold", f"{numbers}.")
    if ahead.half_width < 0.1:
        return Verdict(
            "does not hold",
            f"{numbers}. The Wasserstein distance is ahead of uniformity by {ahead}, "
            "that is, not at all.",
        )
    return Verdict("not decided", f"{numbers}; the difference is within chance.")


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy against each measure, encoder by encoder."""
    panels = figure.subplots(1, len(MEASURES), sharey=True)
    encoders = list(dict.fromkeys(rows["encoder"]))
    for axes, (name, words) in zip(panels, MEASURES.items(), strict=True):
        for k, encoder in enumerate(encoders):
            some = rows.where(encoder=encoder)
            label = encoder if name == "wasserstein" else None
            axes.plot(some[name], some["accuracy"], "o", color=f"C{k}", label=label)
        axes.set_xlabel(words)
        ends = (min(rows[name]), max(rows[name]))
        axes.set_xticks(ends, [f"{end:.2g}" for end in ends])
    panels[0].set_ylabel("kNN accuracy, %")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)


ABOUT = About(
    where="open question 2",
    says="The Wasserstein distance of the cosines from those of an even cover of the "
    "sphere says more about the quality of a representation than uniformity does.",
    run="Six encoders of different quality; four measures of how evenly the "
    "projections of the test codes cover the sphere, and how well each measure orders "
    f"the encoders by accuracy. {SMALLER}",
    refuted_if="A rank correlation with accuracy that is not above that of uniformity, "
    "for all six encoders and whichever one of them is left out.",
    sizes=list_sizes(encoder=ENCODERS, tiny={"encoder": list(ENCODERS)[:2]}),
    toy=EVERY_SIZE,
    columns={
        "encoder": "encoder",
        "kNN accuracy, %": "accuracy",
        **{words: name for name, words in MEASURES.items()},
    },
)
