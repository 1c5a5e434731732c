"""The end of a run: scores, readings, pictures, the encoder, a verdict and a report."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from ..diagnostics import Diagnosis, diagnosis
from ..encoders import Encoder, write_encoder
from ..errors import DataError, InvarianceError
from ..evaluation import (
    LIMIT,
    Evaluation,
    encode_views,
    evaluate_encoders,
    make_task,
    spread_rows,
)
from ..folder import (
    DIAGNOSTICS,
    ENCODER,
    judge,
    keep_rows,
    read_record,
    write_json,
    write_verdict,
)
from ..report import write_report
from ..words import join_words
from ._gallery_writer import write_gallery
from ._monitor import Monitor
from ._readings import temperature_of
from ._run_plan import Plan
from ._settings import usual_settings
from ._watch import Watch

DIAGNOSED = 1000  # images


@dataclass(frozen=True)
class Trained:
    """What training leaves behind, whole, on one device."""

    plan: Plan
    encoder: Encoder
    head: nn.Module | None
    monitor: Monitor
    folder: Path
    device: Any


def finish(trained: Trained, watch: Watch) -> Evaluation | None:
    """Evaluate the encoder beside its baselines, write it, say where things are.

    The encoder's file is written after the scores: where it is, the run is finished.
    """
    plan, folder = trained.plan, trained.folder
    evaluation = None
    if plan.settings.evaluate:
        evaluation = evaluate_trained(trained, watch)
        watch.say("reading the embeddings ...")
        readings = diagnose_trained(trained)
        write_json(folder / DIAGNOSTICS, readings.as_dict())
        watch.say("drawing the map ...")
        problem = write_gallery(plan, trained.encoder, folder, trained.device)
        if problem:
            watch.say(problem, important=True)
    write_encoder(trained.encoder, folder / ENCODER, step=plan.n_steps)
    try:
        findings = write_verdict(folder)
    except DataError as cause:  # it is shown all the same
        watch.say(str(cause), important=True)
        findings = judge(read_record(folder))
    for finding in findings:
        watch.say(str(finding), important=True)
    watch.say(f"run folder: {folder}", important=True)
    try:
        page = write_report(folder, usual_settings())
        watch.say(f"report:     {page}", important=True)
    except InvarianceError as cause:  # the run is complete without its report
        watch.say(str(cause), important=True)
    watch.say(
        f"use it:     import invariance; encoder = invariance.load({str(folder)!r})"
    )
    return evaluation


def evaluate_trained(trained: Trained, watch: Watch) -> Evaluation | None:
    """The scores that ``invariance evaluate`` gives, added to the run folder."""
    plan, monitor = trained.plan, trained.monitor
    if plan.test_problem:
        problem = f"The test part cannot be read: {plan.test_problem}"
        watch.say(f"{problem} So nothing is scored.", important=True)
        return None
    if plan.test is None:
        watch.say(
            "no labels in these data, so nothing to score: the readings above "
            "(matched, nats, rank) say whether it learned.",
            important=True,
        )
        return None
    try:
        task = make_task(plan.source, plan.test, limit=LIMIT, device=trained.device)
    except DataError:
        watch.say(
            "a single class in these data, so nothing to score: the readings above "
            "(matched, nats, rank) say whether it learned.",
            important=True,
        )
        return None
    encoders: dict[str, nn.Module | None] = {
        "raw pixels": None,
        "untrained encoder": plan.untrained.to(trained.device),
        "trained encoder": trained.encoder,
    }
    best, epochs = monitor.encoder(), {}
    if best is not None:
        encoder, epoch = best
        last = epoch == plan.settings.epochs  # then there is nothing new to score
        encoders["best epoch"] = trained.encoder if last else encoder.to(trained.device)
        epochs["best epoch"] = epoch
    watch.say(f"scoring {join_words(list(encoders))} ...")
    rows = evaluate_encoders(task, encoders, epochs=epochs)
    notes = dict.fromkeys(note for row in rows for note in row["notes"])
    evaluation = Evaluation(tuple(rows), tuple(notes))
    keep_rows(trained.folder, rows, step=plan.n_steps)
    for line in str(evaluation).splitlines():
        watch.say(line, important=True)
    if best is not None:
        watch.say(
            f"Best epoch: {epochs['best epoch']}, by kNN on training images, the test "
            "part untouched.",
            important=True,
        )
    return evaluation


def diagnose_trained(trained: Trained) -> Diagnosis:
    """Quick readings of h and z, of images not trained on where there are any."""
    plan, settings = trained.plan, trained.plan.settings
    source = plan.held_out
    held_out = source is not None and len(source) > 1
    if source is None or not held_out:
        source = plan.source
    rows = spread_rows(len(source), DIAGNOSED)
    h, z = encode_views(
        trained.encoder,
        trained.head,
        source,
        rows,
        plan.views,
        seed=settings.seed,
        epoch=settings.epochs,  # one that training has not seen: other views
        device=trained.device,
    )
    labels = None if source.labels is None else source.labels.cpu()[rows]
    objective = plan.learner.objective
    return diagnosis(
        h,
        z,
        labels=labels,
        temperature=temperature_of(objective),
        negatives=objective.negatives or "cross",
        held_out=held_out,
    )
