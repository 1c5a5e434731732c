"""Shards of a large set on machines of their own, and one file made of the parts."""

import shutil

import pytest
from PIL import Image

import invariance as inv
from invariance.errors import DataError, SettingError

BATCH = 4
N = 3


@pytest.fixture
def embed(run, photos, tmp_path):
    """The second of three shards of the photos, unless another is asked for."""

    def write(name, shard=None, data=photos, encoder=run, **how):
        how = {"batch_size": BATCH} | how
        return inv.write_embeddings(
            encoder, data, tmp_path / name, shard=shard, **how
        ).path

    return write


@pytest.fixture
def parts(embed):
    return [embed(f"p{k}.npz", f"{k}/{N}") for k in range(1, N + 1)]


@pytest.mark.parametrize("ending", [".npz", ".parquet", ".csv"])
@pytest.mark.parametrize("of_parts", [".npz", ".parquet"])
def test_merged_parts_are_the_file_of_one_process_to_the_bit(
    ending, of_parts, embed, tmp_path
):
    parts = [embed(f"p{k}{of_parts}", f"{k}/{N}") for k in (3, 1, 2)]
    whole = embed(f"whole{ending}")
    done = inv.merge_embeddings(parts, tmp_path / f"merged{ending}")
    assert done.path.read_bytes() == whole.read_bytes()
    assert done.n == 20 and len(done.unreadable) == 3


def test_every_image_is_in_one_shard_in_whole_batches(embed, pixels):
    for n_shards in (1, 4, 10):
        names = []
        for k in range(1, n_shards + 1):
            part = inv.read_embeddings(
                embed(f"{k}-{n_shards}.npz", f"{k}/{n_shards}", data=pixels)
            )
            assert len(part) % BATCH == 0 and len(part) > 0
            names += part.names
        assert names == [str(i) for i in range(40)]


def test_a_part_is_a_file_like_any_other(parts, run, photos):
    part = inv.read_embeddings(parts[0])
    assert len(part) == 8 and part.class_names == ("cat", "dog")
    result = inv.search(run, parts[0], photos / "cat/0.png", k=1)
    assert result.neighbors[0].hits[0].name == "cat/0.png"
    assert "shard 1/3" in " ".join(result.notes)


@pytest.mark.parametrize(
    "shard, message",
    [
        ("0/3", "counted from 1"),
        ("4/3", "counted from 1"),
        ("2", "such as 2/8: got '2'"),
        ("a/b", "such as 2/8"),
        ("-1/3", "such as 2/8"),
        ("1/", "such as 2/8"),
        ("1/99", "too few for 99 shards"),
    ],
)
def test_other_shards_are_refused(shard, message, embed, tmp_path):
    with pytest.raises(SettingError, match=message):
        embed("p.npz", shard)
    assert not (tmp_path / "p.npz.part").exists()


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-40])


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 1
    path.write_bytes(content)


def leave_unfinished(path):
    path.unlink()
    path.with_name(path.name + ".part").mkdir()


@pytest.mark.parametrize("ending", [".npz", ".parquet"])
@pytest.mark.parametrize(
    "spoil, message",
    [
        (cut_short, r"p2.*(not a file of embeddings|cannot be read)"),
        (flip_a_bit, r"p2.*damaged or was not copied whole"),
        (leave_unfinished, r"part 'p2\..*' is not finished"),
        (lambda path: path.unlink(), "There is no file of embeddings at .*p2"),
    ],
)
def test_a_part_that_is_not_whole_is_named(ending, spoil, message, embed, tmp_path):
    parts = [embed(f"p{k}{ending}", f"{k}/{N}") for k in range(1, N + 1)]
    spoil(parts[1])
    with pytest.raises(DataError, match=message):
        inv.merge_embeddings(parts, tmp_path / "merged.npz")
    assert not (tmp_path / "merged.npz").exists()


def test_parts_that_do_not_make_up_a_whole_are_refused(
    parts, embed, other_run, photos, tmp_path
):
    def merge(*some):
        inv.merge_embeddings(some, tmp_path / "merged.npz")

    one, two, three = parts
    with pytest.raises(DataError, match="Shard 2 of 3 is missing"):
        merge(one, three)
    with pytest.raises(DataError, match="Shards 1 and 3 of 3 are missing"):
        merge(two)
    twin = embed("twin.npz", "2/3")
    with pytest.raises(DataError, match=r"p2\.npz' and .*twin\.npz' are both shard 2"):
        merge(one, two, twin, three)
    with pytest.raises(DataError, match=r"'.*whole\.npz' is not a part"):
        merge(one, two, embed("whole.npz"))
    with pytest.raises(DataError, match="differ in their encoder"):
        merge(one, two, embed("e3.npz", "3/3", encoder=other_run))
    with pytest.raises(DataError, match=r"differ in their batch size \(4 and 2\)"):
        merge(one, two, embed("b3.npz", "3/3", batch_size=2))
    with pytest.raises(DataError, match=r"differ in their number of shards \(3 and 4"):
        merge(one, two, embed("c4.npz", "4/4"))
    with pytest.raises(DataError, match=r"differ in their limit \(None and 20\)"):
        merge(one, two, embed("l3.npz", "3/3", limit=20))
    (photos / "dog/z.png").write_bytes((photos / "cat/0.png").read_bytes())
    (photos / "dog/zz.png").write_bytes((photos / "cat/0.png").read_bytes())
    with pytest.raises(DataError, match="differ in their data"):
        merge(one, two, embed("d3.npz", "3/3"))
    with pytest.raises(SettingError, match="is one of the parts"):
        inv.merge_embeddings(parts, one, overwrite=True)
    with pytest.raises(SettingError, match="Name the parts"):
        merge()
    inv.merge_embeddings(parts, tmp_path / "merged.npz")
    with pytest.raises(DataError, match="exists already"):
        inv.merge_embeddings(parts, tmp_path / "merged.npz")
    inv.merge_embeddings(parts, tmp_path / "merged.npz", overwrite=True)


def test_the_same_data_elsewhere_with_other_dates_are_the_same(
    parts, embed, photos, tmp_path
):
    shutil.copytree(photos, tmp_path / "elsewhere", copy_function=shutil.copyfile)
    there = embed("there.npz", "3/3", data=tmp_path / "elsewhere")
    whole = embed("whole.npz")
    done = inv.merge_embeddings([*parts[:2], there], tmp_path / "merged.npz")
    assert done.path.read_bytes() == whole.read_bytes()


@pytest.fixture
def half_broken(tmp_path, pixels):
    """60 images, the last 15 of which are broken: a fifth of all, half of a third."""
    folder = tmp_path / "half"
    folder.mkdir()
    for k in range(60):
        Image.fromarray(pixels[k % 40]).save(folder / f"{k:02}.png")
        if k >= 45:
            whole = (folder / f"{k:02}.png").read_bytes()
            (folder / f"{k:02}.png").write_bytes(whole[:-90])
    return folder


def test_the_unreadable_count_over_all_parts(half_broken, embed, tmp_path):
    how = {"data": half_broken, "max_bad_fraction": 0.3}
    parts = [embed(f"p{k}.npz", f"{k}/3", **how) for k in (1, 2, 3)]
    done = inv.merge_embeddings(parts, tmp_path / "merged.npz")
    assert done.n == 45 and len(done.unreadable) == 15
    whole = embed("whole.npz", **how)
    assert done.path.read_bytes() == whole.read_bytes()
    with pytest.raises(DataError, match=r"15 of the 60 images of half .*=0.1 allows"):
        inv.merge_embeddings(parts, tmp_path / "m.npz", max_bad_fraction=0.1)
    with pytest.raises(DataError, match="cannot be read, more than"):
        embed("few.npz", "3/3", data=half_broken, max_bad_fraction=0.1)


def test_a_shard_without_any_readable_image_is_refused(tmp_path, embed, pixels):
    folder = tmp_path / "gone"
    folder.mkdir()
    for k in range(100):
        Image.fromarray(pixels[k % 40]).save(folder / f"{k:03}.png")
        if k < 20:
            whole = (folder / f"{k:03}.png").read_bytes()
            (folder / f"{k:03}.png").write_bytes(whole[:-90])
    with pytest.raises(DataError, match="None of the 20 images of shard 1/5"):
        embed("p.npz", "1/5", data=folder, max_bad_fraction=0.5)


def test_labels_of_one_part_are_labels_of_the_whole(run, pixels, embed, tmp_path):
    labels = [None] * 30 + [0, 1] * 5
    data = list(zip(pixels, labels, strict=True))
    parts = [embed(f"p{k}.parquet", f"{k}/2", data=data) for k in (1, 2)]
    assert inv.read_embeddings(parts[0]).labels is None
    done = inv.merge_embeddings(parts, tmp_path / "merged.parquet")
    assert done.path.read_bytes() == embed("whole.parquet", data=data).read_bytes()
    assert inv.read_embeddings(done.path).labels.tolist() == [-1] * 30 + [0, 1] * 5


def test_a_part_that_was_interrupted_goes_on(embed, parts, run, tmp_path):
    """Of its own shard alone; another shard under its name is refused."""
    encoder, calls = inv.load(run), []

    def interrupt(*_):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    encoder.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        embed("again.npz", "2/3", encoder=encoder)
    with pytest.raises(DataError, match="is not finished: give its command again"):
        inv.merge_embeddings([tmp_path / "again.npz"], tmp_path / "m.npz")
    with pytest.raises(DataError, match="an unfinished job with another shard"):
        embed("again.npz", "3/3")
    assert embed("again.npz", "2/3").read_bytes() == parts[1].read_bytes()
