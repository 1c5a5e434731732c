"""Names of a package that are imported when they are first used.

What needs no torch, such as help or a sentence about a wrong setting, then need not
wait for it.
"""

import atexit
import contextlib
import gc
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any


def import_late(
    package: str, files: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package: each file with its names.

    >>> find, _ = import_late("invariance", {"words": "count join_words"})
    >>> find("count")(2, "image")
    '2 images'
    """
    homes = {name: file for file, names in files.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return find, lambda: sorted(sys.modules[package].__all__)


@contextlib.contextmanager
def import_much() -> Iterator[None]:
    """Within this nobody looks for garbage, as modules are none and stay for good.

    Python would go through all that is loaded again and again, a fifth of the time that
    torch takes. It is for a command whose process is its own: where torch is loaded
    already, nothing changes.
    """
    if "torch" in sys.modules:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)  # at the end all goes, or some say that it leaks
