"""Text methods on the generated paraphrases, beside simple baselines.

    python benchmarks/paraphrases.py               # three seeds, about 15 minutes
    python benchmarks/paraphrases.py --seeds 1 --limit 2000 --epochs 4
    python benchmarks/paraphrases.py --ways masked # the other rows stay as they were

Writes benchmarks/results/paraphrases.json and .md, and docs/images/paraphrases.png: how
near pairs of sentences lie, by how many of five parts of their meaning they share. Test
sentences have meanings that no training sentence has.
"""

import argparse
import json
import os
import platform
import shlex
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

import invariance as inv

ROOT = Path(__file__).parents[1]
COLUMNS = {
    "rank correlation": ("rank_correlation", "spearman"),
    "paraphrase found": ("partner", "recall@1"),
    "kNN, who": ("knn", "accuracy"),
    "linear probe, who": ("linear", "accuracy"),
}
ROWS = {
    "bag of words": ("pairs", "bag of words"),
    "untrained tower": ("pairs", "untrained encoder"),
    "simcse, dropout alone": ("dropout", "trained encoder"),
    "simcse, pairs": ("pairs", "trained encoder"),
    "masked_token": ("masked", "trained encoder"),
}
WAYS = ("pairs", "dropout", "masked")
PACKAGES = ("torch", "tokenizers", "scipy", "scikit-learn")


def train(how: str, seed: int, out: str, budget: dict[str, int]) -> tuple[Any, Any]:
    """A run on pairs, or on their first sentences alone, and its scores."""
    data: Any = None
    alone = how != "pairs"
    if alone:
        source = inv.data.load("paraphrases", n=budget["limit"])
        [tokens] = source.batches([torch.arange(len(source))])
        data = inv.data.Samples([*map(source.kind.show, tokens)], source.kind)
    settings = inv.Train(
        **({} if alone else {"data": "paraphrases"}),
        method="masked_token" if how == "masked" else "simcse",
        name=f"{how}-{seed}",
        seed=seed,
        out=out,
        quiet=True,
        knn_every=0,
        evaluate=False,
        **budget,
    )
    run = inv.train(settings, data=data)
    protocols = [protocol for protocol, _ in COLUMNS.values()]
    how_many = {"protocols": protocols, "limit": budget["limit"]}
    return run, inv.evaluate(run, data="paraphrases", **how_many)


def find_cosines(encoder: Any) -> Tensor:
    """Of all test pairs; a bag of words where there is no encoder."""
    source = inv.data.load("paraphrases", split="test")
    rows = [torch.arange(len(source))]
    sides = [next(iter(side.batches(rows))) for side in (source, source.other)]
    see = source.kind.plain if encoder is None else encoder
    with torch.no_grad():
        return cosine_similarity(*map(see, sides))


def draw(cosines: dict[str, Tensor], path: Path) -> None:
    """Mean and spread of the cosines by the share of meaning that pairs have."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    scores = inv.data.load("paraphrases", split="test").scores
    assert scores is not None
    figure, panels = plt.subplots(1, len(cosines), figsize=(9, 2.9), sharey=True)
    levels = scores.unique().tolist()
    for panel, (name, values) in zip(panels, cosines.items(), strict=True):
        groups = [values[scores == level].numpy() for level in levels]
        parts = panel.violinplot(groups, levels, widths=0.16, showmedians=True)
        for body in parts["bodies"]:
            body.set_facecolor("#3b6ea5")
        panel.set_title(name, fontsize=10)
        panel.set_xlabel("share of meaning in common", fontsize=9)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("cosine of the pair", fontsize=9)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def make_table(scores: dict[str, dict[str, list[float]]]) -> str:
    """Markdown: a row per kind of features, mean and spread over seeds."""
    lines = [
        f"| features | {' | '.join(COLUMNS)} |",
        "| :--- |" + " ---: |" * len(COLUMNS),
    ]
    for name, columns in scores.items():
        cells = []
        for column, values in columns.items():
            share = column != "rank correlation"
            scale, digits = (100, 1) if share else (1, 3)
            mean = f"{scale * statistics.fmean(values):.{digits}f}"
            if len({*values}) > 1:
                mean += f" ± {scale * statistics.stdev(values):.{digits}f}"
            cells.append(mean + (" %" if share else ""))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Train, score, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--out", type=Path, default=ROOT)
    given = parser.parse_args()
    budget = {
        "limit": given.limit,
        "epochs": given.epochs,
        "batch_size": given.batch_size,
    }
    scores: dict[str, dict[str, list[float]]] = {
        name: {column: [] for column in COLUMNS} for name in ROWS
    }
    results = given.out / "benchmarks" / "results"
    results.mkdir(parents=True, exist_ok=True)
    kept = results / "paraphrases.json"
    before = json.loads(kept.read_text()) if kept.exists() else {}
    if {*given.ways} != {*WAYS}:
        if (before.get("budget"), before.get("seeds")) != (budget, given.seeds):
            parser.error(f"{kept} has another budget: measure all ways.")
        old = before["scores"]
        scores |= {name: old[name] for name in old if ROWS[name][0] not in given.ways}
    cosines: dict[str, Tensor] = {}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        for seed in range(given.seeds):
            for how in given.ways:
                run, evaluation = train(how, seed, out, budget)
                for name, (which, features) in ROWS.items():
                    if which != how:
                        continue
                    for column, (protocol, metric) in COLUMNS.items():
                        values = evaluation.values(protocol, features, metric=metric)
                        scores[name][column] += values[:1]
                print(f"seed {seed}, {how}:\n{evaluation}", flush=True)
                if seed == 0 and how == "pairs":
                    cosines["bag of words"] = find_cosines(None)
                words = {"pairs": "simcse, pairs", "dropout": "simcse, dropout"}
                if seed == 0 and how in words:
                    cosines[words[how]] = find_cosines(run.encoder())
    facts: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["python", "benchmarks/paraphrases.py", *sys.argv[1:]]),
        "budget": budget,
        "seeds": given.seeds,
        "minutes": round((time.perf_counter() - began) / 60, 1),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
    }
    if {*given.ways} != {*WAYS}:
        facts["other rows from"] = before["date"]
    table = make_table(scores)
    about = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    kept.write_text(json.dumps({**facts, "scores": scores}, indent=2) + "\n")
    title = f"# Text methods on {given.limit} generated pairs, {given.epochs} epochs"
    (results / "paraphrases.md").write_text(f"{title}\n\n{table}\n\n{about}\n")
    order = ("bag of words", "simcse, dropout", "simcse, pairs")
    if {*order} == {*cosines}:
        draw(
            {name: cosines[name] for name in order},
            given.out / "docs" / "images" / "paraphrases.png",
        )
    print(f"\n{table}")


if __name__ == "__main__":
    main()
