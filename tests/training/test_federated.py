"""Clients that average: the algebra, who takes part, and what leaves a client."""

import copy
import dataclasses
import importlib.util
import math
import re

import numpy as np
import pytest
import torch

import invariance as inv
from invariance.errors import DataError, SettingError, TrainingError
from invariance.folder import TRAINED, read_record
from invariance.training import Ess, Federated, Machine, Optim, Train, make_plan, train

PLAIN = Optim(name="sgd", momentum=0.0, lr=0.5, weight_decay=0.0, warmup=0.0)


def learner_of(folder, newest):
    """All that a run's learner holds after the last step."""
    return newest(folder)["learner"]


@pytest.mark.parametrize(
    "changes",
    [
        {"federated": Federated(clients=1, optimizer="kept")},
        {"federated": Federated(clients=1), "optim": PLAIN},
        {
            "federated": Federated(clients=1, optimizer="kept", local_epochs=1),
            "method": "moco",
            "options": {"size": 40},
            "optim": Optim(accumulate=2),
            "batch_size": 8,
        },
        {"federated": Federated(clients=1, optimizer="kept"), "method": "byol"},
    ],
    ids=["adamw kept", "sgd fresh", "moco", "byol"],
)
def test_one_client_is_the_central_run_to_the_bit(
    changes, small, pictures, newest, readings
):
    settings = small(**changes)
    central = dataclasses.replace(settings, federated=Federated())
    ours, theirs = (train(s, data=pictures).folder for s in (settings, central))
    a, b = (learner_of(folder, newest) for folder in (ours, theirs))
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    plain = [
        {k: v for k, v in r.items() if not k.startswith("federated/")}
        for r in readings(ours)
    ]
    assert plain == readings(theirs)


def average_slowly(settings, pictures, n_rounds):
    """The run as loops over clients and steps; also each client's queue."""
    plan = make_plan(settings, data=pictures)
    server = plan.learner.to(memory_format=torch.channels_last)  # as runs have it
    queues, place = {}, 0
    for epoch in range(n_rounds):
        turns = iter(plan.order.turns(epoch, 0))
        sent, weights = [], []
        while place < plan.order.first_step(epoch + 1):
            visit = plan.order.find_visit(place)
            learner = copy.deepcopy(server)
            if visit.client in queues:
                learner.negatives = queues[visit.client]
            optim = settings.optim
            opt = torch.optim.SGD(
                learner.parameters(), lr=optim.lr, momentum=optim.momentum
            )
            for k in range(visit.n_steps):
                passes, ((samples),) = next(turns)
                sides = next(iter(plan.batches([samples], "cpu")))
                views = plan.see(sides, samples, passes)
                done, n_steps = epoch * visit.n_steps + k, n_rounds * visit.n_steps
                rate = optim.lr * (1 + math.cos(math.pi * done / n_steps)) / 2
                opt.param_groups[0]["lr"] = rate
                opt.zero_grad()
                learner(views, ids=samples).loss.backward()
                opt.step()
                learner.after_step((done + 1) / n_steps)
            place += visit.n_steps
            if hasattr(learner, "negatives"):
                queues[visit.client] = learner.negatives
            sent.append(learner.state_dict())
            weights.append(plan.order.clients.sizes[visit.client])
        blank = getattr(server, "negatives", None)
        mean = {
            name: sum(w * s[name].double() for w, s in zip(weights, sent, strict=True))
            / sum(weights)
            for name in server.state_dict()
            if not name.startswith("negatives")
        }
        server.load_state_dict(mean, strict=False)
        if blank is not None:
            assert len(blank) == 0
    return server, queues


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"method": "byol"},
        {"method": "moco", "options": {"size": 40}},
        {"method": "simsiam"},
    ],
    ids=["simclr", "byol", "moco", "simsiam"],
)
@pytest.mark.parametrize("skew", [None, 2.0], ids=["even", "skewed"])
def test_rounds_are_the_loops_that_say_it_slowly(
    changes, skew, small, pictures, newest
):
    optim = dataclasses.replace(PLAIN, momentum=0.9, lr=0.1, lr_scaling="none")
    settings = small(
        federated=Federated(clients=3, skew=skew, participation=0.7, local_steps=2),
        optim=optim,
        machine=Machine(device="cpu"),
        **changes,
    )
    run = train(settings, data=pictures)
    server, queues = average_slowly(settings, pictures, 2)
    state = newest(run.folder)
    for name, value in server.state_dict().items():
        if not name.startswith("negatives"):
            close = torch.allclose(
                state["learner"][name].double(), value.double(), rtol=1e-5, atol=1e-6
            )
            assert close, name
    for client, queue in queues.items():
        kept = state["federated"]["kept"][client]["memories"]
        assert torch.equal(kept["negatives.ids"], queue.ids)
        assert torch.allclose(kept["negatives.z"], queue.z, atol=1e-5)


def test_one_step_of_equal_clients_is_the_mean_gradient(small, pictures, newest):
    settings = small(
        federated=Federated(clients=6, local_steps=1),
        optim=dataclasses.replace(PLAIN, lr_scaling="none"),
        epochs=1,
        machine=Machine(device="cpu"),
    )
    run = train(settings, data=pictures)
    plan = make_plan(settings, data=pictures)
    gradients = []
    for passes, (samples,) in plan.order.turns(0, 0):
        learner = copy.deepcopy(plan.learner)
        views = plan.see(next(iter(plan.batches([samples], "cpu"))), samples, passes)
        learner(views).loss.backward()
        gradients.append([p.grad for p in learner.parameters()])
    assert plan.order.clients.sizes == [11] * 6
    trained = learner_of(run.folder, newest)
    for (name, start), *parts in zip(
        plan.learner.named_parameters(), *gradients, strict=True
    ):
        expected = start - 0.5 * torch.stack(parts).mean(0)
        assert torch.allclose(trained[name], expected, atol=1e-6), name


@pytest.mark.parametrize("skew", [None, 0.05, 0.5])
def test_every_sample_has_one_client(skew, small, pictures):
    federated = Federated(clients=5, skew=skew)
    order = make_plan(small(federated=federated, batch_size=4), data=pictures).order
    assert len(order.clients.owner) == sum(order.clients.sizes)
    for passes in range(2):
        for _, samples in order.turns(passes, 0):
            assert len(order.clients.owner[samples].unique()) == 1
    if skew is None:
        assert max(order.clients.sizes) - min(order.clients.sizes) <= 1


def test_less_skew_is_nearer_to_even(small, pictures):
    def spread(skew):
        federated = Federated(clients=4, skew=skew)
        plan = make_plan(small(federated=federated, batch_size=2), data=pictures)
        counts = torch.tensor(plan.order.clients.count_labels(plan.source.labels))
        assert counts.sum() == len(plan.source)
        return float(counts.double().std(0).mean())

    assert spread(0.05) > spread(1.0) > spread(1000.0)


def test_a_share_of_the_clients_takes_part(small, pictures):
    federated = Federated(clients=6, participation=0.5, local_steps=2)
    settings = small(federated=federated, batch_size=4, epochs=8)
    order = make_plan(settings, data=pictures).order
    rounds = [[v.client for v in order.visits if v.round == k] for k in range(8)]
    assert all(len(set(clients)) == 3 for clients in rounds)
    assert {c for clients in rounds for c in clients} == set(range(6))
    assert order.n_steps == 8 * 3 * 2
    first = [v for v in order.visits if v.client == rounds[0][0]]
    batches = [samples for v in first[:3] for _, (samples,) in order.turns_of(v)]
    # a client goes on where it stopped: its first samples are all different
    n = order.clients.sizes[rounds[0][0]] // 4
    seen = torch.cat(batches[:n])
    assert len(seen.unique()) == len(seen)


def assign(tmp_path, owners, name="owners.npy"):
    path = tmp_path / name
    if name.endswith(".npy"):
        np.save(path, owners)
    else:
        path.write_text("".join(f"{owner}\n" for owner in owners))
    return str(path)


def test_small_clients(small, pictures, tmp_path):
    """One sample: left out, with a word. Fewer than a batch: a smaller batch."""
    n = len(make_plan(small(), data=pictures).source)
    owners = np.array(["tiny"] + ["some"] * 5 + ["large"] * (n - 6))
    path = assign(tmp_path, owners.tolist(), "owners.txt")
    settings = small(federated=Federated(assignment=path), dry_run=True)
    result = train(settings, data=pictures)
    text = "\n".join(result.facts)
    assert "Client tiny (1) has fewer than the 2 images" in text
    assert "left out of all rounds" in text
    assert "1 client with fewer images than a batch of 16" in text
    plan = make_plan(settings, data=pictures)
    sizes = {len(samples[0]) for _, samples in plan.order.turns(0, 0)}
    assert sizes == {5, 16}
    run = train(dataclasses.replace(settings, dry_run=False), data=pictures)
    assert "Client tiny (1)" in (run.folder / "train.log").read_text()
    alone = Federated(assignment=assign(tmp_path, [*range(n)], "alone.txt"))
    with pytest.raises(DataError, match=r"give each client more images in .*alone.txt"):
        make_plan(small(federated=alone), data=pictures)


def test_clients_without_samples(small, pictures):
    federated = Federated(clients=40, skew=0.01)
    result = train(
        small(federated=federated, batch_size=4, dry_run=True), data=pictures
    )
    assert any("left out of all rounds" in fact for fact in result.facts)
    with pytest.raises(DataError, match="None of the 500 clients has the 2 images"):
        make_plan(small(federated=Federated(clients=500)), data=pictures)


REFUSED = {
    "bank": ({"method": "ir"}, Federated(clients=2), "memory bank of every sample"),
    "prototypes": ({"method": "pcl"}, Federated(clients=2), "memory bank"),
    "ess": ({"ess": Ess(target=0.3)}, Federated(clients=2), "ess.target"),
    "noise": ({}, Federated(clients=2, noise=1.0), "--federated.clip"),
    "nobody": ({}, Federated(skew=0.3), "--federated.clients 10"),
    "both": (
        {},
        Federated(clients=2, local_steps=1, local_epochs=1),
        "leave one of them out",
    ),
    "alone": ({}, Federated(clients=1, skew=0.3), "no effect on a single client"),
    "counted": ({}, Federated(clients=2, assignment="x.npy"), "clients out"),
    "share": ({}, Federated(clients=2, participation=0.0), "share of the clients"),
    "none": ({}, Federated(clients=0), "federated.clients must be at least 1"),
    "clip": ({}, Federated(clients=2, clip=-1.0), "federated.clip"),
    "skew": ({}, Federated(clients=2, skew=0.0), "federated.skew"),
    "processes": (
        {"machine": Machine(devices=2, device="cpu")},
        Federated(clients=2),
        "take turns in one process",
    ),
    "no labels": ({"labels": False}, Federated(clients=2, skew=1.0), "has none"),
    "no file": ({}, Federated(assignment="nowhere.npy"), "cannot be read"),
}


@pytest.mark.parametrize(
    ("changes", "federated", "words"), REFUSED.values(), ids=REFUSED
)
def test_what_clients_cannot_do_is_refused(changes, federated, words, small, pictures):
    data = pictures[0] if changes.get("labels") is False else pictures
    changes = {k: v for k, v in changes.items() if k != "labels"} | {"dry_run": True}
    with pytest.raises((SettingError, DataError)) as error:
        train(small(federated=federated, **changes), data=data)
    assert words in str(error.value)


def test_an_assignment_has_a_name_per_sample(small, pictures, tmp_path):
    path = assign(tmp_path, np.zeros(5, int))
    with pytest.raises(DataError, match=r"owners.npy has int64 of shape \(5,\)"):
        make_plan(small(federated=Federated(assignment=path)), data=pictures)


def test_a_run_goes_on_with_the_same_split(small, pictures, tmp_path, stopped_after):
    n = len(make_plan(small(), data=pictures).source)
    path = assign(tmp_path, np.arange(n) % 2)
    settings = small(federated=Federated(assignment=path))
    folder = stopped_after(1, settings, data=pictures)
    assign(tmp_path, np.arange(n) % 3)
    with pytest.raises(TrainingError, match="other clients than before"):
        train(Train(resume=str(folder), quiet=True), data=pictures)
    assign(tmp_path, np.arange(n) % 2)
    train(Train(resume=str(folder), quiet=True), data=pictures)


@pytest.mark.parametrize("method", ["simclr", "moco"])
def test_what_leaves_a_client_is_said(method, small, pictures):
    federated = Federated(clients=4, participation=0.5)
    settings = small(
        method=method, federated=federated, batch_size=4, epochs=1, evaluate=True
    )
    run = train(settings, data=pictures)
    about = read_record(run.folder).env["federated"]
    learner = make_plan(settings, data=pictures).learner
    size = sum(
        value.numel() * value.element_size()
        for name, value in learner.state_dict().items()
        if not name.startswith("negatives")
    )
    assert sum(about["sent"].values()) == size
    assert about["bytes_per_round"] == 2 * 2 * size
    assert set(about["sent"]) == {"encoder", "head", *["twin"] * (method == "moco")}
    assert about["batch_norm_statistics"]
    assert ("queue of past rows" in about["stays"]) == (method == "moco")
    counts = np.array(about["labels"])
    assert counts.sum(1).tolist() == [c["samples"] for c in about["clients"]]
    sentences = ["running statistics of batch norms are among them", "per round"]
    log = (run.folder / "train.log").read_text()
    page = (run.folder / "report.html").read_text()
    assert all(s in log and s in page for s in sentences)
    last = run.metrics[-1]
    assert 0 < last["federated/agreement"] <= 1 and last["federated/update"] > 0


def test_an_encoder_without_batch_norm_says_so(small, pictures):
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, 8))
    settings = small(federated=Federated(clients=2), head="linear", hidden=None)
    result = train(
        dataclasses.replace(settings, dry_run=True), data=pictures, encoder=network
    )
    assert any("no running statistics" in fact for fact in result.facts)


def test_updates_are_clipped(small, pictures):
    settings = small(federated=Federated(clients=2, local_steps=2, clip=0.01))
    run = train(settings, data=pictures)
    ends = [r for r in run.metrics if "federated/update" in r]
    assert len(ends) == 2
    assert all(r["federated/update"] <= 0.01 * (1 + 1e-6) for r in ends)
    assert all(r["federated/clipped"] == 1 for r in ends)
    assert "no privacy budget" in (run.folder / "train.log").read_text()


def test_noise_has_the_deviation_that_was_asked_for(small, pictures, newest):
    """The clip is so small that the server moves by noise alone, of z C / 4."""
    federated = Federated(clients=4, local_steps=1, clip=1e-3, noise=50.0)
    settings = small(federated=federated, batch_size=4, epochs=1)
    run = train(settings, data=pictures)
    start = make_plan(settings, data=pictures).learner.state_dict()
    end = learner_of(run.folder, newest)
    moved = torch.cat(
        [
            (end[name] - value).flatten()
            for name, value in start.items()
            if value.is_floating_point() and "running" not in name
        ]
    )
    assert moved.std() == pytest.approx(50.0 * 1e-3 / 4, rel=0.02)
    assert all(v.min() >= 0 for name, v in end.items() if "running_var" in name)
    assert "for each whole client" in (run.folder / "train.log").read_text()


def test_noise_leaves_no_variance_to_divide_by_zero(small, pictures, newest):
    """Of variances near 1, noise of deviation 1 takes one in six below zero."""
    federated = Federated(clients=4, local_steps=1, clip=1e-3, noise=4e3)
    run = train(small(federated=federated, batch_size=4, epochs=1), data=pictures)
    end = learner_of(run.folder, newest)
    variances = torch.cat([v for name, v in end.items() if "running_var" in name])
    assert variances.min() > 0
    assert 0.1 < (variances == 1).float().mean() < 0.25  # the server's, untouched


def test_how_long_the_noise_is_beside_the_updates(small, pictures):
    federated = Federated(clients=4, participation=0.5, clip=0.1, noise=3.0)
    plan = make_plan(small(federated=federated, batch_size=4), data=pictures)
    values = plan.learner.state_dict().values()
    n_numbers = sum(v.numel() for v in values if v.is_floating_point())
    (privacy,) = (fact for fact in plan.facts() if fact.startswith("privacy"))
    times = re.search("mean of 2 clients, about ([0-9.,]+) times as long", privacy)
    length = float(times[1].replace(",", "")) * 0.1
    noise = 3.0 * 0.1 / 2 * torch.randn(n_numbers)
    assert float(noise.norm()) == pytest.approx(length, rel=0.05)
    assert "at delta 0.025 for" in privacy


def test_no_budget_is_claimed_without_the_library(small, pictures, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda name, *a: None if name == "opacus" else find(name, *a),
    )
    federated = Federated(clients=4, local_steps=1, clip=1.0, noise=5.0)
    plan = make_plan(small(federated=federated, batch_size=4), data=pictures)
    assert plan.federation["federated"]["budget"] is None
    assert any("is not stated, since opacus" in fact for fact in plan.facts())


def test_the_budget_is_that_of_one_gaussian(small, pictures):
    """T rounds at multiplier z are one at z / sqrt(T), whose budget is known."""
    federated = Federated(clients=4, local_steps=1, clip=1.0, noise=5.0)
    settings = small(federated=federated, batch_size=4, epochs=4)
    about = make_plan(settings, data=pictures).outcome()["federated"]
    epsilon, delta = about["budget"]
    sigma, normal = 5.0 / 2, torch.distributions.Normal(0.0, 1.0).cdf
    a, b = 1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma
    exact = normal(torch.tensor(a)) - math.exp(epsilon) * normal(torch.tensor(b))
    assert delta == 0.1 / 4
    assert 0.1 * delta < float(exact) <= delta  # an upper bound, and not a loose one


def test_clients_that_never_meet_teach_one_encoder(tmp_path):
    settings = Train(
        data="latent_walk",
        method="cpc",
        limit=1200,
        epochs=6,
        batch_size=32,
        federated=Federated(clients=3, skew=1.0, optimizer="kept"),
        knn_every=0,
        evaluate=False,
        quiet=True,
        out=str(tmp_path),
    )
    run = inv.train(settings)
    scores = inv.evaluate(run.folder, protocols=["linear"], quiet=True)
    plain, untrained, trained = (
        scores.values("linear", features)[0]
        for features in ("values and statistics", "untrained encoder", TRAINED)
    )
    assert trained > max(plain, untrained) + 0.1


def test_a_killed_run_goes_on_in_the_middle_of_a_round(survive_a_kill):
    """Nine steps in a round: the fifth is the second of the second client."""
    survive_a_kill(
        *("shapes", "--limit", "120", "--method", "moco", "--options", "size", "64"),
        *("--batch-size", "16", "--epochs", "2", "--federated.clients", "3"),
        *("--federated.skew", "1", "--federated.local-steps", "3", "--no-evaluate"),
        *("--machine.device", "cpu"),
        step=5,
    )
