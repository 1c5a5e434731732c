"""How the tests run: on one thread each, and not on the kernels' own modules."""

import gc
import os

# Before torch is loaded. Tensors this small gain nothing from threads, and a test that
# forks a process which has had several may wait for ever.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What earlier tests left behind is not finalized in a fork: Python 3.11 cannot parse
# while something that is being finalized has it parse, too.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=gc.freeze)

# pytest's search for doctests would import Triton.
collect_ignore_glob = ["src/invariance/partition/triton/*"]
pytest_plugins = ["tests.shape_checks", "tests.browser"]


def pytest_collection_finish() -> None:
    """What was imported stays: collections of garbage need not look at it again."""
    gc.freeze()
    gc.collect()  # so that how often all is looked at follows from what is left


def pytest_unconfigure() -> None:
    """Else libraries would complain at the end of what was never let go."""
    gc.unfreeze()
