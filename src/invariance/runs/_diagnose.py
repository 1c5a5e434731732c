"""``diagnose``: a run in, every reading of its embeddings out, each with a sentence."""

import math
from pathlib import Path
from typing import Any

from torch import nn

from ..devices import choose_device
from ..diagnostics import Diagnosis, Reading, diagnosis
from ..errors import DataError
from ..folder import DIAGNOSTICS, write_json
from ..progress import tell
from ..training import Run
from ._deep_readings import augmentation_readings, gradient_readings, pool_readings
from ._open import open_run
from ._pool import open_pool

DIAGNOSED = 2000  # samples that alignment, uniformity and spectrum are read of
PROBED = 4000  # samples that probes are fitted on and tried with
ONE_VIEW = (
    "This run shows each sample in only one view: alignment, information and "
    "gradients, which compare two views, are not read."
)
SAME_VIEWS = (
    "The two views of a sample are the same here, since dropout is off: alignment, "
    "information and gradients, which compare two views, are not read."
)
ATTACKED = (
    "This run was trained on views that an attack had changed (--views.adversarial): "
    "the readings here are of views without the attack."
)
ENOUGH = 200  # held-out samples; where there are fewer, training samples help out


def diagnose(
    run: str | Path | Run,
    *,
    data: Any = None,
    batch_size: int | None = None,
    pool: int | None = None,
    network: nn.Module | None = None,
    data_root: str | None = None,
    device: str = "auto",
    keep: bool = True,
    quiet: bool = True,
) -> Diagnosis:
    """Measure what a run's encoder and head make of views; write diagnostics.json.

    Args:
        run: A run folder, or what ``train`` returned.
        data: A name, path, array or Dataset to look at; None is the run's own. Labels
            are not needed.
        batch_size: Whose mini-batch estimates are compared; None is the run's.
        pool: Images of the large pool; None is a hundred batches, or all there are.
        network: The module itself, when the run was trained on one of your own.
        data_root: Where named data sets are kept; None is where the run found them.
        device: "auto", "cpu", "cuda".
        keep: Write diagnostics.json into the run folder.
        quiet: Say nothing while it works; otherwise a line about each part.
    """
    opened = open_run(run, network=network)
    place = choose_device(device, auto=("cuda",))
    source = open_pool(
        opened, data, place, batch_size=batch_size, n=pool, data_root=data_root
    )

    def say(words: str) -> None:
        tell(f"{opened.name}: {words}", quiet=quiet)

    parts, temperature = source.parts, source.parts.temperature
    say(f"embedding views of {source.n:,} {source.word}s or all there are")
    rows = source.encode(opened.encoder)
    say("alignment, uniformity, spectrum")
    # held-out samples come first, and are enough if there are enough of them
    held = min(source.n_held_out, source.n)
    enough = held if held >= ENOUGH else source.n
    few = rows.first(min(enough, DIAGNOSED))
    result = diagnosis(
        few.h,
        few.z,
        labels=few.labels,
        temperature=temperature,
        negatives=parts.negatives,
        held_out=len(few.samples) <= held,
    )
    more: list[Reading] = []
    of, (u, *others) = rows.views
    unread = [ONE_VIEW if len(parts.views.pipelines) == 1 else SAME_VIEWS]
    for v in others:
        say(f"information at {source.batch_size} and {len(u):,} candidates")
        more += pool_readings(of, u, v, temperature, source.batch_size)
        say("gradients, objective by objective")
        readings, unread = gradient_readings(
            of,
            u,
            v,
            trained=parts.objective,
            temperature=temperature,
            batch_size=source.batch_size,
            labels=rows.labels,
        )
        more += readings
    say("what h and z keep of the views")
    more += augmentation_readings(rows.first(min(enough, PROBED)), source)
    finite = [reading for reading in more if math.isfinite(reading.value)]
    why = [parts.why] if parts.why else []
    why += parts.learner.notes if parts.learner else ()
    why += [ATTACKED] if opened.settings.views_adversarial else []
    result = result.plus(*finite, notes=(*source.notes, *unread, *why))
    if keep:
        try:
            keep_readings(opened.folder, result)
        except DataError as cause:  # they took long: handed over all the same
            return result.plus(notes=(str(cause),))
    return result


def keep_readings(folder: str | Path, result: Diagnosis) -> None:
    """Write them into the run folder, for the report."""
    folder = Path(folder).expanduser()
    advice = f"The readings of {folder} were not saved."
    write_json(folder / DIAGNOSTICS, result.as_dict(), advice=advice)
