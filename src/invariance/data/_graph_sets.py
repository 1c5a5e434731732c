r"""Generated graphs whose classes counting cannot tell, and a graph of known blocks.

``motifs``: a graph is four to eight copies of a motif of six nodes, joined by a random
tree, with some loose nodes and two random edges. The class is the motif:

    two triangles          joined by an edge
    triangle on a ring     a ring of six with a chord that cuts a triangle off
    theta                  two nodes joined by three paths of 2, 2 and 3 edges

All three have two nodes of degree 3 and four of degree 2, and all else is drawn alike:
degrees have the same distribution in every class. Who has which neighbors differs.

``blocks``: one graph of nodes in four blocks on a ring. Neighbors of a node are mostly
of the two blocks beside its own, and seldom of its own. Its attribute is a color, which
is that of its block with probability 0.4 and any otherwise. A node's block is told best
by the colors of its neighbors, and of their neighbors.
"""

import numpy as np

from ..errors import DataError
from ._graph import Graph, Net, to_net
from ._graphs import Graphs, neighborhoods
from ._load_request import Request
from ._sources import Read

# the two nodes of degree 3 come first
MOTIFS = {
    "two triangles": ((0, 1), (0, 2), (0, 3), (2, 3), (1, 4), (1, 5), (4, 5)),
    "triangle on a ring": ((0, 1), (0, 2), (1, 2), (0, 3), (3, 4), (4, 5), (5, 1)),
    "theta": ((0, 2), (2, 1), (0, 3), (3, 1), (0, 4), (4, 5), (5, 1)),
}
COPIES, LOOSE = (4, 8), (0, 8)
DEFAULT_N = {"train": 2000, "test": 500, "all": 2500}
BLOCKS, COLOR_TOLD, DEGREE = 4, 0.4, 8
DEFAULT_NODES = {"train": 1200, "test": 400, "all": 1600}


def motifs(n: int, *, seed: int = 0) -> tuple[list[Net], list[str]]:
    """Graphs of equal degrees, and the motif of each.

    >>> graphs, names = motifs(3)
    >>> graphs[0].n_nodes >= 24, names[0] in MOTIFS
    (True, True)
    """
    dice = np.random.default_rng([seed, 7])
    names = [*MOTIFS]
    kinds = dice.integers(len(names), size=n)
    return [draw_motifs(names[k], dice) for k in kinds], [names[k] for k in kinds]


def draw_motifs(name: str, dice: np.random.Generator) -> Net:
    """One graph of that motif; the same draws for every motif."""
    copies = int(dice.integers(COPIES[0], COPIES[1] + 1))
    edges = [(6 * c + a, 6 * c + b) for c in range(copies) for a, b in MOTIFS[name]]
    for c in range(1, copies):
        earlier = 6 * int(dice.integers(c)) + int(dice.integers(6))
        edges.append((earlier, 6 * c + int(dice.integers(6))))
    n_nodes = 6 * copies
    for _ in range(int(dice.integers(LOOSE[0], LOOSE[1] + 1))):
        edges.append((int(dice.integers(n_nodes)), n_nodes))
        n_nodes += 1
    edges += [tuple(dice.integers(n_nodes, size=2).tolist()) for _ in range(2)]
    order = dice.permutation(n_nodes)
    return to_net({"nodes": n_nodes, "edges": order[np.array(edges)]})


def blocks(n: int, *, seed: int = 0) -> tuple[Net, list[str]]:
    """One graph of n nodes with a color each, and the block of every node.

    >>> graph, names = blocks(100)
    >>> graph.attributes.shape, names[:2]
    ((100, 4), ['block 0', 'block 1'])
    """
    dice = np.random.default_rng([seed, 8])
    owner = np.arange(n) % BLOCKS
    apart = (owner[:, None] - owner[None]) % BLOCKS
    chance = np.array([0.1, 0.45, 0.0, 0.45])[apart] * DEGREE * BLOCKS / n
    edges = np.argwhere(np.triu(dice.random((n, n)) < chance, 1))
    any_color = dice.integers(BLOCKS, size=n)
    colors = np.where(dice.random(n) < COLOR_TOLD, owner, any_color)
    attributes = np.eye(BLOCKS, dtype=np.float32)[colors]
    names = [f"block {k}" for k in owner]
    return to_net({"nodes": attributes, "edges": edges}), names


def read_motifs(request: Request) -> Read:
    """The graphs of one part; "all" is four fifths train, then a fifth test."""
    n = request.n or DEFAULT_N[request.split]
    n_test = {"train": 0, "test": n, "all": n // 5}[request.split]
    seeds = ((n - n_test, 2 * request.seed), (n_test, 2 * request.seed + 1))
    drawn = [motifs(k, seed=seed) for k, seed in seeds if k]
    nets = [net for graphs, _ in drawn for net in graphs]
    labels = [name for _, names in drawn for name in names]
    copies, loose = COPIES[1], LOOSE[1]
    room = Graph(6 * copies + loose, 8 * copies + 1 + loose)  # for the largest there is
    items = Graphs(nets, request.known_kind or room, "motifs", labels)
    return Read("motifs", items, parallel=False)


def read_blocks(request: Request) -> Read:
    """Nodes of one graph: the test part is of another graph, drawn alike."""
    n = request.n or DEFAULT_NODES[request.split]
    if n < 4 * BLOCKS:
        raise DataError(f"blocks has {4 * BLOCKS} nodes or more: got n={n}.")
    n_test = {"train": 0, "test": n, "all": n // 4}[request.split]
    seeds = ((n - n_test, 2 * request.seed), (n_test, 2 * request.seed + 1))
    drawn = [blocks(k, seed=seed) for k, seed in seeds if k]
    nets = [net for graph, _ in drawn for net in neighborhoods(graph)]
    labels = [name for _, names in drawn for name in names]
    kind = request.known_kind
    if kind is None:  # one room for all parts and sizes
        most = max(len(net.edges) for net in nets)
        kind = Graph.fit(nets, nets, rooted=True)
        kind = Graph(64, max(most, 160), kind.width, kind.mean, kind.spread, True)
    items = Graphs(nets, kind, "blocks", labels)
    return Read("blocks", items, parallel=False)
