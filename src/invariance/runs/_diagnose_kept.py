"""``diagnose_kept``: what training did, read off the epochs that a run has kept.

Each kept learner (--keep-every) is shown the same views of the same samples, held-out
ones first. So the curves differ by what was learned in between and by nothing else:
the information of a mini-batch, which stays below the logarithm of its size, beside
that of a pool a hundred times as large; and what classifiers make of the features.
"""

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from ..devices import choose_device
from ..diagnostics import diagnosis, information_by_pool, sharpest_temperature
from ..errors import DataError
from ..evaluation import (
    LIMIT,
    ProtocolPlan,
    Task,
    evaluate_encoders,
    make_task,
    plan_protocols,
)
from ..folder import KEPT_READINGS, TRAINED, Row, list_kept, write_lines
from ..progress import tell
from ..training import Run, load, read_kept
from ._diagnose import DIAGNOSED
from ._open import open_run
from ._open_data import RunData
from ._pool import Pool, Rows, open_pool

PROTOCOLS = ("knn", "linear")
NAMES = {
    "alignment": "alignment",
    "uniformity": "uniformity",
    "effective_rank": "effective rank",
    "ess": "effective sample size",
}
ABOUT = {"epoch", "step", "of", "temperature", "batch_size", "n_pool"}
ABOUT |= {"sharpest_temperature"}
COLUMNS = ("batch_nats", "pool_nats", "sharpest_nats", *NAMES)


def diagnose_kept(
    run: str | Path | Run,
    *,
    data: Any = None,
    protocols: str | Sequence[str] | None = None,
    batch_size: int | None = None,
    pool: int | None = None,
    network: nn.Module | None = None,
    data_root: str | None = None,
    device: str = "auto",
    keep: bool = True,
    quiet: bool = True,
) -> list[Row]:
    """Information and accuracy against training: a row per epoch that a run has kept.

    A row has "epoch" and "step"; "batch_nats", what a mini-batch shows of the
    information that two views share, "pool_nats", what the pool shows at the same
    "temperature", and "sharpest_nats", what it shows at the best one; "alignment",
    "uniformity", "effective_rank" and "ess"; and, where there are labels, the accuracy
    of each protocol under its name. Numbers are those of "of": the head's z, or h where
    the head cannot be rebuilt.

    Args:
        run: A run folder, or what ``train`` returned; it was trained with --keep-every.
        data: A name, path, array or Dataset to look at; None is the run's own.
        protocols: Scores, by their names in ``invariance.evaluation.PROTOCOLS``; None
            is knn and linear where there are labels, an empty list is none.
        batch_size: Whose mini-batch estimates are compared; None is the run's.
        pool: Samples of the large pool; None is a hundred batches, or all there are.
        network: The module itself, when the run was trained on one of your own.
        data_root: Where named data sets are kept; None is where the run found them.
        device: "auto", "cpu", "cuda".
        keep: Write kept.jsonl into the run folder, for the report.
        quiet: Say nothing while it works; otherwise a line about each epoch.
    """
    plan = plan_protocols(protocols) if protocols else None  # a bad name comes first
    opened = open_run(run, network=network)
    paths = list_kept(opened.folder)
    if not paths:
        raise DataError(
            f"{opened.folder} has kept no epochs to read: train with --keep-every N."
        )
    place = choose_device(device, auto=("cuda",))
    source = open_pool(
        opened, data, place, batch_size=batch_size, n=pool, data_root=data_root
    )
    scored = protocols is None or plan is not None
    task = find_task(RunData(opened, data, place, data_root)) if scored else None
    if task is not None and plan is None:
        plan = choose_usual(task)
    rows: list[Row] = []
    for epoch, path in paths.items():
        tell(f"{opened.name}: epoch {epoch}", quiet=quiet)
        state = read_kept(path, map_location=place)
        encoder = load(path, network=network)
        if source.parts.learner is not None:
            source.parts.learner.load_state_dict(state["learner"])
        temperature = source.parts.temperature
        if state.get("controller"):  # it had moved the temperature by then
            temperature = float(state["controller"]["temperature"])
        row = {"epoch": epoch, "step": state["step"]}
        row |= read_views(source.encode(encoder), source, temperature)
        if task is not None and plan is not None:
            row |= read_scores(task, encoder.to(place), plan)
        rows.append(row)
    if keep:
        advice = f"The readings of {opened.folder} were not saved."
        write_lines(opened.folder / KEPT_READINGS, rows, advice=advice)
    return rows


def find_task(data: RunData) -> Task | None:
    """What to score on; None without labels or without samples that were held out."""
    try:
        train, test = (data.load(split)[0] for split in ("train", "test"))
        return make_task(train, test, limit=LIMIT, device=data.device)
    except DataError:
        return None


def choose_usual(task: Task) -> ProtocolPlan | None:
    """The usual protocols that suit these data; None if none does."""
    names: list[str] = []
    for name in PROTOCOLS:
        with contextlib.suppress(DataError):
            names += plan_protocols(name).suit(task)
    return plan_protocols(names) if names else None


def read_views(rows: Rows, pool: Pool, temperature: float) -> Row:
    """What two views of the pool say; of one view, only where its rows lie."""
    of, pair = rows.views
    n, held = pair.shape[1], pool.n_held_out
    batch_size = min(pool.batch_size, n)
    few = rows.first(min(held, n, DIAGNOSED) if held >= batch_size else n)
    negatives = pool.parts.negatives
    read = diagnosis(few.h, few.z, temperature=temperature, negatives=negatives)
    values = {(reading.name, reading.of): reading.value for reading in read.readings}
    row: Row = {"of": of, "temperature": temperature, "batch_size": batch_size}
    row |= {key: values.get((name, of)) for key, name in NAMES.items()}
    if len(pair) == 2:
        u, v = pair
        factor = max(n // batch_size, 1)
        how: dict[str, Any] = {"batch_size": batch_size, "factor": factor}
        pooled = information_by_pool(u, v, temperature=temperature, **how)
        row |= {"n_pool": pooled.n_pool}
        row |= {"batch_nats": pooled.batch_nats, "pool_nats": pooled.pool_nats}
        half = n // 2  # chooses the temperature that the other half is read with
        if half >= batch_size:
            sharp = sharpest_temperature(u[:half], v[:half])
            best = information_by_pool(u[half:], v[half:], temperature=sharp, **how)
            row |= {"sharpest_temperature": sharp, "sharpest_nats": best.pool_nats}
    return {key: value for key, value in row.items() if is_known(value)}


def is_known(value: Any) -> bool:
    """Whether a reading could be taken."""
    return not (value is None or (isinstance(value, float) and math.isnan(value)))


def read_scores(task: Task, encoder: nn.Module, plan: ProtocolPlan) -> Row:
    """The first metric of each protocol, by its name."""
    scores: Row = {}
    for row in evaluate_encoders(task, {TRAINED: encoder}, plan=plan):
        scores.setdefault(row["protocol"], row["value"])
    return scores


def render_kept(rows: Sequence[Row]) -> list[str]:
    """The rows as a table to read, 80 columns wide: long titles take two lines."""
    scores = [key for key in rows[0] if key not in {*COLUMNS, *ABOUT}] if rows else []
    known = [key for key in COLUMNS if any(key in row for row in rows)]
    titles = {key: ["", *key.split("_", 1)][-2:] for key in [*known, *scores]}
    widths = {key: max(6, *map(len, parts)) + 1 for key, parts in titles.items()}
    head = [
        "".join(f"{titles[key][k]:>{width}}" for key, width in widths.items())
        for k in (0, 1)
    ]
    lines = [" " * 5 + head[0], "epoch" + head[1]]
    for row in rows:
        cells = [
            f"{row[key]:>{width}.3f}" if key in row else " " * width
            for key, width in widths.items()
        ]
        lines.append("".join([f"{row['epoch']:>5}", *cells]))
    return lines
