"""One configuration on CIFAR-10, one row: how fast it trains and what it has learned.

    python benchmarks/cifar10.py cifar10-jpeg.tar.xz --epochs 25 --batch-size 512
    python benchmarks/cifar10.py FOLDER --hold-out 0 --test --method flatclr --seed 1

The folder has train/CLASS/*.jpg and test/CLASS/*.jpg; an archive is unpacked once.
Every flag that is not named here is one of 'invariance train'; the encoder is a
ResNet-18 unless another is asked for. Settings are chosen by the scores of
``--hold-out``, a tenth of the training images that is not trained on. The test set is
left alone; ``--test`` scores on it, once, at the end.

One line of JSON is added to ``--lines``: all settings, seconds of loading, training and
evaluation, images per second, kNN (k 200, temperature 0.1) and linear probe, and a
``curve`` with a point every few epochs. A point has kNN and information of images that
are not trained on. "True" information is InfoNCE's bound over a large pool of such
images, as the FlatNCE paper means it: ``pool_nats`` at the temperature of training,
``sharp_nats`` at the temperature that shows most (one half of the images chooses it,
the other is read). ``batch_nats`` is the mean over batches of the size trained with,
and ``mi_nats`` is what the training batches showed.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import platform
import shlex
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor, nn

import invariance as inv
from invariance.cli import parse
from invariance.data import Resident, load
from invariance.diagnostics import mutual_information_bound as bound
from invariance.diagnostics import sharpest_temperature
from invariance.errors import DataError, InvarianceError, SettingError, choose
from invariance.evaluation import (
    encode_images,
    encode_views,
    knn,
    linear_probe,
    spread_rows,
)
from invariance.folder import flatten, to_dict
from invariance.methods import METHODS
from invariance.training import BATCH, make_views, temperature_of

RESULTS = Path(__file__).parent / "results"
DEFAULTS = ("--encoder", "resnet18")
NEIGHBORS = {"k": 200, "temperature": 0.1}  # as CIFAR-10 is customarily scored
VOTERS = 10_000  # training images that vote at a point of the curve; all at the end
PACKAGES = ("invariance", "torch", "torchvision", "triton", "timm")
Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Parts:
    """Images in memory: those to train on, those kept from training, the test set."""

    train: Resident
    held_out: Resident | None
    test: Resident | None
    seconds: float
    """That reading them took."""


def find_folder(path: Path) -> Path:
    """The folder of images; an archive is unpacked beside other temporary files."""
    if path.is_dir():
        folder = path
    elif path.is_file() and ".tar" in path.name:
        size = path.stat().st_size
        folder = Path(tempfile.gettempdir()) / f"{path.name.split('.')[0]}-{size}"
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as place:
                with tarfile.open(path) as archive:
                    archive.extractall(place, filter="data")
                Path(place).rename(folder)
                Path(place).mkdir()  # for the context to remove
    else:
        raise DataError(f"{str(path)!r} is neither a folder of images nor a .tar.xz.")
    if not (folder / "train").is_dir():
        raise DataError(f"{folder} has no folder 'train' with a folder per class.")
    return folder


def load_parts(
    folder: Path, *, hold_out: float = 0.1, test: bool = False, n: int | None = None
) -> Parts:
    """The images, read as ``invariance train`` reads them; ``n`` limits each part."""
    if not 0 <= hold_out < 1:
        raise SettingError(f"hold_out is a share from 0 to below 1: got {hold_out}.")
    began = time.perf_counter()
    whole = read(folder, "train", n)
    n_kept = round(hold_out * len(whole))
    kept = torch.zeros(len(whole), dtype=torch.bool)
    kept[spread_rows(len(whole), n_kept)] = n_kept > 0
    return Parts(
        train=take(whole, ~kept),
        held_out=take(whole, kept) if n_kept else None,
        test=read(folder, "test", n) if test else None,
        seconds=time.perf_counter() - began,
    )


def read(folder: Path, split: str, n: int | None) -> Resident:
    source = load(str(folder), split=split, n=n, storage="resident")
    assert isinstance(source, Resident)
    return source


def take(source: Resident, rows: Tensor) -> Resident:
    assert source.labels is not None
    return Resident(source.samples[rows], source.labels[rows], name=source.name)


def train_and_score(
    settings: inv.Train, parts: Parts, *, every: int = 10, **objects: Any
) -> Row:
    """Train on the images, score on those that were not trained on: one row.

    Args:
        settings: All settings of training; where the run goes and how much it says is
            decided here.
        parts: What to train on and what to score on.
        every: Epochs between two points of the curve; 0 is none.
        **objects: What no setting can name, as ``inv.train`` takes it: encoder, views.
    """
    labels = parts.train.labels
    with tempfile.TemporaryDirectory() as out:
        settings = dataclasses.replace(
            settings,
            batch_size=settings.batch_size or BATCH,
            out=out,
            hold_out="nothing",  # ``parts`` has held images out already
            evaluate=False,
            knn_every=0,
            quiet=not settings.json,
        )
        look = None
        if every and parts.held_out is not None:
            look = Look(settings, parts, every)
        began = time.time()
        data = parts.train.samples, labels
        with contextlib.redirect_stdout(sys.stderr):  # a row is all that is printed
            run = inv.train(settings, data=data, each_epoch=look, **objects)
        assert isinstance(run, inv.Run)
        # a run writes its settings when the data are ready, its encoder at the end
        started, ended = (
            (run.folder / name).stat().st_mtime
            for name in ("config.yaml", "encoder.safetensors")
        )
        metrics, encoder = run.metrics, run.encoder()
    looked = 0.0 if look is None else look.seconds
    training = ended - started - looked
    device = choose_device(settings)
    encoder = encoder.to(device)
    began_scoring = time.perf_counter()
    scores = {
        name: score(encoder, parts.train, part, device)
        for name, part in (("held_out", parts.held_out), ("test", parts.test))
        if part is not None
    }
    n_images = metrics[-1]["step"] * (settings.batch_size or 0)
    rates = [m["time/images_per_second"] for m in metrics if "time/data_wait" in m]
    return {
        "settings": kept_settings(settings),
        "n_train": len(parts.train),
        "seed": settings.seed,
        "seconds": {
            "loading": parts.seconds,
            "preparing": started - began,
            "training": training,
            "curve": looked,
            "evaluation": time.perf_counter() - began_scoring,
        },
        "images_per_second": n_images / max(training, 1e-9),
        "images_per_second_steady": median(rates) if rates else None,
        **scores,
        "ess": last_epoch_mean(metrics, "ess"),
        "mi_nats": last_epoch_mean(metrics, "mi_nats"),
        "temperature": metrics[-1]["temperature"],
        "curve": make_curve(metrics),
        **facts(device),
    }


class Look:
    """Reads images that are not trained on, every few epochs and after the last."""

    def __init__(self, settings: inv.Train, parts: Parts, every: int) -> None:
        assert parts.held_out is not None
        self.settings, self.parts, self.every = settings, parts, every
        self.device = choose_device(settings)
        method = choose(METHODS, settings.method, "method")
        self.views = make_views(settings, method, None, parts.held_out)
        self.seconds = 0.0

    def __call__(self, epoch: int, learner: inv.Learner) -> Mapping[str, float]:
        if epoch % self.every and epoch != self.settings.epochs:
            return {}
        began = time.perf_counter()
        readings = self.read(learner)
        self.seconds += time.perf_counter() - began
        return {f"held_out/{name}": value for name, value in readings.items()}

    def read(self, learner: inv.Learner) -> dict[str, float]:
        """kNN and information."""
        held_out, train = self.parts.held_out, self.parts.train
        assert held_out is not None
        h, z = encode_views(
            learner.encoder,
            learner.head,
            held_out,
            torch.arange(len(held_out)),
            self.views,
            seed=self.settings.seed,
            epoch=self.settings.epochs,  # the same views at every point
            device=self.device,
        )
        u, v = (h if z is None else z).to(self.device)
        information = read_information(
            u, v, temperature_of(learner.objective), self.settings.batch_size or 0
        )
        rows = spread_rows(len(train), VOTERS)
        accuracy = knn_accuracy(learner.encoder, train, held_out, self.device, rows)
        return {"knn": accuracy, **information}


def read_information(
    u: Tensor, v: Tensor, temperature: float, batch_size: int
) -> dict[str, float]:
    """Nats that two views share: as batches show it, and as the whole pool does."""
    size, half = min(batch_size, len(u)), len(u) // 2
    whole = len(u) // size * size
    batches = zip(u[:whole].split(size), v[:whole].split(size), strict=True)
    own = {"temperature": temperature}
    sharp = sharpest_temperature(u[:half], v[:half])
    return {
        "batch_nats": fmean(bound(*batch, **own).nats for batch in batches),
        "pool_nats": bound(u, v, **own).nats,
        "sharp_nats": bound(u[half:], v[half:], temperature=sharp).nats,
        "sharp_temperature": sharp,
    }


def score(
    encoder: nn.Module, train: Resident, part: Resident, device: Any
) -> dict[str, float]:
    """Accuracy of kNN and of a linear probe, in percent."""
    assert train.labels is not None and part.labels is not None
    a, b = (encode_images(encoder, x, device=device).to(device) for x in (train, part))
    y, asked = train.labels.to(device), part.labels.to(device)
    return {
        "knn": 100 * knn(a, y, b, asked, **NEIGHBORS).accuracy,
        "linear": 100 * linear_probe(a, y, b, asked).accuracy,
        "n": len(part),
    }


def knn_accuracy(
    encoder: nn.Module,
    train: Resident,
    part: Resident,
    device: Any,
    rows: Tensor | None = None,
) -> float:
    """In percent; ``rows`` are the training images that vote, all by default."""
    assert train.labels is not None and part.labels is not None
    y = train.labels if rows is None else train.labels[rows]
    a = encode_images(encoder, train, rows, device=device).to(device)
    b = encode_images(encoder, part, device=device).to(device)
    asked = part.labels.to(device)
    return 100 * knn(a, y.to(device), b, asked, **NEIGHBORS).accuracy


def choose_device(settings: inv.Train) -> torch.device:
    name = settings.machine.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def kept_settings(settings: inv.Train) -> dict[str, Any]:
    """All settings by dotted names, less where the run was and what it printed."""
    left_out = ("out", "name", "data", "data_root", "quiet", "json", "resume")
    flat = flatten(to_dict(settings))
    return {name: value for name, value in flat.items() if name not in left_out}


def last_epoch_mean(metrics: Sequence[Mapping[str, Any]], name: str) -> float | None:
    last = metrics[-1]["epoch"] - 1
    values = [m[name] for m in metrics if m["epoch"] > last and name in m]
    return fmean(values) if values else None


def make_curve(metrics: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The points where held-out images were read, with the batches of that epoch."""
    points = []
    for metric in metrics:
        if "held_out/knn" in metric:
            until = [m for m in metrics if m["step"] <= metric["step"]]
            point = {"epoch": round(metric["epoch"])}
            names = (name for name in metric if name.startswith("held_out/"))
            point |= {name.removeprefix("held_out/"): metric[name] for name in names}
            for name in ("mi_nats", "ess", "temperature", "loss"):
                point[name] = last_epoch_mean(until, name)
            points.append(round_numbers(point))
    return points


def round_numbers(values: Mapping[str, Any]) -> Row:
    """Five digits say all there is to say, and keep lines short."""
    return {
        k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in values.items()
    }


def facts(device: torch.device) -> dict[str, Any]:
    """When, on what and with what a row was made."""
    cuda = device.type == "cuda"
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "command": shlex.join(["python", "benchmarks/" + Path(sys.argv[0]).name])
        + " "
        + shlex.join(sys.argv[1:]),
        "commit": find_commit(),
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: installed(name) for name in PACKAGES},
    }


def find_commit() -> str | None:
    """The commit of this tree; a copy without a history is told it by COMMIT."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("COMMIT")
    return done.stdout.strip()


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def add_line(path: Path, row: Mapping[str, Any]) -> None:
    """One more line of JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def read_lines(path: Path) -> list[Row]:
    """What ``add_line`` wrote; nothing where there is no file yet."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def make_parser(doc: str | None, effect: str = "") -> argparse.ArgumentParser:
    """A parser of a benchmark on these images, whose other flags are those of train.

    Args:
        doc: Of the benchmark; the first line describes it.
        effect: What the other flags are for, as the end of a sentence.
    """
    parser = argparse.ArgumentParser(
        description=(doc or "").splitlines()[0],
        epilog=f"All other flags are those of 'invariance train'{effect}.",
        allow_abbrev=False,
    )
    parser.add_argument("data", type=Path, help="the folder, or its .tar.xz")
    return parser


def parse_study(
    parser: argparse.ArgumentParser,
    words: Sequence[str] | None,
    *,
    lines: Path,
    parallel: int,
) -> tuple[argparse.Namespace, list[str]]:
    """The options of a study of many runs, and the flags of its runs."""
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--parallel", type=int, default=parallel, help="runs at once")
    parser.add_argument("--lines", type=Path, default=lines)
    options, flags = parser.parse_known_args(words)
    if options.parallel < 1 or options.minutes <= 0:
        parser.error("--parallel and --minutes are above 0.")
    return options, flags


def read_flags(words: Sequence[str]) -> inv.Train:
    """Settings by the flags of 'invariance train', with this benchmark's encoder."""
    settings = parse(["train", *DEFAULTS, *words])
    assert isinstance(settings, inv.Train)
    return settings


def describe(row: Row) -> str:
    """A row in one line of words."""
    seconds = row["seconds"]
    spent = ", ".join(f"{name} {seconds[name]:.1f} s" for name in seconds)
    words = [f"{row['images_per_second']:,.0f} images/s ({spent})"]
    for name in ("held_out", "test"):
        if name in row:
            knn_, linear = row[name]["knn"], row[name]["linear"]
            words.append(f"{name}: kNN {knn_:.2f} %, linear {linear:.2f} %")
    if row["ess"] is not None:
        words.append(f"ESS {row['ess']:.3f}")
    for point in row["curve"][-1:]:
        true, batch = point["sharp_nats"], point["batch_nats"]
        words.append(f"true MI {true:.2f} nats, mini-batch MI {batch:.2f}")
    return "; ".join(words)


def main(words: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--hold-out", type=float, default=0.1, metavar="SHARE")
    parser.add_argument("--test", action="store_true", help="score on the test set")
    parser.add_argument("--every", type=int, default=10, help="epochs between points")
    parser.add_argument("--lines", type=Path, default=RESULTS / "cifar10.jsonl")
    given, rest = parser.parse_known_args(words)
    try:
        if not given.hold_out and not given.test:
            raise SettingError("Nothing would be scored: hold images out, or --test.")
        settings = read_flags(rest)
        folder = find_folder(given.data)
        parts = load_parts(
            folder, hold_out=given.hold_out, test=given.test, n=settings.limit
        )
        settings = dataclasses.replace(settings, limit=None)
        row = train_and_score(settings, parts, every=given.every)
    except InvarianceError as error:
        print(f"cifar10: {error}", file=sys.stderr)
        return 2
    add_line(given.lines, row)
    print(describe(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
