"""Adversarial views: accuracy under attack, and what it costs where nothing attacks.

    python benchmarks/robust.py                   # three seeds of shapes at 16 pixels
    python benchmarks/robust.py --data cifar10 --image-size 32 --limit 50000 \\
        --encoder resnet18 --epochs 200 --batch-size 512 --images 1000    # on a GPU

Trains SimCLR with and without --views.adversarial, and attacks a linear probe on the
frozen encoders with PGD, at several distances. One seed's attacks are then repeated
with five times the steps and with five starts: if the accuracy fell much further, the
numbers above would mean little. Runs are kept in --out and not repeated; the table goes
to results/robust_DATA.md, the figure to docs/images/robust.png.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import fmean, stdev

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from torch.nn.functional import cosine_similarity

import invariance as inv
from invariance.data import load
from invariance.devices import choose_device
from invariance.evaluation import attack_probe, encode_images
from invariance.training import make_plan
from invariance.views import PGD, Draws

ROOT = Path(__file__).parents[1]
FIGURE = ROOT / "docs" / "images" / "robust.png"
EPSILONS = (2, 4, 8)  # of 255
CHECKED = 4
N_SHOWN = 8
AMPLIFIED = 8


def settings_of(asked, which: str | None, seed: int) -> inv.Train:
    """Of one run."""
    attack = inv.Attack(epsilon=asked.epsilon / 255, steps=asked.steps)
    adversarial = {"views_adversarial": which, "attack": attack} if which else {}
    return inv.Train(
        data=asked.data,
        encoder=asked.encoder,
        image_size=asked.image_size,
        limit=asked.limit,
        epochs=asked.epochs,
        batch_size=asked.batch_size,
        seed=seed,
        evaluate=False,
        knn_every=0,
        quiet=True,
        name=f"{asked.data}-{which or 'plain'}-{asked.epochs}-{seed}",
        out=str(asked.out),
        **adversarial,
    )


class Bench:
    """The data, and scores of encoders on them."""

    def __init__(self, asked) -> None:
        self.asked, self.device = asked, choose_device("auto", auto=("cuda",))
        how = {"image_size": asked.image_size, "n": asked.limit, "device": self.device}
        self.train = load(asked.data, **how)
        self.test = load(asked.data, split="test", **(how | {"n": None}))

    def score(self, encoder, *attacks):
        """The scores of a linear probe that is attacked in several ways."""
        encoder = encoder.to(self.device).eval()
        features = [
            part.cpu()
            for source in (self.train, self.test)
            for part in (
                encode_images(encoder, source, device=self.device),
                source.labels,
            )
        ]
        how = {"images": self.asked.images, "device": self.device}
        return [
            attack_probe(encoder, *features, self.test, **how, **attack)
            for attack in attacks
        ]

    def row(self, encoder) -> list[float]:
        """Clean accuracy, then that under attack at each distance."""
        scores = self.score(encoder, *({"epsilon": e / 255} for e in EPSILONS))
        return [scores[0].also["clean"][0], *(score.value for score in scores)]


def show(values) -> str:
    """Per cent: mean and standard deviation over seeds."""
    mean = f"{100 * fmean(values):.1f}"
    return mean if len(values) < 2 else f"{mean} ± {100 * stdev(values):.1f}"


def main() -> None:
    """Train, attack, tabulate, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="shapes")
    parser.add_argument("--encoder", default="auto")
    parser.add_argument("--image-size", type=int, default=16)
    parser.add_argument("--limit", type=int, default=2048)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epsilon", type=float, default=8, help="of 255, in training")
    parser.add_argument("--steps", type=int, default=3, help="in training")
    parser.add_argument("--which", nargs="+", default=["first"])
    parser.add_argument("--images", type=int, default=300, help="that are attacked")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    asked.out = asked.out or Path(tempfile.mkdtemp())
    bench, rows, encoders, checks = Bench(asked), {}, {}, {}
    kinds = {"simclr": None, **{f"simclr, {w} attacked": w for w in asked.which}}
    for seed in asked.seeds:
        untrained = make_plan(settings_of(asked, None, seed)).untrained
        rows.setdefault("untrained encoder", []).append(bench.row(untrained))
        for name, which in kinds.items():
            settings = settings_of(asked, which, seed)
            folder = asked.out / settings.name
            if not (folder / "encoder.safetensors").exists():
                inv.train(settings)
            encoder = inv.load(folder)
            rows.setdefault(name, []).append(bench.row(encoder))
            print(seed, name, rows[name][-1], flush=True)
            if seed == asked.seeds[0]:
                encoders[name] = encoder
    for name, encoder in encoders.items():
        stronger = {"steps": 100}, {"restarts": 5}
        ways = [{"epsilon": CHECKED / 255, **more} for more in stronger]
        usual = rows[name][0][1 + EPSILONS.index(CHECKED)]
        checks[name] = [usual, *(s.value for s in bench.score(encoder, *ways))]
    write_table(asked, rows, checks)
    draw_figure(bench, encoders)


def write_table(asked, rows, checks) -> None:
    """Results as a page."""
    head = [f"{e}/255" for e in EPSILONS]
    lines = [
        f"# Adversarial views on {asked.data}",
        "",
        f"`benchmarks/robust.py`: accuracy of a linear probe in per cent, mean ± "
        f"standard deviation over {len(asked.seeds)} seeds. SimCLR for {asked.epochs} "
        f"epochs of {asked.limit:,} images of {asked.image_size} pixels in batches of "
        f"{asked.batch_size}, encoder {asked.encoder}; with attacked views: "
        f"{asked.steps} steps of PGD within {asked.epsilon:g}/255 (linf) against the "
        f"loss. The probes are fitted on all {asked.limit:,} images as they are, and "
        f"attacked on {asked.images} test images by 20 steps of PGD against their "
        "margin, within the distance at the head of a column (linf, pixels from 0 to "
        "1).",
        "",
        f"| | clean | {' | '.join(head)} |",
        "|---|---|" + "---|" * len(head),
    ]
    for name, runs in rows.items():
        cells = [show(column) for column in zip(*runs, strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [
        "",
        f"Are 20 steps enough? Seed {asked.seeds[0]} within {CHECKED}/255:",
        "",
        "| | 20 steps | 100 steps | 20 steps from each of 5 starts |",
        "|---|---|---|---|",
    ]
    for name, values in checks.items():
        cells = [f"{100 * value:.1f}" for value in values]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    path = ROOT / "benchmarks" / "results" / f"robust_{asked.data}.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def draw_figure(bench, encoders) -> None:
    """Images, what an attack without labels makes of them, and the amplified change."""
    (batch,) = bench.test.batches([torch.arange(N_SHOWN)], device=bench.device)
    x = bench.test.kind.prepare(batch)
    attack = PGD(epsilon=8 / 255, steps=20)
    start = attack.start(x, Draws(0, 0, torch.arange(N_SHOWN, device=x.device), 0))
    figure, grid = plt.subplots(
        1 + 2 * len(encoders), N_SHOWN, figsize=(N_SHOWN, 1.2 + 2.2 * len(encoders))
    )
    rows = [("as they are", x, None)]
    for name, encoder in encoders.items():
        with torch.no_grad():
            before = encoder(x)

        def leave(views, encoder=encoder, before=before):
            return -cosine_similarity(encoder(views[0]), before).sum()

        (end,) = attack(leave, [x], [start])
        with torch.no_grad():
            kept = cosine_similarity(encoder(end), before).tolist()
        rows.append((f"attacked:\n{name}", end, kept))
        rows.append((f"change × {AMPLIFIED}", 0.5 + AMPLIFIED * (end - x), None))
    for (name, pictures, titles), axes in zip(rows, grid, strict=True):
        for k, (picture, axis) in enumerate(zip(pictures, axes, strict=True)):
            axis.imshow(picture.clamp(0, 1).permute(1, 2, 0).cpu().numpy())
            axis.set_xticks([])
            axis.set_yticks([])
            if titles is not None:
                axis.set_title(f"cos {titles[k]:.2f}", fontsize=7)
        axes[0].set_ylabel(name, fontsize=7)
    figure.tight_layout(pad=0.4)
    figure.savefig(FIGURE, dpi=110)


if __name__ == "__main__":
    main()
