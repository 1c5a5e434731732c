"""The page around the report: one file, no script, nothing loaded from anywhere."""

from ._html import Html, lines, tag

# even a page that somebody tampered with may load nothing
POLICY = "default-src 'none'; style-src 'unsafe-inline'"

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fff; --ink: #1d1f23; --soft: #5c626b; --rule: #e3e5e8; --tint: #f5f6f7;
  --s0: #1f65b0; --s1: #b35309; --good: #1a7440; --bad: #b3261e; --unsure: #8a5a00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15171a; --ink: #e5e7ea; --soft: #a0a7b1; --rule: #31353b; --tint: #1e2125;
    --s0: #7bb4f0; --s1: #f2a35e; --good: #6fca90; --bad: #ff8f85; --unsure: #e3bd5c;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 74rem; padding: 2rem 1.25rem 4rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
}
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: 1rem; margin: 0; }
p { margin: .25rem 0; max-width: 46rem; }
header p, .note, figcaption p, .keys { color: var(--soft); }
.note, figcaption p, .keys { font-size: .875rem; }
ul.verdict { list-style: none; margin: 1.25rem 0 0; padding: 0; max-width: 46rem; }
ul.verdict li { border-left: 4px solid; padding: 0 0 0 .9rem; margin: .75rem 0; }
ul.verdict strong { display: block; }
ul.verdict li:first-child strong { font-size: 1.35rem; line-height: 1.3; }
ul.verdict span, ul.verdict code { color: var(--ink); display: block; }
.good { color: var(--good); } .bad { color: var(--bad); }
.unsure { color: var(--unsure); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem 1.25rem .35rem 0; text-align: left; vertical-align: top; }
tr { border-bottom: 1px solid var(--rule); }
thead th { color: var(--soft); font-size: .875rem; font-weight: 500; }
tbody th { font-weight: 500; }
small { color: var(--soft); padding-left: .4rem; }
th, .numbers td { white-space: nowrap; }
tr:has(mark) { background: var(--tint); }
mark { background: none; color: var(--s1); font-size: .8rem; padding-left: .5rem; }
.charts {
  display: grid; gap: 2rem 1.5rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr));
}
figure { margin: 0; display: flex; flex-direction: column; break-inside: avoid; }
figcaption { flex: 1; }
svg { display: block; width: 100%; margin-top: .5rem; overflow: visible; }
svg text {
  fill: var(--soft); font: 11px system-ui, sans-serif;
  paint-order: stroke; stroke: var(--paper); stroke-width: 3px;
}
svg text.last { font-weight: 600; }
.s0 { --own: var(--s0); } .s1 { --own: var(--s1); }
svg text.last { fill: var(--own); }
.grid { stroke: var(--rule); } .axis { stroke: var(--soft); }
.ceiling { stroke: var(--ink); stroke-dasharray: 5 4; }
.line { fill: none; stroke: var(--own); stroke-width: 1.75; stroke-linejoin: round; }
.dot { fill: transparent; stroke: transparent; stroke-width: 9; pointer-events: all; }
.dot.seen, .dot:hover { fill: var(--own); }
.key { margin-right: 1rem; }
.key::before {
  content: ""; display: inline-block; width: 1.2em; margin-right: .4em;
  border-top: 3px solid var(--own); vertical-align: middle;
}
pre {
  background: var(--tint); padding: .75rem 1rem; border-radius: 4px;
  white-space: pre-wrap; overflow-wrap: anywhere; margin: .5rem 0;
}
code, pre { font: .875rem/1.5 ui-monospace, monospace; }
summary { cursor: pointer; padding: .4rem 0; }
:focus-visible { outline: 2px solid var(--s0); outline-offset: 2px; }
details { margin-top: 1rem; }
@media (max-width: 36rem) {
  small { display: block; padding: 0; }
  th, td { padding-right: .75rem; }
  tbody th { white-space: normal; min-width: 5rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: .8rem; }
  .charts { grid-template-columns: repeat(3, 1fr); }
  .scroll { overflow: visible; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""


def page(title: str, header: Html, *sections: Html) -> Html:
    """A whole document."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(STYLE)),
    )
    body = tag("body", tag("header", header), tag("main", lines(*sections)))
    return lines(Html("<!doctype html>"), tag("html", head, body, lang="en"), Html())


def section(name: str, title: str, *children: Html) -> Html:
    """A part of the page with its heading."""
    heading = tag("h2", title, id=name)
    return tag("section", lines(heading, *children), aria_labelledby=name)
