"""SCARF on scikit-learn's own tables: probes of its features, of raw columns, a forest.

    python benchmarks/scarf.py                  # ten seeds, some 5 minutes of one core
    python benchmarks/scarf.py --seeds 0 --sets wine

Of each set a stratified 70 % of the rows trains, without labels; then 1, 5 and 10 %
of the labels, one per class at least, are drawn, and the same ones are given to a
linear probe of raw columns, of the untrained encoder and of SCARF's features, and to a
random forest on raw columns. The other 30 % of the rows are scored. A seed changes the
split, the labels, the weights and the views. The table goes to results/scarf.md.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import fmean, stdev

import torch
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import invariance as inv
from invariance.evaluation import encode_batch, few_labels, linear_probe

TABLE = Path(__file__).parent / "results" / "scarf.md"
SETS = {
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}
STEPS = 400  # of training, about, whatever the set's size
SHARES = (0.01, 0.05, 0.1)
RAW, UNTRAINED, SCARF = "raw columns", "untrained encoder", "scarf"
FOREST = "random forest"


def score_one(name: str, seed: int, out: str) -> list[dict]:
    """The accuracies of one set and seed."""
    data = SETS[name]()
    names = [str(k) for k in range(data.data.shape[1])]
    train_x, test_x, train_y, test_y = train_test_split(
        data.data, data.target, test_size=0.3, random_state=seed, stratify=data.target
    )
    table = dict(zip(names, train_x.T.tolist(), strict=True))
    batch = min(128, 2 ** (len(train_x) // 2).bit_length() // 2)
    settings = inv.Train(
        method="scarf",
        epochs=max(1, STEPS // (len(train_x) // batch)),
        batch_size=batch,
        seed=seed,
        hold_out="nothing",
        evaluate=False,
        knn_every=0,
        log_every=100,
        quiet=True,
        out=out,
    )
    run = inv.train(settings, data=table)
    encoder = inv.load(run.folder)
    kind = encoder.kind
    torch.manual_seed(seed)
    untrained = inv.encoders.build_encoder(encoder.name, kind=kind).eval()
    labels = [torch.from_numpy(y) for y in (train_y, test_y)]
    used = [int(column.name) for column in kind.columns]
    parts = [
        torch.stack([kind.read(row[used]) for row in x]) for x in (train_x, test_x)
    ]
    features = {
        RAW: [kind.plain(part) for part in parts],
        UNTRAINED: [encode_batch(untrained, part, kind=kind) for part in parts],
        SCARF: [encode_batch(encoder, part, kind=kind) for part in parts],
    }
    rows = []
    for share in SHARES:
        chosen = few_labels(labels[0], share, seed=seed)
        scores = {
            key: linear_probe(
                h[chosen], labels[0][chosen], test, labels[1], seed=seed
            ).accuracy
            for key, (h, test) in features.items()
        }
        forest = RandomForestClassifier(random_state=seed)
        forest.fit(train_x[chosen], train_y[chosen])
        scores[FOREST] = float(forest.score(test_x, test_y))
        about = {"set": name, "seed": seed, "share": share, "labels": len(chosen)}
        rows.append({**about, **scores})
    return rows


def show(values: list[float]) -> str:
    """Mean and standard deviation over seeds, in per cent."""
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * fmean(values):.1f}{spread}"


def write_table(rows: list[dict]) -> None:
    """Results as a page."""
    columns, seeds = (RAW, UNTRAINED, SCARF, FOREST), {row["seed"] for row in rows}
    lines = [
        "# SCARF on scikit-learn's own tables",
        "",
        f"`benchmarks/scarf.py`: test accuracy in per cent, mean ± standard deviation "
        f"over {len(seeds)} seeds, each with a split (70 % of the rows train), labels, "
        f"weights and views of its own; about {STEPS:,} steps of `scarf` as it comes, "
        "on a CPU. Raw columns, the untrained encoder's features and SCARF's are read "
        "by the same linear probe (its penalty is chosen on the few labels alone); the "
        "forest is scikit-learn's, as it comes. All see the same labels.",
        "",
        f"| set | labels | {' | '.join(columns)} | scarf − raw | scarf − forest |",
        "|---|---|" + "---|" * (len(columns) + 2),
    ]
    for name in dict.fromkeys(row["set"] for row in rows):
        for share in SHARES:
            some = [r for r in rows if (r["set"], r["share"]) == (name, share)]
            cells = [show([r[column] for r in some]) for column in columns]
            gains = [
                show([r[SCARF] - r[other] for r in some]) for other in (RAW, FOREST)
            ]
            labels = f"{some[0]['labels']} ({100 * share:g} %)"
            lines.append(f"| {name} | {labels} | {' | '.join([*cells, *gains])} |")
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines), flush=True)


def main() -> None:
    """Train, score, tabulate; scores are kept in --out and not repeated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(10)])
    parser.add_argument("--sets", nargs="+", default=[*SETS])
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    out = asked.out or Path(tempfile.mkdtemp())
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in asked.seeds:
        for name in asked.sets:
            kept = out / f"{name}-{seed}.json"
            if not kept.exists():
                kept.write_text(json.dumps(score_one(name, seed, str(out / "runs"))))
            rows += json.loads(kept.read_text())
        write_table(rows)


if __name__ == "__main__":
    main()
