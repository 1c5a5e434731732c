r"""Encoders of graphs: a node learns from its neighbors, and the nodes are summed up.

$$h_i \leftarrow \mathrm{MLP}\Big((1+\epsilon)\,h_i + \sum_{j\sim i} h_j\Big),\qquad
z = \big[\,\textstyle\sum_i h_i^{(1)},\dots,\sum_i h_i^{(4)}\,\big]$$

The graph isomorphism network (Xu et al. 2019): two graphs that it tells apart are those
that the Weisfeiler-Lehman test tells apart. What is summed up of each layer is kept.

    gin         sums over nodes: how often something occurs counts
    gin_mean    means over nodes: how often among all nodes

Neighbors are summed up by a product with the matrix of edges, n_nodes squared numbers
per graph: quick for graphs of some hundred nodes, and 0.5 GB for 128 graphs of 1,000.
Each layer is normalized over the numbers of one node, so that no row depends on what
else is in its batch.

    geometric/GCN    any network of torch-geometric that gives a row per node
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..data import Graph
from ..errors import SettingError, choose

LAYERS, WIDTH = 4, 64
READOUTS = ("sum", "mean")
GEOMETRIC = "geometric/"
Packed = Float[Tensor, "n packed"]
Nodes = Float[Tensor, "n nodes w"]


class Layer(nn.Module):
    """One round of messages: the node and its neighbors, then a small perceptron."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.epsilon = nn.Parameter(torch.zeros(()))
        self.perceptron = nn.Sequential(
            nn.Linear(before, width),
            nn.LayerNorm(width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.LayerNorm(width),
            nn.ReLU(),
        )

    def forward(self, h: Nodes, neighbors: Float[Tensor, "n nodes nodes"]) -> Nodes:
        """What every node is after it."""
        after: Tensor = self.perceptron((1 + self.epsilon) * h + neighbors @ h)
        return after


class GIN(nn.Module):
    """A graph isomorphism network; one row of features per graph.

    Args:
        kind: what graphs are like: room, attributes, whether they have a root.
        readout: how nodes are summed up, "sum" or "mean"; of a rooted graph the root's
            own row stands beside it.
        layers: rounds of messages.
        width: of a node in each.

    >>> from invariance.data import Graph
    >>> kind = Graph(n_nodes=3, n_edges=2)
    >>> graphs = [{"edges": [[0, 1], [1, 2]]}, {"edges": [[1, 2], [2, 0]]}]
    >>> path, again = GIN(kind)(torch.stack([kind.read(graph) for graph in graphs]))
    >>> path.shape, torch.allclose(path, again, atol=1e-5)
    (torch.Size([256]), True)
    """

    mean: Tensor
    spread: Tensor

    def __init__(
        self,
        kind: Graph,
        *,
        readout: str = "sum",
        layers: int = LAYERS,
        width: int = WIDTH,
    ) -> None:
        super().__init__()
        choose(dict.fromkeys(READOUTS), readout, "readout")
        if min(layers, width) < 1:
            raise SettingError(
                f"layers and width need to be 1 or more: got {layers} and {width}."
            )
        self.kind, self.readout = kind, readout
        self.register_buffer("mean", torch.tensor(kind.mean))
        self.register_buffer("spread", torch.tensor(kind.spread))
        widths = [1 + kind.width, *[width] * (layers - 1)]
        self.layers = nn.ModuleList(Layer(before, width) for before in widths)

    def forward(self, graphs: Packed) -> Float[Tensor, "n e"]:
        """One row per graph: what is summed up of every layer."""
        parts = self.kind.unpack(graphs)
        there = parts.there[..., None].to(self.mean.dtype)
        x = (parts.attributes.to(there.dtype) - self.mean) / self.spread
        h = torch.cat([there, x * there], 2)  # without attributes, neighbors count
        neighbors = connect(parts.edges, parts.there.shape[1]).to(h.dtype)
        rows = []
        for layer in self.layers:
            h = layer(h, neighbors) * there
            rows += summarize(h, there, self.readout, self.kind.rooted)
        return torch.cat(rows, 1)


def connect(
    edges: Tensor, n_nodes: int
) -> Float[Tensor, "n nodes nodes"]:
    """The matrix of edges: 1 where two nodes are neighbors."""
    first, second = edges.unbind(1)
    # where there is no edge, both ends are one node too many
    first, second = (torch.where(end < 0, n_nodes, end) for end in (first, second))
    size = n_nodes + 1
    flat = torch.cat([first * size + second, second * size + first], 1)
    matrix = torch.zeros(len(edges), size * size, device=edges.device)
    matrix = matrix.scatter(1, flat, 1.0).unflatten(1, (size, size))
    return matrix[:, :n_nodes, :n_nodes]


def summarize(h: Nodes, there: Tensor, readout: str, rooted: bool) -> list[Tensor]:
    """Nodes as a row: their sum or mean, and the root's own."""
    total = h.sum(1)
    if readout == "mean":
        total = total / there.sum(1).clamp_min(1)
    return [total, h[:, 0]] if rooted else [total]


GRAPH_ENCODERS: dict[str, Callable[[Graph], nn.Module]] = {
    "gin": partial(GIN, readout="sum"),
    "gin_mean": partial(GIN, readout="mean"),
}
"""Networks of graphs by name."""


class Geometric(nn.Module):
    """A network of torch-geometric, or one that is called alike, as an encoder.

    Args:
        network: called with all nodes of a batch (x, first a constant 1 and then the
            attributes) and their ``edge_index``; gives a row per node.
        kind: what graphs are like.
        readout: "sum" or "mean" over the nodes of a graph.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, network: nn.Module, kind: Graph, readout: str = "sum") -> None:
        super().__init__()
        choose(dict.fromkeys(READOUTS), readout, "readout")
        self.network, self.kind, self.readout = network, kind, readout
        self.register_buffer("mean", torch.tensor(kind.mean))
        self.register_buffer("spread", torch.tensor(kind.spread))

    def forward(self, graphs: Packed) -> Float[Tensor, "n e"]:
        """One row per graph."""
        parts = self.kind.unpack(graphs)
        there, (n, size) = parts.there, parts.there.shape
        places = there.flatten().cumsum(0) - 1  # among the nodes that there are
        x = (parts.attributes.to(self.mean.dtype) - self.mean) / self.spread
        x = torch.cat([torch.ones_like(x[..., :1]) if x.shape[2] else
                       x.new_ones(n, size, 1), x], 2)[there]
        start = size * torch.arange(n, device=graphs.device)[:, None, None]
        whole = parts.edges[:, 0] >= 0
        ends = places[(parts.edges.clamp_min(0) + start)].transpose(0, 1)[:, whole]
        rows = self.network(x, torch.cat([ends, ends.flip(0)], 1))
        h = rows.new_zeros(n * size, rows.shape[1])
        h = h.index_copy(0, there.flatten().nonzero()[:, 0], rows)
        mask = there[..., None].to(h.dtype)
        h = h.unflatten(0, (n, size))
        return torch.cat(summarize(h, mask, self.readout, self.kind.rooted), 1)


def build_geometric(name: str, kind: Graph) -> Geometric:
    """A network of torch-geometric by its name: "geometric/GCN"."""
    short = name.removeprefix(GEOMETRIC)
    try:
        from torch_geometric.nn import models
    except ImportError:
        raise SettingError(
            f"{name!r} is a network of torch-geometric, which is not installed: "
            'pip install "invariance[graphs]", or use \'gin\'.'
        ) from None
    known = [k for k in ("GCN", "GraphSAGE", "GIN", "GAT", "PNA", "EdgeCNN")
             if hasattr(models, k)]
    made: Any = getattr(models, choose({k: k for k in known}, short, "network"))
    return Geometric(made(1 + kind.width, WIDTH, num_layers=3, out_channels=WIDTH), kind)
