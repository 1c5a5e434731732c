"""What a run ran on, and its settings as whatever version wrote them meant them."""

import dataclasses
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from ..errors import SettingError, TrainingError
from ._config import read_yaml
from ._files import CONFIG, ENVIRONMENT

FORMAT = 2  # of run folders; 1 wrote every number of options with a point
PACKAGES = ("torch", "torchvision", "timm", "lightning-fabric", "numpy", "scikit-learn")

T = TypeVar("T")


def describe_environment(device: str) -> dict[str, Any]:
    """Versions, machine, command and time, for env.json."""
    from .. import __version__

    return {
        "invariance": __version__,
        "format": FORMAT,
        "started": time.strftime("%Y-%m-%d %H:%M"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "device": device,
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def read_environment(folder: Path) -> dict[str, Any]:
    """What env.json says; empty where it cannot be read.

    >>> read_environment(Path("no such run"))
    {}
    """
    try:
        values = json.loads((folder / ENVIRONMENT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def check_format(folder: Path, environment: Mapping[str, Any]) -> None:
    """Refuse a run folder that a later version wrote in a way of its own."""
    from .. import __version__

    written = environment.get("format", 1)
    if isinstance(written, int) and written > FORMAT:
        raise TrainingError(
            f"{folder} was written by invariance {environment.get('invariance')}, and "
            f"this is {__version__}, which cannot read it: update invariance."
        )


def read_settings(folder: Path, kind: type[T]) -> T:
    """The settings of a run, as an object of the dataclass ``kind``."""
    from .. import __version__

    environment = read_environment(folder)
    check_format(folder, environment)
    maker = environment.get("invariance")
    try:
        settings: Any = read_yaml(kind, folder / CONFIG)
    except SettingError as cause:
        if maker in (None, __version__):
            raise
        raise SettingError(
            f"{cause} {folder} was written by invariance {maker}, and this is "
            f"{__version__}."
        ) from None
    k = settings.options.get("k")
    if (
        environment.get("format", 1) == 1 and isinstance(k, float) and k == 1
    ):  # where it was one row
        settings = dataclasses.replace(settings, options={**settings.options, "k": 1})
    result: T = settings
    return result


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
