"""The page about tables runs as it stands, and what it says holds."""

from pathlib import Path

import pytest
from tests.snippets import run_page

PAGE = Path(__file__).parents[1] / "docs" / "tables.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """What the page's code leaves behind, run from top to bottom."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        yield run_page("docs/tables.md")


def test_a_table_is_embedded_without_its_target_and_in_any_order(page):
    assert page["features"].shape == (50, 256)
    assert page["encoder"].kind.columns[0].name == "length_mm"


def test_defaults_are_as_said(page):
    from invariance.methods import recipe_options

    text = PAGE.read_text()
    for recipe in ("scarf", "noise", "uniform_noise", "hide_columns"):
        for name, option in recipe_options(recipe).items():
            assert f"`{name}` {option.default:g}" in text
