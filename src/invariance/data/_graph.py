"""A graph as one tensor: which nodes there are, their attributes, and the edges.

    flags       one per node: 1 where there is a node, 0 where there is none
    attributes  ``width`` per node, row by row
    edges       the first ends, then the second ends; nodes count from 1, 0 is no edge

Every graph of a set has the room of its largest, so that graphs are stacked, stored,
streamed and captured like any other samples: n_nodes (1 + width) + 2 n_edges numbers
each, 4 kB for 100 nodes with 4 attributes and 250 edges. A set of some ten thousand
graphs of some hundred nodes is small; one graph that is much larger than all others
makes room for itself everywhere, and is better left out. Zeros are the graph without
nodes.

Edges have no direction, no attributes and no weight: both directions are one edge, an
edge that is named twice counts once, and a loop, which says nothing about neighbors, is
left out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import PIL.Image
import PIL.ImageDraw
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import DataError
from ..words import count
from ._kind import Kind
from ._label_numbers import as_array
from ._tables import open_query

MOST_DEGREE = 16  # from here on, degrees share a place in the histogram
PICTURE = 96  # pixels of a drawn graph
ROUNDS = 60  # of moving the nodes of a drawing
NODES = ("nodes", "x", "attributes", "num_nodes")  # what a line may call them


@dataclass(frozen=True, eq=False)
class Net:
    """One graph as it was read.

    Attributes:
        n_nodes: they are called 0 to n_nodes - 1.
        edges: two nodes each, the lower first, each edge once.
        attributes: a row per node; of width 0 where there are none.
        label: that of the graph, or one per node; None: not told.
    """

    n_nodes: int
    edges: np.ndarray
    attributes: np.ndarray
    label: Any = None


class Parts(NamedTuple):
    """Graphs of a batch, taken apart."""

    is_node: Bool[Tensor, "n nodes"]
    attributes: Float[Tensor, "n nodes width"]
    edges: Int[Tensor, "n 2 edges"]
    """Both ends, from 0; -1 where there is no edge."""


class Graph(Kind):
    """A graph: nodes with or without attributes, and edges without direction.

    Args:
        n_nodes: that there is room for.
        n_edges: that there is room for.
        width: attributes of a node.
        mean: of each attribute over all nodes, what a masked one is set to.
        spread: the standard deviation of each attribute; an encoder divides by it.
        rooted: whether the first node stands for the graph, as where a sample is a node
            with its neighborhood; views keep it.

    >>> from invariance.data import kind_of
    >>> kind = Graph(n_nodes=3, n_edges=2)
    >>> kind.read({"edges": [[0, 1], [1, 0]]})
    tensor([1., 1., 0., 1., 0., 2., 0.])
    >>> kind_of(kind.describe()) == kind
    True
    """

    name = "graph"
    baseline = "degree statistics"
    views = "graphcl"
    measured = False

    def __init__(
        self,
        n_nodes: int,
        n_edges: int,
        width: int = 0,
        mean: Sequence[float] = (),
        spread: Sequence[float] = (),
        rooted: bool = False,
    ) -> None:
        super().__init__((n_nodes * (1 + width) + 2 * n_edges,))
        self.n_nodes, self.n_edges, self.width = n_nodes, n_edges, width
        self.mean = tuple(mean) or (0.0,) * width
        self.spread = tuple(spread) or (1.0,) * width
        self.rooted = rooted

    @classmethod
    def fit(
        cls, nets: Sequence[Net], learned_from: Sequence[Net], *, rooted: bool = False
    ) -> "Graph":
        """The kind that has room for all of ``nets``, which have as many attributes.

        Their mean and spread are those of the graphs that are learned from.
        """
        rows = np.concatenate([net.attributes for net in learned_from])
        rows = rows.astype(np.float64)
        spread = rows.std(0)
        return cls(
            max(net.n_nodes for net in nets),
            max(1, *(len(net.edges) for net in nets)),
            rows.shape[1],
            rows.mean(0).tolist(),
            np.where(spread > 1e-12, spread, 1.0).tolist(),
            rooted,
        )

    @property
    def word(self) -> str:  # type: ignore[override]
        """What a sample is in sentences: a node is its neighborhood."""
        return "node" if self.rooted else "graph"

    @property
    def encoder(self) -> str:  # type: ignore[override]
        """Sums of nodes; beside a root, which is one node, their mean."""
        return "gin_mean" if self.rooted else "gin"

    @property
    def shape_words(self) -> str:
        """The room in sentences."""
        nodes = count(self.n_nodes, "node")
        if self.rooted:
            nodes = count(self.n_nodes - 1, "neighbor")
        return f"up to {nodes} and {count(self.n_edges, 'edge')}"

    def read(self, raw: Any) -> Float[Tensor, " packed"]:
        """A graph of any form that ``to_net`` takes, if there is room for it."""
        net = to_net(raw)
        width = net.attributes.shape[1]
        if width != self.width:
            raise DataError(
                f"its nodes have {width} attributes instead of {self.width}"
            )
        if net.n_nodes > self.n_nodes or len(net.edges) > self.n_edges:
            raise DataError(
                f"{count(net.n_nodes, 'node')} and {count(len(net.edges), 'edge')}, "
                f"but there is room for only {self.n_nodes} and {self.n_edges}, as "
                "the largest graph trained with has"
            )
        packed = torch.zeros(self.shape)
        flags, attributes, edges = self._views(packed[None])
        flags[0, : net.n_nodes] = 1
        attributes[0, : net.n_nodes] = torch.from_numpy(net.attributes)
        edges[0, :, : len(net.edges)] = torch.from_numpy(net.edges.T + 1).float()
        return packed

    def _views(self, batch: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The three parts of packed graphs as they stand there."""
        n, wide = self.n_nodes, self.n_nodes * self.width
        flags, attributes, edges = batch.split([n, wide, 2 * self.n_edges], dim=1)
        shape = (n, self.width)
        return flags, attributes.unflatten(1, shape), edges.unflatten(1, (2, -1))

    def unpack(self, batch: Float[Tensor, "n packed"]) -> Parts:
        """Packed graphs, taken apart; what names no node of a graph is no edge."""
        flags, attributes, edges = self._views(batch)
        is_node = flags > 0.5
        ends = edges.round().long().clamp(0, self.n_nodes) - 1
        known = is_node.gather(1, ends.clamp_min(0).flatten(1)).view_as(ends)
        whole = ((ends >= 0) & known).all(1, keepdim=True)
        return Parts(is_node, attributes, ends.masked_fill(~whole, -1))

    def pack(self, parts: Parts) -> Float[Tensor, "n packed"]:
        """The other way; nodes that are not there lose their attributes."""
        flags = parts.is_node.to(parts.attributes.dtype)
        attributes = parts.attributes * flags[..., None]
        edges = (parts.edges + 1).to(attributes.dtype)
        return torch.cat([flags, attributes.flatten(1), edges.flatten(1)], 1)

    def prepare(
        self, batch: Float[Tensor, "n packed"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "n packed"]:
        """As it is: numbers of nodes have no place in a lower precision."""
        return batch.float()

    def degrees(self, parts: Parts) -> Float[Tensor, "n nodes"]:
        """How many neighbors each node has."""
        whole = parts.edges >= 0
        counts = torch.zeros(parts.is_node.shape, device=parts.is_node.device)
        ends = parts.edges.clamp_min(0).flatten(1)
        return counts.scatter_add(1, ends, whole.flatten(1).float())

    def plain(self, batch: Float[Tensor, "n packed"]) -> Float[Tensor, "n e"]:
        """What counting tells: how many nodes and edges there are, the mean, spread and
        shares of degrees, and the mean of every attribute; of a rooted graph also the
        root's own.

        >>> Graph(3, 2).plain(torch.tensor([[1.0, 1, 1, 1, 2, 2, 3]]))[0, :4]
        tensor([3.0000, 2.0000, 1.3333, 0.4714])
        """
        parts = self.unpack(batch)
        degrees, flags = self.degrees(parts), parts.is_node.float()
        n = flags.sum(1, keepdim=True)
        few = n.clamp_min(1)
        mean = degrees.sum(1, keepdim=True) / few
        spread = (((degrees - mean) ** 2 * flags).sum(1, keepdim=True) / few).sqrt()
        places = torch.arange(MOST_DEGREE + 1, device=batch.device)
        same = degrees.clamp_max(MOST_DEGREE)[..., None] == places
        shares = (same * flags[..., None]).sum(1) / few
        attributes = (parts.attributes * flags[..., None]).sum(1) / few
        edges = degrees.sum(1, keepdim=True) / 2
        columns = [n, edges, mean, spread, shares, attributes]
        if self.rooted:
            columns += [degrees[:, :1], parts.attributes[:, 0]]
        return torch.cat(columns, 1)

    def show(self, sample: Float[Tensor, " packed"]) -> PIL.Image.Image:
        """A drawing: neighbors lie near each other, and colors tell attributes."""
        parts = self.unpack(sample[None].float().cpu())
        is_node = parts.is_node[0]
        places = {old: new for new, old in enumerate(is_node.nonzero()[:, 0].tolist())}
        ends = parts.edges[0].T.tolist()
        edges = [(places[a], places[b]) for a, b in ends if a >= 0]
        spots = lay_out(len(places), np.array(edges, dtype=int).reshape(-1, 2))
        picture = PIL.Image.new("RGB", (PICTURE, PICTURE), "white")
        draw = PIL.ImageDraw.Draw(picture)
        for a, b in edges:
            draw.line((*spots[a], *spots[b]), fill="dimgray")
        size = 2 if len(spots) > 20 else 3
        shades = self._color(parts.attributes[0][is_node])
        for k, (x, y) in enumerate(spots):
            edge = "black" if self.rooted and is_node[0] and k == 0 else None
            draw.ellipse(
                (x - size, y - size, x + size, y + size), fill=shades[k], outline=edge
            )
        return picture

    def _color(self, attributes: Float[Tensor, "nodes width"]) -> list[str]:
        """A color per node: its attribute that is most above the mean."""
        if not self.width:
            return [COLORS[0]] * len(attributes)
        spread = torch.tensor(self.spread)
        high = ((attributes - torch.tensor(self.mean)) / spread).argmax(1)
        return [COLORS[k % len(COLORS)] for k in high.tolist()]

    def open(self, query: Any) -> tuple[str, Any]:
        """A graph, a text of one in JSON, or a .jsonl file with one.

        Of a rooted kind its first node is the query.
        """
        if not isinstance(query, str | Path):
            return "query", query
        advice = (
            'give a .jsonl file with one graph, or a JSON object such as {"edges": '
            "[[0, 1]]}"
        )
        return open_query(query, "graph", advice)

    def describe(self) -> dict[str, Any]:
        """All that is needed to read graphs in the same way."""
        return {
            "name": self.name,
            "n_nodes": self.n_nodes,
            "n_edges": self.n_edges,
            "width": self.width,
            "mean": list(self.mean),
            "spread": list(self.spread),
            "rooted": self.rooted,
        }

    def __repr__(self) -> str:
        return f"Graph({self.shape_words}, {count(self.width, 'attribute')} per node)"


COLORS = (
    *("steelblue", "darkorange", "seagreen", "firebrick", "mediumpurple", "goldenrod"),
    *("teal", "hotpink"),
)


def lay_out(n: int, edges: np.ndarray) -> list[tuple[float, float]]:
    """Places in a drawing: nodes push each other away, and edges pull.

    >>> [round(x) for x, _ in lay_out(2, np.array([[0, 1]]))]
    [91, 5]
    """
    angles = 2.399963 * np.arange(n)  # the golden angle: no two lie on one another
    spots = np.stack([np.cos(angles), np.sin(angles)], 1)
    spots *= np.sqrt((np.arange(n) + 0.5) / max(n, 1))[:, None]
    length = 1 / math.sqrt(max(n, 1))
    for k in range(ROUNDS if n > 2 else 0):
        apart = spots[:, None] - spots[None]
        far = np.sqrt((apart**2).sum(2)) + 1e-6
        push = (apart * (length / far**2)[..., None] * length).sum(1)
        pull = np.zeros_like(spots)
        if len(edges):
            first, second = edges.T
            line = spots[first] - spots[second]
            strength = line * (np.sqrt((line**2).sum(1)) / length)[:, None]
            np.add.at(pull, second, strength)
            np.add.at(pull, first, -strength)
        step = push + pull - 3 * length * spots  # what has no neighbors stays near, too
        size = np.sqrt((step**2).sum(1, keepdims=True)) + 1e-9
        spots += step / size * np.minimum(size, 0.3 * (1 - k / ROUNDS))
    low, high = spots.min(0, initial=0), spots.max(0, initial=0)
    middle, reach = (low + high) / 2, max(float((high - low).max()), 1e-9)
    inside = (spots - middle) / reach * (PICTURE - 10) + PICTURE / 2
    return [(float(x), float(y)) for x, y in inside]


# ------------------------------------------------------------- what may be a graph


def to_net(raw: Any) -> Net:
    """A graph from a ``Net``, a mapping, or an object with an ``edge_index``.

    A mapping has "edges", pairs of nodes, and "nodes", a number of them or a row of
    attributes each; without "nodes" there are as many as the edges name. An object of
    torch-geometric, or one like it, has ``edge_index``, ``x`` and ``y``.

    >>> to_net({"nodes": 4, "edges": [[0, 1], [2, 1]], "label": "tree"}).edges.tolist()
    [[0, 1], [1, 2]]
    """
    if isinstance(raw, Net):
        return raw
    if isinstance(raw, Mapping):
        edges = raw.get("edges", raw.get("edge_index"))
        nodes = next((raw[name] for name in NODES if raw.get(name) is not None), None)
        label = raw.get("label", raw.get("labels", raw.get("y")))
        if edges is None:
            raise DataError("it has no edges: an empty list says that there are none")
        turned = "edges" not in raw
    elif getattr(raw, "edge_index", None) is not None:
        edges, label, turned = raw.edge_index, getattr(raw, "y", None), True
        nodes = getattr(raw, "x", None)
        nodes = getattr(raw, "num_nodes", None) if nodes is None else nodes
    else:
        raise DataError(
            f"{type(raw).__name__} instead of a graph: expected a mapping with nodes "
            "and edges, or an object with x and edge_index"
        )
    ends = read_edges(edges, turned)
    n_nodes, attributes = read_nodes(nodes, ends)
    if not n_nodes:
        raise DataError("it has no nodes")
    if len(ends) and (ends.min() < 0 or ends.max() >= n_nodes):
        a, b = ends[((ends < 0) | (ends >= n_nodes)).any(1)][0]
        has = "node 0 alone" if n_nodes == 1 else f"nodes 0 to {n_nodes - 1}"
        raise DataError(
            f"the edge {a}-{b} names a node that does not exist: it has {has}"
        )
    ends = np.sort(ends, 1)
    ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    return Net(n_nodes, ends.reshape(-1, 2), attributes, label)


def read_edges(edges: Any, turned: bool) -> np.ndarray:
    """Pairs of nodes, (e, 2); ``turned``: given as two rows of ends."""
    try:
        ends = as_array(edges)
        ends = ends.reshape(-1, 2) if not ends.size else ends
        ends = ends.T if turned and ends.size else ends
        whole = ends.astype(np.int64)
    except (TypeError, ValueError):
        raise DataError("its edges are not pairs of nodes, such as [0, 1]") from None
    if ends.ndim != 2 or ends.shape[1] != 2 or (whole != ends).any():
        raise DataError("its edges are not pairs of nodes, such as [0, 1]")
    return whole


def read_nodes(nodes: Any, ends: np.ndarray) -> tuple[int, np.ndarray]:
    """How many nodes there are, and the attributes of each."""
    if nodes is None:
        nodes = int(ends.max()) + 1 if len(ends) else 0
    if isinstance(nodes, int | np.integer) and not isinstance(nodes, bool):
        return int(nodes), np.zeros((int(nodes), 0), np.float32)
    try:
        rows = as_array(nodes).astype(np.float32)
    except (TypeError, ValueError):
        widths = {len(row) for row in nodes if hasattr(row, "__len__")}
        if len(widths) > 1:
            raise DataError(
                f"its nodes have {min(widths)} to {max(widths)} attributes: all need "
                "the same number"
            ) from None
        raise DataError("its nodes have attributes that are not numbers") from None
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2:
        raise DataError(f"its attributes have shape {rows.shape}: expected a row each")
    if not np.isfinite(rows).all():
        raise DataError("some attributes are NaN or infinite")
    return len(rows), rows
