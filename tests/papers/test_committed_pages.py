"""The pages of the papers are what today's code makes of the committed rows."""

import shutil

import pytest
from tests.snippets import ROOT

from invariance.papers import CLAIMS, read_result, require_whole, write_pages

PAGES = ROOT / "docs" / "papers"


@pytest.fixture(scope="module")
def made_anew(tmp_path_factory):
    pages = tmp_path_factory.mktemp("pages")
    shutil.copytree(PAGES / "results", pages / "results")
    write_pages(pages / "results", pages)
    return pages


def list_pages(folder):
    """Every text, and every figure, by its name below a folder."""
    return sorted(p.relative_to(folder) for p in folder.rglob("*.*"))


def test_every_claim_has_a_whole_result():
    for claim in CLAIMS.values():
        require_whole(read_result(claim, PAGES / "results"))


def test_no_page_is_missing_or_left_over(made_anew):
    assert list_pages(PAGES) == list_pages(made_anew)


def test_pages_and_tables_say_the_same(made_anew):
    different = [
        str(name)
        for name in list_pages(PAGES)
        if name.suffix == ".md"
        and (PAGES / name).read_text() != (made_anew / name).read_text()
    ]
    assert different == []


def test_figures_were_drawn_from_these_rows(made_anew):
    # a figure whose rows have changed would have been drawn anew
    different = [
        str(name)
        for name in list_pages(PAGES)
        if name.suffix == ".png"
        and (PAGES / name).read_bytes() != (made_anew / name).read_bytes()
    ]
    assert different == []
