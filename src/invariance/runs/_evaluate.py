"""``evaluate``: score runs beside their baselines, and keep the scores with them."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from ..data import Source
from ..errors import DataError, SettingError
from ..evaluation import (
    LIMIT,
    Evaluation,
    evaluate_encoders,
    make_task,
    plan_protocols,
    score_supervised_twin,
)
from ..folder import (
    TRAINED,
    UNTRAINED,
    Row,
    describe_settings,
    keep_rows,
    read_environment,
    remember_images,
    resolve_settings,
    to_dict,
    write_verdict,
)
from ..plain_numbers import check_least
from ..processes import ALONE, join_processes
from ..progress import tell
from ..training import Run
from ._open import OpenRun, folder_of, open_run, untrained_encoder
from ._open_data import RunData


def evaluate(
    runs: str | Path | Run | Sequence[str | Path | Run],
    *,
    data: Any = None,
    protocols: str | Sequence[str] | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    preset: str | None = None,
    seeds: int = 1,
    supervised: bool = False,
    limit: int | None = LIMIT,
    network: nn.Module | None = None,
    data_root: str | None = None,
    device: str = "auto",
    shared: bool = False,
    quiet: bool = True,
) -> Evaluation:
    """Score runs beside their baselines, and add the scores to their folders.

    Args:
        runs: A run folder, what ``train`` returned, or several: seeds of one setting
            are averaged, other settings get their own lines.
        data: A name, path, array, (images, labels) or Dataset to score on; None is the
            data of each run. Other classes are fine: classifiers are fitted again.
        protocols: A name in ``invariance.evaluation.PROTOCOLS`` or several, or "all".
            None is the quick ones that suit the data, or the preset's.
        settings: How protocols work, such as {"fine_tune": {"epochs": 100}};
            ``invariance.evaluation.GROUPS`` has the names.
        preset: A published protocol with its settings, by its name in
            ``invariance.evaluation.PRESETS``; ``settings`` override its own.
        seeds: How often what draws at random is repeated.
        supervised: Also train the run's network with all labels, to compare.
        limit: Fit with at most this many training images, evenly spread; None and 0 are
            all. Where it leaves images out, it is one of the settings of a score.
        network: The module itself, when a run was trained on one of your own.
        data_root: Where named data sets are kept; None is where the run found them.
        device: "auto", "cpu", "cuda".
        shared: Every process of torchrun's calls this: each encodes a share of the
            images and runs some of the protocols, and the first keeps the scores.
        quiet: Say nothing while it works; otherwise a line about each score as it
            comes.

    >>> import tempfile
    >>> import invariance as inv
    >>> small = {"data": "shapes", "limit": 64, "epochs": 1, "evaluate": False}
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +ELLIPSIS
    ...     run = inv.train(inv.Train(**small, out=folder, quiet=True))
    ...     scores = evaluate(run, protocols="knn")
    It did not learn...
    >>> len(scores.values("knn"))  # one seed; print(scores) is the table
    1
    """
    several: list[Any] = [runs]
    if isinstance(runs, Iterable) and not isinstance(runs, str):
        several = list(runs)
    several = list({folder_of(run).resolve(): run for run in several}.values())
    if not several:
        raise SettingError("Name a run folder; 'invariance list runs' shows them.")
    check_least("seeds", seeds, 1)
    if limit:  # 0 and None are all
        check_least("limit", limit, 2)
    plan = plan_protocols(protocols, settings=settings, preset=preset)
    processes = join_processes() if shared else ALONE
    place = processes.choose_device(device, auto=("cuda",))
    opened = [open_run(run, network=network) for run in several]
    folders = [run.folder for run in opened]
    settled = resolve_settings(
        [to_dict(run.settings) for run in opened],
        [read_environment(folder) for folder in folders],
    )
    labels, notes = describe_settings(folders, settled)
    sources = [RunData(run, data, place, data_root) for run in opened]
    for source in sources:  # before the first run is scored
        source.require("test")
    all_rows: list[Row] = []
    unsaved: list[str] = []
    pixels: dict[tuple[Any, ...], list[Row]] = {}  # seeds of one setting share them
    for run, source, label in zip(opened, sources, labels, strict=True):
        train, remarks = source.load("train")
        test, _ = source.load("test")
        task = make_task(train, test, limit=limit, device=place, processes=processes)

        def report(line: str, run: OpenRun = run) -> None:
            tell(f"{run.name}: {line}", quiet=quiet or not processes.first)

        common: dict[str, Any] = {"plan": plan, "seeds": seeds, "say": report}
        which = run.data if data is None else id(data)
        mark = train.origin.fingerprint  # which also says what the labels are
        key = which, mark, train.shape, len(train), len(test)
        if key not in pixels:
            pixels[key] = evaluate_encoders(task, {train.kind.baseline: None}, **common)
        encoders, epochs, why, towers = _encoders(run, place)
        how: dict[str, Any] = {"epochs": epochs, "towers": towers}
        rows = [*pixels[key], *evaluate_encoders(task, encoders, **how, **common)]
        if supervised and not task.labeled:
            raise DataError(
                f"A supervised twin learns classes, but {task.data} has none: leave "
                "--supervised out."
            )
        if supervised:
            before = encoders.get(UNTRAINED)
            if before is None:
                raise SettingError(f"There is no supervised twin to train. {why}")
            score_twin = partial(
                score_supervised_twin,
                dataclasses.replace(task, processes=ALONE),  # one trains, others wait
                before,
                epochs=run.settings.epochs,
                batch_size=run.batch_size,
                seed=run.settings.seed,
                **common,
            )
            rows += processes.decide(score_twin)
        try:
            if processes.first:
                _keep(run, rows, train if source.is_own else None)
        except (DataError, OSError) as cause:  # they took long: shown all the same
            unsaved.append(str(cause))
        tag = {"run": str(run.folder)} | ({"setting": label} if label else {})
        all_rows += [{**row, **tag} for row in rows]
        notes += [*remarks, *([why] if why else [])]
    notes += [note for row in all_rows for note in row["notes"]]
    return Evaluation(tuple(all_rows), tuple(dict.fromkeys(notes)), tuple(unsaved))


def _encoders(
    run: OpenRun, device: Any
) -> tuple[dict[str, nn.Module], dict[str, int], str, dict[str, nn.Module]]:
    """The run's encoders by name, the epoch of the best, and why one is missing.

    And, of a run on pairs, both encoders with their heads by the same names.
    """
    before, why, untrained = untrained_encoder(run)
    encoders: dict[str, nn.Module] = {}
    if before is not None:
        encoders[UNTRAINED] = before.to(device)
    encoders[TRAINED] = trained = run.encoder.to(device)
    towers: dict[str, nn.Module] = {}
    if untrained is not None:
        towers[UNTRAINED] = untrained.to(device)
    if run.towers is not None:
        towers[TRAINED] = run.towers.to(device)
    if run.best is None:
        return encoders, {}, why, towers
    best, epoch = run.best
    last = epoch == run.settings.epochs  # then there is nothing new to score
    encoders["best epoch"] = trained if last else best.to(device)
    return encoders, {"best epoch": epoch}, why, towers


def _keep(run: OpenRun, rows: Sequence[Row], images: Source | None) -> None:
    """Add rows to the run's scores, and judge it anew.

    Args:
        run: Whose scores they are.
        rows: Of the scores.
        images: What it was trained on, if these were scored: the folder of an older
            version does not say which they are, and is told now.
    """
    advice = f"The scores of {run.name} were not saved."
    keep_rows(
        run.folder, rows, step=run.step, own_data=images is not None, advice=advice
    )
    if images is not None and not run.images:
        about = {"name": images.name, "fingerprint": images.origin.fingerprint}
        remember_images(run.folder, about)
    write_verdict(run.folder)
