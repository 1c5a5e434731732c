"""SimCLR on CIFAR-10, ours and lightly's: images per second, kNN after equal epochs.

    python benchmarks/peers_training.py cifar10-jpeg.tar.xz               # 3 seeds each
    python benchmarks/peers_training.py FOLDER --who lightly --seeds 1 --epochs 2
    python benchmarks/peers_training.py FOLDER --table                    # of the rows
    python benchmarks/peers_training.py FOLDER --machine.compile True     # ours only

Both get the same images, network (ResNet-18 with a 3 x 3 stem, same initialization),
augmentation, batch, precision (bf16 autocast, channels_last), rates (SGD, a rise to the
peak over 5 % of the steps, then a cosine) and weight decay on all parameters. lightly's
part is the loop of its documentation made of its own pieces: ``SimCLRTransform``,
``SimCLRProjectionHead``, ``NTXentLoss``, a DataLoader on all cores with persistent
workers and pinned memory. It reads the JPEGs once, before the clock, and keeps them in
memory. ``--peer-compile`` compiles its network. One kNN (k 200, temperature 0.1) scores
both on the test set; nothing is chosen by it. Flags that are not named here are those
of 'invariance train', for our part.

Rows are added to ``--lines``; what is there already is not run again. lightly 1.6.0
needs no other package for this. solo-learn 1.0.2 pins torch 1.9.1 and pytorch-lightning
1.4.7, so it cannot be run beside today's torch.
"""

import argparse
import dataclasses
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import invariance as inv
from cifar10 import (
    RESULTS,
    Parts,
    Row,
    add_line,
    facts,
    find_folder,
    installed,
    knn_accuracy,
    load_parts,
    make_parser,
    read_flags,
    read_lines,
    train_and_score,
)
from intervals import show_mean, welch
from invariance.encoders import Encoder, build_encoder, standardize
from invariance.errors import InvarianceError, SettingError
from invariance.training import rate_at

FROM_FILES = "images_per_second_from_files"
SPEEDS = {"images_per_second": 0, FROM_FILES: 0, "epoch_seconds": 2}  # and digits
FLAGS = ("--method", "simclr", "--optim.name", "sgd", "--optim.lr-scaling", "none")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What both are told."""

    epochs: int
    batch_size: int
    lr: float = 0.24
    momentum: float = 0.9
    weight_decay: float = 5e-4
    temperature: float = 0.2
    warmup: float = 0.05
    encoder: str = "resnet18"

    def settings(self, seed: int, words: Sequence[str]) -> inv.Train:
        """Ours, by the flags of 'invariance train'; ``words`` are further ones."""
        given = {
            "--encoder": self.encoder,
            "--epochs": self.epochs,
            "--batch-size": self.batch_size,
            "--temperature": self.temperature,
            "--optim.lr": self.lr,
            "--optim.weight-decay": self.weight_decay,
            "--optim.momentum": self.momentum,
            "--optim.warmup": self.warmup,
            "--seed": seed,
        }
        flags = [str(word) for pair in given.items() for word in pair]
        return read_flags([*FLAGS, *flags, *words])


def run_ours(parts: Parts, recipe: Recipe, seed: int, words: Sequence[str]) -> Row:
    """``invariance train``, from images in memory to the encoder."""
    row = train_and_score(recipe.settings(seed, words), parts, every=0)
    seconds = row["seconds"]
    part = "test" if "test" in row else "held_out"
    return {
        "seconds": {
            "reading": seconds["loading"],
            "starting": seconds["preparing"],
            "training": seconds["training"],
        },
        "epoch_seconds": recipe_images(parts, recipe)
        / (row["images_per_second_steady"] or row["images_per_second"]),
        "knn": row[part]["knn"],
        "linear": row[part]["linear"],
        "settings": row["settings"],
    }


class InMemory(Dataset[tuple[list[Tensor], int]]):
    """Images kept as bytes, handed to a transform as Pillow's, as torchvision does."""

    def __init__(self, parts: Parts, transform: Any) -> None:
        assert parts.train.labels is not None
        self.images = parts.train.samples.permute(0, 2, 3, 1).contiguous().numpy()
        self.labels = parts.train.labels.tolist()
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> tuple[list[Tensor], int]:
        return self.transform(Image.fromarray(self.images[i])), self.labels[i]


def run_lightly(
    parts: Parts, recipe: Recipe, seed: int, *, compiled: bool, workers: int
) -> Row:
    """lightly's pieces in the loop of its documentation."""
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead
    from lightly.transforms import SimCLRTransform

    began = time.perf_counter()
    torch.manual_seed(seed)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    transform = SimCLRTransform(
        input_size=parts.train.shape[1],
        cj_strength=0.5,  # both as lightly's CIFAR-10 benchmark has them
        gaussian_blur=0.0,
        normalize=None,  # the network does it, as ours
    )
    loader = DataLoader(
        InMemory(parts, transform),
        batch_size=recipe.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=device.type == "cuda",
        prefetch_factor=4 if workers else None,
    )
    encoder = make_encoder(parts, recipe.encoder).to(device)
    encoder = encoder.to(memory_format=torch.channels_last)
    width = encoder(torch.zeros(2, *parts.train.shape, device=device)).shape[1]
    head = SimCLRProjectionHead(width, 512, 128).to(device)
    network: Any = nn.Sequential(encoder, head)
    optimizer = torch.optim.SGD(
        network.parameters(),
        lr=recipe.lr,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
    )
    criterion = NTXentLoss(temperature=recipe.temperature)
    model = torch.compile(network) if compiled else network
    n_steps, done, spent = recipe.epochs * len(loader), 0, []
    started = time.perf_counter()
    for _ in range(recipe.epochs):
        first, loss = time.perf_counter(), torch.zeros(())
        for x0, x1 in to_device(loader, device):
            rate = rate_at(done, n_steps, recipe.lr, recipe.warmup)
            for group in optimizer.param_groups:
                group["lr"] = rate
            with torch.autocast(device.type, torch.bfloat16):
                z0, z1 = model(x0), model(x1)
                loss = criterion(z0, z1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            done += 1
        loss.item()  # the device has done all of the epoch
        spent.append(time.perf_counter() - first)
        print(f"  lightly, epoch {len(spent)}: {spent[-1]:.1f} s", flush=True)
    training = time.perf_counter() - started
    part = parts.held_out if parts.test is None else parts.test
    assert part is not None
    encoder.eval()
    return {
        "seconds": {
            "reading": parts.seconds,
            "starting": started - began,
            "training": training,
        },
        "epoch_seconds": median(spent[1:] or spent),
        "knn": knn_accuracy(encoder, parts.train, part, device),
        "settings": {"compiled": compiled, "workers": workers},
    }


def to_device(loader: Any, device: torch.device) -> Iterator[list[Tensor]]:
    """Both views of each batch, copied while the device works."""
    for views, _ in loader:
        yield [
            x.to(device, non_blocking=True, memory_format=torch.channels_last)
            for x in views
        ]


def make_encoder(parts: Parts, name: str) -> Encoder:
    """The network that ``invariance train`` builds for these images."""
    channels, size, _ = parts.train.shape
    pixels = parts.train.samples[:: max(len(parts.train) // 1000, 1)].double() / 255
    mean, std = pixels.mean((0, 2, 3)).tolist(), pixels.std((0, 2, 3)).tolist()
    network = build_encoder(name, channels=channels, image_size=size)
    return standardize(network, mean, std)


def recipe_images(parts: Parts, recipe: Recipe) -> int:
    """Images of one epoch; a last batch that is not full is dropped."""
    return len(parts.train) // recipe.batch_size * recipe.batch_size


def make_table(rows: Sequence[Row]) -> str:
    """Means over seeds, one line per library and recipe, and what follows."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = tuple(row["recipe"].items()), row["n_train"], row["device"]
        groups.setdefault(key, []).append(row)
    lines = []
    for (recipe, n_train, device), same in groups.items():
        words = ", ".join(f"{name} {value}" for name, value in recipe)
        lines += [f"{n_train:,} images, {device}; {words}.", ""]
        lines += [
            "| | seeds | kNN, % | images/s | with starting and reading | s per epoch |",
            "| :--- | ---: | ---: | ---: | ---: | ---: |",
        ]
        by_who: dict[str, list[Row]] = {}
        for row in same:
            by_who.setdefault(row["who"], []).append(row)
        for who, mine in by_who.items():
            timed = alone(mine)
            cells = [
                " ".join(filter(None, (who, mine[-1]["version"]))),
                str(len(mine)),
                show_mean([row["knn"] for row in mine]),
                *(
                    f"{fmean(row[name] for row in timed):,.{digits}f}" if timed else "-"
                    for name, digits in SPEEDS.items()
                ),
            ]
            lines.append("| " + " | ".join(cells) + " |")
        if {"invariance", "lightly"} <= by_who.keys():
            lines += ["", judge(by_who["invariance"], by_who["lightly"])]
        lines.append("")
    return "\n".join(lines)


def alone(rows: Sequence[Row]) -> Sequence[Row]:
    """Those whose speeds count: "crowded" ones, marked by hand, ran beside others."""
    return [row for row in rows if not row.get("crowded")]


def judge(ours: Sequence[Row], theirs: Sequence[Row]) -> str:
    """How much faster, and whether kNN is as good, in two sentences."""
    timed = alone(ours), alone(theirs)
    if all(timed):
        rates = [fmean(row[FROM_FILES] for row in group) for group in timed]
        speed = f"invariance is {rates[0] / rates[1]:.1f} times as fast from files to "
        speed += "the last step."
    else:
        speed = "Speeds are not compared: one of the two never ran alone."
    gap = welch([row["knn"] for row in ours], [row["knn"] for row in theirs])
    if gap.low == -math.inf:
        return f"{speed} One seed says nothing about kNN: two or more each are needed."
    word = "no lower than" if gap.high >= 0 else "lower than"
    return (
        f"{speed} Its kNN is {word} lightly's within the spread: {gap} points (95 % "
        "interval of the difference of means)."
    )


def main(words: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__, ", for our part")
    parser.add_argument(
        "--who",
        nargs="+",
        default=["invariance", "lightly"],
        choices=["invariance", "lightly"],
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--encoder", default="resnet18")
    parser.add_argument("--limit", type=int, help="use at most so many images")
    parser.add_argument("--hold-out", action="store_true", help="a tenth, as the test")
    parser.add_argument("--peer-compile", action="store_true")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--lines", type=Path, default=RESULTS / "peers_training.jsonl")
    parser.add_argument("--table", action="store_true", help="only write the table")
    given, given.ours = parser.parse_known_args(words)
    try:
        if not given.table:
            compare(given)
        text = make_table(read_lines(given.lines))
    except InvarianceError as error:
        print(f"peers_training: {error}", file=sys.stderr)
        return 2
    given.lines.with_suffix(".md").write_text(f"# SimCLR on CIFAR-10\n\n{text}\n")
    print(text)
    return 0


def compare(given: argparse.Namespace) -> None:
    """Run what has no row yet, one after the other."""
    if "lightly" in given.who and installed("lightly") is None:
        raise SettingError("lightly is not installed: pip install lightly, or --who.")
    read_flags(given.ours)  # what nobody knows is said before anything starts
    recipe = Recipe(given.epochs, given.batch_size, encoder=given.encoder)
    parts = load_parts(
        find_folder(given.data),
        hold_out=0.1 if given.hold_out else 0.0,
        test=not given.hold_out,
        n=given.limit,
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    about = {"n_train": len(parts.train), "recipe": dataclasses.asdict(recipe)}
    about |= {"scored_on": "held out" if given.hold_out else "test"}
    done = [
        (row["who"], row["seed"], row["n_train"], row["recipe"], row["device"])
        for row in read_lines(given.lines)
    ]
    here = facts(device)
    for seed in given.seeds:
        for who in given.who:
            key = (who, seed, about["n_train"], about["recipe"], here["device"])
            if key in done:
                print(f"{who}, seed {seed}: there is a row already")
                continue
            if who == "invariance":
                row = run_ours(parts, recipe, seed, given.ours)
            else:
                row = run_lightly(
                    parts,
                    recipe,
                    seed,
                    compiled=given.peer_compile,
                    workers=given.workers,
                )
            images = recipe.epochs * recipe_images(parts, recipe)
            row = {
                "who": who,
                "version": installed(who),
                "seed": seed,
                **about,
                "images_per_second": images / row["seconds"]["training"],
                "images_per_second_from_files": images / sum(row["seconds"].values()),
                **row,
                **facts(device),
            }
            add_line(given.lines, row)
            print(
                f"{who}, seed {seed}: kNN {row['knn']:.2f} %, "
                f"{row['images_per_second']:,.0f} images/s, "
                f"{row['epoch_seconds']:.2f} s per epoch",
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main())
