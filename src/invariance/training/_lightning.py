"""Lightning Fabric, without the metrics that it would load beside it.

To learn the version of torchmetrics, Fabric imports all of it where it is installed,
and with it transformers, torchvision and scikit-learn, for a class that is not used
here. So while Fabric is imported, a module that knows nothing but its version
stands in for torchmetrics; whoever imports that afterwards gets the real one.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator
from importlib import metadata
from types import ModuleType


@contextlib.contextmanager
def only_version(package: str) -> Iterator[None]:
    """Within this, importing the package gives its ``__version__`` and nothing else.

    >>> with only_version("pytest"):
    ...     import pytest
    >>> hasattr(pytest, "__version__"), hasattr(pytest, "fixture")
    (True, False)
    """
    present = sys.modules.get(package)
    stand_in = ModuleType(package)
    try:
        stand_in.__version__ = metadata.version(package)  # type: ignore[attr-defined]
    except metadata.PackageNotFoundError:
        yield
        return
    sys.modules[package] = stand_in
    try:
        yield
    finally:
        if present is None:
            del sys.modules[package]
        else:
            sys.modules[package] = present


with only_version("torchmetrics"):
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments import (
        ClusterEnvironment,
        LightningEnvironment,
        SLURMEnvironment,
    )
    from lightning_fabric.strategies import ModelParallelStrategy

# it would announce every process, and we say how many there are
logging.getLogger("lightning_fabric").setLevel(logging.WARNING)

__all__ = [
    "ClusterEnvironment",
    "Fabric",
    "LightningEnvironment",
    "ModelParallelStrategy",
    "SLURMEnvironment",
]
