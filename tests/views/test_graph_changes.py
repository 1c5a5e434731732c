"""Views of graphs: what each change leaves, and that no batch changes another's."""

import networkx
import pytest
import torch

from invariance.data import Graph, load
from invariance.errors import SettingError
from invariance.views import RECIPES, Draws, OneOf, PerturbEdges, ViewSet

CHANGES = ("nodes", "edges", "attributes", "subgraph")
graphcl = RECIPES["graphcl"]


def take(name, n=24):
    source = load(name, n=n, split="all")
    (batch,) = source.batches([torch.arange(n)])
    return source.kind, batch


def see(kind, batch, samples=None, **settings):
    views = ViewSet(graphcl(kind, n_views=1, **settings), prepare=kind.prepare)
    samples = torch.arange(len(batch)) if samples is None else samples
    (view,) = views(batch, samples=samples, seed=0, epoch=1)
    assert view.shape == batch.shape and view.dtype == torch.float32
    return view


def as_networkx(kind, sample):
    parts = kind.unpack(sample[None])
    graph = networkx.Graph()
    graph.add_nodes_from(parts.is_node[0].nonzero()[:, 0].tolist())
    graph.add_edges_from(edge for edge in parts.edges[0].T.tolist() if edge[0] >= 0)
    return graph


@pytest.mark.parametrize("changes", ["all", *CHANGES])
@pytest.mark.parametrize("name", ["bonds", "blocks"])
def test_views_do_not_depend_on_the_batch(name, changes):
    kind, batch = take(name)
    samples = torch.randperm(10**6, generator=torch.Generator().manual_seed(0))[:24]
    whole = see(kind, batch, samples, changes=changes)
    order = torch.randperm(24)
    mixed = see(kind, batch[order], samples[order], changes=changes)
    assert mixed.equal(whole[order])
    assert see(kind, batch[5:6], samples[5:6], changes=changes).equal(whole[5:6])
    assert not whole.equal(batch)


def test_dropped_nodes_leave_the_graph_of_the_others():
    kind, batch = take("bonds")
    view = see(kind, batch, changes="nodes", changed_share=0.25)
    for before, after in zip(batch, view, strict=True):
        old, new = as_networkx(kind, before), as_networkx(kind, after)
        assert len(new) == 30
        assert networkx.utils.graphs_equal(new, old.subgraph(new.nodes))
    old, new = kind.unpack(batch).attributes, kind.unpack(view).attributes
    there = kind.unpack(view).is_node
    assert new[there].equal(old[there]) and not new[~there].any()


def test_perturbed_edges_are_as_many_and_between_nodes_that_there_are():
    kind, batch = take("bonds")
    few = see(
        kind, batch, changes="nodes", changed_share=0.5
    )  # half of the nodes are missing
    view = see(kind, few, changes="edges", changed_share=0.3)
    for before, after in zip(few, view, strict=True):
        old, new = as_networkx(kind, before), as_networkx(kind, after)
        assert new.nodes == old.nodes and not any(a == b for a, b in new.edges)
        n, kept = old.number_of_edges(), len(set(old.edges) & set(new.edges))
        assert n - round(0.3 * n) <= kept <= n
        assert n - 3 <= new.number_of_edges() <= n  # one may be drawn twice
    ends = [edge for row in view for edge in as_networkx(kind, row).edges]
    assert len(set(ends)) > 100  # they are drawn anywhere


def test_masked_attributes_are_the_mean():
    kind, batch = take("bonds")
    view = see(kind, batch, changes="attributes", changed_share=0.25)
    old, new = kind.unpack(batch), kind.unpack(view)
    changed = (old.attributes != new.attributes).any(2)
    assert (changed.sum(1) == 10).all() and new.edges.equal(old.edges)
    assert new.attributes[changed].equal(torch.tensor(kind.mean).expand(240, 4))


def test_a_subgraph_is_connected_and_of_its_share():
    kind, batch = take("bonds")
    view = see(kind, batch, changes="subgraph", changed_share=0.4)
    for before, after in zip(batch, view, strict=True):
        old, new = as_networkx(kind, before), as_networkx(kind, after)
        assert networkx.is_connected(new)
        assert networkx.utils.graphs_equal(new, old.subgraph(new.nodes))
        parts = map(len, networkx.connected_components(old))
        assert len(new) == 24 or len(new) in parts


def test_a_subgraph_begins_anywhere():
    kind, batch = take("bonds", 200)
    view = see(kind, batch, changes="subgraph", changed_share=0.97)
    assert len(kind.unpack(view).is_node.nonzero()[:, 1].unique()) > 35


@pytest.mark.parametrize("changes", CHANGES)
def test_a_root_stays(changes):
    kind, batch = take("blocks", 200)
    view = see(kind, batch, changes=changes, changed_share=0.8)
    assert kind.unpack(view).is_node[:, 0].all()
    if changes == "subgraph":
        rows = [as_networkx(kind, row) for row in view]
        assert all(0 in row and networkx.is_connected(row) for row in rows)


@pytest.mark.parametrize("changes", ["all", *CHANGES])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.99])
def test_one_node_and_no_edges_are_no_trouble(changes, share):
    kind = Graph(n_nodes=3, n_edges=2, width=1)
    graphs = [{"nodes": [[5.0]], "edges": []}, {"nodes": [[1.0]] * 3, "edges": []}]
    batch = torch.stack([kind.read(graph) for graph in graphs] * 10)
    view = kind.unpack(see(kind, batch, changes=changes, changed_share=share))
    assert view.is_node.any(1).all() and (view.edges == -1).all()


def test_each_graph_meets_one_of_the_changes():
    kind, batch = take("bonds", 200)
    (view,) = graphcl(kind, n_views=1)
    draws = Draws(seed=0, epoch=0, samples=torch.arange(200), view=0)
    assert isinstance(view[0], OneOf)
    which, _ = view[0].draw(draws, batch.shape)
    assert all(30 < int((which == k).sum()) < 70 for k in range(4))
    made = view[0](batch, draws)
    parts, old = kind.unpack(made), kind.unpack(batch)
    lost = (~parts.is_node).any(1)
    assert lost[(which == 0)].all() and not lost[(which == 1) | (which == 2)].any()
    assert (parts.attributes != old.attributes).flatten(1).any(1)[which == 2].all()


def test_a_coin_on_a_device_gives_the_same(monkeypatch):
    """A GPU changes all graphs and keeps those that are picked."""
    kind, batch = take("bonds")
    whole = see(kind, batch)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert see(kind, batch).equal(whole)


def test_without_attributes_none_are_masked():
    plain = Graph(n_nodes=3, n_edges=2)
    assert [type(op).__name__ for op in graphcl(plain)[0][0].operations] == [
        "DropNodes",
        "PerturbEdges",
        "Subgraph",
    ]


def test_what_is_refused():
    kind = Graph(n_nodes=3, n_edges=2)
    with pytest.raises(SettingError, match="changes of graphs are all, or some of nod"):
        graphcl(kind, changes="nodes,egdes")
    with pytest.raises(SettingError, match="changed_share is the share of a graph"):
        PerturbEdges(1.0, kind)
