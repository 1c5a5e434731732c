import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from invariance.data import SHAPE_CLASSES, load, shapes
from invariance.data._drawing import uniform  # whose statistics no image shows
from invariance.errors import DataError


def test_the_same_arguments_give_the_same_pictures():
    a, labels = shapes(300, seed=3)
    b, _ = shapes(300, seed=3)
    assert torch.equal(a, b)
    assert labels.bincount().tolist() == [30] * 10
    assert not torch.equal(a, shapes(300, seed=4)[0])


def test_a_picture_depends_on_its_number_alone():
    long, _ = shapes(300)
    short, _ = shapes(7)
    assert torch.equal(long[:7], short)
    streamed = load("shapes", n=300, storage="streamed", workers=0)
    (some,) = streamed.batches([torch.tensor([299, 0, 150])])
    assert torch.equal(some, long[[299, 0, 150]])


def test_pictures_stay_as_they_are_across_versions():
    images, _ = shapes(10, image_size=32)
    means = images.double().mean((1, 2, 3)).round().int().tolist()
    assert means == [76, 170, 193, 61, 195, 103, 159, 95, 193, 70]


def test_train_and_test_share_no_picture():
    train, _ = shapes(500)
    test, _ = shapes(500, split="test")
    rows = {image.numpy().tobytes() for image in train}
    assert len(rows) == 500
    assert not rows & {image.numpy().tobytes() for image in test}


def test_all_is_train_then_test():
    both = load("shapes", split="all")
    assert len(both) == 7000
    (ends,) = both.batches([torch.tensor([0, 6000])])
    assert torch.equal(ends[0], shapes(1)[0][0])
    assert torch.equal(ends[1], shapes(1, split="test")[0][0])


def test_raw_pixels_do_not_reveal_the_class():
    def rows(n: int, split: str) -> tuple[np.ndarray, np.ndarray]:
        images, labels = shapes(n, split=split, image_size=16)
        return (images.float() / 255 - 0.5).flatten(1).numpy(), labels.numpy()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # twenty steps need not converge
        probe = LogisticRegression(max_iter=20).fit(*rows(2000, "train"))
    assert probe.score(*rows(1000, "test")) < 0.35


def test_each_class_has_the_same_mean_picture():
    images, labels = shapes(4000, image_size=16)
    means = torch.stack([images[labels == k].float().mean(0) for k in range(10)])
    assert (means - means.mean(0)).abs().max() < 25  # of 255; a silhouette is 100
    assert (means - means.mean(0)).abs().mean() < 6


def test_the_outline_is_readable():
    images, _ = shapes(200, image_size=24)
    grey = images.float().mean(1)
    spread = grey.flatten(1).quantile(0.95, 1) - grey.flatten(1).quantile(0.05, 1)
    assert spread.min() > 50


@pytest.mark.parametrize("size", [16, 48])
def test_sizes_and_channels(size):
    source = load("shapes", n=20, image_size=size, channels=1)
    assert source.shape == (1, size, size) and len(source) == 20
    assert source.class_names == SHAPE_CLASSES
    streamed = load("shapes", n=20, image_size=size, channels=1, storage="streamed")
    streamed.workers = 0
    every = [torch.arange(20)]
    assert torch.equal(next(source.batches(every)), next(streamed.batches(every)))


def test_too_small_to_be_told_apart():
    with pytest.raises(DataError, match="image_size of 8 or more: got 4"):
        shapes(10, image_size=4)


def test_the_dice_are_uniform_and_independent():
    dice = uniform(np.arange(4000), np.zeros(4000, int), 8, seed=0)
    assert abs(dice.mean() - 0.5) < 0.01 and abs(dice.var() - 1 / 12) < 0.002
    correlation = np.corrcoef(dice.T) - np.eye(8)
    assert np.abs(correlation).max() < 0.06


def test_negative_and_huge_seeds_work():
    assert shapes(2, seed=-1)[0].shape == shapes(2, seed=2**70)[0].shape
