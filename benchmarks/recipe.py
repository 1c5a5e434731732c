"""Which parts of a recipe matter: one change at a time, judged on held-out images.

    python benchmarks/recipe.py cifar10-jpeg.tar.xz --parallel 4 --minutes 9
    python benchmarks/recipe.py FOLDER --only base decay tau --seeds 0 1 2
    python benchmarks/recipe.py FOLDER --epochs 50 --optim.lr 0.3   # another base
    python benchmarks/recipe.py FOLDER --table                      # of finished runs

The base is SimCLR with ResNet-18, batch 512, SGD up to 0.24, weight decay 5e-4 and
temperature 0.2 for 25 epochs; flags that are not named here are those of 'invariance
train' and change the base. Every change is tried with the same seeds. A tenth of the
training images is never trained on and gives the scores; the test set is never opened.

Every finished run adds a line to ``--lines``, and a second call takes up what is left.
``--parallel`` runs share one GPU, each in a process that keeps its images in memory.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import affine_grid, grid_sample

import invariance as inv
from cifar10 import (
    RESULTS,
    Parts,
    Row,
    add_line,
    find_folder,
    load_parts,
    make_parser,
    parse_study,
    read_flags,
    read_lines,
    train_and_score,
)
from intervals import paired, show_mean
from invariance.encoders import build_encoder
from invariance.errors import InvarianceError
from invariance.methods import METHODS
from invariance.views import Draws, Operation, RandomResizedCrop, ViewSet, simclr

LINES = RESULTS / "recipe.jsonl"
BASE = (
    *("--batch-size", "512", "--epochs", "25", "--temperature", "0.2"),
    *("--optim.name", "sgd", "--optim.lr", "0.24", "--optim.lr-scaling", "none"),
    *("--optim.weight-decay", "5e-4", "--checkpoint-seconds", "1e9"),
)
ABOUT = """\
± is the standard deviation over seeds. Differences to the base are seed by seed, with
a 95 % interval of their mean."""
Objects = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """One thing that is done otherwise than in the base."""

    flags: Callable[[inv.Train], Sequence[Any]] = lambda base: ()
    """Further flags of 'invariance train', given the base."""
    objects: Callable[[inv.Train], Objects] = field(default=lambda settings: {})
    """What no flag can say, as ``inv.train`` takes it."""


def set_flag(name: str, value: Any) -> Change:
    return Change(lambda base: (name, value))


def scale_rate(factor: float) -> Change:
    return Change(lambda base: ("--optim.lr", factor * (base.optim.lr or 0.24)))


def fill_last_norms(value: float, settings: inv.Train) -> Objects:
    """The encoder with every block's last norm at this weight: 0 starts as identity.

    The head's first weights are others than in the base: compare 1 with 0.
    """
    torch.manual_seed(settings.seed)  # the same first weights as in the base
    encoder = build_encoder(settings.encoder)
    for block in encoder.modules():
        norms = [m for m in block.children() if isinstance(m, nn.BatchNorm2d)]
        if len(norms) > 1:  # a block of a ResNet, not the stem
            nn.init.constant_(norms[-1].weight, value)
    return {"encoder": encoder}


def resample(mode: str, settings: inv.Train) -> Objects:
    """SimCLR's views with another interpolation of the crops, without antialiasing."""
    views = simclr(settings.image_size or 32)
    for view in views:
        crop = view[0]
        assert isinstance(crop, RandomResizedCrop)
        view[0] = PlainCrop(crop, mode)
    return {"views": ViewSet(views)}


@dataclass(frozen=True)
class PlainCrop(Operation):
    """The boxes of a crop, read at single points instead of averaged."""

    crop: RandomResizedCrop
    mode: str

    def draw(self, draws: Draws, shape: Any) -> Tensor:
        """The crop's boxes: top, left, height, width."""
        return self.crop.draw(draws, shape)

    def apply(self, images: Tensor, parameters: Tensor) -> Tensor:
        """The boxes, resized by ``grid_sample``."""
        sides = images.new_tensor(images.shape[-2:])
        corner, box = parameters.to(images).chunk(2, 1)
        middle = (2 * corner + box) / sides - 1
        theta = images.new_zeros(len(images), 2, 3)
        theta[:, 0, 0], theta[:, 1, 1] = (box / sides).flip(1).unbind(1)
        theta[:, 0, 2], theta[:, 1, 2] = middle.flip(1).unbind(1)
        size: Any = self.crop.size
        shape = [len(images), images.shape[1], size, size]
        grid = affine_grid(theta, shape, align_corners=False)
        how: Any = {"mode": self.mode, "padding_mode": "border", "align_corners": False}
        return grid_sample(images, grid, **how).clamp(0, 1)


def normalize_head(settings: inv.Train) -> Objects:
    return {"method": replace(METHODS[settings.method], last_batch_norm=True)}


CHANGES: dict[str, Change] = {
    "base": Change(),
    "decay matrices": set_flag("--optim.decay", "matrices"),
    "weight decay 1e-4": set_flag("--optim.weight-decay", 1e-4),
    "weight decay 1e-3": set_flag("--optim.weight-decay", 1e-3),
    "rate x 0.5": scale_rate(0.5),
    "rate x 2": scale_rate(2.0),
    "tau 0.1": set_flag("--temperature", 0.1),
    "tau 0.5": set_flag("--temperature", 0.5),
    "no warm-up": set_flag("--optim.warmup", 0.0),
    "warm-up 0.2": set_flag("--optim.warmup", 0.2),
    "momentum 0.95": set_flag("--optim.momentum", 0.95),
    "momentum 0.8": set_flag("--optim.momentum", 0.8),
    "last norm 1": Change(objects=partial(fill_last_norms, 1.0)),
    "last norm 0": Change(objects=partial(fill_last_norms, 0.0)),
    "norm in the head": Change(objects=normalize_head),
    "resampling bilinear": Change(objects=partial(resample, "bilinear")),
    "resampling bicubic": Change(objects=partial(resample, "bicubic")),
}


@dataclass(frozen=True)
class Job:
    """One run: a change, a seed, and the flags that made the base."""

    change: str
    seed: int
    flags: tuple[str, ...]

    @property
    def values(self) -> dict[str, Any]:
        """What names the job in a row."""
        flags = " ".join(self.flags)
        return {"change": self.change, "seed": self.seed, "flags": flags}


@cache
def load_images(data: Path, n: int | None) -> Parts:
    """Once for each process."""
    return load_parts(data, n=n)


def do_job(job: Job, data: Path, threads: int) -> Row:
    """Train and score on held-out images; a run that diverged is a row, too."""
    torch.set_num_threads(threads)
    change = CHANGES[job.change]
    try:
        base = read_flags([*BASE, *job.flags])
        words = [str(word) for word in change.flags(base)]
        settings = read_flags([*BASE, *job.flags, "--seed", str(job.seed), *words])
        parts = load_images(data, settings.limit)
        settings = replace(settings, limit=None)
        objects = change.objects(settings)
        if "encoder" in objects:
            settings = replace(settings, encoder="auto")
        row = train_and_score(settings, parts, every=0, **objects)
    except InvarianceError as error:
        row = {"failed": str(error)}
    return {"job": job.values, **row}


def run(options: argparse.Namespace, jobs: Sequence[Job]) -> None:
    """Do jobs until the time is up or none is left; what was begun is finished."""
    deadline = time.monotonic() + 60 * options.minutes
    data = find_folder(options.data)
    threads = max((os.cpu_count() or 1) // options.parallel, 1)
    waiting, running = list(jobs), set[Future[Row]]()
    longest = 0.0
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.parallel, mp_context=spawn) as pool:
        while waiting or running:
            while waiting and len(running) < options.parallel:
                if time.monotonic() + longest > deadline:
                    print(f"Out of time: {len(waiting)} runs are left.")
                    waiting.clear()
                    break
                running.add(pool.submit(do_job, waiting.pop(0), data, threads))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                row = future.result()
                add_line(options.lines, row)
                seconds = sum(row.get("seconds", {}).values())
                longest = max(longest, seconds)
                print(f"{describe(row)}  ({seconds:.0f} s)", flush=True)


def describe(row: Row) -> str:
    """A row in one line of words."""
    name = f"{row['job']['change']}, seed {row['job']['seed']}"
    if "failed" in row:
        return f"{name}: {row['failed']}"
    scores = row["held_out"]
    return f"{name}: kNN {scores['knn']:.2f} %, linear {scores['linear']:.2f} %"


def make_table(rows: Sequence[Row], flags: Sequence[str]) -> str:
    """Mean and spread over seeds of each change, and how far it is from the base."""
    named = " ".join(flags)
    scores: dict[str, dict[int, Mapping[str, float]]] = {}
    for row in rows:
        if row["job"]["flags"] == named and "held_out" in row:
            scores.setdefault(row["job"]["change"], {})[row["job"]["seed"]] = row[
                "held_out"
            ]
    base = scores.get("base", {})
    lines = ["| change | seeds | kNN % | to base | linear % | to base |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for change in sorted(scores, key=list(CHANGES).index):
        cells = [change, str(len(scores[change]))]
        for kind in ("knn", "linear"):
            values = {seed: s[kind] for seed, s in scores[change].items()}
            cells.append(show_mean(list(values.values())))
            seeds = [seed for seed in values if seed in base and change != "base"]
            pair = [values[s] for s in seeds], [base[s][kind] for s in seeds]
            cells.append(str(paired(*pair)) if seeds else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", ABOUT])


def main(words: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__, ", and change the base")
    parser.add_argument("--only", nargs="+", help="changes that begin with these words")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--table", action="store_true", help="of the lines there are")
    options, flags = parse_study(parser, words, lines=LINES, parallel=4)
    asked = tuple(options.only or [""])
    names = [name for name in CHANGES if name.startswith(asked)]
    if not names:
        parser.error(f"No change begins so; there are: {', '.join(CHANGES)}.")
    done = [row["job"] for row in read_lines(options.lines)]
    jobs = [Job(name, seed, tuple(flags)) for seed in options.seeds for name in names]
    try:
        read_flags([*BASE, *flags])  # what nobody knows is said before anything starts
        if not options.table:
            run(options, [job for job in jobs if job.values not in done])
    except InvarianceError as error:
        print(f"recipe: {error}", file=sys.stderr)
        return 2
    table = make_table(read_lines(options.lines), flags)
    options.lines.with_suffix(".md").write_text(table + "\n", encoding="utf-8")
    print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
