"""SCARF on scikit-learn's own tables: probes of its features, of raw columns, a forest.

    python benchmarks/scarf.py                  # ten seeds, some 2 minutes of one core
    python benchmarks/scarf.py --seeds 0 --sets wine

Of each set a stratified 70 % of the rows trains, without labels; then 1, 5 and 10 % of
the labels, one per class at least, are drawn, and the same ones are given to a logistic
regression on raw columns, on the untrained encoder's features and on SCARF's, and to a
random forest on raw columns. The other 30 % of the rows are scored. A seed changes the
split, the labels, the weights and the views. The loop is written out, which saves what
a run folder costs. The table goes to results/scarf.md.
"""

import argparse
import copy
import json
import tempfile
from pathlib import Path
from statistics import fmean, stdev

import torch
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import invariance as inv
from invariance.evaluation import encode_batch, few_labels

TABLE = Path(__file__).parent / "results" / "scarf.md"
SETS = {
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}
STEPS, BATCH, LR = 300, 128, 0.003
SHARES = (0.01, 0.05, 0.1)
RAW, UNTRAINED, SCARF = "raw columns", "untrained encoder", "scarf"
FOREST = "random forest"


def pretrain(source, seed: int):
    """The encoder before and after training on a source's rows."""
    torch.manual_seed(seed)
    kind, n = source.kind, len(source)
    (rows,) = source.batches([torch.arange(n)])
    views = inv.views.ViewSet(inv.views.RECIPES["scarf"](kind, rows=rows))
    encoder = inv.encoders.build_encoder("mlp", kind=kind)
    untrained = copy.deepcopy(encoder).eval()
    learner = inv.methods.build("scarf", encoder)
    optimizer = torch.optim.AdamW(learner.parameters(), lr=LR, weight_decay=1e-4)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, STEPS, pct_start=0.05)
    for step in range(STEPS):
        chosen = torch.randperm(n)[:BATCH]
        both = views(rows[chosen], samples=chosen, seed=seed, epoch=step)
        optimizer.zero_grad()
        learner(both).loss.backward()
        optimizer.step()
        rate.step()
    return untrained, encoder.eval()


def score_one(name: str, seed: int) -> list[dict]:
    """The accuracies of one set and seed."""
    data = SETS[name]()
    train_x, test_x, train_y, test_y = train_test_split(
        data.data, data.target, test_size=0.3, random_state=seed, stratify=data.target
    )
    names = [str(k) for k in range(data.data.shape[1])]
    table = dict(zip(names, train_x.T.tolist(), strict=True))
    source = inv.data.load(table, hold_out="nothing")
    untrained, encoder = pretrain(source, seed)
    kind = source.kind  # without the columns that never change
    used = [int(column.name) for column in kind.columns]
    parts = [torch.tensor(x[:, used], dtype=torch.float32) for x in (train_x, test_x)]
    features = {
        RAW: [kind.plain(part) for part in parts],
        UNTRAINED: [encode_batch(untrained, part, kind=kind) for part in parts],
        SCARF: [encode_batch(encoder, part, kind=kind) for part in parts],
    }
    rows = []
    for share in SHARES:
        chosen = few_labels(torch.from_numpy(train_y), share, seed=seed).numpy()
        row = {"set": name, "seed": seed, "share": share, "labels": len(chosen)}
        for key, (h, test) in features.items():
            probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
            probe.fit(h.numpy()[chosen], train_y[chosen])
            row[key] = float(probe.score(test.numpy(), test_y))
        forest = RandomForestClassifier(random_state=seed)
        forest.fit(train_x[chosen], train_y[chosen])
        rows.append({**row, FOREST: float(forest.score(test_x, test_y))})
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
        "`benchmarks/scarf.py`: test accuracy in per cent, mean ± standard deviation "
        f"over {len(seeds)} seeds, each with a split (70 % of the rows train), labels, "
        f"weights and views of its own; {STEPS} steps of `scarf` in batches of {BATCH} "
        f"by AdamW at {LR}, encoder `mlp`, on a CPU. Raw columns, the untrained "
        "encoder's features and SCARF's go to the same logistic regression (features "
        "standardized, scikit-learn's penalty), and stay as they are; the forest is "
        "scikit-learn's, as it comes. All see the same labels.",
        "",
        f"| set | labels | {' | '.join(columns)} | scarf − raw | scarf − forest |",
        "|---|---|" + "---|" * (len(columns) + 2),
    ]
    for name in dict.fromkeys(row["set"] for row in rows):
        for share in SHARES:
            some = [r for r in rows if (r["set"], r["share"]) == (name, share)]
            cells = [show([r[column] for r in some]) for column in columns]
            cells += [
                show([r[SCARF] - r[other] for r in some]) for other in (RAW, FOREST)
            ]
            labels = f"{some[0]['labels']} ({100 * share:g} %)"
            lines.append(f"| {name} | {labels} | {' | '.join(cells)} |")
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
                kept.write_text(json.dumps(score_one(name, seed)))
            rows += json.loads(kept.read_text())
        write_table(rows)


if __name__ == "__main__":
    main()
