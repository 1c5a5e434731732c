"""How long images take from the disk to memory, and whether training waits for them.

    python benchmarks/loading.py photos             # a folder of your own
    python benchmarks/loading.py --generate 20000   # noisy JPEGs of 256 to 500 pixels
    python benchmarks/loading.py photos --image-size 32 --parts load pack

| part | what is measured |
|---|---|
| ``load`` | finding the files, decoding alone, resident images of the whole folder |
| ``pack`` | writing a packed copy, then ``load`` again |
| ``train`` | steps of a streamed ResNet-50: images/s, share of the time spent waiting |

``start.py`` beside this times the whole command until its first step. The table goes
to benchmarks/results/loading_<folder>.md, or to --out. A packed copy is made in a
folder of its own and deleted.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

RESULTS = Path(__file__).parent / "results"
DISTINCT = 300
PARTS = ("load", "pack", "train")


def generate(folder: Path, n: int) -> None:
    """n JPEGs in ten classes: gradients and noise, always the same."""
    for k in range(10):
        (folder / f"class{k}").mkdir(parents=True, exist_ok=True)
    spans = [(str(folder), k, n) for k in range(DISTINCT)]
    with ProcessPoolExecutor() as pool:
        list(pool.map(write_like, spans))


def write_like(job: tuple[str, int, int]) -> None:
    """All files that are cut out of picture k."""
    folder, k, n = job
    draw = np.random.default_rng(k)
    up, across = np.mgrid[0:500, 0:500, 0:1][:2] / 500
    plane = up * draw.normal(size=3) + across * draw.normal(size=3)
    waves = np.sin(12 * plane + draw.uniform(0, 6, 3))
    noise = draw.normal(scale=0.15, size=(500, 500, 3))
    picture = ((waves + noise + 2) * 64).clip(0, 255).astype(np.uint8)
    for i in range(k, n, DISTINCT):
        height, width = draw.integers(256, 501, 2)
        name = f"{folder}/class{i % 10}/{i:06}.jpg"
        Image.fromarray(picture[:height, :width]).save(name, quality=85)


def seconds_of(job: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = job()
    return time.perf_counter() - began, result


def time_load(folder: Path, image_size: int | None) -> dict[str, str]:
    import torch

    from invariance.data import fingerprint, load, one_pass

    device = "cuda" if torch.cuda.is_available() else "cpu"
    how: dict[str, Any] = {"split": "all", "image_size": image_size}
    finding, _ = seconds_of(lambda: fingerprint(folder))
    streamed = load(folder, storage="streamed", **how)
    workers, n = streamed.workers, len(streamed)

    def decode() -> int:
        batches = one_pass(streamed.items, batch_size=64, workers=workers)
        return sum(len(batch.rows) for batch in batches)

    alone, _ = seconds_of(decode)
    resident, source = seconds_of(
        lambda: load(folder, storage="resident", device=device, **how)
    )
    return {
        "images": f"{n:,} of {'x'.join(map(str, source.shape))}",
        "find files, read headers": f"{finding:.2f} s",
        f"read alone, {workers} processes": f"{n / alone:,.0f} images/s",
        "resident, all of it": f"{resident:.2f} s",
    }


def time_pack(folder: Path, image_size: int | None) -> dict[str, str]:
    from invariance.data import delete_packs, pack

    seconds, copy = seconds_of(lambda: pack(folder, image_size=image_size))
    found, _ = seconds_of(lambda: pack(folder, image_size=image_size))
    rows = {
        "write packed copy": f"{seconds:.1f} s, {copy.n_bytes / 2**20:,.0f} MiB",
        "find it up to date": f"{found:.2f} s",
    }
    again = time_load(folder, image_size)
    delete_packs(folder)
    return rows | {f"packed: {name}": value for name, value in again.items()}


def time_train(
    folder: Path, encoder: str, image_size: int, batch_size: int, steps: int
) -> dict[str, str]:
    from invariance.data import delete_packs, pack
    from invariance.training import Train, train

    rows = {}
    for kind in ("decoded", "packed"):
        if kind == "packed":
            pack(folder, image_size=image_size)
        with tempfile.TemporaryDirectory() as runs:
            settings = Train(
                data=str(folder),
                encoder=encoder,
                image_size=image_size,
                batch_size=batch_size,
                limit=steps * batch_size,
                storage="streamed",
                epochs=2,
                log_every=max(steps // 4, 1),
                knn_every=0,
                evaluate=False,
                out=runs,
                quiet=True,
            )
            run = train(settings)
            last = [r for r in run.metrics if "time/data_wait" in r]
        for epoch in (1, 2):
            part = [r for r in last if epoch - 1 < r["epoch"] <= epoch]
            rate = np.mean([r["time/images_per_second"] for r in part])
            wait = np.mean([r["time/data_wait"] for r in part])
            name = f"{encoder} at {image_size}, batch {batch_size}, {kind}"
            rows[f"{name}, epoch {epoch}"] = (
                f"{rate:,.0f} images/s, {100 * wait:.1f} % waiting"
            )
    delete_packs(folder)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--generate", type=int, metavar="N", help="make such a folder")
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--encoder", default="resnet50")
    parser.add_argument("--train-size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=40, help="in each of two epochs")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    if (given.folder is None) == (given.generate is None):
        parser.error("Name a folder, or --generate one of N files.")
    rows: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["INVARIANCE_DATA"] = scratch  # nobody's packs are touched
        folder = given.folder or Path(scratch) / "generated"
        if given.generate:
            seconds, _ = seconds_of(lambda: generate(folder, given.generate))
            print(f"generated {given.generate:,} files in {seconds:.1f} s", flush=True)
        jobs: dict[str, Callable[[], dict[str, str]]] = {
            "load": lambda: time_load(folder, given.image_size),
            "pack": lambda: time_pack(folder, given.image_size),
            "train": lambda: time_train(
                folder, given.encoder, given.train_size, given.batch_size, given.steps
            ),
        }
        for part in given.parts:
            new = jobs[part]()
            for name, value in new.items():
                print(f"{name:48} {value}", flush=True)
            rows |= new
            write_table(given.out / f"loading_{folder.name}", rows)


def write_table(path: Path, rows: dict[str, str]) -> None:
    lines = ["| | |", "|---|---|", *(f"| {k} | {v} |" for k, v in rows.items())]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".md").write_text("\n".join(lines) + "\n")
    path.with_suffix(".json").write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
