"""A run folder, opened: its settings, its encoders and its learner."""

import copy
import dataclasses
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from ..data import Source, data_exists
from ..encoders import (
    Encoder,
    Towers,
    build_encoder,
    build_head,
    load_encoder,
    load_towers,
    read_encoder,
    split_encoder,
    standardize,
)
from ..errors import DataError, InvarianceError, SettingError
from ..evaluation import OtherSide
from ..folder import (
    BEST_ENCODER,
    CHECKPOINTS,
    find_data,
    read_environment,
    read_images,
    read_settings,
    require_run,
)
from ..methods import METHODS, Learner
from ..objectives import Objective
from ..randomness import keep_random_states, seed_all
from ..training import (
    BATCH,
    Plan,
    Run,
    Train,
    load_trained,
    make_plan,
    make_views,
    newest_checkpoint,
    start_weights_from,
    temperature_of,
)
from ..views import ViewSet


@dataclass(frozen=True)
class OpenRun:
    """What a run folder holds that evaluation needs."""

    folder: Path
    settings: Train
    encoder: Encoder
    step: int | None
    """After how many steps the encoder is as it is; older runs do not say."""
    best: tuple[Encoder, int] | None
    """The encoder of the best epoch, and its number."""
    custom: bool
    """Whether the encoder is a module of the user's own."""
    from_python: bool
    """Whether it was trained on an object, which only its maker can hand over again."""
    data: str
    """Where its data are, or what they are called."""
    images: dict[str, Any]
    """What the run folder says about its images; empty for older runs."""

    @cached_property
    def towers(self) -> Towers | None:
        """Both encoders with their heads, of a finished run on pairs."""
        return load_towers(self.folder)

    @property
    def name(self) -> str:
        """What the run is called."""
        return self.folder.resolve().name

    @property
    def batch_size(self) -> int:
        """Samples in one contrast; settings written by hand may not say."""
        return self.settings.batch_size or BATCH

    @property
    def held_out_nothing(self) -> bool:
        """Whether it was trained on every image there was."""
        return self.images.get("n_held_out") == 0


def open_run(run: str | Path | Run, *, network: nn.Module | None = None) -> OpenRun:
    """Open a run, or say what is missing.

    Args:
        run: A run folder, or what ``train`` returned.
        network: The module itself, when the run was trained on one of your own.
    """
    folder = folder_of(run)
    require_run(folder)
    settings = read_settings(folder, Train)
    encoder, step = load_trained(folder, copy.deepcopy(network))
    best, path = None, folder / BEST_ENCODER
    if path.exists():
        about, _ = read_encoder(path)
        kept = load_encoder(path, network=copy.deepcopy(network))
        best = kept, int(about.get("epoch", 0))
    return OpenRun(
        folder=folder,
        settings=settings,
        encoder=encoder,
        step=step,
        best=best,
        custom=network is not None,
        from_python="data" in read_environment(folder),
        data=find_data(folder, settings.data, data_exists),
        images=read_images(folder),
    )


def folder_of(run: str | Path | Run) -> Path:
    """Where a run is."""
    if not isinstance(run, str | Path | Run):
        raise SettingError(
            f"A run is a folder or what train returned: got {type(run).__name__}. "
            "For features of your own there are functions, such as "
            "invariance.evaluation.knn(train_h, train_labels, test_h, test_labels)."
        )
    return run.folder if isinstance(run, Run) else Path(run).expanduser()


def find_own_data(run: Any) -> str:
    """What a run was trained on, to be searched."""
    if isinstance(run, Encoder) or not Path(getattr(run, "folder", run)).is_dir():
        raise SettingError("Name the data to search: an encoder alone has none.")
    opened = open_run(run)
    if opened.from_python:
        raise SettingError(
            f"{opened.name} was trained on an object given in Python: name the data to "
            "search."
        )
    if not data_exists(opened.data):
        raise DataError(
            f"{opened.name} was trained on {opened.data!r}, which is gone, or cannot "
            "be seen from here: put it back, or name the data to search after the run."
        )
    return opened.data


def untrained_encoder(run: OpenRun) -> tuple[Encoder | None, str, Towers | None]:
    """The encoder as it was before training, or None and a sentence that says why.

    Of a run on pairs also both encoders with their heads.
    """
    settings, trained, towers = run.settings, run.towers, None
    if run.custom:
        why = "The first weights of your own module are not kept"
        return None, f"{why}: the untrained encoder is left out.", None
    try:
        with keep_random_states():
            seed_all(settings.seed)
            encoder = build_encoder(
                run.encoder.name,
                kind=run.encoder.kind,
                pretrained=settings.pretrained,
            )
            if (first := split_encoder(run.encoder)[0]) is not None:
                mean, std = (x.flatten().tolist() for x in (first.mean, first.std))
                encoder = standardize(encoder, mean, std)
            start = settings.start_from
            if start:
                encoder = start_weights_from(start, encoder, None)
            if trained is not None:  # in the order in which training made them
                other = build_encoder(trained.other.name, kind=trained.other.kind)
                if start:
                    other = start_weights_from(start, other, None, side="other")
                both: list[Any] = [trained.head, trained.other_head]
                heads = [build_head(**head.settings) for head in both]
                towers = Towers(encoder, heads[0], other, heads[1]).eval()
    except (InvarianceError, OSError, RuntimeError) as cause:
        why = " ".join(str(cause).split())
        return None, f"The untrained encoder is left out: {why}", None
    return encoder.eval(), "", towers


@dataclass(frozen=True)
class Rebuilt:
    """What trained, or as much of it as can be had."""

    learner: Learner | None
    """None where the head cannot be rebuilt; ``why`` says the reason."""
    views: ViewSet
    why: str = ""
    other: OtherSide | None = None
    """The second side of pairs, where it was learned from, too."""

    @property
    def objective(self) -> Objective | None:
        """What was trained with, where it compares by cosines."""
        return None if self.learner is None else self.learner.cosine_objective

    @property
    def temperature(self) -> float:
        """That of the objective, or a common one."""
        return temperature_of(self.objective)

    @property
    def negatives(self) -> str:
        """Which rows the objective takes as negatives, or the usual ones."""
        return getattr(self.objective, "negatives", None) or "cross"


def rebuild_learner(run: OpenRun, source: Source, data: Any, device: Any) -> Rebuilt:
    """The learner of a run as its newest checkpoint left it, and its views.

    Args:
        run: The run.
        source: Images to be looked at, of the encoder's size.
        data: An object it was trained on, if it was one.
        device: Where the learner goes.
    """
    try:
        plan, why = _load_plan(run, data, device)
    except InvarianceError as cause:
        plan, why = None, str(cause)
    if plan is not None:
        learner = plan.learner.to(device).eval()
        encoder = run.encoder.to(device)
        other = plan.other_side(encoder, learner.head, learner.towers)
        return Rebuilt(learner, plan.views, other=other)
    settings = run.settings
    method = METHODS.get(settings.method, METHODS["simclr"])
    data = None if run.from_python else settings.data
    views = make_views(settings, method, data, source)
    return Rebuilt(None, views, f"The head cannot be rebuilt, so z is left out: {why}")


def _load_plan(run: OpenRun, data: Any, device: Any) -> tuple[Plan | None, str]:
    """The run's plan with its trained weights, or why there is none."""
    state = newest_checkpoint(run.folder / CHECKPOINTS, map_location=device)
    if state is None:
        return None, "the run has no checkpoint."
    # every weight comes from the checkpoint: nothing to fetch, nothing to start from
    settings = dataclasses.replace(run.settings, start_from=None, pretrained=False)
    inside = split_encoder(run.encoder)[1]
    try:
        with keep_random_states():
            plan = make_plan(
                settings,
                data=data if run.from_python else run.data,
                encoder=inside,
                device=device,
                started=True,
            )
        plan.learner.load_state_dict(state["learner"])
        if plan.controller is not None:
            plan.controller.load_state_dict(state["controller"])
    except RuntimeError as cause:
        return None, " ".join(str(cause).split())
    return plan, ""
