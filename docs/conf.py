"""How the pages are built: ``make docs``, offline, every warning an error."""

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # reference.py

import invariance  # noqa: E402

project = "invariance"
author = "the authors of invariance"
copyright = "2026, the authors of invariance"
version = release = invariance.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "reference",
]
myst_enable_extensions = ["attrs_inline", "deflist", "dollarmath"]
myst_heading_anchors = 3
# The root of the repository is the source, so that a link from a page to a table of
# measurements works here as it does in the repository.
root_doc = "docs/index"
include_patterns = ["docs/**", "benchmarks/results/**", "*.md"]
exclude_patterns = ["docs/papers/results/*.md"]

templates_path = [str(HERE / "_templates")]
html_theme = "pydata_sphinx_theme"
html_title = "invariance"
html_theme_options = {
    "navbar_center": [],  # the sidebar has every page, on every page
    "navbar_end": ["theme-switcher"],
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"**": ["all-pages"]}
html_static_path = [str(HERE / "_static")]
html_css_files = ["site.css"]
html_favicon = "_static/icon.svg"
html_js_files = [("site.js", {"priority": 300})]
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "auto"}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

add_module_names = False
autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = True
napoleon_custom_sections = [("Settings", "params_style")]
default_role = "code"  # docstrings are Markdown at heart: `name` is code

# Formulas are set by a copy of MathJax in the site, so that nothing is fetched. Of the
# package that carries it only what a page loads is taken: 2 of its 24 MB.
mathjax_path = "mathjax/tex-chtml.js"
MATHJAX = ["tex-chtml.js", "output"]


def copy_mathjax(app: Any, failure: Exception | None) -> None:
    """Copy what pages load of MathJax into the site."""
    from importlib.util import find_spec

    from sphinx.util.fileutil import copy_asset

    spec = find_spec("sphinx-mathjax-offline")
    if failure or spec is None or spec.origin is None:
        return
    package = Path(spec.origin).parent / "static" / "mathjax"
    for name in MATHJAX:
        to = Path(app.outdir, "_static", "mathjax")
        copy_asset(package / name, to / name if (package / name).is_dir() else to)


def convert_pictures(app: Any, page: str, source: list[str]) -> None:
    """A picture for light and one for dark, of which the theme shows the right one."""
    picture = (
        r'<picture><source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">'
        r'<img alt="([^"]*)" src="([^"]+)"></picture>'
    )
    source[0] = re.sub(
        picture, r"![\2](\3){.only-light} ![\2](\1){.only-dark}", source[0]
    )


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", convert_pictures)
    app.connect("build-finished", copy_mathjax)
