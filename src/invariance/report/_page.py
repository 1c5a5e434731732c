"""The page around a report: one file that loads nothing and runs only its own script.

Style and script lie beside this file and go into the page whole. The page's policy
names both by their hashes, so that whatever slipped into the data could not run.
"""

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources

from ..markup import Html, lines, tag


@cache
def part(name: str) -> str:
    """A file of this folder."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def fingerprint(text: str) -> str:
    """As a Content-Security-Policy names what it allows.

    >>> fingerprint("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def policy(style: str, script: str, *, asks: bool = False) -> str:
    """What a page may do: be styled, run its script, show pictures it holds.

    One that ``asks`` may also fetch from where it came, and from nowhere else.
    """
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src {fingerprint(style)}; script-src {fingerprint(script)}"
        + ("; connect-src 'self'" if asks else "")
    )


def document(
    title: str, body: Html, *, style: str, script: str, asks: bool = False
) -> Html:
    """A whole page that has its style and script inside it."""
    allowed = policy(style, script, asks=asks)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=allowed),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(style)),
    )
    inside = tag("body", lines(body, tag("script", Html(script))))
    return lines(Html("<!doctype html>"), tag("html", head, inside, lang="en"), Html())


def page(title: str, header: Html, parts: Mapping[str, tuple[str, Html]]) -> Html:
    """A report; its parts are headings and what is below them, by their ids."""
    links = [tag("a", name, href=f"#{key}") for key, (name, _) in parts.items()]
    theme = tag("button", "Dark", type="button", id="theme", class_="needs-script")
    bar = tag("div", tag("nav", *links, aria_label="Sections"), theme, class_="topbar")
    skip = tag("a", "Skip to the verdict", href="#verdict", class_="skip")
    sections = (section(key, name, inside) for key, (name, inside) in parts.items())
    main = tag("main", lines(*sections))
    foot = tag("footer", tag("p", "Made by invariance from the files of the run."))
    return document(
        title,
        lines(skip, bar, tag("header", header), main, foot),
        style=part("page.css"),
        script=part("common.js") + part("page.js"),
    )


def section(name: str, title: str, inside: Html) -> Html:
    """A part of the page with its heading."""
    heading = tag("h2", title, id=name)
    return tag("section", lines(heading, inside), aria_labelledby=name)
