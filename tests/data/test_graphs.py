"""Graphs: how they are read, packed and shown, and what is said of those that fail."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from invariance.data import Graph, Samples, blocks, bonds, load, neighborhoods
from invariance.errors import DataError

PATH = {"nodes": 3, "edges": [[0, 1], [1, 2]], "label": "path"}
RING = {"nodes": 3, "edges": [[0, 1], [1, 2], [2, 0]], "label": "ring"}
SQUARE = {"nodes": [[1, 2]] * 4, "edges": [[0, 1], [1, 2], [2, 3], [3, 0]]}


def write(path, *lines):
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def unpack(source, i=0):
    (batch,) = source.batches([torch.tensor([i])])
    parts = source.kind.unpack(batch)
    edges = [tuple(edge) for edge in parts.edges[0].T.tolist() if edge[0] >= 0]
    return int(parts.is_node.sum()), sorted(edges)


def test_a_file_has_a_graph_per_line(tmp_path):
    source = load(write(tmp_path / "g.jsonl", PATH, RING), split="all")
    assert source.kind == Graph(n_nodes=3, n_edges=3)
    assert source.class_names == ("path", "ring")
    assert source.labels.tolist() == [0, 1]
    assert unpack(source, 0) == (3, [(0, 1), (1, 2)])
    assert unpack(source, 1) == (3, [(0, 1), (0, 2), (1, 2)])


def test_objects_of_torch_geometric_are_read_like_mappings():
    from torch_geometric import data  # seconds, which others need not wait for

    ends = torch.tensor([[0, 1, 1, 2, 0], [1, 0, 2, 1, 0]])  # both ways, and a loop
    graph = data.Data(x=torch.ones(3, 2), edge_index=ends, y=torch.tensor([1]))
    same = SimpleNamespace(x=graph.x, edge_index=ends, y=graph.y)
    mapping = {"nodes": [[1, 1]] * 3, "edges": [[0, 1], [1, 2]], "label": 1}
    sources = [load([g, g], split="all") for g in (graph, same, mapping)]
    (first, *others) = [next(s.batches([torch.arange(2)])) for s in sources]
    assert all(first.equal(other) for other in others)
    assert [s.labels.tolist() for s in sources] == [[1, 1]] * 3


def test_the_text_files_of_the_dortmund_collection(tmp_path):
    folder = tmp_path / "TOY"
    folder.mkdir()
    files = {
        "A": "1, 2\n2, 1\n3, 4\n4, 5\n",
        "graph_indicator": "1\n1\n2\n2\n2\n",
        "graph_labels": "1\n-1\n",
        "node_labels": "0\n7\n0\n7\n7\n",
        "node_attributes": "0.5\n1\n2\n3\n4\n",
    }
    for name, text in files.items():
        (folder / f"TOY_{name}.txt").write_text(text)
    source = load(folder, split="all")
    assert source.kind.width == 3  # an attribute, and a column per label of a node
    assert [unpack(source, i) for i in (0, 1)] == [
        (2, [(0, 1)]),
        (3, [(0, 1), (1, 2)]),
    ]
    (batch,) = source.batches([torch.tensor([1])])
    assert source.kind.unpack(batch).attributes[0].tolist() == [
        [2, 1, 0],
        [3, 0, 1],
        [4, 0, 1],
    ]
    (folder / "TOY_A.txt").write_text("1, 9\n")
    with pytest.raises(DataError, match=r"TOY_A.txt names node 9, and .* has 5 nodes"):
        load(folder)


def test_a_folder_with_too_few_labels_or_a_broken_line(tmp_path):
    (tmp_path / "T_graph_indicator.txt").write_text("1\n1\n2\n2\n")
    (tmp_path / "T_A.txt").write_text("1, 2\n3, 4\n")
    (tmp_path / "T_graph_labels.txt").write_text("1\n")
    with pytest.raises(DataError, match=r"has 1 label, and .* has 2 graphs: each"):
        load(tmp_path)
    (tmp_path / "T_A.txt").write_text("1, 2\nx, 4\n")
    with pytest.raises(DataError, match=r"cannot be read: .*[^.]\.$"):
        load(tmp_path)


def test_nodes_with_labels_are_samples_with_their_neighborhoods(tmp_path):
    star = {"edges": [[0, k] for k in range(1, 12)] + [[1, 12]], "label": [0] * 13}
    star["label"][0] = 1
    source = load(write(tmp_path / "star.jsonl", star), split="all")
    assert len(source) == 13 and source.kind.rooted and source.kind.word == "node"
    assert unpack(source, 0)[0] == 13 and unpack(source, 12)[0] == 3
    assert source.labels.tolist() == star["label"]
    assert unpack(source, 12)[1] == [(0, 1), (1, 2)]  # the node itself is the first
    few = neighborhoods(star, hops=2, most=5)
    assert max(net.n_nodes for net in few) == 5
    assert [net.n_nodes for net in neighborhoods(star, hops=1)][:2] == [12, 3]


def test_one_graph_without_labels_is_learned_from_node_by_node():
    ring = {"edges": [[k, (k + 1) % 20] for k in range(20)]}
    assert len(load([ring], split="all")) == 20
    assert len(load(SimpleNamespace(edge_index=np.array(ring["edges"]).T))) == 20


@pytest.mark.parametrize(
    "graph, why",
    [
        (
            {"nodes": 2, "edges": [[0, 2]]},
            "the edge 0-2 names a node that does not exist",
        ),
        ({"nodes": 1, "edges": [[0, 1]]}, "it has node 0 alone"),
        ({"nodes": 2, "edges": [[-1, 0]]}, "the edge -1-0 names a node"),
        ({"nodes": [[1, 2], [3]], "edges": []}, "its nodes have 1 to 2 attributes"),
        ({"nodes": [[1], ["a"]], "edges": []}, "attributes that are not numbers"),
        ({"nodes": [[1], [float("nan")]], "edges": []}, "attributes are NaN or inf"),
        ({"nodes": [[1]], "edges": [[0]]}, "its edges are not pairs of nodes"),
        ({"nodes": [[1]], "edges": [[0, 0.5]]}, "its edges are not pairs of nodes"),
        ({"nodes": 3}, "it has no edges: an empty list says that there are none"),
        ({"nodes": 0, "edges": []}, "it has no nodes"),
        (
            {"nodes": 9, "edges": []},
            "9 nodes and 0 edges, but there is room for only 3",
        ),
        (7, "int instead of a graph"),
    ],
)
def test_what_is_no_graph_is_said(graph, why):
    with pytest.raises(DataError, match=why):
        Graph(n_nodes=3, n_edges=3).read(graph)


def test_what_cannot_be_read_is_left_out_and_named(tmp_path):
    broken = {"nodes": 2, "edges": [[0, 5]], "label": "path"}
    wide = {"nodes": [[1.0]] * 2, "edges": [[0, 1]], "label": "path"}
    path = write(tmp_path / "g.jsonl", *[PATH, RING] * 10, broken, wide)
    with path.open("a") as file:
        file.write("{no json\n")
    source = load(path, split="all")
    assert len(source) == 20
    assert "names a node that does not exist" in source.unreadable["line 21"]
    assert "1 attributes instead of 0" in source.unreadable["line 22"]
    assert "not JSON" in source.unreadable["line 23"]
    text = " ".join(str(note) for note in source.notes)
    assert "3 unreadable graphs were left out: line" in text
    with pytest.raises(DataError, match=r"more than max_bad_fraction=0.05 allows"):
        load(path, max_bad_fraction=0.05)


def test_an_empty_file_has_no_graph(tmp_path):
    (tmp_path / "none.jsonl").write_text("\n")
    with pytest.raises(DataError, match=r"none.jsonl has no graph: give at least two"):
        load(tmp_path / "none.jsonl", kind="graph")
    with pytest.raises(DataError, match="has no graphs: expected the files"):
        load(tmp_path, kind="graph")
    with pytest.raises(DataError, match=r"are read from a .jsonl"):
        load(write(tmp_path / "g.csv", PATH), kind="graph")
    with pytest.raises(DataError, match='each line needs "edges"'):
        load(write(tmp_path / "text.jsonl", {"text": "a"}), kind="graph")


def test_graphs_without_edges_and_of_one_node_are_read_and_told():
    bare = {"nodes": [[1], [2]], "edges": []}
    single = {"nodes": [[3]], "edges": []}
    source = load([bare, single, single], split="all")
    assert [unpack(source, i) for i in (0, 1)] == [(2, []), (1, [])]
    text = " ".join(str(note) for note in source.notes)
    assert "1 graph has no edges: only attributes can tell such graphs apart." in text
    assert "2 graphs have one node, of which views drop nothing." in text
    with pytest.raises(DataError, match="has an edge, and their nodes have no attrib"):
        load([{"nodes": 2, "edges": []}, {"nodes": 3, "edges": []}])
    path = {"nodes": 2, "edges": [[0, 1]]}
    source = load([path, path, {"nodes": 3, "edges": []}], split="all")
    assert "only numbers of nodes can tell" in " ".join(map(str, source.notes))
    broken = {"nodes": 3, "edges": [[0, 9]]}
    with pytest.raises(
        DataError, match=r"1 could not be read, the first is graph 0 \("
    ):
        load([broken, {"nodes": 2, "edges": []}])


def test_a_query_is_a_graph_or_a_file_with_one(tmp_path):
    kind = Graph(n_nodes=3, n_edges=3)
    assert kind.open(PATH) == ("query", PATH)
    path = write(tmp_path / "one.jsonl", PATH)
    assert kind.open(str(path)) == (str(path), PATH)
    text = '{"edges": [[0, 1], [1, 2]]}'
    assert kind.open(text) == (text, {"edges": [[0, 1], [1, 2]]})
    with pytest.raises(DataError, match=r"cannot be read as a graph .*: give a .jsonl"):
        kind.open('{"edges": ')
    with pytest.raises(DataError, match=r"'3' cannot .* \(there is no such file\)"):
        kind.open("3")
    with pytest.raises(DataError, match="2 graphs, but a query is one"):
        kind.open(write(tmp_path / "two.jsonl", PATH, RING))


def test_labels_are_one_per_graph_or_one_per_node():
    odd = PATH | {"label": [1, 2]}
    with pytest.raises(DataError, match="has 3 nodes and 2 labels: give one for each"):
        load([odd, RING])
    some = [PATH, {k: v for k, v in RING.items() if k != "label"}] * 3
    assert load(some, split="all").labels is None  # not all have one


def test_attributes_are_measured_on_the_training_part():
    graphs = [
        {"nodes": [[k], [k]], "edges": [[0, 1]], "label": k % 2} for k in range(40)
    ]
    train, test = load(graphs), load(graphs, split="test")
    (batch,) = train.batches([torch.arange(len(train))])
    values = train.kind.unpack(batch).attributes.double()
    assert train.kind.mean[0] == pytest.approx(float(values.mean()))
    assert train.kind.spread[0] == pytest.approx(float(values.std(correction=0)))
    assert train.kind == test.kind and len(train) + len(test) == 40


def test_packing_and_unpacking_are_inverse():
    source = load("bonds", n=5, split="all")
    (batch,) = source.batches([torch.arange(5)])
    assert source.kind.pack(source.kind.unpack(batch)).equal(batch)
    noise = torch.randn(5, *source.shape)  # no graph, and still no wrong index
    parts = source.kind.unpack(noise)
    assert parts.edges.max() < 40 and parts.edges.min() >= -1


def test_degree_statistics_are_what_counting_gives():
    kind = Graph(n_nodes=4, n_edges=4, width=2)
    batch = kind.read(SQUARE)[None]
    n, edges, mean, spread, *shares = kind.plain(batch)[0].tolist()
    assert (n, edges, mean, spread) == (4, 4, 2, 0)
    assert shares == [0, 0, 1, *[0] * 14, 1, 2]  # every degree is 2; mean attributes


def test_a_graph_is_shown_as_a_drawing():
    rooted = Graph(n_nodes=4, n_edges=4, width=2, rooted=True)
    for kind in (Graph(n_nodes=4, n_edges=4, width=2), rooted):
        picture = kind.show(kind.read(SQUARE))
        assert picture.size == (96, 96) and len(picture.getcolors(10_000)) >= 3
    assert Graph(2, 1).show(torch.zeros(4)).size == (96, 96)  # a view may be empty


def test_generated_sets_have_classes_that_degrees_do_not_tell():
    graphs, names = bonds(400)
    for name in set(names):
        ours = [g for g, other in zip(graphs, names, strict=True) if other == name]
        assert np.mean([len(g.edges) for g in ours]) == pytest.approx(57.4, abs=0.3)
        assert all((g.attributes.sum(0) == 10).all() for g in ours)
    graph, owners = blocks(400)
    degrees = np.bincount(graph.edges.flatten())
    assert degrees.max() == 5 and degrees.mean() > 4.8
    ends = np.array([int(name[-1]) for name in owners])[graph.edges]
    assert (ends[:, 0] // 2 == ends[:, 1] // 2).mean() > 0.85
    assert (ends[:, 0] == ends[:, 1]).mean() < 0.1


def test_parts_of_generated_sets_differ_and_have_one_kind():
    for name in ("bonds", "blocks"):
        train, test = (load(name, n=40, split=split) for split in ("train", "test"))
        assert train.kind == test.kind and len(train) == len(test) == 40
        one, other = (next(s.batches([torch.arange(40)])) for s in (train, test))
        assert not one.equal(other)
        again = load(name, n=40)
        assert next(again.batches([torch.arange(40)])).equal(one)


def test_samples_take_graphs_of_any_form():
    kind = Graph(n_nodes=4, n_edges=4, width=2)
    source = load(Samples([SQUARE, SQUARE], kind), split="all")
    assert len(source) == 2 and source.kind == kind


def test_labels_of_some_graphs_only_are_not_used_and_it_is_said():
    graphs = [{"nodes": 3, "edges": [[0, 1]], "label": k % 2} for k in range(20)]
    graphs[7] |= {"label": None}
    source = load(graphs)
    assert source.labels is None and len(source) == 20
    said = " ".join(map(str, source.notes))
    assert "labels for 19 of 20 graphs, and they count only where every graph" in said
    assert "labels for" not in " ".join(map(str, load(graphs[:7]).notes))
