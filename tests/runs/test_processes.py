"""Embedding and scoring on several processes: what one process gives, to the bit."""

import multiprocessing
import os
import socket
import traceback

import pytest
import torch
from torch import nn

import invariance as inv
from invariance.data import Resident
from invariance.errors import DataError, SettingError
from invariance.evaluation import (
    encode_images,
    evaluate_encoders,
    make_task,
    plan_protocols,
)
from invariance.processes import ALONE, Processes, join_processes

N_PROCESSES = 3


def make_labeled_task(processes=ALONE):
    g = torch.Generator().manual_seed(0)
    labels = torch.arange(90) % 3
    images = torch.randint(0, 200, (90, 3, 8, 8), generator=g, dtype=torch.uint8)
    images[torch.arange(90), labels, :4] += 30
    parts = [
        Resident(images[rows], labels[rows], name="blots")
        for rows in (slice(60), slice(60, None))
    ]
    return make_task(*parts, limit=None, device="cpu", processes=processes)


def make_encoder(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.ReLU())


def score(processes=ALONE):
    said = []
    encoders = {"raw pixels": None, "trained encoder": make_encoder()}
    rows = evaluate_encoders(
        make_labeled_task(processes),
        encoders,
        plan=plan_protocols(["knn", "linear", "retrieval", "clustering"]),
        seeds=2,
        say=said.append,
    )
    return rows, said


def encode(processes=ALONE):
    images = torch.arange(70 * 192, dtype=torch.float32).reshape(70, 3, 8, 8) / 13440
    return [
        encode_images(make_encoder(), images, batch_size=size, processes=processes)
        for size in (1, 8, 40, 70)  # of the last there are fewer than processes
    ]


def work(rank, port, queue, run, photos, folder):
    """All that one of the processes does; its results go back by name."""
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(N_PROCESSES)}
    results = {}
    try:
        processes = join_processes()
        groups = [join_processes().group for _ in range(2)]
        results["one group"] = groups[0] is groups[1] is not None
        results["encode"] = [features.numpy() for features in encode(processes)]
        results["score"] = score(processes)
        network = make_encoder(seed=rank)
        network.register_buffer("steps", torch.tensor(rank, dtype=torch.int16))
        processes.copy_first(network)
        results["weights"] = network[1].weight.tolist()
        results["steps"] = network.steps.item()
        how = {"batch_size": 2, "shared": True}
        for ending in (".npz", ".parquet", ".csv"):
            inv.write_embeddings(run, photos, folder / f"all{ending}", **how)
        for k in (1, 2):
            inv.write_embeddings(
                run, photos, folder / f"p{k}.npz", shard=f"{k}/2", **how
            )
        try:
            inv.write_embeddings(run, photos, folder / "all.npz", **how)
        except DataError as error:
            results["refused"] = str(error)
    except BaseException:
        results["failure"] = traceback.format_exc()
    queue.put((rank, results))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def photos_of_all(tmp_path_factory, pixels):
    """27 images in two classes, one of them broken."""
    from PIL import Image

    root = tmp_path_factory.mktemp("photos")
    for k in range(27):
        path = root / ("cat" if k % 2 else "dog") / f"{k:02}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels[k]).save(path)
    broken = root / "cat" / "05.png"
    broken.write_bytes(broken.read_bytes()[:200])
    return root


@pytest.fixture(scope="module")
def results(run, photos_of_all, folder):
    """What each of the processes has, by its number."""
    context = multiprocessing.get_context("fork")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    queue = context.Queue()
    processes = [
        context.Process(target=work, args=(k, port, queue, run, photos_of_all, folder))
        for k in range(N_PROCESSES)
    ]
    for process in processes:
        process.start()
    answers = dict(queue.get(timeout=120) for _ in processes)
    for process in processes:
        process.join()
    for answer in answers.values():
        assert "failure" not in answer, answer["failure"]
    return [answers[k] for k in range(N_PROCESSES)]


def test_features_are_those_of_one_process_in_every_process(results):
    expected = encode()
    for answer in results:
        for features, right in zip(answer["encode"], expected, strict=True):
            assert torch.equal(torch.from_numpy(features), right)


def test_scores_are_those_of_one_process_in_every_process(results):
    rows, said = score()
    assert len(rows) > 20
    for answer in results:
        assert answer["score"] == (rows, said)


def test_weights_of_the_first_are_everybodys(results):
    expected = make_encoder(seed=0)[1].weight.tolist()
    assert all(answer["weights"] == expected for answer in results)
    assert all(answer["steps"] == 0 for answer in results)


@pytest.mark.parametrize("ending", [".npz", ".parquet", ".csv"])
def test_a_file_is_that_of_one_process(
    ending, results, run, photos_of_all, folder, tmp_path
):
    whole = tmp_path / f"all{ending}"
    done = inv.write_embeddings(run, photos_of_all, whole, batch_size=2)
    assert done.n == 26
    assert (folder / whole.name).read_bytes() == whole.read_bytes()
    parts = [folder / "p1.npz", folder / "p2.npz"]
    merged = inv.merge_embeddings(parts, tmp_path / f"merged{ending}")
    assert merged.path.read_bytes() == whole.read_bytes()
    assert sorted(p.name for p in folder.iterdir() if p.suffix == ".part") == []


def test_what_the_first_refuses_all_refuse(results):
    for answer in results:
        assert "exists already" in answer["refused"]


def test_one_group_however_often_they_join(results):
    assert all(answer["one group"] for answer in results)


def test_devices_are_those_of_this_machine(monkeypatch):
    gpu = torch.device("cuda")
    monkeypatch.setattr("invariance.processes.choose_device", lambda *_, **__: gpu)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert Processes(9, 16).choose_device("auto") == torch.device("cuda", 1)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "16")
    with pytest.raises(SettingError, match="this machine has 8: got 16"):
        Processes(9, 16).choose_device("auto")
