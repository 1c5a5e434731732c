"""``invariance train``: much is done at once before the first step.

Importing torch takes seconds and one core. Meanwhile other processes read the folder,
and as soon as torch is there a thread wakes the GPU.
"""

import contextlib
import os
from pathlib import Path

from ..data import data_exists, read_ahead
from ..devices import keep_freed_memory, local_rank, started_outside, wake_gpu
from ..errors import SettingError
from ..folder import find_data, read_settings, read_yaml
from ..late_imports import import_much
from ..progress import tell_loading
from ..training import Train, check_names, check_numbers, require_unfinished


def train(settings: Train) -> int:
    """Train; torch is imported only when the settings have passed what needs none."""
    if settings.resume:
        require_unfinished(Path(settings.resume))
    else:
        check_numbers(settings)
        check_names(settings)
    tell_loading(quiet=settings.quiet or settings.json or local_rank() > 0)
    keep_freed_memory()
    with read_meanwhile(settings):
        with import_much():
            import torch  # noqa: F401

            if is_alone(settings):
                wake_gpu(settings.machine.device)
            from ..training import Stopped
            from ..training import train as start
        try:
            start(settings)
        except Stopped:
            return 130
    return 0


def read_meanwhile(settings: Train) -> contextlib.AbstractContextManager[None]:
    """Have other processes read the folder, if all of it is about to be read."""
    data = settings.data
    if settings.resume:  # its own settings hold, but for where the data are
        folder = Path(settings.resume)
        settings = read_settings(folder, Train)
        if data == Train.data:
            data = find_data(folder, settings.data, data_exists)
    some = settings.limit is not None or settings.storage == "streamed"
    if some or not is_alone(settings):
        return contextlib.nullcontext()
    return read_ahead(
        data,
        image_size=settings.image_size,
        labels=settings.labels,
        hold_out=settings.hold_out,
    )


def is_alone(settings: Train) -> bool:
    """Whether the run has one process, as far as settings and environment tell."""
    others = started_outside() is not None or "LOCAL_RANK" in os.environ
    return settings.machine.n_processes == 1 and not others


def split_config_file(arguments: list[str]) -> tuple[list[str], Train]:
    """Take ``--config FILE`` out of the arguments and read it.

    >>> rest, start = split_config_file(["--epochs", "3"])
    >>> rest, start.epochs
    (['--epochs', '3'], 20)
    """
    rest: list[str] = []
    path = None
    words = iter(arguments)
    for word in words:
        if word == "--config":
            path = next(words, None)
            if path is None:
                raise SettingError("--config needs a file of settings.")
        elif word.startswith("--config="):
            path = word.removeprefix("--config=")
        else:
            rest.append(word)
    if path is None:
        return rest, Train()
    return rest, read_yaml(Train, path)
