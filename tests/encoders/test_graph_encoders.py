"""Networks of graphs: what they see of a graph, and what they do not depend on."""

import sys

import networkx
import pytest
import torch
from torch import nn

from invariance.data import Graph, load
from invariance.encoders import GIN, GRAPH_ENCODERS, Encoder, Geometric, build_encoder
from invariance.errors import SettingError


def pack(kind, *graphs):
    return torch.stack([kind.read(graph) for graph in graphs])


def as_mapping(graph):
    return {"nodes": len(graph), "edges": [list(edge) for edge in graph.edges]}


@pytest.mark.parametrize("name", [*GRAPH_ENCODERS, "geometric/GIN"])
def test_the_order_of_nodes_the_padding_and_the_batch_do_not_matter(name):
    source = load("bonds", n=8, split="all")
    (batch,) = source.batches([torch.arange(8)])
    torch.manual_seed(0)
    encoder = build_encoder(name, kind=source.kind).eval()
    parts = source.kind.unpack(batch)
    order = torch.randperm(40)
    places = order.argsort()
    turned = source.kind.pack(
        parts._replace(
            attributes=parts.attributes[:, order],
            edges=torch.where(parts.edges < 0, -1, places[parts.edges]),
        )
    )
    rows = encoder(batch)
    assert rows.shape == (8, encoder.width)
    torch.testing.assert_close(encoder(turned), rows, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(encoder(batch[3:4]), rows[3:4], rtol=1e-4, atol=1e-4)
    wide = Graph(50, 70, 4, source.kind.mean, source.kind.spread)
    roomier = build_encoder(name, kind=wide).eval()
    roomier.load_state_dict(encoder.state_dict())
    spread = wide.pack(
        parts._replace(
            is_node=nn.functional.pad(parts.is_node, (0, 10)),
            attributes=nn.functional.pad(parts.attributes, (0, 0, 0, 10)),
            edges=nn.functional.pad(parts.edges, (0, 10), value=-1),
        )
    )
    torch.testing.assert_close(roomier(spread), rows, rtol=1e-4, atol=1e-4)


def test_a_layer_is_the_sum_over_neighbors():
    kind = Graph(n_nodes=3, n_edges=2)
    network = GIN(kind, layers=1, width=4)
    graphs = pack(kind, {"edges": [[0, 1], [1, 2]]})
    perceptron = network.layers[0].perceptron
    # each node counts itself and its neighbors: 2, 3 and 2
    expected = perceptron(torch.tensor([[2.0], [3.0], [2.0]])).sum(0)
    torch.testing.assert_close(network(graphs)[0], expected)


def test_it_tells_graphs_of_equal_degrees_apart():
    prism = networkx.circular_ladder_graph(3)
    edges = [*networkx.path_graph(6).edges]
    one = {"nodes": 6, "edges": [*edges, (0, 2)]}  # a triangle at the end
    other = {"nodes": 6, "edges": [*edges, (1, 3)]}  # one in the middle
    kind = Graph(n_nodes=6, n_edges=9)
    torch.manual_seed(0)
    a, b, _ = GIN(kind)(pack(kind, one, other, as_mapping(prism)))
    assert (a - b).abs().max() > 0.1


def test_a_rooted_graph_has_the_row_of_its_root_too():
    kind = Graph(n_nodes=4, n_edges=3, rooted=True)
    star = {"edges": [[0, 1], [0, 2], [0, 3]]}
    leaf = {"edges": [[1, 0], [1, 2], [1, 3]]}
    center, edge = GIN(kind, layers=1, readout="mean")(pack(kind, star, leaf))
    assert center.shape == (128,)
    torch.testing.assert_close(center[:64], edge[:64])
    assert (center[64:] - edge[64:]).abs().max() > 0.01


def test_one_node_no_edges_and_no_nodes_give_finite_rows():
    kind = Graph(n_nodes=3, n_edges=2, width=1)
    graphs = pack(
        kind, {"nodes": [[1.0]], "edges": []}, {"nodes": [[1.0]] * 3, "edges": []}
    )
    graphs = torch.cat([graphs, torch.zeros(1, *kind.shape)])
    for name in GRAPH_ENCODERS:
        network = build_encoder(name, kind=kind).train()
        rows = network(graphs)
        rows.sum().backward()
        assert rows.isfinite().all()
        assert all(p.grad.isfinite().all() for p in network.parameters())


def test_a_network_that_is_called_like_torch_geometrics():
    class Neighbors(nn.Module):
        def forward(self, x, edge_index):
            source, target = edge_index
            return torch.zeros_like(x).index_add(0, target, x[source])

    kind = Graph(n_nodes=4, n_edges=3, width=1, mean=[1.0], spread=[2.0])
    graphs = pack(
        kind,
        {"nodes": [[1.0], [3.0], [5.0]], "edges": [[0, 1], [1, 2]]},
        {"nodes": [[3.0]], "edges": []},
        {"nodes": [[7.0], [9.0], [1.0], [1.0]], "edges": [[0, 1]]},
    )
    rows = Encoder(Geometric(Neighbors(), kind), kind=kind)(graphs)
    # in the first graph neighbors are (1), (0, 2) and (1) after standardizing
    assert rows.tolist() == [[4, 4], [0, 0], [2, 7]]
    mean = Geometric(Neighbors(), kind, readout="mean")(graphs)
    assert mean[2].tolist() == [0.5, 1.75]


@pytest.mark.parametrize("name", ["GCN", "GraphSAGE", "GAT", "EdgeCNN"])
def test_networks_of_torch_geometric_by_name(name):
    kind = load("blocks", n=4).kind
    encoder = build_encoder(f"geometric/{name}", kind=kind)
    assert encoder.width == 128  # 64, and as many of the root


def test_what_is_refused(monkeypatch):
    kind = Graph(n_nodes=3, n_edges=2)
    with pytest.raises(SettingError, match=r"'mlp' is not a network for graphs.*'gin'"):
        build_encoder("mlp", kind=kind)
    with pytest.raises(SettingError, match="'tiny' is not a network for graphs"):
        build_encoder("tiny", kind=kind)
    with pytest.raises(SettingError, match="Unknown readout 'max'"):
        GIN(kind, readout="max")
    with pytest.raises(SettingError, match="layers and width need to be 1 or more"):
        GIN(kind, layers=0)
    with pytest.raises(SettingError, match="Unknown network of torch-geometric 'GCM'"):
        build_encoder("geometric/GCM", kind=kind)
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    with pytest.raises(SettingError, match=r"not installed: .*invariance\[graphs\]"):
        build_encoder("geometric/GCN", kind=kind)
