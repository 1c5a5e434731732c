"""What a real notebook shows, cell by cell, run in a kernel of its own."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import invariance as inv

ROOT = Path(__file__).parents[1]
CELLS = {
    "bar": """
import time
from IPython.display import display
from invariance.progress import Progress
with Progress(40, unit="pages") as progress:
    for k in range(40):
        progress.advance(note=f"page {k}")
        time.sleep(0.01)
    progress.say("a [bold] <sentence>")
    last = progress._bar.look("last")
display(last, raw=True)
""",
    "unknown total": """
with Progress(None, unit="steps") as progress:
    display(progress._bar.look(""), raw=True)
""",
    "training": """
from invariance.training._watch import COLUMNS, Watch
watch = Watch()
watch.say("shapes has 2,000 images")
watch.begin(4, 0)
for epoch in (1, 2):
    reading = {column.key: 0.5 for column in COLUMNS} | {"epoch": epoch}
    watch.reading(reading, 2 * epoch)
    watch.epoch(reading)
watch.end()
watch.say("done")
""",
    "figure": f"""
from invariance.report import plot
plot({str(ROOT / "tests" / "old_runs" / "simclr")!r})
""",
    "figure beside pyplot": f"""
import matplotlib.pyplot as plt
plt.rcParams["font.size"] = 8
plot({str(ROOT / "tests" / "old_runs" / "simclr")!r})
""",
    "quiet": """
with Progress(4, quiet=True) as progress:
    progress.reach(4)
    progress.say("nothing")
""",
}


@pytest.fixture(scope="module")
def shown():
    """The outputs of each cell."""
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(code) for code in CELLS.values()]
    environment = {k: v for k, v in os.environ.items() if k != "CI"}
    environment["PYTHONPATH"] = str(Path(inv.__file__).parents[1])
    client = NotebookClient(book, timeout=120, coalesce_streams=True)
    client.execute(env=environment)
    return {name: cell.outputs for name, cell in zip(CELLS, book.cells, strict=True)}


def texts(outputs):
    return [output.text for output in outputs if output.output_type == "stream"]


def pages(outputs):
    return [output.data["text/html"] for output in outputs if "data" in output]


def test_a_bar_is_drawn_in_one_place_and_goes(shown):
    outputs = shown["bar"]
    assert pages(outputs)[0] == ""  # gone when all is done
    assert len(pages(outputs)) == 2
    drawn = pages(outputs)[1]
    assert drawn.startswith("<div><progress ") and 'value="40" max="40"' in drawn
    assert "40/40 pages, last</div>" in drawn
    assert texts(outputs) == ["a [bold] <sentence>\n"]


def test_a_bar_without_an_end_has_no_value(shown):
    drawn = pages(shown["unknown total"])[1]
    assert "0 steps" in drawn and "value=" not in drawn


def test_the_rows_of_epochs_are_one_block_of_text(shown):
    (text,) = texts(shown["training"])
    lines = text.splitlines()
    assert lines[0] == "shapes has 2,000 images"
    titles = next(k for k, line in enumerate(lines) if line.split()[:1] == ["epoch"])
    assert lines[-1] == "done" and len(lines) == titles + 4
    assert {len(line) for line in lines[titles:-1]} == {len(lines[titles])}
    assert len(lines[titles]) <= 92 and "wait" not in lines[titles]
    assert pages(shown["training"]) == [""]


def test_a_quiet_job_shows_nothing(shown):
    assert shown["quiet"] == []


@pytest.mark.parametrize("cell", ["figure", "figure beside pyplot"])
def test_a_figure_is_shown_once(shown, cell):
    (output,) = shown[cell]
    assert output.output_type == "execute_result"
    assert len(output.data["image/png"]) > 10_000
