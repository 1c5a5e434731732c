"""Exports say what the original says, and the code that is printed reads them."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors import safe_open
from torch import nn

import invariance as inv
from invariance.data import load
from invariance.encoders import build_encoder
from invariance.errors import DataError, InvarianceError, SettingError

from .conftest import make_run

# In a process of its own: exporters cannot read through the shape checks of the tests.
EXPORT = """
import json, sys, torch, onnxruntime, invariance as inv
said = {}
torch.set_grad_enabled(False)
for word in sys.argv[1:]:
    folder, to = word.split(":")
    done = inv.export(folder, to)
    encoder = inv.load(folder)
    images = torch.rand(5, *encoder.input_shape)
    names = {"images": images.numpy() if to == "onnx" else images}
    names |= {"invariance": inv, "torch": torch, "onnxruntime": onnxruntime}
    exec(done.usage, names)
    apart = torch.as_tensor(names["features"]) - encoder(images)
    said[word] = [done.difference, done.largest, apart.abs().max().item()]
print(json.dumps(said))
"""
RUNS = {  # name of a run: the encoder, image size, channels, and what it is exported to
    "tiny": ("tiny", 16, 3, ("safetensors", "pt2", "onnx")),
    "gray": ("tiny", 28, 1, ("onnx",)),
    "resnet": ("test_resnet", 32, 3, ("timm",)),
    "deep_stem": ("resnet10t", 32, 3, ("timm",)),
    "vit": ("timm/test_vit", 64, 3, ("timm", "pt2", "onnx")),
}
PAIRS = [f"{name}:{to}" for name, (*_, formats) in RUNS.items() for to in formats]


@pytest.fixture(scope="module")
def exported(tmp_path_factory, one_thread):
    """Every pair exported, and read back with the code that is printed."""
    folder = tmp_path_factory.mktemp("exports")
    for name, (encoder, size, channels, _) in RUNS.items():
        make_run(folder / name, name=encoder, image_size=size, channels=channels)
    done = subprocess.run(
        [sys.executable, "-c", EXPORT, *PAIRS],
        cwd=folder,
        env=one_thread,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("pair", PAIRS)
def test_it_says_what_the_original_says(pair, exported):
    difference, largest, apart = exported[1][pair]
    most = 0 if pair.endswith((":safetensors", ":timm")) else 1e-5 * largest
    assert difference <= most and apart <= 1e-5 * largest and largest > 0.01


def test_files_are_named_after_run_and_format(exported):
    endings = {
        "safetensors": "safetensors",
        "timm": "timm.safetensors",
        "pt2": "pt2",
        "onnx": "onnx",
    }
    pairs = (pair.split(":") for pair in PAIRS)
    names = {f"{name}.{endings[to]}" for name, to in pairs}
    assert {p.name for p in exported[0].iterdir() if p.is_file()} == names


def test_a_file_for_timm_says_how_images_are_standardized(exported):
    with safe_open(exported[0] / "vit.timm.safetensors", "pt") as file:
        said = json.loads(file.metadata()["timm"])
    assert (said["architecture"], said["img_size"]) == ("test_vit", 64)
    assert said["pretrained_cfg_overlay"]["mean"] == [0.4] * 3
    assert said["pretrained_cfg_overlay"]["std"] == [0.25] * 3


def test_a_module_of_ones_own_as_safetensors(tmp_path):
    network = nn.Sequential(nn.Flatten(), nn.Linear(48, 5))
    encoder = build_encoder(network, image_size=4)
    done = inv.export(encoder, "safetensors", tmp_path / "mine.safetensors")
    assert done.difference == 0 and "network=module" in done.usage
    with pytest.raises(SettingError, match="is your own module, which timm"):
        inv.export(encoder, "timm", tmp_path / "mine.timm.safetensors")


@pytest.mark.parametrize(
    "name, why",
    [
        ("tiny", "'tiny' is a network of this package, which timm cannot build"),
        ("torchvision/resnet18", "'torchvision/resnet18' is a network of torchvision"),
    ],
)
def test_what_timm_cannot_build_is_refused(name, why, tmp_path):
    encoder = build_encoder(name, image_size=32)
    with pytest.raises(SettingError, match=why):
        inv.export(encoder, "timm", tmp_path / "x.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name, data, library",
    [
        ("geometric/GCN", "blocks", "torch-geometric"),
        ("transformers/distilbert", "paraphrases", "transformers"),
    ],
)
def test_networks_of_other_libraries_are_built_by_their_names(
    name, data, library, tmp_path
):
    encoder = build_encoder(name, kind=load(data, n=8).kind)
    done = inv.export(encoder, "safetensors", tmp_path / "x.safetensors")
    assert "network=module" not in done.usage
    assert inv.load(done.path).name == name
    with pytest.raises(SettingError, match=f"is a network of {library}, which timm"):
        inv.export(encoder, "timm", tmp_path / "x.timm.safetensors")


class Tired(nn.Module):
    """A network whose second copy, the one read back, is not what it was."""

    def __init__(self, change, copies=0):
        super().__init__()
        self.linear = nn.Linear(48, 5)
        self.change, self.copies = change, copies

    def __deepcopy__(self, memo):
        copy = Tired(self.change, self.copies + 1)
        copy.load_state_dict(self.state_dict())
        return copy

    def forward(self, images):
        features = self.linear(images.flatten(1))
        return self.change(features) if self.copies > 1 else features


def test_a_file_that_says_something_else_is_not_kept(tmp_path):
    encoder = build_encoder(Tired(lambda features: 1.01 * features), image_size=4)
    (tmp_path / "a.safetensors").write_text("old")
    with pytest.raises(InvarianceError, match="differs from the original by"):
        inv.export(encoder, "safetensors", tmp_path / "a.safetensors", overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]
    assert (tmp_path / "a.safetensors").read_text() == "old"


@pytest.mark.parametrize("bad", [2, 7])
def test_an_export_for_one_batch_size_only_is_not_kept(tmp_path, bad):
    def fixed(features):
        if len(features) == bad:
            raise RuntimeError("Got invalid dimensions\nmore")
        return features

    why = rf"fails on a batch of {bad}: Got invalid dimensions\. Nothing was written"
    with pytest.raises(InvarianceError, match=why):
        encoder = build_encoder(Tired(fixed), image_size=4)
        inv.export(encoder, "safetensors", tmp_path / "a.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_that_has_diverged_is_not_exported(run, tmp_path):
    encoder = inv.load(run)
    next(encoder.parameters()).data.fill_(float("nan"))
    with pytest.raises(InvarianceError, match="not finite: it has diverged"):
        inv.export(encoder, "safetensors", tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    "change, kind, message",
    [
        ({"to": "onxx"}, SettingError, "Unknown format 'onxx'. Did you mean 'onnx'?"),
        ({"to": "torchscript"}, SettingError, "deprecated in torch: export to 'pt2'"),
        ({"file": "x.bin"}, SettingError, "'x.bin' does not end in .safetensors"),
        ({"file": "no/x.safetensors"}, SettingError, "There is no folder 'no'"),
        ({"file": "there.safetensors"}, DataError, "exists already"),
        ({"run": "nowhere"}, DataError, "There is no run or encoder file"),
    ],
)
def test_mistakes(change, kind, message, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.safetensors").write_text("precious")
    given = {"run": run, "to": "safetensors", "file": None} | change
    with pytest.raises(kind, match=message.replace("?", r"\?")):
        inv.export(given["run"], given["to"], given["file"])
    assert (tmp_path / "there.safetensors").read_text() == "precious"


def test_onnx_without_its_packages_names_the_extra(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(SettingError, match=r"pip install 'invariance\[onnx\]'"):
        inv.export(run, "onnx")


def test_batches_of_several_sizes_are_tried(run, tmp_path):
    sizes = inv.export(run, "safetensors", tmp_path / "a.safetensors").batch_sizes
    assert len(set(sizes)) >= 3 and 1 in sizes


def test_a_full_disk(run, tmp_path):
    (tmp_path / ".part.a.safetensors.part").symlink_to("/dev/full")
    with pytest.raises(DataError, match=r"the disk is full.*export again"):
        inv.export(run, "safetensors", tmp_path / "a.safetensors")
    assert list(tmp_path.iterdir()) == []
    assert torch.is_tensor(next(inv.load(run).parameters()))
