"""How the pages are built: ``make docs``, offline, every warning an error."""

import re

import invariance

project = "invariance"
author = "the authors of invariance"
copyright = "2026, the authors of invariance"
version = release = invariance.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx-mathjax-offline",
]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
# The root of the repository is the source, so that a link from a page to a table of
# measurements works here as it does in the repository.
root_doc = "docs/index"
include_patterns = ["docs/**", "benchmarks/results/**", "*.md"]
exclude_patterns = ["docs/papers/results/*.md"]

html_theme = "pydata_sphinx_theme"
html_title = "invariance"
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}
html_show_sourcelink = False
html_context = {"default_mode": "auto"}

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = True
napoleon_custom_sections = [("Settings", "params_style")]
default_role = "code"  # docstrings are Markdown at heart: `name` is code


def convert_markdown(app, what, name, obj, options, lines: list[str]) -> None:
    """Docstrings have Markdown's tables and formulas; Sphinx reads its own."""
    text = re.sub(r"(?m)(^ *\|.*\|\n)+", convert_table, "\n".join(lines) + "\n")
    text = re.sub(r"\$\$(.+?)\$\$", convert_display, text, flags=re.DOTALL)
    text = re.sub(r"(?<![\\$`])\$([^$`\n]+(?:\n[^$`\n]+)?)\$", r":math:`\1`", text)
    text = re.sub(r"(?<![\w`|])\|(?=[\w(])", r"\\|", text)  # |x| is no substitution
    lines[:] = text.splitlines()


def convert_table(match: re.Match[str]) -> str:
    """A list-table; its first row is the heading unless it is empty."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in match[0].splitlines()
        if not re.fullmatch(r"[ |:-]+", line)
    ]
    lines = ["", ".. list-table::", ""]
    for row in rows:
        lines += [
            f"   {'* -' if k == 0 else '  -'} {cell}" for k, cell in enumerate(row)
        ]
    return "\n".join([*lines, "", ""])


def convert_display(match: re.Match[str]) -> str:
    formula = " ".join(match[1].split())
    return f"\n\n.. math:: {formula}\n\n"


def setup(app) -> None:
    app.connect("autodoc-process-docstring", convert_markdown, priority=100)
