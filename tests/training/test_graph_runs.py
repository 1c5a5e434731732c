"""Runs on graphs and on nodes: they learn, survive a kill, and pass every door."""

import json

import pytest
import torch

import invariance as inv
from invariance.data import bonds
from invariance.errors import DataError, SettingError
from invariance.training import Train, make_plan, train


@pytest.fixture
def graphs(tmp_path):
    """Sixty graphs of known classes in a file."""
    lines = [
        {"nodes": g.attributes.tolist(), "edges": g.edges.tolist(), "label": name}
        for g, name in zip(*bonds(60), strict=True)
    ]
    path = tmp_path / "graphs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def settings(data, tmp_path, **changes):
    usual = {
        "method": "graphcl",
        "epochs": 2,
        "batch_size": 16,
        "log_every": 1,
        "quiet": True,
        "evaluate": False,
        "out": str(tmp_path / "runs"),
    }
    return Train(data=str(data), **usual | changes)


@pytest.mark.parametrize("data", ["bonds", "blocks"])
def test_it_learns_what_degrees_do_not_tell(data, tmp_path):
    how = {"limit": 512, "epochs": 5, "batch_size": 64}
    run = train(settings(data, tmp_path, **how))
    scores = inv.evaluate(run.folder, protocols=["knn"], quiet=True)
    degrees, untrained, trained = (
        scores.values("knn", features)[0]
        for features in ("degree statistics", "untrained encoder", "trained encoder")
    )
    assert trained > untrained + 0.02 and trained > degrees + 0.1


def test_killed_and_resumed_it_is_the_run_that_was_not(graphs, survive_a_kill):
    survive_a_kill(
        *(str(graphs), "--method", "graphcl", "--batch-size", "16", "--epochs", "2"),
        *("--no-evaluate", "--machine.device", "cpu"),
        step=4,
    )


def test_a_run_on_graphs_from_dry_run_to_report(graphs, tmp_path):
    asked = settings(graphs, tmp_path, evaluate=True, epochs=1)
    plan = make_plan(asked)
    facts = " ".join(plan.facts())
    assert "graphs of up to 40 nodes and 60 edges" in facts and "gin" in facts
    run = train(asked)
    rows = [json.loads(x) for x in (run.folder / "evaluation.jsonl").open()]
    assert {row["features"] for row in rows} >= {
        *("degree statistics", "untrained encoder", "trained encoder"),
    }
    page = (run.folder / "report.html").read_text()
    assert "degree statistics" in page and "data:image/png" in page
    encoder = inv.load(run.folder)
    assert encoder.kind == plan.source.kind and encoder.name == "gin"
    embedded, sheet = tmp_path / "graphs.parquet", tmp_path / "sheet.png"
    assert inv.write_embeddings(run.folder, graphs, embedded).n == 60
    query = tmp_path / "query.jsonl"
    query.write_text(graphs.read_text().splitlines()[7] + "\n")
    for gallery in (graphs, embedded):
        found = inv.search(run.folder, gallery, str(query), k=3, sheet=sheet)
        assert found.neighbors[0].hits[0].name == "7"  # it finds itself first
        assert "cannot be shown" not in " ".join(found.notes)
    inv.export(run.folder, to="onnx", file=tmp_path / "graphs.onnx")
    larger = {"nodes": [[1, 0, 0, 0]] * 41, "edges": [[0, 1]]}
    with pytest.raises(
        DataError, match="41 nodes and 1 edge, but there is room for only 40"
    ):
        inv.embed(run.folder, [larger, larger])


def test_nodes_of_one_graph_are_embedded_node_by_node(tmp_path):
    run = train(settings("blocks", tmp_path, limit=64, epochs=1))
    ring = {"nodes": [[1, 0, 0, 0]] * 9, "edges": [[k, (k + 1) % 9] for k in range(9)]}
    assert inv.embed(run.folder, [ring]).features.shape == (9, 512)
    assert inv.embed(run.folder, [ring, ring]).names[9] == "1:0"


def test_streamed_and_resident_runs_are_the_same(graphs, tmp_path, readings):
    runs = [
        train(settings(graphs, tmp_path, storage=storage, name=storage)).folder
        for storage in ("resident", "streamed")
    ]
    assert readings(runs[0]) == readings(runs[1])


def test_data_and_networks_of_torch_geometric(tmp_path):
    from torch_geometric import data  # seconds, which others need not wait for

    graphs, names = bonds(40)
    items = [
        data.Data(
            x=torch.from_numpy(g.attributes),
            edge_index=torch.from_numpy(g.edges.T),
            y=torch.tensor([len(name)]),
        )
        for g, name in zip(graphs, names, strict=True)
    ]
    asked = settings("", tmp_path, encoder="geometric/GCN", epochs=1)
    run = inv.train(asked, data=items)
    encoder = inv.load(run.folder)
    assert encoder.name == "geometric/GCN" and encoder.width == 64


def test_other_methods_take_graphs_too(graphs, tmp_path):
    run = train(settings(graphs, tmp_path, method="vicreg", epochs=1))
    assert inv.load(run.folder).name == "gin"


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"data": "shapes"}, DataError, "learns from samples of the kind graph"),
        ({"encoder": "tiny"}, SettingError, "'tiny' is not a network for graphs"),
        ({"views": "simclr"}, SettingError, "leave --views out for 'graphcl'"),
        (
            {"options": {"changed_share": 1.5}},
            SettingError,
            "from 0 to below 1: got 1.5",
        ),
        ({"options": {"changes": "nods"}}, SettingError, "changes of graphs are all"),
        ({"image_size": 32}, SettingError, "image_size is for samples of the kind"),
    ],
)
def test_what_is_refused(graphs, tmp_path, changes, error, message):
    asked = settings(changes.pop("data", graphs), tmp_path, **changes)
    with pytest.raises(error, match=message):
        make_plan(asked)
