"""A folder read ahead is the same folder, and a head start that fails does no harm."""

import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from PIL import Image

from invariance.data import load, read_ahead
from invariance.errors import DataError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")


def everything(source):
    rows = torch.arange(len(source))
    (images,) = source.batches([rows])
    return (
        images.tolist(),
        None if source.labels is None else source.labels.tolist(),
        source.paths,
        source.class_names,
        source.unreadable,
        [str(note) for note in source.notes if note.kind != "storage"],
        source.origin,
    )


@pytest.fixture
def no_decoding(monkeypatch):
    """From here on this process can open no image."""

    def forbid(*_, **__):
        raise AssertionError("an image was opened")

    return lambda: monkeypatch.setattr(Image, "open", forbid)


@pytest.mark.parametrize("how", [{}, {"image_size": 16}, {"hold_out": "nothing"}])
def test_images_read_ahead_are_those_of_the_folder(fill, how, no_decoding):
    root = fill("cats", "dogs", n=12)
    (root / "cats" / "000.png").write_bytes(b"no image")
    path = root / "dogs" / "001.png"
    path.write_bytes(path.read_bytes()[:400])  # cut off behind its header
    expected = everything(load(root, **how))
    with read_ahead(str(root), **how):
        no_decoding()
        source = load(root, **how)
    assert everything(source) == expected
    assert set(source.unreadable) == {"cats/000.png", "dogs/001.png"}
    assert multiprocessing.active_children() == []


def test_many_images_are_shared_out(tmp_path, picture, no_decoding):
    for k in range(8):
        picture(k, 200).save(tmp_path / f"{k}.png")
    for k in range(8, 400):
        (tmp_path / f"{k}.png").symlink_to(f"{k % 8}.png")
    expected = everything(load(tmp_path, image_size=32))
    with read_ahead(str(tmp_path), image_size=32):
        no_decoding()
        assert everything(load(tmp_path, image_size=32)) == expected


@pytest.mark.parametrize(
    "how",
    [{"image_size": 8}, {"split": "test"}, {"labels": False}, {"n": 3}],
)
def test_a_load_that_asks_for_something_else_reads_for_itself(fill, how):
    root = fill("cats", "dogs", n=12)
    expected = everything(load(root, **how))
    with read_ahead(str(root)):
        assert everything(load(root, **how)) == expected
    assert everything(load(root, **how)) == expected


def test_what_is_wrong_is_said_by_load(tmp_path):
    (tmp_path / "notes.txt").write_text("no image")
    with (
        read_ahead(str(tmp_path)),
        pytest.raises(DataError, match="holds no images"),
    ):
        load(tmp_path)


def test_a_process_that_is_killed_is_done_without(fill):
    root = fill("cats", "dogs", n=12)
    expected = everything(load(root))
    with read_ahead(str(root)):
        for process in multiprocessing.active_children():
            process.kill()
        assert everything(load(root)) == expected


@pytest.mark.parametrize("data", ["shapes", "no such folder"])
def test_other_data_need_no_process(data):
    with read_ahead(data):
        assert multiprocessing.active_children() == []


def test_it_needs_no_torch(fill):
    program = """
import sys
import time
from pathlib import Path
sys.modules["torch"] = None  # importing it is an error
from invariance.data import read_ahead
with read_ahead(sys.argv[1]):
    del sys.modules["torch"]
    from PIL import Image
    Image.open = None
    from invariance.data import load
    print(len(load(sys.argv[1])))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(fill(n=7))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["7"]


@pytest.mark.parametrize("n, side", [(5000, 600), (3000, 8)], ids=["reading", "done"])
def test_its_processes_end_with_the_one_that_began_it(tmp_path, picture, n, side):
    """Half a minute's work; and an answer too long for a pipe, which waits there."""
    picture(0, side).save(tmp_path / "0.png")
    for k in range(1, n):
        (tmp_path / f"{k}, with a name that is rather long.png").symlink_to("0.png")
    program = """
import multiprocessing, sys, time
from invariance.data import read_ahead
with read_ahead(sys.argv[1], image_size=32):
    time.sleep(2)  # by now others help, or all is done
    print(multiprocessing.active_children()[0].pid, flush=True)
    time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE
    )
    reader = int(process.stdout.readline())
    assert is_alive(reader)
    process.kill()
    process.communicate()
    until = time.monotonic() + 20
    while is_alive(reader) and time.monotonic() < until:
        time.sleep(0.1)
    assert not is_alive(reader)


def is_alive(pid):
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
