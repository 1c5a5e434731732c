"""``evaluate``: runs in, scores beside their baselines out, and into the run folders.

Whatever is fitted or chosen sees the training part only. Raw pixels and the encoder
before training stand in the same table; the supervised twin, the same network trained
with all labels, on request.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from ..devices import choose_device
from ..errors import DataError, SettingError, choose
from ..evaluation import Score, as_row
from ..evaluation._fine_tune import fit_classifier
from ..evaluation._labelled import numbered
from ..evaluation._rows import NAME, Row, with_rows
from ..training import Run
from ..training._checkpoint import write_whole
from ..training._features import rows_of
from ._opened import Data, Opened, folder_of, labelled, opened, untrained
from ._protocols import PROTOCOLS, QUICK, Subject, Task
from ._settings import labels
from ._table import table

Say = Callable[[str], None]
Scored = tuple[Score, int]
SAME = "The best epoch by kNN on training images is the last one."


@dataclass(frozen=True)
class Evaluation:
    """Scores of one run or several, as rows of evaluation.jsonl, each with its run."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    """What a reader should know, in sentences."""
    unsaved: tuple[str, ...] = ()
    """Why scores of a run could not be added to its folder."""

    def values(self, protocol: str, features: str = "trained encoder") -> list[float]:
        """The values of one protocol, in the order in which they were taken."""
        return [
            row["value"]
            for row in self.rows
            if (row["protocol"], row["features"]) == (protocol, features)
        ]

    def __str__(self) -> str:
        return "\n".join([*table(self.rows), *(f"note: {n}" for n in self.notes)])


def evaluate(
    runs: str | Path | Run | Sequence[str | Path | Run],
    *,
    data: Any = None,
    protocols: str | Sequence[str] = QUICK,
    seeds: int = 1,
    supervised: bool = False,
    limit: int | None = None,
    network: nn.Module | None = None,
    root: str | None = None,
    device: str = "auto",
    say: Say = lambda _: None,
) -> Evaluation:
    """Score runs beside their baselines, and add the scores to their folders.

    Args:
        runs: A run folder, what ``train`` returned, or several: seeds of one setting
            are averaged, other settings are lines of their own.
        data: A name, path, array, (images, labels) or Dataset to score on; None is the
            data of each run. Other classes are fine: classifiers are fitted anew.
        protocols: A name in ``PROTOCOLS`` or several, or "all".
        seeds: How often what draws at random is repeated.
        supervised: Also train the run's network with all labels, to compare.
        limit: Use at most so many training images, evenly spread.
        network: The module itself, when a run was trained on one of your own.
        root: Where named data sets are kept; None is where the run found them.
        device: "auto", "cpu", "cuda".
        say: Called with a line about each score as it comes.
    """
    several: list[Any] = [runs]
    if isinstance(runs, Iterable) and not isinstance(runs, str):
        several = list(runs)
    several = list({folder_of(run).resolve(): run for run in several}.values())
    if not several:
        raise SettingError("Name a run folder; 'invariance list runs' shows them.")
    if seeds < 1 or (limit is not None and limit < 2):
        raise SettingError(
            f"seeds is at least 1 and limit at least 2: got {seeds} and {limit}."
        )
    asked = [protocols] if isinstance(protocols, str) else protocols
    names = list(PROTOCOLS) if "all" in asked else list(dict.fromkeys(asked))
    for name in names:
        choose(PROTOCOLS, name, "protocol")
    place = choose_device(device, auto=("cuda",))
    found: list[Row] = []
    unsaved: list[str] = []
    pixels: dict[tuple[Any, ...], list[Scored]] = {}
    all_opened = [opened(each, network=network) for each in several]
    settings, notes = labels(all_opened)
    for run, setting in zip(all_opened, settings, strict=True):
        there = labelled(run, data, device=place, root=root)
        rows = rows_of(there.train, limit)
        task = Task(there.train, there.test, rows, place, limit)
        subjects, remarks = baselines(run, task)
        mine = []
        whose = run.settings.data if data is None else id(data)
        same = whose, there.train.shape, len(there.train), len(there.test)
        for subject in subjects:
            taken = pixels.get(same) if subject.encoder is None else None
            if taken is None:
                taken = list(scores(subject, names, seeds, f"{run.name}: ", say))
            if subject.encoder is None:
                pixels[same] = taken  # seeds of one setting have the same pixels
            mine += [
                as_row(score, features=subject.name, data=there.name, seed=seed)
                for score, seed in taken
            ]
        mine += best_rows(run, task, names, seeds, mine, there, say)
        if supervised:
            say(f"{run.name}: supervised twin: training")
            mine += twin_rows(run, task, names, seeds, there, say)
        try:
            text = with_rows(run.folder / NAME, mine)
            write_whole(
                run.folder / NAME,
                lambda file, text=text: file.write(text),
                advice=f"The scores of {run.name} are not kept in its folder.",
            )
        except (DataError, OSError) as cause:  # they took long: shown all the same
            unsaved.append(str(cause))
        tag = {"run": str(run.folder)} | ({"setting": setting} if setting else {})
        found += [{**row, **tag} for row in mine]
        notes += [*there.notes, *remarks]
    notes += [
        note
        for row in found
        for note in row["notes"]
        if "labels," not in note and not note.startswith("Epoch ")
    ]
    return Evaluation(tuple(found), tuple(dict.fromkeys(notes)), tuple(unsaved))


def baselines(run: Opened, task: Task) -> tuple[list[Subject], list[str]]:
    """Pixels, the encoder before and after training; and why one is missing."""
    before, why = untrained(run)
    subjects = [Subject("raw pixels", None, task)]
    if before is not None:
        subjects.append(Subject("untrained encoder", before.to(task.device), task))
    subjects.append(Subject("trained encoder", run.encoder.to(task.device), task))
    return subjects, [why] if why else []


def scores(
    subject: Subject, names: Sequence[str], seeds: int, who: str, say: Say
) -> Iterator[Scored]:
    """Every protocol that suits these features, at every seed it depends on."""
    limit = subject.task.limit
    for name in names:
        protocol = PROTOCOLS[name]
        if protocol.needs_encoder and subject.encoder is None:
            continue
        for seed in range(seeds if protocol.seeded else 1):
            for score in protocol.run(subject, seed):
                say(f"{who}{subject.name}: {in_short(score)}")
                if limit is not None:  # another question than that of all rows
                    told = score.settings | {"limit": limit}
                    score = dataclasses.replace(score, settings=told)
                yield score, seed


def in_short(score: Score) -> str:
    """A line for those who wait."""
    return f"{score.name} {score.metric} {100 * score.value:.1f} %"


def best_rows(
    run: Opened,
    task: Task,
    names: Sequence[str],
    seeds: int,
    rows: Sequence[Row],
    data: Data,
    say: Say,
) -> list[Row]:
    """Scores of the best epoch; those of the last where that is the best."""
    if run.best is None:
        return []
    encoder, epoch = run.best
    if epoch == run.settings.epochs:
        last = [row for row in rows if row["features"] == "trained encoder"]
        return [
            {**row, "features": "best epoch", "notes": [SAME, *row["notes"]]}
            for row in last
        ]
    note = f"Epoch {epoch}, best by kNN on training images."
    subject = Subject("best epoch", encoder.to(task.device), task)
    return [
        as_row(
            dataclasses.replace(score, notes=(note, *score.notes)),
            features=subject.name,
            data=data.name,
            seed=seed,
        )
        for score, seed in scores(subject, names, seeds, f"{run.name}: ", say)
    ]


def twin_rows(
    run: Opened,
    task: Task,
    names: Sequence[str],
    seeds: int,
    data: Data,
    say: Say,
) -> list[Row]:
    """Scores of the same network trained with labels from its first weights."""
    before, why = untrained(run)
    if before is None:
        raise SettingError(f"There is no supervised twin to train. {why}")
    settings = run.settings
    twin = fit_classifier(
        before,
        task.train,
        task.labels,
        rows=task.rows,
        augment=task.augment(settings.seed),
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        seed=settings.seed,
        device=task.device,
    )
    _, truth, _, notes = numbered(task.labels[task.rows], task.test_labels)
    correct = twin.predict(task.test, device=task.device) == truth
    told = {"epochs": settings.epochs, "batch_size": settings.batch_size}
    own = Score.of("supervised", correct, told, notes)
    say(f"{run.name}: supervised twin: {in_short(own)}")
    subject = Subject("supervised twin", twin.encoder, task)
    # to train it on once more would be the same twice
    few = [name for name in names if not PROTOCOLS[name].needs_encoder]
    return [
        as_row(score, features=subject.name, data=data.name, seed=seed)
        for score, seed in (
            (own, 0),
            *scores(subject, few, seeds, f"{run.name}: ", say),
        )
    ]
