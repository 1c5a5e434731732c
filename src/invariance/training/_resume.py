"""The settings of a run that goes on: its own, but for what may change meanwhile."""

import dataclasses
from pathlib import Path

from ..data import data_exists
from ..devices import started_outside
from ..errors import TrainingError
from ..folder import differing_settings, find_data, read_settings
from ._settings import Train, require_unfinished

MAY_CHANGE = {"data", "machine.devices", "machine.nodes", "machine.strategy"}


def settings_to_resume(asked: Train, *, find_place: bool = True) -> Train:
    """The run's own settings, but for what may change while a run goes on.

    That is how it is shown, where its data are, and which processes share the work.

    Args:
        asked: What came with the request to resume; its ``data``, where given, is the
            place of the data now.
        find_place: Look for the data by name or path, as no object was given.
    """
    folder = Path(asked.resume or "")
    require_unfinished(folder)
    settings, usual = read_settings(folder, Train), Train()
    shown = {name: getattr(asked, name) for name in ("quiet", "json", "dry_run")}
    mine = dataclasses.replace(settings, **shown, resume=asked.resume)
    same = dataclasses.replace(usual, **shown, resume=asked.resume)
    for name in differing_settings(asked, same).keys() & (
        differing_settings(asked, mine).keys() - MAY_CHANGE
    ):
        raise TrainingError(
            "A resumed run keeps its own settings exactly: with --resume, only the "
            "place of the data and the number of processes may change. Another "
            f"value of {name} was given: start a new run for that; --start-from takes "
            "the weights along."
        )
    data = find_data(folder, settings.data, data_exists)
    if asked.data not in (usual.data, settings.data):
        data = asked.data
    if find_place and not data_exists(data):
        raise TrainingError(
            f"{folder} was training on {data!r}, which is gone, or cannot be seen "
            "from here. Put it back, or say where it is now: invariance train PLACE "
            f"--resume {folder}. Nothing was changed."
        )
    machine, wish = settings.machine, asked.machine
    outside = started_outside() is not None  # then torchrun or srun says how many
    machine = dataclasses.replace(
        machine,
        devices=wish.devices or (None if outside else machine.devices),
        nodes=wish.nodes or (None if outside else machine.nodes),
        strategy=machine.strategy if wish.strategy == "auto" else wish.strategy,
    )
    return dataclasses.replace(mine, data=data, resume=None, machine=machine)
