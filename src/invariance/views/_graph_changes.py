"""Views of graphs (GraphCL, You et al. 2020): what a graph may lose and stay the same.

    nodes        some nodes are dropped, with their edges
    edges        some edges are dropped, and as many drawn anew between any two nodes
    attributes   some nodes get the mean attributes instead of their own
    subgraph     what grows first from one node, neighbor by neighbor, is all that stays

Which of them a graph meets is drawn for every view, unless one alone is asked for. A
graph of one node or without edges stays whole as far as there is nothing to change. A
root (see ``invariance.data.Graph``) is never dropped, and subgraphs grow from it.

The subgraph grows as in the authors' code, where it is called a random walk: a random
neighbor of what has been reached comes next. Here every node has a random time that
passes before it is entered, and those that are reached first stay, which is as random
and needs no step per node. Nodes that are more than 64 edges away are not reached.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import SettingError
from ._augment import Number, Operation, Shape
from ._draws import Draws
from ._sometimes import on_picked

MOST_HOPS = 64
Packed = Float[Tensor, "n packed"]
Turns = Float[Tensor, "n k"]


@dataclass(frozen=True)
class GraphChange(Operation):
    """A change of some share of a graph.

    Args:
        share: of its nodes or edges; what is changed is the nearest whole number.
        kind: how graphs are packed, an ``invariance.data.Graph``.
    """

    images_only: ClassVar[bool] = False
    share: Number
    kind: Any = field(repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise SettingError(
                "changed_share is the share of a graph's nodes or edges that is "
                f"changed, from 0 to below 1: got {self.share}."
            )

    def draw(self, draws: Draws, shape: Shape) -> Turns:
        """A number per node: those with the lowest are chosen first."""
        return draws.uniform(self.kind.n_nodes)


class DropNodes(GraphChange):
    """Some nodes are dropped, with their edges; one stays at least.

    >>> from invariance.data import Graph
    >>> kind = Graph(n_nodes=3, n_edges=2)
    >>> graphs = torch.tensor([[1.0, 1, 1, 1, 2, 2, 3]])  # edges 1-2 and 2-3
    >>> DropNodes(0.4, kind).apply(graphs, torch.tensor([[0.7, 0.8, 0.1]]))
    tensor([[1., 1., 0., 1., 0., 2., 0.]])
    """

    def apply(self, images: Packed, parameters: Turns) -> Packed:
        """The graphs without the nodes whose turn comes first."""
        parts, turns = self.kind.unpack(images), parameters.to(images.device)
        if self.kind.rooted:
            turns = put_last(turns)
        n_nodes = parts.is_node.sum(1, keepdim=True)
        dropped = choose_first(
            parts.is_node, turns, share_of(n_nodes - 1, n_nodes, self.share)
        )
        return keep_nodes(self.kind, parts, parts.is_node & ~dropped)


class PerturbEdges(GraphChange):
    """Some edges are dropped, and as many are drawn between any two nodes.

    One that is drawn where there is an edge already adds none.
    """

    def draw(self, draws: Draws, shape: Shape) -> Turns:
        """For each edge: its turn, and both ends of the one that takes its place."""
        return draws.uniform(3 * self.kind.n_edges)

    def apply(self, images: Packed, parameters: Turns) -> Packed:
        """The graphs with other edges."""
        parts = self.kind.unpack(images)
        turns, first, second = parameters.to(images.device).chunk(3, 1)
        is_edge = parts.edges[:, 0] >= 0
        n_edges = is_edge.sum(1, keepdim=True)
        chosen = choose_first(is_edge, turns, share_of(n_edges, n_edges, self.share))
        n_nodes = parts.is_node.sum(1, keepdim=True)
        a = (first * n_nodes).long()
        b = (a + 1 + (second * (n_nodes - 1)).long()) % n_nodes.clamp_min(1)
        nodes = (
            (~parts.is_node).long().argsort(dim=1, stable=True)
        )  # those that are, first
        drawn = torch.stack([nodes.gather(1, a), nodes.gather(1, b)], 1)
        chosen = (chosen & (n_nodes > 1))[:, None]
        edges = drop_doubles(torch.where(chosen, drawn, parts.edges), self.kind.n_nodes)
        return self.kind.pack(parts._replace(edges=edges))


class MaskAttributes(GraphChange):
    """Some nodes have the mean attributes instead of their own."""

    def apply(self, images: Packed, parameters: Turns) -> Packed:
        """The graphs with the attributes of those nodes masked."""
        parts, turns = self.kind.unpack(images), parameters.to(images.device)
        n_nodes = parts.is_node.sum(1, keepdim=True)
        chosen = choose_first(
            parts.is_node, turns, share_of(n_nodes, n_nodes, self.share)
        )
        columns = [images.new_full((1,), value) for value in self.kind.mean]
        mean = torch.cat([*columns, images.new_empty(0)])
        attributes = torch.where(chosen[..., None], mean, parts.attributes)
        return self.kind.pack(parts._replace(attributes=attributes))


class Subgraph(GraphChange):
    """What grows first from one node stays; ``share`` of the nodes is left out."""

    def draw(self, draws: Draws, shape: Shape) -> Turns:
        """Where it begins, and a time per node that passes before it is entered."""
        return draws.uniform(1 + self.kind.n_nodes)

    def apply(self, images: Packed, parameters: Turns) -> Packed:
        """The subgraphs."""
        parts, drawn = self.kind.unpack(images), parameters.to(images.device)
        n_nodes = parts.is_node.sum(1, keepdim=True)
        nodes = (~parts.is_node).long().argsort(dim=1, stable=True)
        start = 0 * n_nodes if self.kind.rooted else (drawn[:, :1] * n_nodes).long()
        times = self.grow(parts.edges, nodes.gather(1, start), drawn[:, 1:] + 2.0**-24)
        n_kept = n_nodes - share_of(n_nodes - 1, n_nodes, self.share)
        reached = parts.is_node & times.isfinite()
        return keep_nodes(self.kind, parts, choose_first(reached, times, n_kept))

    def grow(
        self, edges: Int[Tensor, "n 2 e"], start: Int[Tensor, "n 1"], delays: Turns
    ) -> Float[Tensor, "n nodes"]:
        """When every node is first reached; infinite: never."""
        times = torch.full_like(delays, torch.inf).scatter(1, start, 0.0)
        whole = (edges >= 0).flatten(1)
        ends = edges.clamp_min(0).flatten(1)
        others = edges.flip(1).clamp_min(0).flatten(1)
        passing = delays.gather(1, others).masked_fill(~whole, torch.inf)
        for _ in range(min(self.kind.n_nodes, MOST_HOPS)):
            arrivals = times.gather(1, ends) + passing
            earlier = times.scatter_reduce(1, others, arrivals, "amin")
            if times.is_cpu and earlier.equal(times):  # a GPU would be waited for
                break
            times = earlier
        return times


@dataclass(frozen=True)
class OneOf(Operation):
    """One of several operations, drawn for each sample."""

    images_only: ClassVar[bool] = False
    operations: tuple[Operation, ...]

    def draw(self, draws: Draws, shape: Shape) -> tuple[Int[Tensor, " n"], list[Any]]:
        """Which operation, and the parameters of all."""
        which = (draws.uniform(1)[:, 0] * len(self.operations)).long()
        each = enumerate(self.operations)
        return which, [op.draw(draws.substream(i), shape) for i, op in each]

    def apply(self, images: Tensor, parameters: tuple[Tensor, list[Any]]) -> Tensor:
        """Each sample under its own."""
        which, drawn = parameters
        made = images
        for i, operation in enumerate(self.operations):

            def work(
                some: Tensor, rows: Any, i: int = i, op: Any = operation
            ) -> Tensor:
                return op.apply(some, drawn[i][rows])

            made = on_picked(made, which == i, work)
        return made


CHANGES: dict[str, type[GraphChange]] = {
    "nodes": DropNodes,
    "edges": PerturbEdges,
    "attributes": MaskAttributes,
    "subgraph": Subgraph,
}


def graphcl(
    kind: Any, *, n_views: int = 2, changed_share: Number = 0.2, changes: str = "all"
) -> list[list[Callable[..., Any]]]:
    """For graphs: nodes, edges or attributes are lost, or all but a subgraph.

    Settings:
        changed_share (0 to below 1): Share of the nodes or edges that is changed.
        changes (all, or some of nodes, edges, attributes and subgraph, with commas):
            Which changes one is drawn from for every view.

    >>> from invariance.data import Graph
    >>> graphcl(Graph(9, 20), n_views=1, changes="nodes,edges")
    [[OneOf(operations=(DropNodes(share=0.2), PerturbEdges(share=0.2)))]]
    """
    names = [*CHANGES] if changes == "all" else changes.replace(",", " ").split()
    if wrong := [name for name in names or [""] if name not in CHANGES]:
        raise SettingError(
            f"changes of graphs are all, or some of {', '.join(CHANGES)}: got "
            f"{wrong[0]!r}."
        )
    if changes == "all" and not kind.width:
        names.remove("attributes")  # which nobody has
    if n_views < 1:
        raise SettingError(f"n_views is at least 1: got {n_views}.")
    operations = tuple(CHANGES[name](changed_share, kind) for name in names)
    return [[OneOf(operations)] for _ in range(n_views)]


def share_of(most: Tensor, whole: Tensor, share: Number) -> Tensor:
    """A share of a number as the nearest whole one, and at most ``most``."""
    return torch.minimum((whole * share).round().long(), most).clamp_min(0)


def put_last(turns: Turns) -> Turns:
    """The first node's turn after all others'."""
    return torch.cat([torch.full_like(turns[:, :1], 2.0), turns[:, 1:]], 1)


def choose_first(
    existing: Bool[Tensor, "n k"], turns: Turns, n_chosen: Int[Tensor, "n 1"]
) -> Bool[Tensor, "n k"]:
    """Those whose turn comes first, of those that there are."""
    order = turns.masked_fill(~existing, torch.inf).argsort(dim=1, stable=True)
    return existing & (order.argsort(1) < n_chosen)


def keep_nodes(kind: Any, parts: Any, kept: Bool[Tensor, "n nodes"]) -> Packed:
    """Graphs of these nodes, and of the edges between them."""
    known = kept.gather(1, parts.edges.clamp_min(0).flatten(1)).view_as(parts.edges)
    edges = parts.edges.masked_fill(~known.all(1, keepdim=True), -1)
    return kind.pack(parts._replace(is_node=kept, edges=edges))


def drop_doubles(edges: Int[Tensor, "n 2 e"], n_nodes: int) -> Int[Tensor, "n 2 e"]:
    """Every edge once, the lower end first.

    >>> drop_doubles(torch.tensor([[[1, 0, -1], [0, 1, -1]]]), 3)
    tensor([[[ 0, -1, -1],
             [ 1, -1, -1]]])
    """
    low, high = edges.amin(1), edges.amax(1)
    keys = torch.where(low < 0, n_nodes * n_nodes, low * n_nodes + high).sort(1).values
    same = torch.zeros_like(keys, dtype=torch.bool)
    same[:, 1:] = keys[:, 1:] == keys[:, :-1]
    none = (same | (keys == n_nodes * n_nodes))[:, None]
    return torch.stack([keys // n_nodes, keys % n_nodes], 1).masked_fill(none, -1)
