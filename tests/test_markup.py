"""What results show in a notebook: whole, escaped, and without colors of its own."""

import dataclasses
import re
import sys
from html.parser import HTMLParser

import pytest
import torch
from PIL import Image
from tests import made_runs
from tests.made_runs import made  # noqa: F401

import invariance as inv
from invariance.errors import SettingError
from invariance.evaluation import knn
from invariance.markup import VOID, html_sentences, html_table, tag

ODD = "<b>&odd"


def search_result(path, n=1):
    hits = tuple(inv.Hit(k + 1, f"{ODD}.png", 0.5, 0, ODD, path) for k in range(12))
    return inv.SearchResult(tuple(inv.Hits(ODD, hits) for _ in range(n)), 12, (ODD,))


def evaluation():
    rows = [row | {"data": ODD, "notes": [ODD]} for row in made_runs.scores()]
    return inv.Evaluation(tuple(rows), notes=(ODD,))


def reading():
    return inv.Reading(ODD, "h", -2.3, ODD, unit="nats", ideal=-3.9)


def score():
    x, labels = torch.eye(8), torch.arange(8)
    return dataclasses.replace(knn(x, labels, x, labels, k=1), notes=(ODD,))


def estimate():
    x = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    about = inv.estimate_mi(x, x + 1, estimator="gaussian")
    return dataclasses.replace(about, notes=(ODD,))


def dry_run():
    settings = inv.Train(limit=64, batch_size=16, name=ODD, dry_run=True, quiet=True)
    return inv.train(settings)


RESULTS = {
    "evaluation": evaluation,
    "score": score,
    "estimate": estimate,
    "diagnosis": lambda: inv.Diagnosis((reading(),), {}, {}, (ODD,)),
    "embeddings": lambda: inv.Embeddings(torch.eye(2), (ODD, "b")),
    "hits": lambda: search_result(None).neighbors[0],
    "search result": lambda: search_result(None),
    "dry run": dry_run,
}


class Balance(HTMLParser):
    """Notes every tag that is not closed where it should be."""

    def __init__(self, page):
        super().__init__()
        self.open, self.wrong, self.tags = [], [], []
        self.feed(page)
        self.wrong += self.open

    def handle_starttag(self, name, attributes):
        self.tags.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        if not self.open or self.open.pop() != name:
            self.wrong.append(name)


def check(page):
    seen = Balance(page)
    assert seen.wrong == []
    styles = " ".join(about.get("style", "") for _, about in seen.tags)
    assert not re.search(r"color|background|#|rgb", styles)
    assert ODD not in page and "<b>&amp;odd" not in page
    return seen


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_readable_in_a_notebook(name):
    page = RESULTS[name]()._repr_html_()
    assert "&lt;b&gt;&amp;odd" in page
    assert "table" in [kind for kind, _ in check(page).tags]


def test_a_run_shows_its_verdict_and_its_scores(made):  # noqa: F811
    page = inv.Run(made(name="<run>"))._repr_html_()
    assert "&lt;run&gt;" in page and "<b>It learned.</b>" in page
    assert "trained encoder" in page and "60.0 (57.0-63.0)" in page
    assert check(page).tags[1][0] == "code"


def test_hits_that_are_files_are_shown_as_pictures(tmp_path):
    path = tmp_path / f"{ODD}.png"
    Image.new("RGBA", (9, 7), (9, 99, 9, 99)).save(path)
    seen = check(search_result(str(path), n=11)._repr_html_())
    pictures = [about["src"] for kind, about in seen.tags if kind == "img"]
    assert len(pictures) == 100  # of ten queries, ten each
    assert all(src.startswith("data:image/png;base64,") for src in pictures)
    Image.new("RGB", (900, 700)).save(path.with_suffix(".jpg"))
    page = search_result(str(path.with_suffix(".jpg")))._repr_html_()
    assert "data:image/jpeg;base64," in page and len(page) < 40_000
    gone = search_result(str(tmp_path / "gone.png"))._repr_html_()
    assert "<img" not in gone and "gone.png" in gone


def test_scores_as_a_data_frame(monkeypatch):
    frame = evaluation().to_pandas()
    assert list(frame["value"]) == [0.2, 0.2, 0.3, 0.3, 0.6, 0.6]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SettingError, match="pip install pandas"):
        evaluation().to_pandas()


def test_cells_are_texts_numbers_or_markup():
    page = html_table([(1, tag("b", "x")), ("<", "y")], ("a", "b"))
    assert "<b>x</b>" in page and "&lt;" in page
    assert check(page + html_sentences([ODD])).tags[0] == ("table", {})
