"""What a source cannot do is said in words."""

import pytest
import torch

import invariance as inv
from invariance.errors import SettingError, ShapeError
from invariance.negatives import (
    AcceptanceNetwork,
    Accepted,
    Nearest,
    Prototypes,
    accept_similar,
    kmeans,
    stratified_partition,
)

pytestmark = pytest.mark.usefixtures("our_errors")

U, V, IDS = torch.eye(4, 8), torch.eye(4, 8), torch.arange(4)
LOSS = inv.InfoNCE()


def queue():
    source = inv.Queue(6, 8)
    source.remember(U, IDS)
    return source


def bank():
    return inv.Bank(10, 8)


@pytest.mark.parametrize(
    "wrong, message",
    [
        (
            lambda: inv.Queue(3, 8).remember(U, IDS),
            r"queue of 3 rows is shorter than the batch of 4.*Make it 4",
        ),
        (lambda: inv.Queue(0, 8), "needs room"),
        (lambda: inv.Queue(6.5, 8), "size and width are whole numbers: got 6.5"),
        (lambda: LOSS.against(U, None, queue(), IDS), "pass v"),
        (
            lambda: LOSS.against(U, None, bank(), IDS + 7),
            r"bank has 10 rows.*names sample 10.*size of the data set",
        ),
        (lambda: LOSS.against(U, None, bank(), IDS - 1), "names sample -1"),
        (lambda: bank().remember(U, IDS + 7), "size of the data set"),
        (lambda: inv.Bank(1, 8), "at least two samples"),
        (lambda: inv.Bank(10, 8, momentum=1.0), "from 0 to below 1: got 1.0"),
        (lambda: inv.Bank(10, 8, momentum=-0.1), "from 0 to below 1"),
        (lambda: inv.Bank(10, 8, n_draws=10), "9 negatives to draw from"),
        (lambda: inv.Bank(10, 8, n_draws=0), "9 negatives to draw from"),
        (
            lambda: inv.Ball(bank()),
            "k = 4096 is more than the 9 other rows of the bank: give fewer.* share",
        ),
        (lambda: inv.Ball(queue(), k=3), r"memory bank.*got Queue\. Pass an inv\.Bank"),
        (lambda: inv.Annulus("bank", inner=1, outer=3), "memory bank.*got str"),
        (lambda: inv.Ball(inv.Ball(bank(), k=3), k=2), "memory bank.*got Ball"),
        (lambda: inv.Ball(bank(), k=10), "k = 10 is more than the 9 other rows"),
        (lambda: inv.Ball(bank(), k=0), "at least one row"),
        (lambda: inv.Ball(bank(), share=0.01), "at least one row"),
        (lambda: inv.Ball(bank(), k=-1), "k is a number of rows: got -1"),
        (lambda: inv.Ball(bank(), k=0.1), "use share, between 0 and 1"),
        (lambda: inv.Ball(bank(), share=10), "share lies between 0 and 1: got 10"),
        (lambda: inv.Ball(bank(), k=3, share=0.1), "say the same thing twice"),
        (
            lambda: inv.Annulus(bank(), inner=5, outer=4),
            "inner rank 5 lies at or beyond its outer rank 4",
        ),
        (lambda: inv.Annulus(bank(), inner_share=0.5, outer_share=0.5), "at or beyond"),
        (
            lambda: inv.Annulus(bank(), inner=4, outer=6, outer_start=3),
            "beyond its outer rank 3",
        ),
        (lambda: inv.Annulus(bank(), inner=0, outer=11), "outer = 11 is more than"),
        (lambda: inv.Neighbors(bank(), k=20), "k = 20 is more than"),
        (lambda: inv.Neighbors(bank(), k=3, n_clusters=11), "2 to 10 clusters"),
        (lambda: inv.Neighbors(bank(), k=3, n_clusters=1), "2 to 10 clusters"),
        (
            lambda: inv.Neighbors(bank(), k=3, n_clusters=2, n_clusterings=0),
            "one clustering or more",
        ),
        (
            lambda: inv.Neighbors(bank(), k=3, n_clusters=2, warmup=1.5),
            "share of training",
        ),
        (lambda: Prototypes(bank(), n_clusters=11), "2 to 10 clusters"),
        (lambda: Prototypes(bank(), n_clusters=3, warmup=-1), "share of training"),
        (lambda: Accepted(bank(), n_proposals=0), "n_proposals must be at least 1"),
        (lambda: Nearest(floor=-0.1), "least probability of keeping"),
        (lambda: Nearest(share=1.5), "share lies between 0 and 1"),
        (lambda: AcceptanceNetwork(8, floor=0), "least probability of keeping"),
        (lambda: AcceptanceNetwork(8, rank=0), "rank must be at least 1"),
        (
            lambda: accept_similar(bank(), floor=0, weighted=True),
            "above 0 .there are no weights 1/0. up to 1: got 0",
        ),
        (
            lambda: accept_similar(bank(), share=0.1, min_similarity=0.3),
            "by rank, min_similarity and max_similarity by cosine: give one",
        ),
        (lambda: accept_similar(bank(), min_similarity=2), "a cosine, from -1 to 1"),
        (lambda: inv.Ball(bank(), min_similarity=1.2), "a cosine, from -1 to 1"),
        (
            lambda: inv.Ball(bank(), k=3, min_similarity=0.2),
            "k = 3 cuts by rank and min_similarity = 0.2 by cosine: give one of them",
        ),
        (
            lambda: inv.Annulus(bank(), inner=1, max_similarity=0.2),
            "inner = 1 cuts by rank and max_similarity = 0.2 by cosine",
        ),
        (
            lambda: inv.Annulus(bank(), outer_start=5, min_similarity=0.2),
            "outer_start = 5 cuts by rank and min_similarity = 0.2 by cosine",
        ),
        (
            lambda: inv.Annulus(bank(), min_similarity=0.3, max_similarity=0.3),
            "min_similarity = 0.3 lies at or above max_similarity = 0.3",
        ),
        (lambda: inv.Ball(bank(), min_similarity="0.2"), "must be a number: got '0.2'"),
        (lambda: inv.Queue("6", 8), "whole numbers: got '6' and 8"),
        (lambda: inv.Queue(True, 8), "whole numbers: got True and 8"),
        (lambda: inv.Bank("6", 8), "whole numbers: got '6', 8 and None"),
        (lambda: inv.Bank(6.5, 8), "whole numbers: got 6.5, 8 and None"),
        (lambda: inv.Bank(6, 8, n_draws="all"), "whole numbers: got 6, 8 and 'all'"),
        (lambda: inv.Bank(6, 8, momentum="high"), "momentum must be a number"),
        (lambda: LOSS.against(U, V, inv.Queue, IDS), "got the class Queue. Make one"),
        (lambda: kmeans(U, 5), "1 to 4 clusters of 4 rows"),
        (
            lambda: inv.BinaryNCE().against(U, None, inv.Ball(bank(), k=3), IDS),
            "from a queue or a bank",
        ),
    ],
)
def test_settings_that_cannot_be(wrong, message):
    with pytest.raises(SettingError, match=message):
        wrong()


@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda: LOSS.against(U, V, queue(), IDS.float()), r"one integer per sample"),
        (lambda: inv.Queue(6, 8).remember(U.numpy(), IDS), "z is a tensor.*ndarray"),
        (lambda: inv.Queue(6, 8).remember(U, [0, 1, 2, 3]), "ids is a tensor.*list"),
        (lambda: bank().remember(U, None), "ids is a tensor.*NoneType"),
        (lambda: LOSS.against(U, V, queue(), IDS[:2]), r"expected \(4,\), got \(2,\)"),
        (lambda: LOSS.against(U, V[:3], queue(), IDS), "one row per sample"),
        (lambda: LOSS.against(U[:, :5], V[:, :5], queue(), IDS), "width 8.*width 5"),
        (lambda: LOSS.against(U[:, :5], None, bank(), IDS), "width 8.*width 5"),
        (
            lambda: LOSS.against(U[:, :5], None, inv.Ball(bank(), k=2), IDS),
            "width 8.*width 5",
        ),
        (lambda: bank().remember(U[:, :5], IDS), "width 8.*width 5"),
        (lambda: inv.Queue(6, 8).remember(U, IDS.float()), "in whole numbers: got"),
        (
            lambda: stratified_partition(
                torch.zeros(2, 3), torch.tensor([0, 0, 2]), torch.full((3,), 1 / 3)
            ),
            r"3 strata needs at least one draw: they have \[2, 0, 1\]",
        ),
    ],
)
def test_shapes_that_do_not_fit(wrong, message):
    with pytest.raises(ShapeError, match=message):
        wrong()
