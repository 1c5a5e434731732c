"""The oldest versions that pyproject.toml allows, as constraints for pip.

    python tools/lowest.py > lowest.txt
    pip install --constraint lowest.txt ".[test]"

Every requirement is written name>=version, and that version must be one that can be
installed. The tools of this repository itself (extras test, docs and bench) are left
free: nobody who uses the package installs them.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

OWN_TOOLS = {"bench", "docs", "test"}


def list_requirements(project: Mapping[str, Any]) -> Iterator[str]:
    """What is asked for by the package and by the extras of its users."""
    yield from project["dependencies"]
    for extra, requirements in project["optional-dependencies"].items():
        if extra not in OWN_TOOLS:
            yield from requirements


def pin_lowest(requirement: str) -> str:
    """The oldest version that a requirement allows.

    >>> pin_lowest("torch>=2.9")
    'torch==2.9'
    """
    asked = re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement)
    if asked is None:
        raise SystemExit(
            f"pyproject.toml asks for {requirement!r}: write it as name>=version, "
            "so that the oldest version is known and can be tested."
        )
    return f"{asked[1]}=={asked[2]}"


def main() -> None:
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    for requirement in list_requirements(tomllib.loads(text)["project"]):
        sys.stdout.write(f"{pin_lowest(requirement)}\n")


if __name__ == "__main__":
    main()
