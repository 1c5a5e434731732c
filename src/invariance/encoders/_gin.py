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

    geometric/GCN    of torch-geometric; also GraphSAGE, GIN, GAT and EdgeCNN
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..data import Graph
from ..errors import SettingError, unknown

LAYERS, WIDTH = 4, 64
READOUTS = ("sum", "mean")
GEOMETRIC, NETWORKS = "geometric/", ("GCN", "GraphSAGE", "GIN", "GAT", "EdgeCNN")
Packed = Float[Tensor, "n packed"]
Nodes = Float[Tensor, "n nodes w"]


class Columns(nn.Module):
    """What a network is told of a node: 1, and its attributes, standardized.

    The 1 lets a network count neighbors where nodes have no attributes.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, kind: Graph) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(kind.mean))
        self.register_buffer("spread", torch.tensor(kind.spread))

    def forward(
        self, attributes: Float[Tensor, "n nodes a"], is_node: Bool[Tensor, "n nodes"]
    ) -> Nodes:
        """A row per node; zeros where there is none."""
        one = is_node[..., None].to(self.mean.dtype)
        standardized = (attributes.to(one.dtype) - self.mean) / self.spread
        return torch.cat([one, standardized * one], 2)


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

    def forward(
        self, h: Nodes, neighbors: Float[Tensor, "n nodes nodes"]
    ) -> Float[Tensor, "n nodes after"]:
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

    def __init__(
        self,
        kind: Graph,
        *,
        readout: str = "sum",
        layers: int = LAYERS,
        width: int = WIDTH,
    ) -> None:
        super().__init__()
        check_readout(readout)
        if min(layers, width) < 1:
            raise SettingError(
                f"layers and width need to be 1 or more: got {layers} and {width}."
            )
        self.kind, self.readout, self.columns = kind, readout, Columns(kind)
        widths = [1 + kind.width, *[width] * (layers - 1)]
        self.layers = nn.ModuleList(Layer(before, width) for before in widths)

    def forward(self, graphs: Packed) -> Float[Tensor, "n e"]:
        """One row per graph: what is summed up of every layer."""
        parts = self.kind.unpack(graphs)
        h = self.columns(parts.attributes, parts.is_node)
        flags = h[..., :1]
        neighbors = connect(parts.edges, self.kind.n_nodes).to(h.dtype)
        rows = []
        for layer in self.layers:
            h = layer(h, neighbors) * flags
            rows += summarize(h, flags, self.readout, self.kind.rooted)
        return torch.cat(rows, 1)


def connect(
    edges: Int[Tensor, "n 2 e"], n_nodes: int
) -> Float[Tensor, "n nodes nodes"]:
    """The matrix of edges: 1 where two nodes are neighbors.

    >>> connect(torch.tensor([[[0, -1], [1, -1]]]), 2)
    tensor([[[0., 1.],
             [1., 0.]]])
    """
    # where there is no edge, both ends are one node too many
    first, second = torch.where(edges < 0, n_nodes, edges).unbind(1)
    size = n_nodes + 1
    places = torch.cat([first * size + second, second * size + first], 1)
    matrix = torch.zeros(edges.shape[0], size * size, device=edges.device)
    matrix = matrix.scatter(1, places, 1.0).unflatten(1, (size, size))
    return matrix[:, :n_nodes, :n_nodes]


def summarize(h: Nodes, flags: Tensor, readout: str, rooted: bool) -> list[Tensor]:
    """Nodes as a row: their sum or mean, and the root's own."""
    total = h.sum(1)
    if readout == "mean":
        total = total / flags.sum(1).clamp_min(1)
    return [total, h[:, 0]] if rooted else [total]


def check_readout(readout: str) -> None:
    """Raise on a way to sum nodes up that nobody knows."""
    if readout not in READOUTS:
        raise SettingError(unknown("readout", readout, READOUTS))


GRAPH_ENCODERS: dict[str, Callable[[Graph], nn.Module]] = {
    "gin": GIN,
    "gin_mean": partial(GIN, readout="mean"),
}
"""Our networks of graphs by name."""


class Geometric(nn.Module):
    """A network of torch-geometric, or one that is called alike, as an encoder.

    It gets the nodes of a batch without padding, so how many there are differs from
    step to step, and a GPU is waited for: such steps are not captured.

    Args:
        network: called with ``x``, a row per node (1, then the attributes), and
            ``edge_index``, every edge in both directions; gives a row per node.
        kind: what graphs are like.
        readout: "sum" or "mean" over the nodes of a graph.

    >>> from invariance.data import Graph
    >>> class Degrees(nn.Module):
    ...     def forward(self, x, edge_index):
    ...         return torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])
    >>> kind = Graph(n_nodes=3, n_edges=2)
    >>> graphs = torch.stack([kind.read({"edges": [[0, 1], [1, 2]]})])
    >>> Geometric(Degrees(), kind)(graphs)
    tensor([[4.]])
    """

    def __init__(
        self, network: nn.Module, kind: Graph, *, readout: str = "sum"
    ) -> None:
        super().__init__()
        check_readout(readout)
        self.network, self.kind, self.readout = network, kind, readout
        self.columns = Columns(kind)

    def forward(self, graphs: Packed) -> Float[Tensor, "n e"]:
        """One row per graph."""
        is_node, attributes, edges = self.kind.unpack(graphs)
        h = self.columns(attributes, is_node)
        numbers = (is_node.flatten().cumsum(0) - 1).view_as(is_node)  # without padding
        first, second = edges.unbind(1)
        whole = first >= 0
        ends = [numbers.gather(1, end.clamp_min(0))[whole] for end in (first, second)]
        rows = self.network(
            h[is_node], torch.stack([torch.cat(e) for e in both(*ends)])
        )
        padded = rows.new_zeros(*is_node.shape, rows.shape[1])
        padded = padded.masked_scatter(is_node[..., None], rows)
        total = summarize(padded, h[..., :1], self.readout, self.kind.rooted)
        return torch.cat(total, 1)


def both(first: Tensor, second: Tensor) -> tuple[tuple[Tensor, Tensor], ...]:
    """Edges there and back: where they begin, and where they end."""
    return (first, second), (second, first)


def build_geometric(name: str, kind: Graph) -> Geometric:
    """A network of torch-geometric by its name: "geometric/GCN"."""
    try:
        from torch_geometric.nn import models
    except ImportError:
        raise SettingError(
            f"{name!r} is a network of torch-geometric, which is not installed: "
            "pip install \"invariance[graphs]\", or use 'gin'."
        ) from None
    short = name.removeprefix(GEOMETRIC)
    if short not in NETWORKS:
        raise SettingError(unknown("network of torch-geometric", short, NETWORKS))
    made: Any = getattr(models, short)
    return Geometric(made(1 + kind.width, WIDTH, num_layers=LAYERS), kind)
