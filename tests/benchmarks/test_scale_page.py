"""The page about a million pairs: its tables, its traffic, and the ring behind it."""

import dataclasses
import doctest

import numpy as np
import pytest
import torch

import invariance as inv
import ring_simulation
import scale
from invariance.training import rehearse
from ring_simulation import gather_seconds, ring_seconds


def test_the_page_has_the_tables_that_the_code_prints():
    tables = scale.make_tables(scale.Setting())
    assert scale.fill(scale.PAGE.read_text(encoding="utf-8"), tables) == (
        scale.PAGE.read_text(encoding="utf-8")
    )
    with pytest.raises(SystemExit, match="0 places for the table 'new'"):
        scale.fill("no place", {"new": "| a |"})


def test_examples():
    assert doctest.testmod(scale).failed == 0


@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("processes", [2, 5, 8])
@pytest.mark.parametrize("objective", [scale.NT_XENT, scale.CLIP])
def test_traffic_is_what_a_process_exchanges(objective, processes, ring):
    """Counted while a process plays one of several, in both passes."""
    objective = dataclasses.replace(objective, width=16)
    loss = inv.nt_xent if objective.symmetric else inv.info_nce
    own = 6
    with rehearse(processes) as traffic:
        u, v = (torch.randn(own, 16, requires_grad=True) for _ in range(2))
        value = loss(u, v, gather="ring" if ring else True)
        forward = traffic.n_bytes.total()
        traffic.clear()
        value.backward()
        received = {"forward": forward, "backward": traffic.n_bytes.total()}
    expected = scale.received_bytes(objective, own * processes, processes, ring=ring)
    assert received == expected


def test_the_measured_loss_is_read_and_grown():
    assert scale.NT_XENT.seconds(1 << 20) == pytest.approx(5.66, rel=0.01)
    assert scale.NT_XENT.seconds(1 << 21) == 4 * scale.NT_XENT.seconds(1 << 20)
    assert scale.NT_XENT.seconds(4096) == scale.NT_XENT.seconds(8192)


@pytest.mark.parametrize("ahead", [1, 2, 4])
@pytest.mark.parametrize(("c", "t"), [(1.0, 0.3), (1.0, 1.0), (1.0, 2.5), (0.0, 1.0)])
def test_a_ring_without_stragglers_is_its_closed_form(c, t, ahead):
    computing, n = np.full((1, 7, 7), c), 7
    ring = c + (n - 1) * max(c, t)
    assert ring_seconds(computing, t, ahead) == pytest.approx(ring)
    assert gather_seconds(computing, t) == pytest.approx((n - 1) * t + n * c)


def test_one_slow_process_sets_the_pace_of_both():
    computing = np.ones((1, 6, 6))
    computing[:, 2] = 3.0
    assert ring_seconds(computing, 0.5) == pytest.approx(18)  # its own six blocks
    assert gather_seconds(computing, 0.5) == pytest.approx(2.5 + 18)


def test_one_slow_link_holds_up_every_block():
    computing, transfer = np.ones((1, 5, 5)), np.full(5, 0.5)
    transfer[3] = 4.0
    # each block crosses it, one at a time; who is behind it computes last
    assert ring_seconds(computing, transfer) == pytest.approx(4 * 4.0 + 1)
    assert gather_seconds(computing, transfer) == pytest.approx(4 * 4.0 + 5)


def test_a_late_hop_is_caught_up_by_whoever_has_room():
    computing = np.ones((1, 4, 4))
    computing[:, 0, 1] = 2.0  # one process, one hop
    late = ring_seconds(computing, 0.5)
    assert late == pytest.approx(5)
    assert ring_seconds(computing, 0.5, ahead=4) == pytest.approx(5)
    everywhere = ring_simulation.draw_computing(0.3)
    one, many = (ring_seconds(everywhere, 0.5, k).mean() for k in (1, 64))
    assert gather_seconds(everywhere, 0.0).mean() < many < one
