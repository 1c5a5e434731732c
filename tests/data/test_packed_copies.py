"""A packed copy is the folder's images, is never stale, and a bad one does no harm."""

import errno
import multiprocessing
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import filelock
import pytest
import torch

from invariance.data import delete_packs, load, pack
from invariance.devices import usable_cores
from invariance.errors import DataError, SettingError


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    place = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("INVARIANCE_DATA", str(place))
    return place


def pixels(source):
    rows = torch.arange(len(source))
    return torch.cat(list(source.batches(rows.split(3))))


def storage_notes(source):
    return " ".join(str(note) for note in source.notes if note.kind == "storage")


@pytest.mark.parametrize("split", ["train", "test", "all"])
@pytest.mark.parametrize("storage", ["resident", "streamed"])
def test_a_packed_copy_is_the_folder(fill, split, storage):
    root = fill("cats", "dogs", n=12)
    (root / "cats" / "003.png").write_bytes(b"no image")
    how = {"split": split, "storage": storage, "image_size": 16}
    how |= {"workers": 0} if storage == "streamed" else {}
    before = load(root, **how)
    expected = pixels(before)
    copy = pack(root, image_size=16)
    assert copy.new and (copy.n, copy.shape) == (23, (3, 16, 16))
    assert list(copy.unreadable) == ["cats/003.png"]
    assert copy.n_bytes > 24 * 3 * 16 * 16
    for path in root.rglob("*.png"):  # as before, but for the pixels
        status, content = path.stat(), path.read_bytes()
        path.write_bytes(content[:60] + bytes(len(content[60:])))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = load(root, **how)
    assert "packed copy" in storage_notes(after)
    assert pixels(after).equal(expected)
    assert after.unreadable == before.unreadable


def test_it_serves_all_sizes_asked_for_and_no_others(fill):
    root = fill(n=3)
    pack(root, image_size=16)
    pack(root, image_size=16, channels=1)
    for how, used in (
        ({"image_size": 16}, True),
        ({"image_size": 16, "channels": 1}, True),
        ({"image_size": 8}, False),
    ):
        assert ("packed copy" in storage_notes(load(root, **how))) is used
    assert not pack(root, image_size=16).new
    assert len(delete_packs(root)) == 2
    assert "packed" not in storage_notes(load(root, image_size=16))
    assert delete_packs(root) == []


def test_without_a_size_it_is_the_one_that_load_chooses(fill):
    root = fill(n=3)
    pack(root)
    assert "packed copy" in storage_notes(load(root))


@pytest.mark.parametrize("change", ["new", "gone", "time", "size"])
def test_a_changed_folder_is_decoded_and_says_so(fill, picture, change):
    root = fill(n=4)
    pack(root, image_size=16)
    if change == "new":
        picture(9).save(root / "new.png")
    elif change == "gone":
        (root / "001.png").unlink()
    elif change == "time":
        os.utime(root / "001.png", ns=(1, 1))
    else:
        status = (root / "001.png").stat()
        picture(9, side=10).save(root / "001.png")
        os.utime(root / "001.png", ns=(1, status.st_mtime_ns))
    source = load(root, image_size=16)
    assert "does not match the files as they are now" in storage_notes(source)
    assert f"invariance pack {root} --image-size 16" in storage_notes(source)
    delete_packs(root)
    assert pixels(source).equal(pixels(load(root, image_size=16)))
    assert pack(root, image_size=16).new


@pytest.mark.parametrize("end", [0, 5, -1, -9, -600])
def test_a_cut_copy_is_noticed(fill, end):
    root = fill(n=4)
    path = pack(root, image_size=16).path
    whole = path.read_bytes()
    path.write_bytes(whole[:end])
    source = load(root, image_size=16)
    assert "is damaged" in storage_notes(source)
    assert len(source) == 4
    assert pack(root, image_size=16).new
    assert path.read_bytes() == whole


def test_a_damaged_image_is_decoded_from_its_file(fill, caplog):
    root = fill(n=4)
    before = pixels(load(root, image_size=16))
    path = pack(root, image_size=16).path
    content = bytearray(path.read_bytes())
    content[3 * 16 * 16 + 5] ^= 1  # of the second image
    path.write_bytes(content)
    assert pixels(load(root, image_size=16)).equal(before)
    assert "is damaged" in caplog.text
    assert f"'invariance pack {root} --image-size 16' rebuilds it" in caplog.text
    assert pack(root, image_size=16).new  # it is mended, not called up to date
    assert not pack(root, image_size=16).new
    caplog.clear()
    assert pixels(load(root, image_size=16)).equal(before) and not caplog.text


def test_what_a_killed_process_left_is_deleted_with_the_copies(fill):
    root = fill(n=4)
    path = pack(root, image_size=16).path
    half = path.with_name(f"{path.name}.part")
    half.write_bytes(b"half")
    assert delete_packs(root) == [path]
    assert not half.exists()


def test_without_a_place_it_is_the_usual_one(fill, home, monkeypatch):
    root = fill(n=2)
    monkeypatch.setenv("INVARIANCE_DATA", "")
    monkeypatch.setenv("HOME", str(home))
    assert pack(root, image_size=16).path.parent == home / ".cache/invariance/packs"


def test_who_waits_for_another_process_is_told(fill, capsys):
    root = fill(n=4)
    path = pack(root, image_size=16).path
    lock = filelock.FileLock(f"{path}.lock")  # as the process that writes it has
    lock.acquire()
    with ThreadPoolExecutor(1) as pool:
        copy = pool.submit(pack, root, image_size=16, quiet=False)
        words = ""
        while "waiting for it" not in words and not copy.done():
            words += capsys.readouterr().err
        lock.release()
        assert "Another process is packing this folder" in words
        assert not copy.result().new


def test_a_copy_that_is_being_written_is_not_deleted(fill, monkeypatch):
    root = fill(n=4)
    path = pack(root, image_size=16).path
    half = path.with_name(f"{path.name}.part")
    half.write_bytes(b"half")
    monkeypatch.setattr("invariance.data._pack.FAREWELL", 0)  # or it takes seconds
    writes = filelock.FileLock(f"{path}.lock")  # as the process that writes it has
    with writes, pytest.raises(DataError, match="Another process is packing"):
        delete_packs(root)
    assert path.exists() and half.exists()
    assert delete_packs(root) == [path]
    assert not half.exists()


def test_copies_that_cannot_be_deleted_are_answered_in_a_sentence(fill, monkeypatch):
    root = fill(n=4)
    path = pack(root, image_size=16).path

    def fail(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", fail)
        with pytest.raises(DataError, match=r"Cannot delete .* \(Read-only file"):
            delete_packs(root)
    assert path.exists()


@pytest.mark.parametrize("settings", [{"image_size": -1}, {"channels": 2}])
def test_a_copy_of_no_size_or_color_is_refused(fill, settings):
    with pytest.raises(SettingError, match=r"image_size is 1 or|channels is 1"):
        pack(fill(n=2), **settings)


def test_a_copy_that_cannot_be_written_is_answered_in_a_sentence(
    fill, home, monkeypatch
):
    root = fill(n=4)
    (home / "packs").write_text("a file in its place")
    with pytest.raises(DataError, match=r"Cannot keep a packed copy in .*without"):
        pack(root)
    (home / "packs").unlink()
    full = type("Usage", (), {"free": 100})
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda _: full)
        with pytest.raises(DataError, match=r"takes .* MiB, but only 0.0 MiB are free"):
            pack(root)

    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        with pytest.raises(DataError, match=r"the disk is full. No copy was kept"):
            pack(root)
    assert {path.suffix for path in (home / "packs").iterdir()} <= {".lock"}
    assert "packed" not in storage_notes(load(root))


def test_what_cannot_be_packed(tmp_path, fill):
    with pytest.raises(DataError, match="There is no folder 'nowhere'"):
        pack("nowhere")
    with pytest.raises(DataError, match="holds no images"):
        pack(tmp_path)
    root = fill(n=4)
    for path in list(root.iterdir())[:3]:
        path.write_bytes(b"no image")
    with pytest.raises(DataError, match="3 of the 4 images"):
        pack(root)
    for _ in ("written", "found"):
        copy = pack(root, max_bad_fraction=0.75)
        assert copy.n == 1 and len(copy.unreadable) == 3
    with pytest.raises(DataError, match="3 of the 4 images"):
        pack(root, max_bad_fraction=0.5)
    with pytest.raises(SettingError, match="a share of the images, 0 to 1: got 2"):
        pack(root, max_bad_fraction=2)


def test_images_that_break_off_are_not_counted(fill):
    root = fill(n=30)
    path = root / "003.png"
    path.write_bytes(path.read_bytes()[:400])  # its header is whole
    first, again = pack(root), pack(root)
    assert first.new and not again.new
    assert first.n == again.n == 29
    assert list(first.unreadable) == list(again.unreadable) == ["003.png"]


def test_slow_folders_are_told_of_packs(fill, monkeypatch):
    root = fill(n=4)
    monkeypatch.setattr("invariance.data._load.SLOW_SECONDS", 0)  # or it takes seconds
    assert f"'invariance pack {root} --image-size 32'" in storage_notes(load(root))
    pack(root)
    assert "invariance pack" not in storage_notes(load(root))


def test_many_images_are_shared_out_to_processes(fill, monkeypatch):
    root = fill("a", "b", n=20)
    (root / "a" / "007.png").write_bytes(b"no image")
    alone = load(root, split="all", image_size=8)
    monkeypatch.setattr("invariance.data._one_pass.START_SECONDS", 0)
    monkeypatch.setattr("invariance.data._workers.MOST_IN_A_PIECE", 3)
    together = load(root, split="all", image_size=8)
    assert together.samples.equal(alone.samples)
    assert together.labels.equal(alone.labels)
    assert together.unreadable == alone.unreadable
    monkeypatch.setattr("sys.platform", "elsewhere")  # then threads do it
    assert load(root, split="all", image_size=8).samples.equal(alone.samples)


def test_little_memory_means_fewer_workers(fill, monkeypatch):
    root = fill(n=4)
    how = {"storage": "streamed", "image_size": 8, "workers": 2}
    assert load(root, **how).workers == 2
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 64}))
    source = load(root, **how)
    assert source.workers == 1
    assert "1 process instead of 2 will read the data" in storage_notes(source)
    room = type("Usage", (), {"free": 600_000})
    monkeypatch.setattr("shutil.disk_usage", lambda _: room)
    source = load(root, **how | {"workers": 8})
    assert "3 processes instead of 8 will read the data" in storage_notes(source)


def test_workers_that_would_read_nothing_are_told(fill):
    source = load(fill(n=4), image_size=8, workers=1)
    assert "workers=1 changes nothing" in storage_notes(source)
    assert "workers" not in storage_notes(load(fill(n=4), image_size=8))


def test_more_workers_than_cores_are_no_warning(fill, recwarn):
    most = 8 * usable_cores()
    source = load(fill(n=4), storage="streamed", image_size=8, workers=most)
    assert len(pixels(source)) == 4
    assert not [w for w in recwarn if "DataLoader" in str(w.message)]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("DataLoader worker (pid 9) is killed by signal: Killed."),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        EOFError(),
        RuntimeError("Pin memory thread exited unexpectedly"),
    ],
    ids=["noticed", "while it sends", "before it sends", "on its way to a GPU"],
)
def test_a_reading_process_that_was_killed_ends_in_a_sentence(fill, monkeypatch, error):
    def fail(*_, **__):
        raise error
        yield

    source = load(fill(n=4), storage="streamed", image_size=8, workers=1)
    monkeypatch.setattr("torch.utils.data.DataLoader", fail)
    with pytest.raises(DataError, match=r"killed, .* fewer --workers"):
        pixels(source)


def test_a_killed_process_disturbs_nothing_but_the_reading(fill):
    source = load(fill(n=12), storage="streamed", image_size=8, workers=1)
    batches = source.batches(torch.arange(12).repeat(400).split(2))
    assert len(next(batches)) == 2
    (reader,) = multiprocessing.active_children()
    os.kill(reader.pid, signal.SIGKILL)
    time.sleep(0.5)  # whatever is being done meanwhile
    with pytest.raises(DataError, match="was killed"):
        list(batches)


def test_shared_memory_without_room_ends_in_a_sentence(fill, monkeypatch):
    def fail(_):
        raise RuntimeError("unable to allocate shared memory(shm)")

    source = load(fill(n=4), storage="streamed", image_size=8, workers=1)
    monkeypatch.setattr("torch.Tensor.share_memory_", fail)  # forked workers have it
    with pytest.raises(DataError, match=r"no room in /dev/shm, .* --workers 0"):
        pixels(source)
    alone = load(fill(n=4), storage="streamed", image_size=8, workers=0)
    assert len(pixels(alone)) == 4


@pytest.mark.parametrize("workers", [0, 2])
def test_streamed_batches_of_any_size_come_whole(fill, monkeypatch, workers):
    root = fill(n=11)
    resident = load(root, image_size=8)
    monkeypatch.setattr("invariance.data._workers.MOST_IN_A_PIECE", 3)
    streamed = load(root, image_size=8, storage="streamed", workers=workers)
    index = torch.randperm(11).split([1, 3, 7])
    for a, b in zip(streamed.batches(index), resident.batches(index), strict=True):
        assert a.equal(b)
    assert list(streamed.batches([])) == []
