"""Graphs to learn from: a file or folder of them, a list, or one large graph.

    graphs.jsonl   a graph per line: {"nodes": 3, "edges": [[0, 1], [1, 2]], "label": 0}
                   "nodes" is their number or a row of attributes each; so .parquet
    MUTAG/         the text files of the TU Dortmund collection: MUTAG_A.txt, ...
    Python         a list of such mappings, or of objects with x, edge_index and y, as
                   those of torch-geometric; or one of its data sets

Where a graph has a label per node, or is the only one, its nodes are the samples: each
with its neighborhood, the nodes within two edges of it, itself the first. Neighborhoods
of nodes that are held out overlap with those of others: what is held out are the nodes.

What cannot be read is left out, counted and named by its line.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..words import count
from ._graph import Graph, Net, to_net
from ._label_numbers import as_array, set_labels
from ._load_request import (
    Note,
    Request,
    check_unreadable,
    explain_unreadable,
)
from ._marks import Mark
from ._sources import Listed, Read
from ._split import split_names
from ._subset import read_part
from ._tables import open_table

HOPS, MOST_NEIGHBORS = 2, 64
TABLES = (".jsonl", ".ndjson", ".parquet")
INDICATOR = "_graph_indicator.txt"
EDGES = ("edges", "edge_index")
Named = Iterable[tuple[str, Any]]


def are_graphs(data: Any, request: Request) -> bool:
    """Whether data are to be read as graphs: as asked, or by their looks.

    >>> are_graphs([{"edges": [[0, 1]]}], Request()), are_graphs([1], Request())
    (True, False)
    """
    if request.kind_name:
        return request.kind_name == Graph.name
    if isinstance(data, str | Path):
        path = Path(data).expanduser()
        if path.is_dir():
            return any(path.glob(f"*{INDICATOR}"))
        if path.suffix.lower() not in TABLES or not path.is_file():
            return False
        return open_table(path).find_column(EDGES) is not None
    if is_graph(data):
        return True
    try:
        return len(data) > 0 and not isinstance(data, Mapping) and is_graph(data[0])
    except (TypeError, KeyError, IndexError):
        return False


def is_graph(item: Any) -> bool:
    """Whether an object looks like one graph."""
    if isinstance(item, Mapping):
        return any(name in item for name in EDGES)
    return isinstance(item, Net) or getattr(item, "edge_index", None) is not None


def read_graphs(data: Any, request: Request) -> Read:
    """One part of a file, a folder or objects."""
    parent = ""
    if isinstance(data, str | Path):
        path = Path(data).expanduser()
        name, parent = path.resolve().name, path.resolve().parent.name
        raw, broken = open_graphs(path)
    else:
        name, broken = "the graphs", {}
        whole = [data] if is_graph(data) else list_graphs(data)
        raw = ((f"graph {i}", whole[i]) for i in range(len(whole)))
    nets, widths = [], Counter[int]()
    for place, item in raw:
        try:
            nets.append((place, to_net(item)))
            widths[nets[-1][1].attributes.shape[1]] += 1
        except DataError as error:
            broken[place] = explain_unreadable(error)
    usual = widths.most_common(1)[0][0] if widths else 0
    for place, net in nets:
        if (width := net.attributes.shape[1]) != usual:
            broken[place] = f"its nodes have {width} attributes instead of {usual}"
    n = len({*broken, *(place for place, _ in nets)})
    if not n:
        raise DataError(f"{name} has no graph: give at least two, or a large one.")
    check_unreadable(name, broken, n, request.max_bad_fraction, word="graph")
    kept = [net for place, net in nets if place not in broken]
    check_told_apart(kept, name, broken)
    return read_nets(kept, broken, name, parent, request)


def read_nets(
    nets: list[Net], broken: dict[str, str], name: str, parent: str, request: Request
) -> Read:
    """Graphs or nodes of one part, as asked for."""
    known = request.known_kind
    labels, names, notes = find_labels(nets, name), None, describe_small(nets)
    gaps = describe_gaps(nets)
    of_nodes = len(nets) == 1 or (labels is not None and len(labels) != len(nets))
    mark = mark_nets(nets, labels)
    if known.rooted if isinstance(known, Graph) else of_nodes:
        places = [
            (g, node) for g, net in enumerate(nets) for node in range(net.n_nodes)
        ]
        names = [str(node) if len(nets) == 1 else f"{g}:{node}" for g, node in places]
        notes = (Note("size", describe_nodes(nets)),)
        labels = labels if of_nodes else None
        nets = [net for g in nets for net in neighborhoods(g)]
        if labels is not None and len(labels) != len(nets):
            labels = None  # one graph, whose label says nothing about its nodes
    kind = known
    if not isinstance(kind, Graph):
        kind = fit_kind(nets, labels is not None, name, request, names is not None)
    items = Listed(nets, kind, names)
    set_labels(items, labels, name)
    about = {"unreadable": broken, "notes": notes + gaps, "parallel": False}
    return read_part(name, items, request, mark, parent, **about)


def fit_kind(
    nets: Sequence[Net], labeled: bool, name: str, request: Request, rooted: bool
) -> Graph:
    """Room for all graphs, and the mean attributes of the training part."""
    names = [str(i) for i in range(len(nets))]
    rows = list(range(len(nets)))
    if len(nets) > 1:
        part = replace(request, split="train")
        rows, _ = split_names(names, part, name, labeled=labeled)
    return Graph.fit(nets, [nets[i] for i in rows], rooted=rooted)


# ---------------------------------------------------------------- what there is


def list_graphs(data: Any) -> Any:
    """Graphs by number; anything that has none is refused."""
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise DataError(
            f"{type(data).__name__} is not a list of graphs: give mappings with "
            "nodes and edges, or objects with x and edge_index."
        )
    return data


def open_graphs(path: Path) -> tuple[Named, dict[str, str]]:
    """The graphs of a file or folder by name, and where to note what is broken."""
    if path.is_dir():
        return open_tu_folder(path), {}
    if path.suffix.lower() not in TABLES:
        raise DataError(
            f"Graphs are read from a {', '.join(TABLES)} file or a folder of the TU "
            f"Dortmund collection: got {str(path)!r}."
        )
    table = open_table(path)
    if table.names and table.find_column(EDGES) is None:
        raise DataError(
            f"{str(path)!r} has no edges, only {', '.join(table.names)}: each line "
            'needs "edges", such as [[0, 1], [1, 2]].'
        )
    rows = (
        (place, dict(zip(table.names, cells, strict=True))) for place, cells in table
    )
    return rows, table.broken


def open_tu_folder(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Graphs of the TU Dortmund collection: numbers in text files, a line each."""
    indicators = sorted(folder.glob(f"*{INDICATOR}"))
    if not indicators:
        raise DataError(
            f"{str(folder)!r} has no graphs: expected the files NAME_A.txt and "
            f"NAME{INDICATOR} of the TU Dortmund collection."
        )
    start = indicators[0].name.removesuffix(INDICATOR)
    files = {
        key: read_numbers(folder / f"{start}_{key}.txt")
        for key in ("A", "graph_labels", "node_labels", "node_attributes")
    }
    owner = read_numbers(indicators[0])
    edges, labels = files["A"], files["graph_labels"]
    if owner is None or edges is None:
        missing = indicators[0].name if owner is None else f"{start}_A.txt"
        raise DataError(f"{str(folder / missing)!r} is missing or empty.")
    owner = owner[:, 0].astype(int)
    if (np.diff(owner) < 0).any():
        raise DataError(
            f"{indicators[0].name} must list its graphs one after the other."
        )
    ends = edges.astype(int) - 1
    if len(ends) and (ends.min() < 0 or ends.max() >= len(owner)):
        raise DataError(
            f"{start}_A.txt names node {ends.max() + 1}, and {indicators[0].name} has "
            f"{len(owner)} nodes."
        )
    columns = [c for c in (files["node_attributes"],) if c is not None]
    if files["node_labels"] is not None:
        columns.append(one_hot(files["node_labels"][:, 0]))
    for column in columns:
        if len(column) != len(owner):
            raise DataError(
                f"{str(folder)!r} has {len(owner)} nodes and attributes of "
                f"{len(column)}: each needs its own."
            )
    numbers = np.unique(owner)
    if labels is not None and len(labels) != len(numbers):
        raise DataError(
            f"{start}_graph_labels.txt has {count(len(labels), 'label')}, and "
            f"{indicators[0].name} has {count(len(numbers), 'graph')}: each needs its "
            "own."
        )
    rows = np.concatenate([np.zeros((len(owner), 0)), *columns], 1).astype(np.float32)
    first = owner[ends[:, 0]] if len(ends) else np.zeros(0, int)
    order = np.argsort(first, kind="stable")
    ends, first = ends[order], first[order]
    for k, number in enumerate(numbers):
        low, high = np.searchsorted(owner, [number, number + 1])
        a, b = np.searchsorted(first, [number, number + 1])
        label = None if labels is None else str(int(labels[k, 0]))
        raw = {"nodes": rows[low:high], "edges": ends[a:b] - low, "label": label}
        yield f"graph {k}", raw if rows.shape[1] else raw | {"nodes": int(high - low)}


def read_numbers(path: Path) -> np.ndarray | None:
    """Rows of a text file, with commas between numbers; None: there is no such file."""
    if not path.is_file() or not path.stat().st_size:
        return None
    try:
        return np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError as cause:
        why = str(cause).rstrip(".")
        raise DataError(f"{str(path)!r} cannot be read: {why}.") from None


def one_hot(labels: np.ndarray) -> np.ndarray:
    """A column per label."""
    return (labels[:, None] == np.unique(labels)).astype(np.float32)


def find_labels(nets: Sequence[Net], name: str) -> list[Any] | None:
    """A label per graph, or one per node where graphs have those; None: not all have.

    >>> find_labels([to_net({"edges": [[0, 1]], "label": ["a", "b"]})], "")
    ['a', 'b']
    """
    given = [None if net.label is None else as_array(net.label) for net in nets]
    labels = [label for label in given if label is not None]
    if not labels or len(labels) < len(nets):
        return None
    if all(label.size == 1 for label in labels):
        return [label.reshape(()).item() for label in labels]
    if all(label.shape == (1, labels[0].size) for label in labels):  # tags
        return [label[0] for label in labels]
    for k, (net, label) in enumerate(zip(nets, labels, strict=True)):
        if label.size != net.n_nodes:
            raise DataError(
                f"Graph {k} of {name} has {count(net.n_nodes, 'node')} and "
                f"{count(label.size, 'label')}: give one for each node, or one in all."
            )
    return [value for label in labels for value in label.reshape(-1).tolist()]


def check_told_apart(nets: Sequence[Net], name: str, broken: dict[str, str]) -> None:
    """Raise where graphs are nothing but numbers of nodes."""
    if any(len(net.edges) or net.attributes.shape[1] for net in nets):
        return
    others = ""
    for place, why in itertools.islice(broken.items(), 1):
        others = f" {len(broken)} could not be read, the first is {place} ({why})."
    raise DataError(
        f"No graph of {name} has an edge, and their nodes have no attributes: there is "
        f"nothing to learn from but the number of nodes.{others}"
    )


def describe_small(nets: Sequence[Net]) -> tuple[Note, ...]:
    """A word about graphs that have little to say."""
    notes = []
    single = sum(net.n_nodes == 1 for net in nets)
    bare = sum(not len(net.edges) for net in nets) - single
    if bare:
        bare_graphs = count(bare, "graph has", "graphs have")
        rest = "attributes" if nets[0].attributes.shape[1] else "numbers of nodes"
        notes.append(f"{bare_graphs} no edges: only {rest} can tell such graphs apart.")
    if single:
        has = count(single, "graph has", "graphs have")
        notes.append(f"{has} one node, of which views drop nothing.")
    return tuple(Note("size", text) for text in notes)


def describe_gaps(nets: Sequence[Net]) -> tuple[Note, ...]:
    """A word where some graphs have a label and others have none."""
    n = sum(net.label is not None for net in nets)
    if n in (0, len(nets)):
        return ()
    text = f"There are labels for {n:,} of {count(len(nets), 'graph')}, and they count"
    return (Note("size", f"{text} only where every graph has one."),)


def describe_nodes(nets: Sequence[Net]) -> str:
    """How nodes become samples."""
    n = sum(net.n_nodes for net in nets)
    return (
        f"{count(n, 'node')} of {count(len(nets), 'graph')}, each with its "
        f"neighborhood of {HOPS} edges around it, up to {MOST_NEIGHBORS} nodes."
    )


def neighborhoods(
    graph: Any, *, hops: int = HOPS, most: int = MOST_NEIGHBORS
) -> list[Net]:
    """For every node of a graph, what lies around it; the node itself comes first.

    Args:
        graph: any that ``Graph.read`` takes.
        hops: edges from the node to the farthest one.
        most: nodes; of the farthest ring some are then drawn, the same every time.

    >>> path = {"edges": [[0, 1], [1, 2], [2, 3]]}
    >>> [net.n_nodes for net in neighborhoods(path, hops=1)]
    [2, 3, 3, 2]
    """
    net = to_net(graph)
    around: list[list[int]] = [[] for _ in range(net.n_nodes)]
    for a, b in net.edges.tolist():
        around[a].append(b)
        around[b].append(a)
    return [take_around(net, around, node, hops, most) for node in range(net.n_nodes)]


def take_around(
    net: Net, around: list[list[int]], root: int, hops: int, most: int
) -> Net:
    """The part of a graph around one node."""
    places, ring = {root: 0}, [root]
    for _ in range(hops):
        reached = itertools.chain.from_iterable(around[node] for node in ring)
        ring = [node for node in dict.fromkeys(reached) if node not in places]
        if len(places) + len(ring) > most:
            dice = np.random.default_rng(root)
            kept = dice.permutation(len(ring))[: most - len(places)]
            ring = [ring[i] for i in sorted(kept.tolist())]
        places |= {node: len(places) + i for i, node in enumerate(ring)}
    edges = [
        (places[a], places[b])
        for a in places
        for b in around[a]
        if b in places and places[a] < places[b]
    ]
    ends = np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)
    return Net(len(places), ends, net.attributes[[*places]])


def mark_nets(nets: Sequence[Net], labels: Any) -> str:
    """A short mark of all graphs, and one of all labels."""
    mark = Mark()
    for net in nets:
        mark.add(f"{net.n_nodes} {len(net.edges)} ")
        mark.add(net.edges.tobytes(), net.attributes.tobytes())
    if labels is not None:
        mark.add_labels("\0".join(map(str, labels)))
    return str(mark)
