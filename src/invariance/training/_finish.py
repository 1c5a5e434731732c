"""The end of a run: scores, readings, pictures, the encoder, a verdict and a report."""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from ..diagnostics import Diagnosis, diagnosis
from ..encoders import Encoder, Head, Towers, write_encoder, write_heads
from ..errors import DataError, InvarianceError
from ..evaluation import (
    LIMIT,
    Evaluation,
    Task,
    encode_views,
    evaluate_encoders,
    list_partnered,
    make_task,
    spread_rows,
)
from ..folder import (
    DIAGNOSTICS,
    ENCODER,
    OTHER_ENCODER,
    PAIR_HEADS,
    TRAINED,
    UNTRAINED,
    judge,
    keep_rows,
    read_record,
    write_json,
    write_verdict,
)
from ..processes import ALONE, Processes
from ..report import write_report
from ..words import join_words
from ._gallery_writer import begin_gallery, one_blas_thread
from ._monitor import Monitor
from ._readings import temperature_of
from ._run_plan import Plan
from ._settings import usual_settings
from ._watch import Watch

DIAGNOSED = 1000  # samples


@dataclass(frozen=True)
class Trained:
    """What training leaves behind, whole, on one device."""

    plan: Plan
    steps: int
    """How many there were; fewer than planned where a run ended early."""
    encoder: Encoder
    head: Head | None
    """None where each process has only a share of it."""
    towers: Towers | None
    """Both encoders and their heads, where there are two."""
    monitor: Monitor
    folder: Path
    device: Any
    processes: Processes = ALONE
    """All of training's; each of them has the same."""


def finish(trained: Trained, watch: Watch) -> Evaluation | None:
    """Evaluate the encoder beside its baselines, write it, say where things are.

    The encoder's file is written after the scores: where it is, the run is finished.
    """
    plan, folder = trained.plan, trained.folder
    evaluation = None
    if plan.settings.evaluate:
        with one_blas_thread():
            write_gallery = begin_gallery(
                plan, trained.encoder, folder, trained.device, trained.towers
            )
            evaluation = evaluate_trained(trained, watch)
            watch.say("reading the embeddings ...")
            readings = diagnose_trained(trained)
            write_json(folder / DIAGNOSTICS, readings.as_dict())
            watch.say("drawing the map ...")
            if problem := write_gallery():
                watch.say(problem, important=True)
    if (towers := trained.towers) is not None:
        write_encoder(towers.other, folder / OTHER_ENCODER, step=trained.steps)
        write_heads(towers, folder / PAIR_HEADS)
    write_encoder(trained.encoder, folder / ENCODER, step=trained.steps)
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
    task, why = find_task(trained)
    if task is None:
        watch.say(why, important=True)
        return None
    encoders, epochs = find_encoders(trained)
    watch.say(f"scoring {join_words(list(encoders))} ...")
    towers = find_towers(trained)
    with watch.count("scores") as progress:
        rows = evaluate_encoders(
            task,
            encoders,
            epochs=epochs,
            towers=towers,
            say=lambda line: progress.advance(note=line),
        )
    notes = dict.fromkeys(note for row in rows for note in row["notes"])
    evaluation = Evaluation(tuple(rows), tuple(notes))
    keep_rows(trained.folder, rows, step=trained.steps)
    for line in str(evaluation).splitlines():
        watch.say(line, important=True)
    if epochs:
        watch.say(
            f"Best epoch: {epochs['best epoch']}, by kNN on training samples, the test "
            "part untouched.",
            important=True,
        )
    return evaluation


def help_score(trained: Trained) -> None:
    """What the other processes do while the first evaluates: their share of it."""
    if not trained.plan.settings.evaluate:
        return
    task, _ = find_task(trained)
    if task is not None:
        encoders, epochs = find_encoders(trained)
        evaluate_encoders(task, encoders, epochs=epochs, towers=find_towers(trained))


def find_task(trained: Trained) -> tuple[Task | None, str]:
    """What to score on, by all processes; or why there is nothing."""
    plan = trained.plan

    def explain() -> str:
        learned = "the readings above (matched, nats, rank) say whether it learned."
        if plan.test_problem:
            problem = f"The test part cannot be read: {plan.test_problem}"
            return f"{problem} So nothing is scored."
        if plan.test is None:
            return f"no labels in these data, so nothing to score: {learned}"
        try:
            make_task(plan.source, plan.test, limit=LIMIT, device=trained.device)
        except DataError:
            return f"a single class in these data, so nothing to score: {learned}"
        return ""

    why = next(filter(None, trained.processes.collect(explain())), "")
    if why:
        return None, why
    how: dict[str, Any] = {"device": trained.device, "processes": trained.processes}
    return make_task(plan.source, plan.test, limit=LIMIT, **how), ""


def find_encoders(
    trained: Trained,
) -> tuple[dict[str, nn.Module | None], dict[str, int]]:
    """What is scored by its name, and the epoch of the best; the first's, in all."""
    plan, processes = trained.plan, trained.processes
    encoders: dict[str, nn.Module | None] = {
        plan.source.kind.baseline: None,
        UNTRAINED: plan.untrained.to(trained.device),
        TRAINED: trained.encoder,
    }
    best = trained.monitor.encoder() if processes.first else None
    epoch = processes.collect(None if best is None else best[1])[0]
    if epoch is not None:
        encoder = copy.deepcopy(plan.untrained) if best is None else best[0]
        last = epoch == plan.order.count_epochs(
            trained.steps
        )  # then there is nothing new to score
        encoders["best epoch"] = trained.encoder if last else encoder.to(trained.device)
    for network in encoders.values():
        processes.copy_first(network)
    return encoders, {} if epoch is None else {"best epoch": epoch}


def find_towers(trained: Trained) -> dict[str, Towers]:
    """Both encoders with their heads, where there are two, before and after."""
    untrained = trained.plan.untrained_towers
    if untrained is None or trained.towers is None:
        return {}
    return {UNTRAINED: untrained.to(trained.device), TRAINED: trained.towers}


def diagnose_trained(trained: Trained) -> Diagnosis:
    """Quick readings of h and z, of samples not trained on where there are any."""
    plan, settings = trained.plan, trained.plan.settings
    source = plan.held_out
    held_out = source is not None and len(source) > 1
    if source is None or not held_out:
        source = plan.source
    partnered = list_partnered(source)
    rows = partnered[spread_rows(len(partnered), DIAGNOSED)]
    h, z = encode_views(
        trained.encoder,
        trained.head,
        source,
        rows,
        plan.views,
        seed=settings.seed,
        epoch=settings.epochs,  # one that training has not seen: other views
        device=trained.device,
        other=plan.other_side(trained.encoder, trained.head, trained.towers),
    )
    labels = None if source.labels is None else source.labels.cpu()[rows]
    objective = plan.learner.cosine_objective
    result = diagnosis(
        h,
        z,
        labels=labels,
        temperature=temperature_of(objective),
        negatives=getattr(objective, "negatives", None) or "cross",
        held_out=held_out,
    )
    return result.plus(notes=plan.learner.notes)
