"""A warning names the caller's own line, whichever way the call took."""

import warnings
from functools import partial
from pathlib import Path

import pytest
import torch

import invariance as inv

Z = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(4)  # no two alike

CALLS = {
    "function": partial(inv.sup_con, Z, LABELS),
    "class": lambda: inv.SupCon()(Z, LABELS),
    "terms": lambda: inv.SupCon().terms(Z, LABELS),
    "against": lambda: inv.DCL().against(Z[:1], Z[1:2], filled_by(0), LABELS[:1]),
    "views": lambda: inv.MultiView("learned").against(
        torch.stack([Z[:2], Z[2:]]), None, filled_by(0), LABELS[:1].repeat(2)
    ),
}


def filled_by(sample):
    """A queue whose rows are all of one sample."""
    queue = inv.Queue(2, width=3)
    queue.remember(Z[:2], torch.full((2,), sample))
    return queue


@pytest.mark.parametrize("way", CALLS)
def test_a_warning_is_at_the_caller_s_line(way):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[way]()
    (place,) = {Path(w.filename) for w in caught}
    # this file, or that of the shape checks, which stand between where they are on
    assert place.is_relative_to(Path(__file__).parents[1])
