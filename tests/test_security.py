"""SECURITY.md by trying: a file from somebody else runs nothing and is refused.

Of a checkpoint, tests/training/test_checkpoint_files.py says so.
"""

import json
import os
import pickle
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save

import invariance as inv
from invariance.encoders import build_text_tower
from invariance.errors import DataError, SettingError
from invariance.folder import read_record, read_yaml
from invariance.training import Train


@pytest.fixture
def proof(tmp_path):
    """A folder that is made if a test's payload is run; it must not be."""
    folder = tmp_path / "executed"
    yield folder
    assert not folder.exists()


class Payload:
    """Unpickling it makes a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_the_payload_would_work(tmp_path):
    pickle.loads(pickle.dumps(Payload(tmp_path / "executed")))
    assert (tmp_path / "executed").exists()


@pytest.mark.parametrize("write", [torch.save, lambda x, p: p.write_bytes(x)])
def test_an_encoder_file_is_no_pickle(write, proof, tmp_path):
    path = tmp_path / "encoder.safetensors"
    payload = Payload(proof)
    write(payload if write is torch.save else pickle.dumps(payload), path)
    with pytest.raises(DataError, match="damaged, or not an encoder"):
        inv.load(path)


TINY = {"name": "tiny", "shape": [3, 32, 32], "dtype": "float32"}
TINY |= {"kind": {"name": "image", "shape": [3, 32, 32]}}


@pytest.mark.parametrize(
    "about",
    [
        *("[]", "7", "null", "{}", "[" * 100_000),
        *(json.dumps(TINY | {"name": name}) for name in (5, None, ["os"])),
        *(json.dumps(TINY | {"dtype": dtype}) for dtype in ("save", "nothing", 5)),
        *(json.dumps(TINY | {"shape": shape}) for shape in ("3x32", 7, [None])),
        *(json.dumps(TINY | {"kind": kind}) for kind in (7, {"name": ["image"]})),
        json.dumps(TINY | {"kind": {"name": "image", "size": 3}}),
    ],
    ids=lambda about: about[:60],
)
def test_an_encoder_file_that_describes_nothing_of_ours(about, tmp_path, our_errors):
    path = tmp_path / "encoder.safetensors"
    path.write_bytes(save({"x": torch.zeros(1)}, metadata={"invariance": about}))
    with pytest.raises(DataError, match="damaged, or not an encoder"):
        inv.load(path)


def test_a_settings_file_names_no_code(proof, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(f"data: !!python/object/apply:os.mkdir ['{proof}']\n")
    with pytest.raises(SettingError, match="not readable as YAML"):
        read_yaml(Train, path)
    assert "config.yaml is half written or broken." in read_record(tmp_path).problems


def test_a_settings_file_without_end(tmp_path):
    path = tmp_path / "deep.yaml"
    path.write_text("data: " + "[" * 500)
    with pytest.raises(SettingError, match="not readable as YAML"):
        read_yaml(Train, path)


def test_arrays_hold_no_objects(proof, tmp_path):
    objects = np.array([Payload(proof)], dtype=object)
    alone, several = tmp_path / "x.npy", tmp_path / "x.npz"
    np.save(alone, objects)
    np.savez(several, embeddings=objects, about=objects)
    for path in (alone, several):
        with pytest.raises(DataError, match="cannot be read as a numpy file"):
            inv.data.load(str(path))
    with pytest.raises(DataError, match="is not a file of embeddings"):
        inv.read_embeddings(several)


def test_an_image_that_would_fill_the_memory_is_left_out(tmp_path):
    for k in range(20):
        Image.new("RGB", (32, 32), (k, k, k)).save(tmp_path / f"{k}.png")

    def chunk(name, content):
        check = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + check

    about = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", about) + chunk(b"IEND", b"")
    (tmp_path / "bomb.png").write_bytes(bomb)
    assert len(inv.data.load(str(tmp_path))) == 20


def test_code_that_comes_with_a_text_model_is_not_run(proof, tmp_path):
    (tmp_path / "own.py").write_text(f"import os\nos.mkdir({str(proof)!r})\n")
    classes = {"AutoConfig": "own.Config", "AutoModel": "own.Model"}
    config = {"model_type": "own", "auto_map": classes}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for pretrained in (False, True):
        with pytest.raises(SettingError, match="transformers could not build"):
            build_text_tower(
                f"transformers/{tmp_path}",
                vocabulary=300,
                length=8,
                pretrained=pretrained,
            )
