"""A finished run with private paths in its files, and a hub on this disk."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import constants, errors
from tests.made_runs import reading, scores

from invariance.encoders import build_encoder, standardize, write_encoder
from invariance.folder import to_yaml
from invariance.training import Train


@dataclass
class Hub:
    """The methods of the hub's client that are used, over a folder.

    ``test_the_stand_in_has_the_signatures_of_the_real_client`` compares them.
    """

    root: Path
    private: dict[str, bool] = field(default_factory=dict)
    tokens: list[str | None] = field(default_factory=list)

    def create_repo(self, repo_id, *, private=None, exist_ok=False):
        if repo_id in self.private and not exist_ok:
            raise AssertionError("it is there already")
        self.private.setdefault(repo_id, bool(private))
        (self.root / repo_id).mkdir(parents=True, exist_ok=True)
        return f"https://hub.test/{repo_id}"

    def repo_info(self, repo_id):
        return SimpleNamespace(private=self.private[repo_id])

    def upload_folder(self, *, repo_id, folder_path, commit_message=None):
        assert commit_message
        shutil.copytree(folder_path, self.root / repo_id, dirs_exist_ok=True)

    def hf_hub_download(self, repo_id, filename, *, revision=None):
        if repo_id not in self.private:
            raise make_error(errors.RepositoryNotFoundError)
        if revision not in (None, "main"):
            raise make_error(errors.RevisionNotFoundError)
        path = self.root / repo_id / filename
        if not path.exists():
            raise errors.EntryNotFoundError(filename)
        return str(path)


def make_error(kind, status=404):
    """An error of the hub's client without the answer it comes with."""
    error = kind.__new__(kind)
    error.response = SimpleNamespace(status_code=status)
    return error


@pytest.fixture
def hub(tmp_path, monkeypatch):
    stand_in = Hub(tmp_path / "hub")

    def make_client(*, token, library_name, library_version):
        assert library_name == "invariance" and library_version
        stand_in.tokens.append(token)
        return stand_in

    monkeypatch.setattr("huggingface_hub.HfApi", make_client)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # nobody looks for a network
    return stand_in


@pytest.fixture
def offline(monkeypatch):
    """The real client, without a network."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


@pytest.fixture
def make(tmp_path):
    """Write a finished run that was trained on a folder of somebody's own."""

    def make(
        name="tiny", *, env=None, rows=None, image_size=16, channels=3, **settings
    ):
        folder = tmp_path / "home" / "ada" / "runs" / "cats"
        folder.mkdir(parents=True)
        data = str(tmp_path / "home" / "ada" / "secret" / "cat photos")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            encoder = build_encoder(name, image_size=image_size, channels=channels)
        encoder = standardize(encoder, [0.4] * channels, [0.25] * channels)
        write_encoder(encoder, folder / "encoder.safetensors")
        settings = {"data": data, "data_root": str(tmp_path), "epochs": 4} | settings
        settings |= {"encoder": name, "out": str(folder.parent)}
        (folder / "config.yaml").write_text(to_yaml(Train(**settings)))
        images = {"name": "cat photos", "path": data, "parent": "secret"}
        images |= {"n_train": 900, "n_held_out": 100, "fingerprint": "5e1f"}
        images |= {"word": "image", "kind": "image"}
        command = f"invariance train '{data}'"
        about = {"command": command, "images": images} | (env or {})
        write_json(folder / "env.json", about)
        lines = [json.dumps(reading(k)) for k in range(1, 5)]
        (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        about = {"data": "cat photos", "parent": "secret", "fingerprint": "5e1f"}
        rows = scores() if rows is None else rows
        lines = [json.dumps(row | about) for row in rows]
        (folder / "evaluation.jsonl").write_text("\n".join(lines) + "\n")
        return folder

    return make


def write_json(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
