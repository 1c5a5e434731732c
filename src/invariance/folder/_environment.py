"""What a run ran on, and its settings as whatever version wrote them meant them."""

import dataclasses
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from ..errors import SettingError, TrainingError
from ._config import read_yaml
from ._files import CONFIG, ENVIRONMENT, read_json, write_json
from ._lock import hold_files

FORMAT = 4  # of run folders; ``keep_meaning`` says what settings of older ones mean
PACKAGES = ("torch", "torchvision", "timm", "lightning-fabric", "numpy", "scikit-learn")

T = TypeVar("T")


def describe_environment(device: str, gpu: str = "") -> dict[str, Any]:
    """Versions, machine, command and time, for env.json; ``gpu`` is its name."""
    from .. import __version__

    return {
        "invariance": __version__,
        "format": FORMAT,
        "started": time.strftime("%Y-%m-%d %H:%M"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "device": device,
        **({"gpu": gpu} if gpu else {}),
        "command": shlex.join([*name_program(Path(sys.argv[0])), *sys.argv[1:]]),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def name_program(path: Path) -> list[str]:
    """How a person starts it.

    >>> name_program(Path("/usr/bin/invariance"))
    ['invariance']
    >>> name_program(Path("/lib/python3/invariance/__main__.py"))
    ['python', '-m', 'invariance']
    """
    if path.name == "__main__.py":
        return ["python", "-m", path.parent.name]
    return [path.name]


def read_environment(folder: Path) -> dict[str, Any]:
    """What env.json says; empty where it cannot be read.

    >>> read_environment(Path("no such run"))
    {}
    """
    return read_json(folder / ENVIRONMENT)


def read_images(folder: Path) -> dict[str, Any]:
    """What is known of the images of a run; empty for older runs."""
    about = read_environment(folder).get("images")
    return about if isinstance(about, dict) else {}


def remember_images(folder: Path, about: Mapping[str, Any]) -> None:
    """Note in env.json which images a run trains on, and where they are."""
    with hold_files(folder):
        environment = read_environment(folder)
        if environment and environment.get("images") != about:
            write_json(folder / ENVIRONMENT, environment | {"images": dict(about)})


def find_data(folder: Path, data: str, exists: Callable[[str], bool]) -> str:
    """Where the data of a run are: where they were, else what its settings call them.

    A path in the settings is as it was typed, which says little in another directory.

    Args:
        folder: Of the run.
        data: As the settings have it.
        exists: Whether there are data in a place.
    """
    place = read_images(folder).get("path")
    return place if isinstance(place, str) and exists(place) else data


def check_format(folder: Path, environment: Mapping[str, Any]) -> None:
    """Refuse a run folder that a later version wrote in a way of its own."""
    written = environment.get("format", 1)
    if isinstance(written, int) and written > FORMAT:
        maker = environment.get("invariance")
        raise TrainingError(
            f"{folder} is a run folder of format {written}, written by invariance "
            f"{maker}, but this one reads formats up to {FORMAT}: update invariance."
        )


def read_settings(folder: Path, kind: type[T]) -> T:
    """The settings of a run, as an object of the dataclass ``kind``."""
    from .. import __version__

    environment = read_environment(folder)
    check_format(folder, environment)
    maker = environment.get("invariance")
    if not (folder / CONFIG).read_text(encoding="utf-8", errors="replace").strip():
        raise SettingError(
            f"{folder / CONFIG} is empty, and defaults would be a guess: restore the "
            "settings that the run was started with."
        )
    try:
        settings: Any = read_yaml(kind, folder / CONFIG)
    except SettingError as cause:
        if maker in (None, __version__):
            raise
        raise SettingError(
            f"{cause} {folder} was written by invariance {maker}, and this is "
            f"{__version__}."
        ) from None
    written = environment.get("format", 1)
    settings = keep_meaning(settings, written if isinstance(written, int) else FORMAT)
    result: T = keep_batch(settings, environment)
    return result


def keep_batch(settings: Any, environment: Mapping[str, Any]) -> Any:
    """Settings with the batch size that was chosen where none was asked for.

    Chosen again, it could be another: on other processes, or from fewer samples.
    """
    used = environment.get("used")
    chosen = used.get("batch_size") if isinstance(used, dict) else None
    if settings.batch_size is not None or not isinstance(chosen, int):
        return settings
    return dataclasses.replace(settings, batch_size=chosen)


def keep_meaning(settings: Any, written: int) -> Any:
    """Settings that say today what they said to the version that wrote them.

    Format 1 wrote every number of options with a point. Up to 2 a tenth of the images
    was held out even where there were no labels, and VINCE weighed what it kept. Up to
    3 weight decay always spared biases and norms.
    """
    options = dict(settings.options)
    if written == 1 and isinstance(options.get("k"), float) and options["k"] == 1:
        options["k"] = 1  # one row, not all of them
    if written < 3:
        settings = dataclasses.replace(settings, hold_out="tenth")
        if settings.method in ("vince", "vince_plus"):
            options = {"weighted": True} | options
    if written < 4 and settings.optim.name == "sgd":  # the others spare as they did
        optim = dataclasses.replace(settings.optim, decay="matrices")
        settings = dataclasses.replace(settings, optim=optim)
    return dataclasses.replace(settings, options=options)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
