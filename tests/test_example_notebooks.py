"""The notebooks run, and what is kept of them has figures and no trace of a machine."""

import re
from pathlib import Path

import nbformat
import pytest
from matplotlib import pyplot as plt

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"
SIZES = {  # in place of the cell that is tagged "parameters"
    "first_steps": "IMAGES, EPOCHS = 64, 1",
    "what_it_sees": "IMAGES, EPOCHS, SHOWN = 64, 1, 60",
    "information": "ROWS, STEPS, TRUTHS = 300, 20, (1, 2)",
}
TRACES = {
    "a path": r"(?<![\w.])/(home|root|tmp|work|usr|Users|opt|var)/|[A-Z]:\\\\",
    "a date": r"20\d\d-\d\d-\d\d",
}


def read(name):
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def code_cells(name):
    return [cell for cell in read(name).cells if cell.cell_type == "code"]


def outputs(name):
    return [output for cell in code_cells(name) for output in cell.outputs]


def test_all_notebooks_are_tested():
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == SIZES.keys()


@pytest.mark.parametrize("name", SIZES)
def test_the_cells_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    before, names, replaced = plt.get_fignums(), {"__name__": name}, 0
    for number, cell in enumerate(code_cells(name)):
        if "parameters" in cell.metadata.get("tags", []):
            cell.source, replaced = SIZES[name], replaced + 1
        exec(compile(cell.source, f"{name}, cell {number}", "exec"), names)
    assert replaced == 1
    drawn = {*plt.get_fignums()} - {*before}
    kept = sum("image/png" in o.get("data", {}) for o in outputs(name))
    assert 2 <= len(drawn) <= kept  # some are sheets of pictures
    for number in drawn:
        plt.close(number)


@pytest.mark.parametrize("name", SIZES)
def test_what_is_kept_is_complete(name):
    cells = code_cells(name)
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    kinds = {output.output_type for output in outputs(name)}
    assert kinds <= {"display_data", "execute_result", "stream"}  # no error
    assert not [o for o in outputs(name) if o.get("name") == "stderr"]  # no warning


@pytest.mark.parametrize("name", SIZES)
def test_nothing_of_a_machine_is_kept(name):
    notebook = read(name)
    assert notebook.metadata.keys() == {"kernelspec", "language_info"}
    assert notebook.metadata.language_info == {"name": "python"}
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in notebook.cells:
        assert cell.metadata.keys() <= {"tags"}
    for output in outputs(name):
        pictures = ("image/png",)
        data = {k: v for k, v in output.get("data", {}).items() if k not in pictures}
        text = f"{output.get('text', '')}{data}"
        assert not [what for what, sign in TRACES.items() if re.search(sign, text)]


def test_traces_are_seen():
    traces = {"a path": "see /tmp/x/run", "a date": "on 2026-01-31"}
    for what, text in traces.items():
        assert re.search(TRACES[what], text)
    assert not re.search(TRACES["a path"], "runs/first/steps")


def test_they_are_small():
    assert sum(path.stat().st_size for path in NOTEBOOKS.glob("*.ipynb")) < 1_500_000
