"""Generated graphs whose classes counting cannot tell, and a graph of known blocks.

``bonds``: a graph has forty nodes, ten of each of four kinds, and sixty random edges,
and two in five of them join partners. The class says who are partners: nodes of a kind
among themselves, or one of the three ways to make two pairs of four kinds. Nodes, kinds
and degrees have the same distribution in every class. Who has which neighbors differs.

``blocks``: one graph of nodes in four blocks, every node with five neighbors. Nine in
ten edges join the blocks 0 and 1, or 2 and 3. A node shows a kind, which is that of its
block with probability 0.2 and any of the four otherwise. Its block is told best by the
kinds of its neighbors, which are mostly the other one's, and of their neighbors, which
are mostly its own.
"""

import numpy as np

from ._graph import Graph, Net, to_net
from ._graphs import neighborhoods
from ._label_numbers import set_labels
from ._load_request import Request
from ._sources import Listed, Read
from ._split import draw_parts

KINDS = 4  # of nodes
EVEN = [1 / KINDS] * KINDS, [(KINDS - 1) ** 0.5 / KINDS] * KINDS  # mean and spread
ATOMS, BONDS, TOLD = 40, 60, 0.2
PARTNERS = {  # of the four kinds of nodes
    "own kind": (0, 1, 2, 3),
    "0-1, 2-3": (1, 0, 3, 2),
    "0-2, 1-3": (2, 3, 0, 1),
    "0-3, 1-2": (3, 2, 1, 0),
}
DEGREE, REWIRED, SHOWN = 5, 0.1, 0.2


def bonds(n: int, *, seed: int = 0) -> tuple[list[Net], list[str]]:
    """Graphs of the same nodes and as many edges, and who is joined in each.

    >>> graphs, names = bonds(3)
    >>> graphs[0].attributes.sum(0), names[0] in PARTNERS
    (array([10., 10., 10., 10.], dtype=float32), True)
    """
    dice = np.random.default_rng([seed, 7])
    names = [*PARTNERS]
    classes = dice.integers(len(names), size=n)
    graphs = [draw_bonds(PARTNERS[names[k]], dice) for k in classes]
    return graphs, [names[k] for k in classes]


def draw_bonds(partners: tuple[int, ...], dice: np.random.Generator) -> Net:
    """One graph in which more edges than by chance join partners."""
    kinds = np.arange(ATOMS) % KINDS
    first = dice.integers(ATOMS, size=BONDS)
    partnered = dice.random(BONDS) < TOLD
    wanted = np.where(
        partnered, np.array(partners)[kinds[first]], dice.integers(KINDS, size=BONDS)
    )
    # another node than the first one: places among its kind are shifted by 1 to 9
    shift = dice.integers(1, ATOMS // KINDS, size=BONDS)
    second = wanted + KINDS * ((first // KINDS + shift) % (ATOMS // KINDS))
    order = dice.permutation(ATOMS)
    attributes = np.eye(KINDS, dtype=np.float32)[kinds[np.argsort(order)]]
    return to_net({"nodes": attributes, "edges": order[np.stack([first, second], 1)]})


def blocks(n: int, *, seed: int = 0) -> tuple[Net, list[str]]:
    """One graph of n nodes or a few more, and the block of every node.

    >>> graph, names = blocks(100)
    >>> graph.attributes.shape, names[:2]
    ((100, 4), ['block 0', 'block 1'])
    """
    dice = np.random.default_rng([seed, 8])
    size = -(-n // KINDS)
    of_block = np.arange(size * KINDS).reshape(size, KINDS).T
    edges = np.concatenate(
        [
            np.stack([of_block[a], dice.permutation(of_block[b])], 1)
            for a, b in ((0, 1), (2, 3))
            for _ in range(DEGREE)
        ]
    )
    # some edges swap their second ends, which leaves all degrees as they are
    moved = dice.permutation(len(edges))[: round(REWIRED * len(edges))]
    edges[moved, 1] = edges[dice.permutation(moved), 1]
    owner = np.arange(size * KINDS) % KINDS
    any_kind = dice.integers(KINDS, size=len(owner))
    shown = np.where(dice.random(len(owner)) < SHOWN, owner, any_kind)
    attributes = np.eye(KINDS, dtype=np.float32)[shown]
    return to_net({"nodes": attributes, "edges": edges}), [f"block {k}" for k in owner]


def read_bonds(request: Request) -> Read:
    """The graphs of one part; "all" is four fifths train, then a fifth test."""
    parts = draw_parts(request, 2000, 1000, one_in=5)
    drawn = [bonds(n, seed=seed) for n, seed in parts]
    nets = [net for graphs, _ in drawn for net in graphs]
    labels = [name for _, names in drawn for name in names]
    room = Graph(ATOMS, BONDS, KINDS, *EVEN)
    items = Listed(nets, request.known_kind or room)
    set_labels(items, labels, "bonds")
    return Read("bonds", items, parallel=False)


def read_blocks(request: Request) -> Read:
    """Nodes of one graph; those of the test part are of another, drawn alike."""
    parts = draw_parts(request, 1200, 400, one_in=4)
    drawn = [(n, *blocks(n, seed=seed)) for n, seed in parts]
    nets = [net for n, graph, _ in drawn for net in neighborhoods(graph)[:n]]
    labels = [name for n, _, names in drawn for name in names[:n]]
    most = 1 + DEGREE * DEGREE  # nodes within two edges: 1, 5 and 5 x 4
    room = Graph(most, most * DEGREE // 2, KINDS, *EVEN, rooted=True)
    items = Listed(nets, request.known_kind or room)
    set_labels(items, labels, "blocks")
    return Read("blocks", items, parallel=False)
