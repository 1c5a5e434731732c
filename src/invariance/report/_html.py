"""HTML elements as values: whatever is not markup already is escaped."""

from html import escape

VOID = {"br", "meta"}


class Html(str):
    """Text that is markup already."""


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element. Attributes that are None are left out; ``class_`` is ``class``.

    >>> tag("p", "1 < 2 ", tag("b", "yes"), title='"so"')
    '<p title="&quot;so&quot;">1 &lt; 2 <b>yes</b></p>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(c if isinstance(c, Html) else escape(str(c)) for c in children)
    return Html(f"<{name}{given}>" + ("" if name in VOID else f"{inside}</{name}>"))


def lines(*children: Html) -> Html:
    """One below the other, so that the source can be read."""
    return Html("\n".join(children))


def table(
    head: list[str], rows: list[list[object]], *, label: str, kind: str | None = None
) -> Html:
    """Rows that each begin with their own heading; wide ones scroll in themselves."""
    top = tag("tr", *(tag("th", cell, scope="col") for cell in head))
    body = [
        tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in rest))
        for first, *rest in rows
    ]
    inside = tag(
        "table", tag("thead", top), "\n", tag("tbody", lines(*body)), class_=kind
    )
    # focusable, so that the arrow keys scroll it
    return tag(
        "div", inside, class_="scroll", tabindex=0, role="region", aria_label=label
    )
