"""Features as a value and in files, of data of every kind."""

import csv
import shutil

import numpy as np
import pyarrow.parquet
import pytest
import torch
from torch.utils.data import Dataset

import invariance as inv
from invariance.encoders import Encoder, read_encoder
from invariance.errors import (
    DataError,
    InvarianceError,
    SettingError,
    ShapeError,
    TrainingError,
)

BROKEN = {"cat/cut.png", "dog/empty.png", "dog/words.jpg"}
ENDINGS = [".npz", ".parquet", ".csv"]


def expected(run, pixels):
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        return inv.load(run)(images)


def test_an_array_gives_what_the_encoder_says(run, pixels):
    found = inv.embed(run, pixels, batch_size=7)
    assert torch.allclose(found.features, expected(run, pixels), atol=1e-5)
    assert found.names == tuple(str(i) for i in range(40))
    assert found.labels is None and found.class_names == ()


def test_a_single_image_is_not_taken_for_three_gray_ones(run, pixels):
    whole = expected(run, pixels[:1])
    image = torch.from_numpy(pixels[0]).permute(2, 0, 1)
    for one in (pixels[:1], image[None], image[None].float() / 255):
        found = inv.embed(run, one)
        assert found.features.shape == (1, 256)
        assert torch.allclose(found.features, whole, atol=1e-5)
    for one in (image, image.numpy(), pixels[0]):
        with pytest.raises(DataError, match=r"single image .*images\[None\]"):
            inv.embed(run, one)
    with pytest.raises(DataError, match=r"Give a single gray image as images\[None"):
        inv.embed(run, pixels[0, :, :, 0])


def test_a_folder_keeps_names_and_labels_and_names_the_broken(run, photos, pixels):
    found = inv.embed(run, photos)
    assert len(found) == 20 and set(found.unreadable) == BROKEN
    assert "3 unreadable images were left out" in found.notes[-1]
    assert found.names[:2] == ("cat/0.png", "cat/1.png")
    classes = [found.class_names[k] for k in found.labels]
    assert classes == [name.split("/")[0] for name in found.names]
    row = found.names.index("cat/3.png")  # beside broken ones, still itself
    assert torch.allclose(found.features[row], expected(run, pixels)[3], atol=1e-5)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_gives_back_what_the_value_holds(ending, run, photos, tmp_path):
    value = inv.embed(run, photos)
    written = inv.write_embeddings(run, photos, tmp_path / f"out{ending}")
    assert written.n == 20 and set(written.unreadable) == BROKEN
    found = inv.read_embeddings(written.path)
    assert torch.equal(found.features, value.features)
    assert found.names == value.names and found.class_names == value.class_names
    assert torch.equal(found.labels, value.labels)
    assert not (tmp_path / f"out{ending}.part").exists()


@pytest.mark.parametrize("ending", ENDINGS)
def test_without_labels_there_is_no_column_for_them(ending, run, pixels, tmp_path):
    path = inv.write_embeddings(run, pixels, tmp_path / f"out{ending}").path
    found = inv.read_embeddings(path)
    assert found.labels is None and len(found) == 40
    assert torch.equal(found.features, inv.embed(run, pixels).features)


def test_others_can_read_the_files(run, photos, tmp_path):
    value = inv.embed(run, photos)
    for ending in ENDINGS:
        inv.write_embeddings(run, photos, tmp_path / f"out{ending}")
    with np.load(tmp_path / "out.npz", allow_pickle=False) as archive:
        assert np.array_equal(archive["features"], value.features.numpy())
        assert archive["names"].tolist() == list(value.names)
        assert archive["class_names"].tolist() == ["cat", "dog"]
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["name", "label", "class", "features"]
    assert np.array_equal(
        np.stack(table["features"].to_numpy()), value.features.numpy()
    )
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["name"] for line in lines] == list(value.names)
    assert [line["class"] for line in lines] == [n.split("/")[0] for n in value.names]
    assert np.float32(lines[5]["f3"]) == value.features[5, 3].item()


def test_another_size_and_gray_images_are_converted_and_said(run):
    gray = np.zeros((5, 28, 28), np.uint8)
    found = inv.embed(run, gray)
    assert found.features.shape == (5, 256)
    assert found.notes == (
        "the array has 5 images, of 1x28x28: brought to 3x16x16, the input of the "
        "encoder.",
    )


def test_splits_and_limits_keep_the_numbers_of_the_whole(run, pixels):
    labeled = pixels, np.arange(40) % 2  # of images without labels, none are held out
    whole, test, few = (
        inv.embed(run, labeled, **how) for how in ({}, {"split": "test"}, {"limit": 4})
    )
    assert 0 < len(test) < 40 and few.names == ("0", "10", "20", "30")
    for part in (test, few):
        rows = [int(name) for name in part.names]
        assert torch.allclose(part.features, whole.features[rows], atol=1e-5)


def test_a_data_set_of_pairs_has_labels(run, pixels):
    class Pairs(Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            return pixels[i], i % 2

    found = inv.embed(run, Pairs())
    assert found.labels.tolist() == [0, 1] * 3


def test_the_callers_encoder_is_left_as_it_was(run, pixels):
    encoder = inv.load(run).train()
    before = {k: v.clone() for k, v in encoder.state_dict().items()}
    found = inv.embed(encoder, pixels)
    assert encoder.training
    assert all(torch.equal(v, before[k]) for k, v in encoder.state_dict().items())
    assert torch.equal(found.features, inv.embed(run, pixels).features)


def test_a_module_of_ones_own_is_told_how_to_say_what_it_takes(our_errors):
    network, rows = torch.nn.Linear(10, 3), torch.randn(6, 10)
    unsaid = Encoder(network, input_shape=(10,))
    for encoder in (network, unsaid):
        with pytest.raises(
            InvarianceError, match=r"kind=invariance.data.Vector\(\(10,"
        ):
            inv.embed(encoder, rows)
    encoder = Encoder(network, kind=inv.data.Vector((10,)))
    features = inv.embed(encoder, rows).features
    torch.testing.assert_close(features, network(rows).detach())


@pytest.mark.parametrize("run", [torch.ones(4, 3), (torch.ones(4, 3), torch.arange(4))])
def test_features_are_no_run(run, our_errors):
    with pytest.raises(InvarianceError, match=r"evaluation\.knn\(train_h, train_lab"):
        inv.evaluate(run)


def test_bytes_that_are_no_text_are_spelt_out(run, tmp_path, pixels):
    from PIL import Image

    folder = tmp_path / "odd"
    folder.mkdir()
    Image.fromarray(pixels[0]).save(folder / "a.png")
    try:
        (folder / "a.png").rename(folder / "\udcff.png")
    except OSError:
        pytest.skip("this file system keeps names that are text only")
    for ending in ENDINGS:
        path = inv.write_embeddings(run, folder, tmp_path / f"odd{ending}").path
        assert inv.read_embeddings(path).names == ("\\xff.png",)


@pytest.mark.parametrize(
    "change, kind, message",
    [
        ({"run": "nowhere"}, DataError, "There is no run or encoder file at 'nowhere'"),
        ({"run": "."}, DataError, "holds no encoder and no checkpoint"),
        ({"data": "no/such"}, DataError, "There is no folder or file 'no/such'"),
        ({"data": "empty"}, DataError, "The folder 'empty' holds no images"),
        ({"data": "bad"}, DataError, "None of the 3 images of 'bad' can be read"),
        ({"file": "out.txt"}, SettingError, "'out.txt' has the ending '.txt'"),
        ({"file": "no/out.npz"}, SettingError, "There is no folder 'no' to write into"),
        ({"file": "there.npz"}, DataError, "'there.npz' exists already"),
        ({"file": "dir.npz"}, SettingError, "'dir.npz' is a folder"),
        ({"batch_size": 0}, SettingError, "batch_size is 1 or more: got 0"),
        ({"device": "abacus"}, SettingError, "The device 'abacus' cannot be used"),
    ],
)
def test_mistakes_are_said_in_one_sentence(
    change, kind, message, run, pixels, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("empty", "bad", "dir.npz"):
        (tmp_path / name).mkdir()
    for k in range(3):
        (tmp_path / "bad" / f"{k}.png").write_text("no")
    (tmp_path / "there.npz").write_text("precious")
    given = {"run": run, "data": pixels, "file": "out.npz"} | change
    with pytest.raises(kind, match=message.replace(".", r"\.")):
        inv.write_embeddings(
            given.pop("run"), given.pop("data"), given.pop("file"), **given
        )
    assert (tmp_path / "there.npz").read_text() == "precious"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("out")]


def test_too_many_broken_images_end_it_and_can_be_allowed(run, tmp_path, pixels):
    folder = tmp_path / "half"
    folder.mkdir()
    from PIL import Image

    for k in range(30):
        path = folder / f"{k:02}.png"
        Image.fromarray(pixels[k]).save(path)
        if k % 2:
            path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(DataError, match="15 of the 30 images of half cannot be read"):
        inv.write_embeddings(run, folder, tmp_path / "x.npz")
    done = inv.write_embeddings(
        run, folder, tmp_path / "x.npz", max_bad_fraction=0.6, overwrite=True
    )
    assert done.n == 15 and len(done.unreadable) == 15


def test_an_unfinished_run_gives_its_newest_checkpoint(run, tmp_path, pixels, capsys):
    about, tensors = read_encoder(run / "encoder.safetensors")
    weights = {f"encoder.{k}": v for k, v in tensors.items()}
    (tmp_path / "checkpoints").mkdir()
    path = tmp_path / "checkpoints" / "step-00000001.pt"
    torch.save({"learner": weights, "encoder": about, "step": 1}, path)
    found = inv.embed(tmp_path, pixels, quiet=False)
    assert torch.equal(found.features, inv.embed(run, pixels).features)
    assert "is unfinished: its newest checkpoint is used" in capsys.readouterr().err
    next((tmp_path / "checkpoints").iterdir()).unlink()
    with pytest.raises(InvarianceError, match="no encoder and no checkpoint"):
        inv.embed(tmp_path, pixels)


def test_a_run_of_a_later_version_is_refused(run, tmp_path, pixels):
    later = shutil.copytree(run, tmp_path / "later")
    (later / "env.json").write_text('{"format": 99, "invariance": "7.0"}')
    with pytest.raises(TrainingError, match=r"invariance 7\.0.*update invariance"):
        inv.embed(later, pixels)


def test_an_encoder_of_vectors_is_refused(pixels):
    encoder = Encoder(torch.nn.Linear(2, 4), input_shape=(2,))
    with pytest.raises(ShapeError, match="takes samples of shape"):
        inv.embed(encoder, pixels)
