"""The Python code of a page, run from top to bottom as a reader would."""

import contextlib
import re
from pathlib import Path
from typing import Any
from unittest import mock

import invariance as inv

ROOT = Path(__file__).parents[1]


def python_blocks(text: str) -> list[str]:
    """What stands between ```python and ```.

    >>> fence = "`" * 3
    >>> python_blocks(f"{fence}sh\\nls\\n{fence}\\n{fence}python\\na = 1\\n{fence}")
    ['a = 1\\n']
    """
    return re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)


def run_page(page: str) -> dict[str, Any]:
    """What the code of a page leaves behind; run in the current folder.

    What it adds to a catalogue is taken out again: other tests go through them.
    """
    names: dict[str, Any] = {"__name__": "page"}
    text = (ROOT / page).read_text(encoding="utf-8")
    with contextlib.ExitStack() as catalogues:
        for catalogue in (inv.OBJECTIVES, inv.METHODS, inv.ESTIMATORS):
            catalogues.enter_context(mock.patch.dict(catalogue))
        for number, block in enumerate(python_blocks(text), 1):
            exec(compile(block, f"{page}, block {number}", "exec"), names)
    return names
