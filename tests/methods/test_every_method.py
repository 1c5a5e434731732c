"""One contract for every method of the catalogue."""

import copy
import itertools
import math

import pytest
import torch
from tests.image_methods import IMAGE_METHODS
from torch import nn

from invariance.encoders import build_encoder
from invariance.errors import DataError, SettingError, ShapeError
from invariance.methods import Method, build, customize
from invariance.negatives import NEGATIVES
from invariance.objectives import OBJECTIVES
from invariance.training import Optim, build_optimizer
from invariance.views import ViewSet, multi_crop

SMALL = {"hidden": 32, "width": 16}
N_SAMPLES = 24
OPTIONS = {  # memories that fit a data set of 24
    "swav": {"n_prototypes": 6},
    "moco": {"size": 20},
    "moco_v1": {"size": 20},
    "ir_sampled": {"n_draws": 10},
    "ir_nce": {"n_draws": 10},
    "ir_stratified": {"n_draws": 10, "n_clusters": 3},
    "ir_control_variate": {"n_draws": 10},
    "la": {"k": 0.5, "n_clusters": 4},
    "vince": {"n_proposals": 16},
    "vince_plus": {"n_proposals": 16},
    "pcl": {"size": 20, "n_clusters": 4},
    "nnclr": {"size": 20},
}
KEEPS_BANK = ("ir", "ir_sampled", "ir_nce", "ball", "annulus", "la", "vince")
REMEMBERS = [
    name
    for name, m in IMAGE_METHODS.items()
    if m.negatives in NEGATIVES or name == "nnclr"
]


def make(name, options=None, **changes):
    torch.manual_seed(0)
    encoder = build_encoder("tiny", image_size=16)
    method = customize(name, **SMALL, **changes)
    options = OPTIONS.get(name, {}) | (options or {})
    return build(method, encoder, n_samples=N_SAMPLES, **options)


def batch(n_views=2, n=8, size=16):
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(n, 3, size, size, generator=generator)
    return [
        (images + 0.1 * torch.rand(images.shape, generator=generator)) / 1.1
        for _ in range(n_views)
    ]


LABELS = torch.arange(8) % 3
IMAGES = torch.rand(4, 3, 16, 16)
IDS = torch.tensor([3, 23, 0, 7, 11, 5, 19, 2])


def memories(learner):
    """What the learner remembers, by name."""
    kept = ("negatives.", "prototypes.", "support.")
    return {k: v for k, v in learner.state_dict().items() if k.startswith(kept)}


def changed(before, after):
    return any(not torch.equal(before[k], after[k]) for k in before)


@pytest.mark.parametrize("name", IMAGE_METHODS)
def test_it_is_described(name):
    method = IMAGE_METHODS[name]
    assert method.objective in OBJECTIVES
    assert method.source
    assert method.encoder in ("one", "predictor", "momentum twin")
    assert method.negatives in ("batch", "none", *NEGATIVES)
    assert method.positives in ("views", "prototypes", "neighbors", "places")
    assert method.labeled == (name == "supcon")


@pytest.mark.parametrize("name", IMAGE_METHODS)
def test_it_trains(name):
    learner = make(name)
    views = batch(IMAGE_METHODS[name].n_views)
    optimizer = torch.optim.SGD(
        [p for p in learner.parameters() if p.requires_grad], lr=1e-3
    )
    for done in range(2):  # by the second, what is clustered is clustered
        learner.before_epoch(done / 2)
        step = learner(views, LABELS, IDS)
        assert step.loss.shape == () and bool(step.loss.isfinite())
        assert step.u.shape == step.v.shape == (8, learner.head.width)
        assert not step.u.requires_grad and not step.v.requires_grad
        optimizer.zero_grad()
        step.loss.backward()
        for part in (learner.encoder, learner.head):
            for k, p in part.named_parameters():
                assert p.grad is not None and bool(p.grad.isfinite().all()), k
            assert any(bool(p.grad.any()) for p in part.parameters())
        optimizer.step()
        learner.after_step((done + 1) / 2)


@pytest.mark.parametrize("name", IMAGE_METHODS)
def test_its_state_comes_back(name):
    learner, views = make(name), batch(IMAGE_METHODS[name].n_views)
    learner(views, LABELS, IDS)
    learner.after_step(0.5)
    learner.before_epoch(0.5)
    twin = make(name)
    twin.load_state_dict(copy.deepcopy(learner.state_dict()))
    for _ in range(2):
        ours, theirs = learner(views, LABELS, IDS), twin(views, LABELS, IDS)
        assert torch.equal(ours.loss, theirs.loss)
        learner.after_step(1.0), twin.after_step(1.0)


@pytest.mark.parametrize("name", IMAGE_METHODS)
def test_crops_of_two_sizes_go_through(name):
    learner = make(name)
    images = torch.rand(8, 3, 16, 16)
    views = ViewSet(multi_crop(16, n_local=1))
    crops = views(images, samples=torch.arange(8), seed=0, epoch=0)
    assert [len({v.shape[-1] for v in crops}), len(crops)] == [2, 3]
    assert bool(learner(crops, LABELS, IDS).loss.isfinite())


@pytest.mark.parametrize("name", REMEMBERS)
def test_it_remembers_after_the_step_and_not_before(name):
    learner, views = make(name), batch()
    learner(views, ids=IDS), learner.after_step(0.1)  # a queue is no longer empty
    before = copy.deepcopy(memories(learner))
    learner.objective.readings(*learner(views, ids=IDS)[1:3])
    unchanged = {k: v for k, v in memories(learner).items() if "extra" not in k}
    assert unchanged and not changed(unchanged, before)
    learner.after_step(0.2)
    after = memories(learner)
    assert changed(before, after)
    learner.after_step(0.2)  # what was used is remembered once
    assert not changed(after, memories(learner))


@pytest.mark.parametrize("name", REMEMBERS)
def test_it_remembers_nothing_when_it_is_only_asked(name):
    learner, views = make(name), batch()
    learner(views, ids=IDS), learner.after_step(0.1)
    learner.eval()
    before = copy.deepcopy(memories(learner))
    assert bool(learner(views, ids=IDS).loss.isfinite())
    learner.after_step(0.1)
    rows = {k: v for k, v in memories(learner).items() if "extra" not in k}
    assert not changed(rows, before)


@pytest.mark.parametrize("name", REMEMBERS)
def test_it_needs_to_know_whose_rows_they_are(name):
    with pytest.raises(SettingError, match="pass ids"):
        make(name)(batch())


def test_one_view_is_refused_where_views_are_compared():
    refused = []
    for name in IMAGE_METHODS:
        learner = make(name)
        try:
            assert bool(learner(batch(1), LABELS, IDS).loss.isfinite())
        except ShapeError as error:
            assert "got one. Pass two or more" in str(error)
            refused.append(name)
    assert {"simclr", "moco", "byol", "nnclr", "supcon"} < {*refused}
    assert not {*KEEPS_BANK, "dim"} & {*refused}  # a memory or places answer


@pytest.mark.parametrize("which", ["labels", "ids"])
@pytest.mark.parametrize("shape", [(8, 1), (7,), ()])
def test_numbers_of_another_shape_are_refused(which, shape):
    numbers = {"ids": IDS, which: torch.zeros(shape, dtype=torch.long)}
    with pytest.raises(ShapeError, match=rf"{which} need one number .* shape \(8,\)"):
        make("moco")(batch(), **numbers)


@pytest.mark.parametrize("name", KEEPS_BANK)
def test_a_bank_needs_the_size_of_the_data_set(name):
    encoder = build_encoder("tiny", image_size=16)
    with pytest.raises(SettingError, match=r"pass n_samples, the size of the data set"):
        build(name, encoder)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("name", KEEPS_BANK)
def test_a_bank_takes_in_the_last_view_of_each_sample_once(name, momentum):
    learner, views = make(name, {"bank_momentum": momentum}), batch()
    bank = learner.negatives.bank or learner.negatives
    before = bank.z.clone()
    learner(views, ids=IDS)
    ((used, _),) = learner.used
    learner.after_step(0.5)
    used = nn.functional.normalize(used, dim=1)
    expected = momentum * before[IDS] + (1 - momentum) * used
    torch.testing.assert_close(bank.z[IDS], nn.functional.normalize(expected, dim=1))
    others = torch.ones(N_SAMPLES, dtype=torch.bool)
    others[IDS] = False
    assert torch.equal(bank.z[others], before[others])


@pytest.mark.parametrize("name", ["moco", "pcl", "nnclr"])
def test_a_queue_grows_by_a_batch_a_step(name):
    learner = make(name, {"size": 100})
    queue = learner.support if name == "nnclr" else learner.negatives
    lengths = []
    for _ in range(3):
        learner(batch(), ids=IDS)
        learner.after_step(0.5)
        lengths.append(len(queue))
    assert lengths[2] - lengths[1] == lengths[1] - lengths[0] == 8


def test_moco_asks_with_one_view_and_enqueues_the_other_view_of_its_twin():
    learner, views = make("moco").eval(), batch()
    u = nn.functional.normalize(learner.head(learner.encoder(views[0])), dim=1)
    keys = nn.functional.normalize(learner.twin(views[1]), dim=1)
    logits = torch.cat([(u * keys).sum(1, keepdim=True), u @ keys.T], 1) / 0.2
    logits[:, 1:][torch.eye(8, dtype=torch.bool)] = -torch.inf
    expected = nn.functional.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
    # the first batch has only its own keys to ask
    torch.testing.assert_close(learner(views, ids=IDS).loss, expected)
    assert len(learner.negatives) == 0  # nothing is remembered when only asked
    learner.train()
    learner.used.append((keys, IDS))
    learner.after_step(0.1)
    assert len(learner.negatives) == 8
    torch.testing.assert_close(learner.negatives.z[:8], keys)
    assert torch.equal(learner.negatives.ids[:8], IDS)


def test_moco_gives_its_keys_no_gradient():
    learner = make("moco")
    learner(batch(), ids=IDS).loss.backward()
    assert all(p.grad is None for p in learner.twin.parameters())
    assert not learner.negatives.z.requires_grad
    assert all(not z.requires_grad for z, _ in learner.used)


def test_pcl_adds_the_mean_over_its_clusterings_once_they_are_there():
    learner, views = make("pcl"), batch()
    learner(views, ids=IDS), learner.after_step(0.05)
    learner.eval()
    learner.before_epoch(0.05)
    assert not any(p.clustered for p in learner.prototypes)
    alone = learner(views, ids=IDS).loss
    learner.before_epoch(0.1)
    assert len(learner.prototypes) == 3 and all(p.clustered for p in learner.prototypes)
    u = learner.head(learner.encoder(views[0]))
    further = [learner.objective.against(u, None, p, IDS) for p in learner.prototypes]
    both = learner(views, ids=IDS).loss
    torch.testing.assert_close(both, alone + torch.stack(further).mean())


def test_nnclr_swaps_a_view_for_its_nearest_neighbor():
    learner, views = make("nnclr").eval(), batch()
    support = nn.functional.normalize(torch.randn(6, 16), dim=1)
    ids = torch.tensor([3, 50, 51, 52, 53, 54])  # the first is of the first sample
    learner.support.remember(support, ids)
    z = [learner.head(learner.encoder(v)) for v in views]
    guesses = [learner.predictor(x) for x in z]
    losses = []
    for a, b in ((0, 1), (1, 0)):
        found = []
        for i, row in enumerate(z[a]):
            allowed = [j for j in range(6) if ids[j] != IDS[i]]
            found.append(max(allowed, key=lambda j: (row @ support[j]).item()))
        logits = support[found] @ nn.functional.normalize(guesses[b], dim=1).T / 0.1
        losses.append(nn.functional.cross_entropy(logits, torch.arange(8)))
    expected = torch.stack(losses).mean()
    torch.testing.assert_close(learner(views, ids=IDS).loss, expected)


def test_more_views_than_two_are_averaged_over_pairs():
    learner = make("dcl").eval()
    views = batch(3)
    expected = [learner(list(pair)).loss for pair in itertools.combinations(views, 2)]
    torch.testing.assert_close(learner(views).loss, torch.stack(expected).mean())
    learner = make("byol").eval()
    expected = [learner(list(pair)).loss for pair in itertools.combinations(views, 2)]
    torch.testing.assert_close(learner(views).loss, torch.stack(expected).mean())


def test_supcon_without_labels_is_refused():
    with pytest.raises(DataError, match=r"supcon learns from labels.*simclr"):
        make("supcon")(batch())


def test_labels_change_nothing_for_the_others():
    learner, views = make("simclr").eval(), batch()
    assert torch.equal(learner(views).loss, learner(views, LABELS).loss)


def test_the_twin_follows():
    learner = make("byol", momentum=0.9)
    with torch.no_grad():
        for p in learner.encoder.parameters():
            p += 1.0
    online = [*learner.encoder.parameters(), *learner.head.parameters()]
    before = [p.clone() for p in learner.twin.network.parameters()]
    learner.after_step(0.5)  # half way, 0.9 has risen to 0.95
    for p, was, now in zip(
        learner.twin.network.parameters(), before, online, strict=True
    ):
        torch.testing.assert_close(p, 0.95 * was + 0.05 * now.detach())
    learner(batch()).loss.backward()
    assert all(p.grad is None for p in learner.twin.parameters())
    frozen = [p.clone() for p in learner.twin.network.parameters()]
    learner.after_step(1.0)
    assert all(map(torch.equal, learner.twin.network.parameters(), frozen))


def test_simsiam_has_no_twin_and_its_targets_no_gradient():
    learner = make("simsiam")
    assert learner.twin is None
    views = batch()
    with torch.no_grad():
        for p in learner.predictor[-1].parameters():
            p.zero_()
        learner.predictor[-1].bias.fill_(1.0)  # one guess for all
    learner(views).loss.backward()
    assert all(not p.grad.any() for p in learner.encoder.parameters())


def test_counts_may_come_as_floats_from_flags_and_files():
    encoder = build_encoder("tiny", image_size=16)
    learner = build("swav", encoder, n_prototypes=6.0, epsilon=1.0)
    assert learner.objective.prototypes.shape == (6, 128)
    with pytest.raises(
        SettingError, match=r"n_prototypes is a whole number, 2 or .* 6.5"
    ):
        build("swav", encoder, n_prototypes=6.5)


def test_sizes_of_one_kind_share_their_statistics():
    """Views of one size go through the network as one batch."""

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.seen = nn.Conv2d(3, 4, 3), []

        def forward(self, x):
            self.seen.append(tuple(x.shape))
            return self.layer(x)

    encoder = build_encoder(Counting(), image_size=16)
    encoder.network.seen.clear()
    learner = build(customize("simclr", **SMALL), encoder)
    learner([*batch(2), *batch(1, size=8)])
    assert encoder.network.seen == [(16, 3, 16, 16), (8, 3, 8, 8)]


@pytest.mark.parametrize(
    "method, options, message",
    [
        ("simlcr", {}, "Did you mean 'simclr'"),
        (Method(objective="info_nec"), {}, "Did you mean 'info_nce'"),
        (Method(objective="byol", encoder="twin"), {}, "Unknown kind of encoder"),
        (
            Method(objective="nt_xent", encoder="momentum twin"),
            {},
            "needs an objective with targets",
        ),
        ("byol", {"temperature": 0.1}, "Unknown option 'temperature'"),
        ("simclr", {"temperature": 0.0}, "temperature must be a positive number"),
        (Method(objective="info_nce", negatives="quue"), {}, "Did you mean 'queue'"),
        (
            Method(
                objective="info_nce", negatives="queue", source_settings={"size": 9}
            ),
            {},
            "keys come from a momentum twin",
        ),
        (
            Method(objective="info_nce", positives="neighbor"),
            {},
            "Did you mean 'neighbors'",
        ),
        (
            Method(
                objective="info_nce", encoder="momentum twin", positives="neighbors"
            ),
            {},
            "found by a predictor",
        ),
        (
            Method(objective="multi_view", negatives="bank"),
            {},
            "MultiView puts its views",
        ),
        (Method(objective="sup_con", negatives="bank"), {}, "SupCon puts its views"),
        ("ball", {"k": 5000}, "k = 5000 is more than the 99 other rows"),
        ("annulus", {"inner": 0.5}, "at or beyond its outer rank"),
        ("ir_sampled", {"n_draws": 100}, "99 negatives to draw from: got n_draws"),
        ("la", {"n_clusters": 101}, "2 to 100 clusters"),
        (
            "moco",
            {"k": 5},
            r"Unknown option 'k'. Accepted options:\n(.*\n)*  symmetric +false +true "
            r"or false +Every view asks",
        ),
        ("moco", {"siz": 5}, "Did you mean 'size'"),
        ("moco", {"size": 20.5}, "size is a whole number, 1 or more: got 20.5"),
    ],
)
def test_what_cannot_be_built_is_said(method, options, message):
    with pytest.raises(SettingError, match=message):
        build(method, build_encoder("tiny", image_size=16), n_samples=100, **options)


@pytest.mark.parametrize("rising", [False, True])
@pytest.mark.parametrize("name", ["byol", "moco"])
def test_whether_the_twin_s_momentum_rises_is_the_method_s_choice(name, rising):
    learner = make(name, rising=rising, momentum=0.5)
    with torch.no_grad():
        next(learner.head.parameters()).add_(1.0)
    before = copy.deepcopy(learner.twin.state_dict())
    learner.after_step(1.0)  # a momentum that rises has reached 1
    after = learner.twin.state_dict()
    assert all(torch.equal(after[k], before[k]) for k in before) is rising


def test_neighbors_are_as_fine_as_what_asks_for_them():
    learner = make("nnclr").double()
    views = [view.double() for view in batch()]
    for _ in range(2):  # the second time there are neighbors
        seen = []
        hook = learner.objective.register_forward_pre_hook(
            lambda _, rows, seen=seen: seen.extend(rows)
        )
        learner(views, ids=IDS)
        hook.remove()
        assert all(rows.dtype == torch.float64 for rows in seen)
        learner.support.remember(seen[1].detach(), IDS + 1)


# ---------------------------------------------------------------- a loop of one's own


@pytest.mark.parametrize("name", IMAGE_METHODS)
def test_a_step_is_a_loss_with_its_parts(name):
    learner = make(name)
    step = learner(torch.stack(batch(IMAGE_METHODS[name].n_views)), LABELS, IDS)
    assert repr(step).startswith(f"Step(loss={step.loss.item():.4g}")
    assert repr(step).endswith("; 8 samples)")
    parts = {
        "vicreg": {"invariance", "variance", "covariance"},
        "barlow_twins": {"diagonal", "off_diagonal"},
        "align_uniform": {"alignment", "uniformity"},
        "sig_lip": {"positive", "negative"},
        **{f"dim{k}": {"local", "prior", "discriminator"} for k in ("", "_jsd", "_dv")},
    }
    assert set(step.parts) == parts.get(name, set())
    assert all(not part.requires_grad for part in step.parts.values())
    learner.after_step()


def test_pcl_s_parts_are_instances_and_prototypes():
    learner, views = make("pcl"), batch()
    learner(views, ids=IDS), learner.after_step()
    learner.before_epoch(0.5)
    step = learner(views, ids=IDS)
    assert set(step.parts) == {"instances", "prototypes"}
    torch.testing.assert_close(sum(step.parts.values()), step.loss.detach())


def test_any_network_may_be_the_encoder():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    learner = build("simclr", network)
    assert learner.encoder.width == 4
    assert learner([torch.rand(4, 3, 32, 32)] * 2).loss.isfinite()


def test_images_that_are_no_views_are_refused_in_words():
    with pytest.raises(ShapeError, match=r"one batch per view.*learner\(\[view, view"):
        make("simclr")(torch.rand(8, 3, 16, 16))


@pytest.mark.usefixtures("our_errors")
@pytest.mark.parametrize(
    ("method", "views", "more", "message"),
    [
        ("simclr", [], {}, "one batch per view.*got none"),
        ("simclr", [IMAGES.numpy()] * 2, {}, "got ndarray, ndarray"),
        ("moco", [IMAGES, IMAGES[:2]], {"ids": IDS[:4]}, "batches of 2 and 4"),
        ("moco", [IMAGES] * 2, {"ids": [0, 1, 2, 3]}, "ids need .* got list.*as_ten"),
        ("supcon", [IMAGES] * 2, {"labels": [0, 0, 1, 1]}, "labels need .* got list"),
    ],
)
def test_what_is_no_batch_is_refused_in_words(method, views, more, message):
    with pytest.raises(ShapeError, match=message):
        make(method)(views, **more)


@pytest.mark.usefixtures("our_errors")
@pytest.mark.parametrize(
    ("method", "encoder", "message"),
    [
        ("simclr", "resnet18", "torch.nn.Module .* 'resnet18'.*build_encoder makes"),
        ("simclr", None, "torch.nn.Module that maps samples to rows: got None"),
        (OBJECTIVES["dcl"](), nn.Flatten(), r"name of a method.*got DCL\(.*needs no"),
        (OBJECTIVES["dcl"], nn.Flatten(), "name of a method, as build"),
    ],
)
def test_what_a_learner_cannot_be_built_of_is_refused(method, encoder, message):
    with pytest.raises(SettingError, match=message):
        build(method, encoder)


@pytest.mark.parametrize("changes", [{"gather": True}, {"reduction": "none"}])
def test_what_is_the_learner_s_business_is_left_to_it(changes):
    simclr = make("simclr")
    objective = OBJECTIVES["nt_xent"](**changes)
    with pytest.raises(SettingError, match="leave the objective's gather and reduc"):
        type(simclr)(simclr.encoder, simclr.head, objective)
    with pytest.raises(SettingError, match=f"Unknown option '{next(iter(changes))}'"):
        make("simclr", changes)


@pytest.mark.parametrize("name", ["simclr", "moco", "ir", "pcl", "la", "nnclr", "dclw"])
def test_a_learned_temperature_learns_without_weight_decay(name):
    learner = make(name, {"temperature": "learned"})
    optimizer = build_optimizer(learner, Optim(weight_decay=0.1, name="sgd"), 0.1)
    temperature = learner.objective.temperature
    (group,) = (
        g for g in optimizer.param_groups for p in g["params"]
        if p is temperature.log_scale
    )  # fmt: skip
    assert group["weight_decay"] == 0
    before = float(temperature)
    for done in range(2):
        learner.before_epoch(done / 2)
        learner(batch(), LABELS, IDS).loss.backward()
        optimizer.step()
        learner.after_step((done + 1) / 2)
    assert float(temperature) != before
    state = learner.state_dict()
    assert "objective.temperature.log_scale" in state


# ---------------------------------------------------------------- as it was spelled


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("ball", {"k": 0.5}, {"share": 0.5}),
        ("ball", {"k": 1.0}, {"share": 1.0}),
        ("ball", {"k": 5.0}, {"k": 5}),
        ("la", {"k": 0.25}, {"share": 0.25}),
        (
            "annulus",
            {"inner": 0.1, "outer": 0.5, "outer_start": 1.0},
            {"inner_share": 0.1, "outer_share": 0.5, "outer_start_share": 1.0},
        ),
        ("annulus", {"inner": 2.0, "outer": 0.5}, {"inner": 2, "outer_share": 0.5}),
    ],
)
def test_shares_that_were_given_as_counts(name, old, new):
    encoder = build_encoder("tiny", image_size=16)
    sources = [
        build(customize(name, **SMALL), encoder, n_samples=24, **options).negatives
        for options in (old, new)
    ]
    assert sources[0].extra_repr() == sources[1].extra_repr()
    method = customize(name, **SMALL, source_settings=old)  # of one's own, from before
    older = build(method, encoder, n_samples=24).negatives
    ranks = [
        [getattr(source, name, None) for name in ("k", "inner", "outer")]
        for source in (older, sources[0])
    ]
    assert ranks[0] == ranks[1]


def test_names_of_before():
    import invariance as inv

    assert inv.Neighbours is inv.Neighbors
    old = Method(objective="info_nce", negatives="neighbours")
    assert old.negatives == "neighbors"
    assert Method(objective="info_nce", positives="neighbours").positives == "neighbors"


@pytest.mark.parametrize("name", ["moco", "ir"])
def test_a_memory_s_candidates_count_in_the_information(name):
    """log(1 + K) minus the InfoNCE of the loss's own negatives, by hand."""
    learner, views = make(name), batch()
    ids = torch.arange(len(views[0]))
    for _ in range(2):  # the second batch is compared with the memory of the first
        learner.negatives.remember(torch.randn(len(ids), learner.head.width), ids)
    others = ids + len(ids) if name == "moco" else ids
    candidates = learner.negatives.candidates(learner.online(views[0]), others)
    step = learner(views, ids=others).with_information()
    unit = torch.nn.functional.normalize
    u, v = unit(step.u), unit(step.v)
    scores = u @ candidates.z.T
    own = others[:, None] == candidates.ids
    logits = torch.cat([(u * v).sum(1, keepdim=True), scores.masked_fill(own, -9e9)], 1)
    logits /= learner.objective.temperature
    loss = -logits.log_softmax(1)[:, 0].mean()
    n = 1 + int((~own[0]).sum())
    assert n == learner.negatives.n_negatives + 1
    assert step.readings["mi_ceiling"].item() == pytest.approx(math.log(n))
    first = torch.stack(step.contrasts[0]())[0].mean()
    assert first.item() == pytest.approx(loss.item(), abs=1e-4)
    nats = step.readings["mi_ceiling"] - step.readings["info_nce"]
    assert step.readings["mi_nats"].item() == pytest.approx(nats.item(), abs=1e-5)


@pytest.mark.parametrize("name", ["simclr", "ball", "la", "byol"])
def test_only_a_memory_of_plain_rows_has_information_of_its_own(name):
    step = make(name)(batch(), ids=torch.arange(len(batch()[0])))
    assert step.with_information() is step
