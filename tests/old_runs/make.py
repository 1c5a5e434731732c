"""Make the run folders beside this file with the version of invariance at hand.

    python -m tests.old_runs.make

Run it on the version whose folders should be kept, never to mend a failing test: the
folders are what people have on their disks. Encoders by name are large, so most of
their weights are set to 0 before the scores are taken, and their folders are zipped.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file

import invariance as inv
from invariance.cli import main as invariance
from invariance.training import Stopped

from .folders import (
    FINISHED,
    HERE,
    INTERRUPTED,
    SmallNetwork,
    features,
    knn,
    metrics,
    readings,
    resume,
    unpack,
)

NO_SCORES = ("moco", "la", "annulus")
SETTINGS = {"limit": 256, "epochs": 2, "batch_size": 32, "hidden": 32, "width": 16}
RUNS = {  # and at which call of the network it is interrupted, if it is
    "simclr": ({"method": "simclr"}, None),
    "moco": ({"method": "moco", "options": {"size": 128}}, 9),
    "vicreg": ({"method": "vicreg"}, None),
    "la": ({"method": "la", "options": {"k": 0.25, "n_clusters": 8}}, 12),
    "ball": ({"method": "ball", "options": {"k": 0.1}}, None),
    "annulus": ({"method": "annulus", "options": {"inner": 0.05, "outer": 0.5}}, 5),
}


def make_run(out, name, changes, stop_at=None):
    """One run on a network of one's own; stopped half way where that is asked for."""
    shown = {"name": name, "out": out, "log_every": 1, "quiet": True}
    shown |= {"machine": inv.Machine(device="cpu"), "evaluate": name not in NO_SCORES}
    torch.manual_seed(1)  # the network's first weights are ours to draw
    network = SmallNetwork()
    calls = iter(range(1, 1000))

    def count(module, images):
        if module.training and next(calls) == stop_at:
            os.kill(os.getpid(), signal.SIGINT)

    network.register_forward_pre_hook(count)
    with contextlib.suppress(Stopped):
        inv.train(inv.Train(**SETTINGS | changes | shown), encoder=network)


def make_by_name(out, name, stop_at=None):
    """A run of the command line with an encoder by name."""
    words = [f"--{k.replace('_', '-')}={v}" for k, v in SETTINGS.items()]
    words += ["--encoder=tiny", f"--name={name}", f"--out={out}", "--log-every=1"]
    words += ["--machine.device=cpu"]
    if stop_at is None:
        invariance(["train", *words])
        return
    from invariance.encoders import ENCODERS

    calls, forward = iter(range(1, 1000)), ENCODERS["tiny"].forward

    def count(self, images):
        if self.training and next(calls) == stop_at:
            os.kill(os.getpid(), signal.SIGINT)
        return forward(self, images)

    ENCODERS["tiny"].forward = count
    try:
        invariance(["train", *words, "--ess.target=0.3", "--no-evaluate"])
    finally:
        ENCODERS["tiny"].forward = forward


def thin(value):
    """Keep some 4,000 numbers of each large tensor, at 8 bits of mantissa; in place.

    They are scaled up by the root of the share, so that features keep their spread.
    """
    if isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            thin(part)
    elif torch.is_tensor(value) and value.is_floating_point() and value.numel() > 8000:
        step = value.numel() // 4000
        kept = torch.arange(value.numel()).reshape(value.shape) % step == 0
        value.copy_((step**0.5 * value * kept).bfloat16())


def thin_file(path):
    """Thin an encoder or a checkpoint, and keep all else that is in it."""
    if path.suffix == ".pt":
        state = torch.load(path, weights_only=True)
        thin(state)
        torch.save(state, path)
        return
    with safe_open(path, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        about = file.metadata()
    thin(tensors)
    save_file(tensors, path, metadata=about)


def scrub(folder):
    """Leave out what tells of the machine, and what is large and made anew."""
    for name in ("report.html", "train.log"):
        (folder / name).unlink(missing_ok=True)
    env = json.loads((folder / "env.json").read_text())
    env["platform"] = "Linux"
    env["command"] = env["command"].replace(Path(sys.argv[0]).name, "invariance")
    (folder / "env.json").write_text(json.dumps(env, indent=2) + "\n")
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.replace(str(folder.parent), "runs"))
    sheet = folder / "gallery" / "thumbnails.jpg"
    if sheet.exists():
        Image.open(sheet).save(sheet, quality=10)


def pack(folder):
    """A folder as one zip of the same name."""
    with zipfile.ZipFile(f"{HERE / folder.name}.zip", "w") as file:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                # no time stamps: the same folder gives the same bytes
                entry = zipfile.ZipInfo(str(path.relative_to(folder)))
                file.writestr(entry, path.read_bytes(), zipfile.ZIP_LZMA)


def keep_newest_checkpoint(folder):
    """Of a finished run none; they are large."""
    files = sorted((folder / "checkpoints").iterdir())
    finished = (folder / "encoder.safetensors").exists()
    for path in files if finished else files[:-1]:
        path.unlink()
    if finished:
        (folder / "checkpoints").rmdir()


def measure(out):
    """What the version at hand says of the folders as they were kept."""
    expected = {name: {} for name in (*FINISHED, *INTERRUPTED)}
    for name, numbers in expected.items():
        folder = unpack(name, out)
        numbers["features"] = features(folder)
        if name in FINISHED:
            numbers |= {"knn": knn(folder), "readings": readings(folder)}
        else:
            resume(folder)
            numbers["losses"] = [row["loss"] for row in metrics(folder)]
            numbers["resumed features"] = features(folder)
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def main():
    """Every run, finished and interrupted, scrubbed and in its place."""
    with tempfile.TemporaryDirectory() as out:
        for name, (changes, stop_at) in RUNS.items():
            make_run(out, name, changes, stop_at)
        make_by_name(out, "tiny")
        make_by_name(out, "tiny-stopped", stop_at=9)
        tiny, stopped = Path(out) / "tiny", Path(out) / "tiny-stopped"
        for path in [*tiny.glob("*.safetensors"), *stopped.glob("*/*.pt")]:
            thin_file(path)
        for command in ("evaluate", "diagnose", "report"):
            invariance([command, str(tiny)])
        for folder in sorted(Path(out).iterdir()):
            keep_newest_checkpoint(folder)
            if folder != tiny:
                shutil.rmtree(folder / "gallery", ignore_errors=True)
            scrub(folder)
            if folder in (tiny, stopped):
                pack(folder)
            else:
                shutil.rmtree(HERE / folder.name, ignore_errors=True)
                shutil.copytree(folder, HERE / folder.name)
    with tempfile.TemporaryDirectory() as out:
        measure(out)


if __name__ == "__main__":
    main()
