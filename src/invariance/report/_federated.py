"""The clients of a federated run: who has what, and what leaves a client."""

from ..folder import Record
from ..markup import Html, lines, tag
from ..words import count
from ._html import Missing, table
from ._numbers import inside

MOST_CLIENTS, MOST_CLASSES = 100, 20


def show_clients(run: Record) -> Html:
    """Sentences, and a row per client; nothing where there were no clients."""
    clients = inside(run.env, "federated", "clients")
    if not isinstance(clients, list) or not clients:
        return Missing("")
    sentences = inside(run.env, "federated", "sentences")
    labels = inside(run.env, "federated", "labels")
    items = [tag("li", text) for text in sentences or []]
    counts = labels if labels and len(labels[0]) <= MOST_CLASSES else None
    head = ["client", f"{run.word}s", "batch", "steps in a round"]
    if counts:
        names = inside(run.env, "federated", "classes") or []
        head += names or [f"class {k}" for k in range(len(counts[0]))]
    rows: list[list[object]] = []
    for k, client in enumerate(clients[:MOST_CLIENTS]):
        row: list[object] = [client.get(key) for key in ("name", "samples")]
        took_part = bool(client.get("steps"))
        row += [client[key] if took_part else "left out" for key in ("batch", "steps")]
        rows.append([*row, *(counts[k] if counts else [])])
    parts = [
        tag("ul", lines(*items)),
        table(head, rows, label="Clients", kind="numbers"),
    ]
    if len(clients) > MOST_CLIENTS:
        more = count(len(clients) - MOST_CLIENTS, "further client")
        parts.append(tag("p", f"Not shown: {more}; env.json has them.", class_="note"))
    return lines(*parts)
