"""Each source with each objective equals its sets made by hand, value and gradient."""

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests import reference
from tests.reference._scalars import rows
from torch.autograd import grad

import invariance as inv

from . import scenes
from .scenes import NAMES, OBJECTIVES, SOURCES, TAU

quick = settings(
    max_examples=25, deadline=None, suppress_health_check=list(HealthCheck)
)
seeds = st.integers(0, 10_000)
objectives = st.sampled_from(list(OBJECTIVES))


def leaves(scene):
    u = scene.u.clone().requires_grad_()
    v = None if scene.v is None else scene.v.clone().requires_grad_()
    return u, v, [x for x in (u, v) if x is not None]


def assert_by_hand(scene, objective):
    make, options = OBJECTIVES[objective]
    u, v, inputs = leaves(scene)
    value = make(TAU, **options).against(u, v, scene.source, scene.ids)
    ours = [value.detach(), *grad(value, inputs)]
    u, v, inputs = leaves(scene)
    positives, negatives, log_weights = scene.hand(u, v)
    value = reference.against(
        NAMES[make],
        positives,
        negatives,
        temperature=TAU,
        log_weights=log_weights,
        **options,
    )
    theirs = [value.detach(), *grad(value, inputs)]
    for got, want in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, want, **scene.tolerance)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("source", SOURCES)
def test_every_objective_with_every_source(source, objective):
    scene = SOURCES[source](seed=4)
    assert scene.everyone_has_negatives
    assert_by_hand(scene, objective)


@quick
@given(
    seed=seeds,
    objective=objectives,
    n=st.integers(2, 6),
    d=st.integers(1, 4),
    size=st.integers(3, 9),
    batches=st.lists(st.integers(1, 3), min_size=1, max_size=6),
)
def test_a_queue_of_any_length(seed, objective, n, d, size, batches):
    scene = scenes.queue(seed, n, d, size, batches, n_samples=12)
    assume(scene.everyone_has_negatives)
    assert_by_hand(scene, objective)


@quick
@given(seed=seeds, objective=objectives, d=st.integers(2, 4), data=st.data())
def test_a_ball_of_any_size(seed, objective, d, data):
    n_samples = data.draw(st.integers(2, 10))
    n = data.draw(st.integers(2, n_samples))
    ranks = st.integers(1, n_samples - 1)
    shares = st.floats(0.51 / (n_samples - 1), 1.0)
    if data.draw(st.booleans()):
        asked = {"k": data.draw(ranks)}
    else:
        asked = {"share": data.draw(shares)}
    assert_by_hand(scenes.ball(seed, n, d, n_samples, **asked), objective)


@quick
@given(seed=seeds, objective=objectives, d=st.integers(2, 4), data=st.data())
def test_a_ring_of_any_ranks(seed, objective, d, data):
    n_samples = data.draw(st.integers(3, 10))
    inner = data.draw(st.integers(0, n_samples - 2))
    outer = data.draw(st.integers(inner + 1, n_samples - 1))
    if data.draw(st.booleans()):
        inner, outer = inner / (n_samples - 1), outer / (n_samples - 1)
    assert_by_hand(scenes.annulus(seed, 3, d, n_samples, inner, outer), objective)


@quick
@given(
    seed=seeds,
    objective=objectives,
    k=st.integers(2, 11),
    n_clusters=st.integers(2, 6),
    n_clusterings=st.integers(1, 3),
)
def test_neighbors_of_any_clusterings(seed, objective, k, n_clusters, n_clusterings):
    scene = scenes.neighbors(
        seed, k=k, n_clusters=n_clusters, n_clusterings=n_clusterings
    )
    if not scene.everyone_has_negatives:
        objective = "info_nce"
    assert_by_hand(scene, objective)


@quick
@given(
    seed=seeds,
    objective=objectives,
    n_proposals=st.integers(2, 12),
    share=st.floats(0.05, 1.0),
    floor=st.floats(0.05, 1.0),
    weighted=st.booleans(),
)
def test_accepted_with_any_probabilities(
    seed, objective, n_proposals, share, floor, weighted
):
    scene = scenes.accepted(
        seed,
        n_proposals=n_proposals,
        share=share,
        floor=floor,
        weighted=weighted,
    )
    assume(scene.everyone_has_negatives)
    assert_by_hand(scene, objective)


@quick
@given(seed=seeds, objective=objectives, n_clusters=st.integers(2, 6))
def test_prototypes_of_any_number(seed, objective, n_clusters):
    assert_by_hand(scenes.prototypes(seed, n_clusters=n_clusters), objective)


@quick
@given(seed=seeds, k=st.integers(1, 11), n_clusters=st.integers(2, 6))
def test_info_nce_of_neighbors_is_local_aggregation(seed, k, n_clusters):
    scene = scenes.neighbors(seed, k=k, n_clusters=n_clusters)
    settings = {"k": k, "temperature": TAU}
    memory, labels = scene.source.bank.z, scene.source.labels
    u, _, _ = leaves(scene)
    ours = inv.InfoNCE(TAU).against(u, None, scene.source, scene.ids)
    ours = ours.detach(), grad(ours, u)[0]
    u, _, _ = leaves(scene)
    theirs = reference.local_aggregation(u, memory, scene.ids, labels, **settings)
    theirs = theirs.detach(), grad(theirs, u)[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_before_its_clusters_local_aggregation_is_instance_discrimination():
    scene = scenes.bank(seed=2)
    source = inv.Neighbors(scene.source, k=2, n_clusters=2, warmup=0.5)
    source.refresh(0.49)
    objective = inv.InfoNCE(TAU)
    before = objective.against(scene.u, None, source, scene.ids)
    assert before == objective.against(scene.u, None, scene.source, scene.ids)
    source.refresh(0.5)
    assert before != objective.against(scene.u, None, source, scene.ids)


def test_local_aggregation_never_costs_more_than_the_ball():
    for seed in range(20):
        scene = scenes.neighbors(seed)
        ball = inv.Ball(scene.source.bank, k=scene.source.k)
        for i in range(4):
            anchor = scene.u[i].expand(2, -1), None
            ids = scene.ids[i].expand(2)
            near = inv.InfoNCE(TAU).against(*anchor, scene.source, ids)
            assert near <= inv.InfoNCE(TAU).against(*anchor, ball, ids) + 1e-12


@pytest.mark.parametrize("aggregate", ["pairs", "poly", "mv_info_nce", "mv_dhel"])
@pytest.mark.parametrize("source", ["queue", "bank", "ball", "annulus"])
def test_several_views(source, aggregate):
    scene = SOURCES[source](seed=7)
    views = scenes.draw(3, *scene.u.shape, seed=8)
    z = views.clone().requires_grad_()
    objective = inv.MultiView(TAU, aggregate=aggregate)
    value = objective.against(z, None, scene.source, scene.ids)
    ours = value.detach(), grad(value, z)[0]
    z = views.clone().requires_grad_()
    unused = z[0]
    negatives = [scene.hand(view, unused)[1] for view in z]
    value = reference.multi_view_against(
        z, negatives, temperature=TAU, aggregate=aggregate
    )
    torch.testing.assert_close(ours, (value.detach(), grad(value, z)[0]))


@quick
@given(seed=seeds, n=st.integers(2, 6), n_classes=st.integers(1, 4))
def test_sup_con_with_a_queue_of_labelled_rows(seed, n, n_classes):
    generator = torch.Generator().manual_seed(seed)
    labels, held_labels = (
        torch.randint(n_classes, (k,), generator=generator) for k in (n, 5)
    )
    z, held = scenes.draw(n, 3, seed=seed), scenes.draw(5, 3, seed=seed + 1)
    queue = inv.Queue(8, 3).double()
    queue.remember(held, held_labels)
    z.requires_grad_()
    value = inv.SupCon(TAU).against(z, None, queue, labels)
    ours = value.detach(), grad(value, z)[0]
    z = z.detach().clone().requires_grad_()
    value = reference.sup_con_against(
        z, labels, rows(held), held_labels, temperature=TAU
    )
    theirs = value.detach(), grad(value, z, allow_unused=True)[0]
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("source", ["queue", "bank", "drawn", "ball", "accepted"])
def test_float32_rows_and_float64_memories_agree(source):
    scene = SOURCES[source](seed=3)
    objective = inv.InfoNCE(TAU)
    v = None if scene.v is None else scene.v.float()
    half = objective.against(scene.u.float(), v, scene.source, scene.ids)
    if source in ("drawn", "accepted"):
        memory = getattr(scene.source, "bank", None) or scene.source
        memory.n_drawn.zero_()
    whole = objective.against(scene.u, scene.v, scene.source, scene.ids)
    torch.testing.assert_close(half.double(), whole, rtol=1e-5, atol=1e-6)
