"""Rows of a network that has diverged: every way to a loss says so in words."""

import pytest
import torch

import invariance as inv

HUGE = torch.linspace(1, 2, 12).view(4, 3) * 1e25  # their products are no float32
PAIRS = ("info_nce", "sig_lip", "binary_nce", "jsd", "dv", "flo", "align_uniform")


@pytest.mark.parametrize("way", ["forward", "terms"])
@pytest.mark.parametrize("name", PAIRS)
def test_a_class_refuses_rows_that_its_function_refuses(name, way):
    with pytest.raises(inv.InvarianceError, match="beyond what"):
        getattr(inv, name)(HUGE, HUGE, normalize=False)
    objective = inv.OBJECTIVES[name](normalize=False)
    with pytest.raises(inv.InvarianceError, match=f"{type(objective).__name__}|{name}"):
        getattr(objective, way)(HUGE, HUGE)


def test_parts_of_vicreg_beyond_float32_are_refused():
    with pytest.raises(inv.InvarianceError, match="beyond what"):
        inv.VICReg().terms(HUGE, -HUGE)


def test_binary_nce_keeps_no_constant_of_rows_that_it_refuses():
    objective = inv.BinaryNCE(normalize=False)
    with pytest.raises(inv.InvarianceError, match="beyond what"):
        objective(HUGE, HUGE)
    assert objective.log_z.isnan()
    rows = torch.eye(4, 3)
    assert objective(rows, rows).isfinite()


@pytest.mark.parametrize("name", ["binary_nce", "multi_view", "sup_con"])
def test_anchors_beyond_float32_are_refused_against_a_queue_too(name):
    objective, ids = inv.OBJECTIVES[name](normalize=False), torch.arange(4)
    queue = inv.Queue(8, width=3)
    queue.remember(torch.eye(8, 3), torch.arange(8) + 90)
    anchors = torch.stack([HUGE, -HUGE]) if name == "multi_view" else HUGE
    positives = -HUGE if name == "binary_nce" else None
    labels = ids // 2 if name == "sup_con" else ids
    with pytest.raises(inv.InvarianceError, match="beyond what"):
        objective.against(anchors, positives, queue, labels)
