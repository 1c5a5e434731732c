"""Every picture once, in order; the broken are left out and not replaced."""

import numpy as np
import pytest
import torch
from PIL import Image

from invariance.data import load, one_pass, row_names


@pytest.fixture
def items(tmp_path):
    """Ten pictures, each of one grey, of which two are cut short."""
    for k in range(10):
        path = tmp_path / f"{k}.png"
        noise = np.random.default_rng(k).integers(0, 9, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(noise + 20 * np.uint8(k)).save(path)
        if k in (3, 7):
            path.write_bytes(path.read_bytes()[:-300])
    return load(tmp_path, split="all", image_size=16, storage="streamed").items


@pytest.mark.parametrize("workers", [0, 2])
def test_the_broken_are_left_out(items, workers):
    batches = list(one_pass(items, batch_size=4, workers=workers))
    assert [(b.start, b.stop) for b in batches] == [(0, 4), (4, 8), (8, 10)]
    rows = torch.cat([b.rows for b in batches]).tolist()
    assert rows == [0, 1, 2, 4, 5, 6, 8, 9]
    images = torch.cat([b.samples for b in batches])
    assert (images.flatten(1).float().mean(1) // 20).tolist() == rows
    bad = {i: why for b in batches for i, why in b.unreadable.items()}
    assert set(bad) == {3, 7} and "truncated" in bad[3]


def test_it_goes_on_from_any_picture(items):
    (first, *_) = one_pass(items, start=6, batch_size=3)
    assert (first.start, first.stop, first.rows.tolist()) == (6, 9, [6, 8])


def test_nothing_is_drawn_from_the_global_generator(items):
    before = torch.get_rng_state()
    list(one_pass(items, workers=0))
    assert torch.equal(torch.get_rng_state(), before)


def test_names_are_those_of_the_whole(items):
    assert row_names(items) == tuple(f"{k}.png" for k in range(10))
    array = np.zeros((100, 16, 16), np.uint8)
    part = {"split": "test", "hold_out": "tenth", "storage": "streamed"}
    test, every = load(array, n=3, **part), load(array, **part)
    names = list(row_names(every.items))
    assert len(names) > 3 and set(row_names(test.items)) < set(names)
    assert names != [str(i) for i in range(len(names))]
