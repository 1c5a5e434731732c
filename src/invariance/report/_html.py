"""Parts of the page that are more than one element."""

import json
from collections.abc import Sequence
from typing import Any

from ..markup import Html, lines, tag


class Missing(Html):
    """A sentence that stands for what could not be shown."""


def data(name: str, value: Any) -> Html:
    r"""Values for the script of the page, which nothing in them can end or leave.

    >>> print(data("d", "</p>\u2028"))
    <script type="application/json" id="d">"\u003c/p\u003e\u2028"</script>
    """
    text = json.dumps(value, separators=(",", ":"))  # all but ASCII is escaped
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return tag("script", Html(text), type="application/json", id=name)


def figure(title: str, about: str, drawing: Html, keys: Html | str = "") -> Html:
    """A drawing below its title, what it shows in words, and what its colors mean."""
    caption = tag("figcaption", tag("h3", title), tag("p", about), keys)
    return tag("figure", caption, drawing)


def table(
    head: Sequence[object],
    rows: Sequence[Sequence[object]],
    *,
    label: str,
    kind: str | None = None,
    runs: Sequence[int | None] = (),
) -> Html:
    """Rows that each begin with their own heading; wide ones scroll in themselves.

    Args:
        head: One heading per column.
        rows: Cells, the heading of the row first.
        label: What the table is called.
        kind: Its class.
        runs: The run that each column but the first is about, whose cells then go when
            that run is hidden.
    """
    of: list[int | None] = [None, *(runs or [None] * (len(head) - 1))]
    top = tag(
        "tr",
        *(
            tag("th", cell, scope="col", data_run=run)
            for cell, run in zip(head, of, strict=True)
        ),
    )
    body = [
        tag(
            "tr",
            tag("th", first, scope="row"),
            *(
                tag("td", cell, data_run=run)
                for cell, run in zip(rest, of[1:], strict=True)
            ),
        )
        for first, *rest in rows
    ]
    name = tag("caption", label, class_="unseen")
    inside = tag(
        "table", name, tag("thead", top), "\n", tag("tbody", lines(*body)), class_=kind
    )
    return scroll(inside, label)


def scroll(inside: Html, label: str) -> Html:
    """What scrolls in itself where it is wider than the page, by arrow keys as well."""
    return tag(
        "div", inside, class_="scroll", tabindex=0, role="region", aria_label=label
    )
