"""Several runs: which are seeds of one setting, and what tells the settings apart."""

from collections.abc import Sequence
from typing import Any

from ..report._settings import UNLIKE, alike, flat, told
from ..training._config import to_dict
from ._opened import Opened

LONGEST = 48


def labels(runs: Sequence[Opened]) -> tuple[list[str], list[str]]:
    """What each run is a case of, and what to say about them all.

    The labels are empty where all runs are seeds of one setting.
    """
    groups = alike([to_dict(run.settings) for run in runs])
    notes = [same_seed([runs[k] for k in group]) for group in groups]
    notes = [note for note in notes if note]
    found = [""] * len(runs)
    if len(groups) == 1:
        return found, notes
    differ = differing([flat(to_dict(runs[group[0]].settings)) for group in groups])
    for group in groups:
        own = flat(to_dict(runs[group[0]].settings))
        what = ", ".join(f"{key}={told(own.get(key))}" for key in differ)
        names = [runs[k].name for k in group]
        who = names[0] if len(names) == 1 else f"{len(names)} runs"
        label = f"{what} ({who})"
        if len(label) > LONGEST:
            label = ", ".join(names)
        for k in group:
            found[k] = label
    if len(set(found)) < len(groups):  # runs of one name in different folders
        found = [
            f"{label} in {run.folder.parent}"
            for label, run in zip(found, runs, strict=True)
        ]
    return found, [
        f"These runs differ in {', '.join(differ)}, not only in their seeds: each "
        "setting has lines of its own.",
        *notes,
    ]


def differing(settings: Sequence[dict[str, Any]]) -> list[str]:
    """Names of settings that do not have one value."""
    keys = dict.fromkeys(key for own in settings for key in own if key not in UNLIKE)
    return [k for k in keys if len({told(own.get(k)) for own in settings}) > 1]


def same_seed(runs: Sequence[Opened]) -> str:
    """A sentence where runs of one setting repeat a seed, and so have no spread."""
    seeds = [run.settings.seed for run in runs]
    if len(set(seeds)) == len(seeds):
        return ""
    names = " and ".join(run.name for run in runs if seeds.count(run.settings.seed) > 1)
    return f"{names} share a seed: what they spread is not what seeds do."
