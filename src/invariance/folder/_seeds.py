"""Several runs: which are seeds of one setting, and what tells the settings apart."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..words import join_words
from ._config import flatten, show_value

# what may differ among seeds of one setting: chance, names, and what is shown or kept
MAY_DIFFER = {
    *("seed", "name", "out", "resume", "dry_run", "quiet", "json"),
    *("log_every", "knn_every", "checkpoint_seconds", "evaluate", "trackers"),
    *("storage", "workers", "data_root"),
    *("machine.device", "machine.devices", "machine.nodes", "machine.strategy"),
    *("machine.compile", "machine.capture"),
}
OPEN = (None, "auto")  # settings that leave the choice to the run
LONGEST = 48  # characters of a label


def resolve_settings(
    configs: Sequence[Mapping[str, Any]],
    environments: Sequence[Mapping[str, Any]],
    defaults: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """The settings of runs by dotted names, so that equal ones mean the same.

    What a run leaves open is what it came to, where all runs say what that is: the
    folders of earlier versions say less. Where a version had no such setting yet, it
    is the default.

    >>> new = {"format": 4, "used": {"optim.decay": "matrices", "encoder": "tiny"}}
    >>> auto = {"encoder": "auto", "hold_out": "auto", "optim": {"decay": "auto"}}
    >>> ours, theirs = resolve_settings([auto, {"encoder": "auto"}], [new, {}], auto)
    >>> ours == theirs, ours
    (True, {'encoder': 'auto', 'hold_out': 'tenth', 'optim.decay': 'matrices'})
    """
    usual = flatten(defaults or {})
    used = [find_used(environment) for environment in environments]
    known = set.intersection(*(set(one) for one in used)) if used else set()
    return [
        {
            key: one[key] if value in OPEN and key in known else value
            for key, value in (usual | flatten(config) if config else {}).items()
        }
        for config, one in zip(configs, used, strict=True)
    ]


def find_used(environment: Mapping[str, Any]) -> dict[str, Any]:
    """What open settings of a run came to, as its env.json and its version tell."""
    used, images = (
        part if isinstance(part := environment.get(key), Mapping) else {}
        for key in ("used", "images")
    )
    known = {"hold_out": "nothing" if images.get("n_held_out") == 0 else "tenth"}
    if environment.get("format", 1) in (1, 2, 3):  # see ``keep_meaning``
        known["optim.decay"] = "matrices"
    return known | dict(used)


def group_seeds(configs: Sequence[Mapping[Any, Any]]) -> list[list[int]]:
    """Numbers of runs, those together that are seeds of one setting.

    >>> group_seeds([{"lr": 1, "seed": 0}, {"lr": 2, "seed": 0}, {"lr": 1, "seed": 1}])
    [[0, 2], [1]]
    """
    groups: dict[str, list[int]] = {}
    for k, config in enumerate(configs):
        kept = {key: v for key, v in flatten(config).items() if key not in MAY_DIFFER}
        key = repr(sorted(kept.items(), key=lambda pair: pair[0])) if kept else str(k)
        groups.setdefault(key, []).append(k)
    return list(groups.values())


def describe_settings(
    folders: Sequence[Path], configs: Sequence[Mapping[str, Any]]
) -> tuple[list[str], list[str]]:
    """What each run is a case of, and what to say about them all.

    The labels are empty where all runs are seeds of one setting.
    """
    names = [folder.resolve().name for folder in folders]
    flat = [flatten(config) for config in configs]
    groups, notes = group_seeds(configs), note_same_seeds(names, configs)
    if len(groups) == 1:
        return [""] * len(folders), notes
    firsts = [flat[group[0]] for group in groups]
    keys = dict.fromkeys(key for one in firsts for key in one if key not in MAY_DIFFER)
    differ = [k for k in keys if len({show_value(one.get(k)) for one in firsts}) > 1]
    labels = [""] * len(folders)
    for group, first in zip(groups, firsts, strict=True):
        what = ", ".join(f"{key}={show_value(first.get(key))}" for key in differ)
        members = [names[k] for k in group]
        who = members[0] if len(members) == 1 else f"{len(members)} runs"
        label = f"{what} ({who})"
        if len(label) > LONGEST:
            label = ", ".join(members)
        for k in group:
            labels[k] = label
    if len(set(labels)) < len(groups):  # runs of one name in different folders
        labels = [
            f"{label} in {folder.parent}"
            for label, folder in zip(labels, folders, strict=True)
        ]
    apart = (
        f"These runs differ in {', '.join(differ)}, not only in their seeds: each "
        "setting has its own lines."
    )
    return labels, [apart, *notes]


def note_same_seeds(
    names: Sequence[str], configs: Sequence[Mapping[Any, Any]]
) -> list[str]:
    """A sentence about each group of runs that share even their seed.

    >>> note_same_seeds(["a", "b"], [{"lr": 1, "seed": 0}, {"lr": 1, "seed": 1}])
    []
    """
    notes = []
    for group in group_seeds(configs):
        seeds = [configs[k].get("seed") for k in group]
        same = [names[k] for k in group if seeds.count(configs[k].get("seed")) > 1]
        if same:
            notes.append(
                f"{join_words(same)} have the same seed, so the spread between them "
                "does not show what another seed would change."
            )
    return notes
