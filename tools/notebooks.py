"""Run the notebooks in place, and keep what they show and nothing of the machine.

    python tools/notebooks.py [NAME ...]

Without a name, all of examples/notebooks. A notebook is its own source. It is run in an
empty folder, so that what it writes leaves nothing behind; times, versions and places
are not kept. If a cell fails, so does this, and the file stays as it was.
"""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def execute(path: Path) -> None:
    """Run all cells of a notebook, and write it back with their outputs."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        place = {"metadata": {"path": folder}}
        NotebookClient(
            notebook, timeout=None, resources=place, record_timing=False
        ).execute()
    notebook.metadata = METADATA
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = {"tags": tags} if tags else {}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    chosen = [NOTEBOOKS / f"{name}.ipynb" for name in sys.argv[1:]]
    for path in chosen or sorted(NOTEBOOKS.glob("*.ipynb")):
        print(f"running {path.name}", flush=True)
        execute(path)
