"""Sequences: recordings of every format, cut into windows, held out whole."""

import builtins
import pickle

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
import soundfile
import torch
from PIL import Image

import invariance as inv
from invariance.data import load
from invariance.errors import DataError, InvarianceError, SettingError

RATE = 8000


@pytest.fixture
def noise():
    return np.random.default_rng(0)


def write_audio(path, values, rate=RATE):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, values, rate)


def read(data, **settings):
    return load(data, kind="sequence", **{"split": "all", **settings})


def first_batch(source):
    (batch,) = source.batches([torch.arange(len(source))])
    return batch


def notes_of(source):
    return " ".join(map(str, source.notes))


# ---- formats -------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(100,), (100, 3)])
def test_one_series_in_an_npy_file(tmp_path, noise, shape):
    values = noise.normal(size=shape)
    np.save(tmp_path / "x.npy", values)
    source = read(tmp_path / "x.npy", window=20)
    channels = 1 if len(shape) == 1 else 3
    assert source.shape == (channels, 20) and len(source) == 5
    batch = first_batch(source)
    assert batch.dtype == torch.float32
    expected = torch.tensor(values.reshape(100, -1)).float().T
    torch.testing.assert_close(torch.cat([*batch], 1), expected)
    assert source.paths[1] == "x.npy@20"


def test_many_sequences_of_one_length_are_windows_as_they_come(tmp_path, noise):
    values = noise.normal(size=(6, 50, 2)).astype(np.float32)
    np.save(tmp_path / "x.npy", values)
    source = read(tmp_path / "x.npy")
    assert source.shape == (2, 50) and len(source) == 6 and source.labels is None
    torch.testing.assert_close(
        first_batch(source), torch.tensor(values).transpose(1, 2)
    )
    np.savez(tmp_path / "x.npz", x=values, y=np.array(["a", "b"] * 3))
    source = read(tmp_path / "x.npz")
    assert source.class_names == ("a", "b") and source.labels.tolist() == [0, 1] * 3
    np.savez(tmp_path / "two.npz", morning=values[0], evening=values[1, :30])
    assert len(read(tmp_path / "two.npz", window=25)) == 2 + 2


def test_columns_of_a_table_are_channels(tmp_path, noise):
    a, b = noise.normal(size=(2, 60))
    columns = {
        "Time": np.arange(60) * 0.5,
        "a": a,
        "b": b,
        "who": ["x"] * 60,
        "state": np.repeat([7, 8, 9], 20),
    }
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "x.csv")
    for name in ("x.parquet", "x.csv"):
        source = read(tmp_path / name, window=20)
        assert source.kind.channel_names == ("a", "b") and source.shape == (2, 20)
        assert source.class_names == ("7", "8", "9")
        assert source.labels.tolist() == [0, 1, 2]  # at the end of each window
        assert "columns without numbers were left out (who)" in notes_of(source)
        torch.testing.assert_close(
            first_batch(source)[0, 0], torch.tensor(a[:20]).float()
        )


def test_a_column_of_times_may_be_told(tmp_path):
    rows = "\n".join(f"{k},{k * k % 7}" for k in range(40))
    (tmp_path / "x.csv").write_text(f"tick,value\n{rows}\n")
    assert read(tmp_path / "x.csv", window=10).shape == (2, 10)
    source = read(tmp_path / "x.csv", window=10, time_column="tick")
    assert source.kind.channel_names == ("value",)
    again = load(tmp_path / "x.csv", split="all", kind=source.kind)
    assert again.kind == source.kind
    with pytest.raises(
        DataError, match="no column 'tock' of times: it has tick, value"
    ):
        read(tmp_path / "x.csv", time_column="tock")


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg"])
def test_audio(tmp_path, noise, suffix):
    values = 0.1 * noise.normal(size=(RATE, 2)).clip(-3, 3)
    write_audio(tmp_path / f"x.{suffix}", values)
    source = load(tmp_path / f"x.{suffix}", split="all", window=1000)
    assert source.kind.rate == RATE and source.shape == (2, 1000) and len(source) == 8
    if suffix != "ogg":  # which is lossy
        torch.testing.assert_close(
            first_batch(source)[2],
            torch.tensor(values[2000:3000]).float().T,
            atol=1e-4,
            rtol=0,
        )
    assert source.kind.encoder == "cpc_audio"


def test_class_folders_of_audio_are_labels_and_files_are_held_out_whole(
    tmp_path, noise
):
    for k in range(20):
        name = tmp_path / ("low", "high")[k % 2] / f"{k}.wav"
        write_audio(name, 0.1 * noise.normal(size=900 + 10 * k))
    how = {"kind": "sequence", "window": 200, "stride": 100}
    train, test = (load(tmp_path, split=split, **how) for split in ("train", "test"))
    files = [{path.rpartition("@")[0] for path in x.paths} for x in (train, test)]
    assert len(files[0]) + len(files[1]) == 20 and not files[0] & files[1] and files[1]
    assert train.class_names == ("high", "low") == test.class_names
    assert train.origin.n_held_out == len(test) and not train.origin.own_test
    labels = [train.class_names[k] for k in train.labels]
    assert labels == [path.partition("/")[0] for path in train.paths]
    assert load(tmp_path, split="test", kind=train.kind).kind == train.kind


@pytest.mark.parametrize("hold_out", ["auto", "tenth", "nothing"])
def test_a_test_folder_is_the_test_part(tmp_path, noise, hold_out):
    for name in ("train/a", "train/b", "test/c"):
        path = tmp_path / f"{name}.npy"
        path.parent.mkdir(exist_ok=True)
        np.save(path, noise.normal(size=64))
    how = {"kind": "sequence", "window": 32, "hold_out": hold_out}
    source = load(tmp_path, split="test", **how)
    assert source.paths == ("test/c.npy@0", "test/c.npy@32") and source.origin.own_test
    train = load(tmp_path, split="train", **how)
    assert not {*train.paths} & {*source.paths} and len(train) == 4


def test_arrays_from_python(noise):
    values = noise.normal(size=(10, 40, 3))
    assert read(values).shape == read(torch.tensor(values)).shape == (3, 40)
    source = read((values, np.arange(10) % 2))
    assert source.labels.tolist() == [0, 1] * 5
    source = read(([values[0], values[1, :20]], [4, 6]), window=10)
    assert source.labels.tolist() == [0] * 4 + [1] * 2
    with pytest.raises(DataError, match="2 sequences and 1 labels"):
        read(([values[0], values[1]], [4]))


# ---- windows and parts ---------------------------------------------------------------


def test_of_one_recording_the_last_tenth_is_held_out_behind_a_gap(noise):
    values = np.arange(1000.0)
    how = {"kind": "sequence", "window": 40, "stride": 10}
    train, test = (load(values, split=split, **how) for split in ("train", "test"))
    assert first_batch(train).max() < 900 - 40 and first_batch(test).min() == 900
    assert first_batch(test).max() == 999 and train.origin.n_held_out == len(test) == 7
    assert train.targets is None  # held out all the same, to predict ahead
    assert load(values, hold_out="nothing", **how).origin.n_held_out == 0


def test_nothing_at_the_end_is_lost():
    source = read(np.arange(105.0), window=20)
    assert first_batch(source)[-1, 0].tolist() == list(range(85, 105))


def test_streamed_windows_are_the_resident_ones(tmp_path, noise):
    np.save(tmp_path / "x.npy", noise.normal(size=(500, 2)))
    for k in range(3):
        write_audio(tmp_path / f"audio/{k}.wav", 0.1 * noise.normal(size=900))
    for data in (tmp_path / "x.npy", tmp_path / "audio"):
        resident = read(data, window=50)
        for workers in (0, 1):
            streamed = read(data, window=50, storage="streamed", workers=workers)
            assert torch.equal(first_batch(streamed), first_batch(resident))


def test_a_mapped_file_travels_as_its_name(tmp_path, noise):
    np.save(tmp_path / "x.npy", noise.normal(size=(4, 5000, 2)))
    source = read(tmp_path / "x.npy", window=100, storage="streamed", workers=0)
    packed = pickle.dumps(source.items)
    assert len(packed) < 50_000
    torch.testing.assert_close(pickle.loads(packed).read(7), source.items.read(7))


@pytest.mark.parametrize(
    "times",
    [
        [f"2024-01-{k + 1:02d}" for k in range(20)],
        [f"00:00:{k:02d}" for k in range(20)],
        [f"2024-01-01 00:00:{k:02d}" for k in range(20)],
        [f"2024-01-01T00:00:{k:02d}+01:00" for k in range(20)],
    ],
)
def test_times_may_be_days_times_of_day_or_both(tmp_path, times):
    rows = "\n".join(f"{time},{k * k}" for k, time in enumerate(times))
    (tmp_path / "x.csv").write_text(f"date,a\n{rows}\n")
    source = read(tmp_path / "x.csv", window=10)
    assert source.shape == (1, 10) and "left out" not in notes_of(source)


def test_semicolons_may_part_the_cells_of_a_series(tmp_path):
    rows = "\n".join(f"{k};{k * k},5" for k in range(20))
    (tmp_path / "x.csv").write_text(f"time;größe\n{rows}\n", encoding="utf-8")
    source = read(tmp_path / "x.csv", window=20)
    assert source.kind.channel_names == ("größe",)
    assert first_batch(source)[0, 0].tolist() == [k * k + 0.5 for k in range(20)]


@pytest.mark.parametrize("names", [("1", "2"), ("walk", "run")])
def test_a_window_without_a_label_is_left_out_where_labels_count(tmp_path, names):
    labels = ["" if 20 <= k < 30 else names[k >= 50] for k in range(100)]
    rows = "\n".join(f"{k * k},{label}" for k, label in enumerate(labels))
    (tmp_path / "x.csv").write_text(f"a,state\n{rows}\n")
    source = read(tmp_path / "x.csv", window=10, split="train", hold_out="nothing")
    assert source.class_names == tuple(sorted(names)) and len(source) == 9
    assert "1 window was left out without a label" in notes_of(source)
    whole = read(tmp_path / "x.csv", window=10)
    assert len(whole) == 10 and whole.labels.tolist().count(inv.data.NO_LABEL) == 1
    assert len(read(tmp_path / "x.csv", window=10, split="train", labels=False)) == 8


def test_labels_of_words_and_of_numbers_beside_each_other(tmp_path):
    for name, label in (("a", "7"), ("b", "x")):
        rows = "\n".join(f"{k * k},{label}" for k in range(20))
        (tmp_path / f"{name}.csv").write_text(f"a,label\n{rows}\n")
    assert read(tmp_path, window=10).class_names == ("7", "x")


# ---- what is wrong is said -----------------------------------------------------------


def test_a_word_in_a_column_of_numbers_is_named(tmp_path):
    rows = "\n".join(f"{i},{'oops' if i == 7 else i * i}" for i in range(40))
    (tmp_path / "x.csv").write_text(f"a,b\n{rows}\n")
    with pytest.raises(DataError, match=r"'oops' .* in row 8 of the column 'b'"):
        read(tmp_path / "x.csv", window=10)


def test_a_table_that_is_no_utf_8_or_has_one_name_twice(tmp_path):
    rows = "\n".join(f"{k},{k * k}" for k in range(20))
    (tmp_path / "x.csv").write_text(f"größe,b\n{rows}\n", encoding="latin-1")
    with pytest.raises(DataError, match=r"not written in UTF-8: save it as UTF-8\.$"):
        read(tmp_path / "x.csv", window=10)
    (tmp_path / "x.csv").write_text(f"a,a\n{rows}\n")
    with pytest.raises(DataError, match=r"several columns are called 'a'"):
        read(tmp_path / "x.csv", window=10)


def test_short_recordings_are_left_out_by_name(noise):
    values = [noise.normal(size=n) for n in (100, 30, 80)]
    source = read(values, window=50)
    assert "[1]" in notes_of(source) and "30 values, shorter than" in notes_of(source)
    with pytest.raises(
        DataError, match=r"the longest has 100\. Use --window 100 or less"
    ):
        read(values, window=200)


def test_windows_with_nan_are_left_out_and_named(noise):
    values = noise.normal(size=(1000, 2))
    values[250, 1] = np.nan
    source = read(values, window=20)
    assert len(source) == 49
    assert "array@240 (1 of its values is NaN or infinite)" in notes_of(source)
    with pytest.raises(DataError, match="NaN"):
        read(np.full((200, 2), np.nan), window=20)


def test_channels_that_never_change_are_named(tmp_path, noise):
    values = noise.normal(size=(200, 3))
    values[:, 1] = 4.0
    assert "Nothing ever changes in channel 1" in notes_of(read(values, window=20))
    with pytest.raises(DataError, match="No channel of these recordings ever changes"):
        read(np.ones((200, 2)), window=20)


def test_mixed_rates_and_channels_are_refused(tmp_path, noise):
    write_audio(tmp_path / "a.wav", 0.1 * noise.normal(size=500))
    write_audio(tmp_path / "b.wav", 0.1 * noise.normal(size=500), rate=2 * RATE)
    with pytest.raises(DataError, match=r"one sampling rate.*8000 \(1, as a.wav\)"):
        read(tmp_path)
    with pytest.raises(DataError, match="one number of channels"):
        read([noise.normal(size=(50, 2)), noise.normal(size=(50, 3))])


def test_broken_and_empty_files(tmp_path, noise):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "head.csv").write_text("a,b\n")
    (tmp_path / "words.csv").write_text("a\nx\n")
    (tmp_path / "noise.wav").write_bytes(b"not audio")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n3\n")
    np.save(tmp_path / "objects.npy", np.array(["a", "b"]))
    with pytest.raises(DataError, match="no recording that can be used"):
        read(tmp_path)
    np.save(tmp_path / "fine.npy", noise.normal(size=300))
    source = read(tmp_path, window=50)
    assert len(source) == 6 and len(source.unreadable) == 6
    assert source.unreadable["empty.csv"] == "an empty file"
    assert source.unreadable["head.csv"] == "no rows"
    assert "6 unreadable recordings were left out" in notes_of(source)
    assert source.unreadable["words.csv"] == "no column of numbers"
    assert "no audio" in source.unreadable["noise.wav"]
    with pytest.raises(DataError, match=r"head.csv' cannot be read as sequences: no"):
        read(tmp_path / "head.csv")
    (tmp_path / "text.txt").write_text("x")
    with pytest.raises(DataError, match="expected a folder of recordings"):
        read(tmp_path / "text.txt")


def test_times_that_go_back_or_jump(tmp_path):
    (tmp_path / "back.csv").write_text("time,a\n0,1\n2,2\n1,3\n")
    with pytest.raises(
        DataError, match="times do not increase at row 3: sort the rows"
    ):
        read(tmp_path / "back.csv", window=2)
    rows = "\n".join(f"{k + 50 * (k > 5)},{k % 3}" for k in range(20))
    (tmp_path / "jump.csv").write_text(f"time,a\n{rows}\n")
    assert "unevenly spaced" in notes_of(read(tmp_path / "jump.csv", window=5))


def test_without_soundfile_audio_is_answered_in_a_sentence(
    tmp_path, noise, monkeypatch
):
    write_audio(tmp_path / "a.wav", noise.normal(size=50))
    real = builtins.__import__

    def without(name, *rest):
        if name == "soundfile":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DataError, match=r"pip install 'invariance\[audio\]'"):
        read(tmp_path / "a.wav")


@pytest.mark.parametrize(
    "data, settings, message",
    [
        (np.zeros((2, 2, 2, 2)), {}, "shape .2, 2, 2, 2.: sequences are"),
        (np.zeros(0), {}, "sequences are"),
        (np.arange(50.0), {"window": 10, "stride": 11}, "--stride of 10 or less"),
        (np.arange(50.0), {"window": 1}, "window"),
        (np.arange(50.0), {"window": 50, "split": "test"}, "has no test part"),
        ("latent_walk", {"stride": 5}, "is one window"),
    ],
)
def test_what_is_refused(data, settings, message):
    with pytest.raises((DataError, SettingError, InvarianceError), match=message):
        read(data, **settings)


@pytest.mark.parametrize("captions", [False, True])
def test_windows_make_no_sequence_of_images(tmp_path, captions):
    for k in range(3):
        Image.new("RGB", (9, 9)).save(tmp_path / f"{k}.png")
    rows = "".join(f"{k}.png,number {k}\n" for k in range(3))
    (tmp_path / "captions.csv").write_text(f"image,caption\n{rows}")
    with pytest.raises(SettingError, match=r"window is for .* has images: leave"):
        load(tmp_path, window=16, captions=captions)


# ---- the generated set ---------------------------------------------------------------


def test_the_generated_walk_has_labels_that_can_be_filtered():
    train, test = (load("latent_walk", n=300, split=s) for s in ("train", "test"))
    assert (
        train.shape == (4, 128) and len(test) == 300 and train.kind.name == "sequence"
    )
    assert not torch.equal(first_batch(train), first_batch(test))
    beliefs = inv.data.filter_states(first_batch(test))[:, -1]
    assert (beliefs.argmax(1) == test.labels).float().mean() > 0.8
    torch.testing.assert_close(beliefs.sum(1), torch.ones(300, dtype=torch.float64))


def test_its_information_falls_with_the_steps_and_is_below_what_states_hold():
    pairs = inv.data.information_ahead(4, n=600)
    nats = [value for value, _ in pairs]
    assert nats == sorted(nats, reverse=True) and 0 < nats[-1] < nats[0] < np.log(8)
    assert all(0 < error < 0.05 for _, error in pairs)


def test_plain_features_and_pictures():
    source = load("latent_walk", n=4)
    windows = first_batch(source)
    plain = source.kind.plain(windows)
    assert plain.shape == (4, 4 * 128 + 3 * 4)
    torch.testing.assert_close(plain[:, -12:-8], windows.mean(2))
    assert source.kind.show(windows[0]).size == (128, 128)
    assert len(source.kind.show(windows[0]).getcolors()) > 3


def test_a_query_is_the_end_of_a_recording(tmp_path, noise):
    kind = read(noise.normal(size=(200, 2)), window=50).kind
    values = noise.normal(size=(80, 2))
    np.save(tmp_path / "q.npy", values)
    name, raw = kind.open(str(tmp_path / "q.npy"))
    assert name.endswith("q.npy")
    torch.testing.assert_close(kind.read(raw), torch.tensor(values[30:]).float().T)
    assert kind.open(values)[1] is values
    with pytest.raises(DataError, match=r"none.npy' cannot be read as a recording"):
        kind.open(str(tmp_path / "none.npy"))
    np.save(tmp_path / "two.npy", noise.normal(size=(2, 80, 2)))
    with pytest.raises(DataError, match="2 recordings, but a query is one"):
        kind.open(str(tmp_path / "two.npy"))


def test_a_query_of_another_sampling_rate_is_refused(tmp_path, noise):
    write_audio(tmp_path / "slow.wav", 0.1 * noise.normal(size=900))
    write_audio(tmp_path / "fast.wav", 0.1 * noise.normal(size=900), rate=2 * RATE)
    kind = read(tmp_path / "slow.wav", window=50).kind
    assert len(kind.open(tmp_path / "slow.wav")[1]) == 50
    with pytest.raises(DataError, match=r"16,000 values per second, and 8,000 are nee"):
        kind.open(tmp_path / "fast.wav")
    with pytest.raises(DataError, match=r"50 or more of 1 channel\)?\.?$"):
        kind.read(noise.normal(size=(80, 2)))
