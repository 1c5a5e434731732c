"""HTML as values: whatever is not markup already is escaped.

The report is made of these elements, and so is what results show in a notebook. There
nothing has a color of its own, so that it can be read on light and on dark pages.
"""

from collections.abc import Iterable, Sequence
from html import escape

VOID = {"br", "meta", "img", "input"}
LEFT = "text-align:left"  # notebooks push cells to the right


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


def html_table(
    rows: Iterable[Sequence[object]],
    head: Sequence[object] = (),
    *,
    numbers: bool = False,
) -> Html:
    """A table for notebooks.

    Args:
        rows: Cells, each a text, a number or markup.
        head: What the columns are called.
        numbers: Whether all columns after the first hold numbers, which stand to the
            right.

    >>> html_table([("a < b", 1)], numbers=True)
    '<table><tr><td style="text-align:left">a &lt; b</td><td>1</td></tr></table>'
    """

    def line(kind: str, cells: Sequence[object]) -> Html:
        styles = [None if numbers and k else LEFT for k in range(len(cells))]
        pairs = zip(cells, styles, strict=True)
        return tag("tr", *(tag(kind, cell, style=style) for cell, style in pairs))

    top = [line("th", head)] if head else []
    return tag("table", *top, *(line("td", row) for row in rows))


def html_sentences(sentences: Iterable[object]) -> Html:
    """A paragraph for each, for notebooks.

    >>> html_sentences(["a < b", tag("b", "c")])
    '<p>a &lt; b</p><p><b>c</b></p>'
    """
    return Html("".join(tag("p", sentence) for sentence in sentences))
