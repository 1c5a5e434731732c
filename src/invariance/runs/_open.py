"""A run folder, opened: its settings, encoders, learner, and the data to judge them."""

import copy
import dataclasses
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from ..data import (
    Image,
    Source,
    data_exists,
    default_shape,
    fingerprint,
    has_captions,
    same_images,
)
from ..data import load as load_data
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
from ._inputs import find_columns, find_own_columns


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

    def is_own(self, data: Any, data_root: str | None = None) -> bool:
        """Whether these are the images it was trained on, wherever they lie."""
        if data is None:
            return True
        known = self.images.get("fingerprint", "")
        if not known:
            return False
        root = data_root or self.settings.data_root
        how: dict[str, Any] = {"text_column": find_columns(self.folder, data)}
        how["image_column"] = find_own_columns(self.folder, data).get("image_column")
        if not isinstance(self.encoder.kind, Image):  # which only shapes images
            how["kind"] = self.encoder.kind
        return same_images(fingerprint(data, data_root=root, **how), known)


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


def load_part(
    run: OpenRun,
    data: Any,
    split: str,
    *,
    is_own: bool,
    device: Any = "cpu",
    data_root: str | None = None,
    n: int | None = None,
) -> tuple[Source, tuple[str, ...]]:
    """One part of a run's own data or of others, and what one should know of it."""
    require_part(run, data, split, is_own=is_own)
    settings, kind = run.settings, run.encoder.kind
    data_root = data_root or settings.data_root
    data = run.data if data is None else data
    parts: dict[str, Any] = {}
    if is_own:
        hold_out = "nothing" if run.held_out_nothing else settings.hold_out
        parts = {"labels": settings.labels, "hold_out": hold_out}
    if n is None and is_own and split == "train":
        n = settings.limit
    how: dict[str, Any] = {
        "kind": kind,
        "n": n,
        "data_root": data_root,
        "device": device,
        "text_column": find_columns(run.folder, data),
        **find_own_columns(run.folder, data),
        **parts,
    }
    how |= _describe_captions(run, data, is_own)
    source = load_data(data, split=split, **how)
    only_scored = source.scores is not None and source.targets is None
    if only_scored and split == "test" and not is_own:  # nothing is fitted to them
        source = load_data(data, split="all", **how)
    notes = [str(note) for note in source.notes if note.kind == "unreadable"]
    known = run.images.get("fingerprint")
    if is_own and known and not same_images(source.origin.fingerprint, known):
        notes.append(
            f"The {source.kind.word}s of {source.name} are not those that {run.name} "
            "was trained on: some have been added, removed or changed since."
        )
    if not is_own and isinstance(kind, Image):
        notes = [*_conversion(data, source, data_root, how.get("image_column")), *notes]
    return source, tuple(notes)


def require_part(run: OpenRun, data: Any, split: str, *, is_own: bool) -> None:
    """Raise where a part of the data cannot be there; nothing is loaded."""
    kind = run.encoder.kind
    if data is None and run.from_python:
        raise DataError(
            f"{run.name} was trained on an object given in Python, which a run folder "
            "cannot keep: name data with --data, or pass data= in Python."
        )
    if data is None and not data_exists(run.data):
        raise DataError(
            f"{run.name} was trained on {run.data!r}, which is gone, or cannot be "
            "seen from here: put it back, or say with --data FOLDER where it is now "
            "or what to use instead (data= in Python)."
        )
    if is_own and split == "test" and run.held_out_nothing:
        raise DataError(
            f"{run.name} was trained on all of its data, so nothing is held out to "
            "score on: name other data with --data (data= in Python), or use "
            "'invariance diagnose', which needs no labels."
        )
    if kind is None or (isinstance(kind, Image) and kind.shape[0] not in (1, 3)):
        shape = "x".join(map(str, run.encoder.input_shape))
        raise DataError(
            f"The encoder of {run.name} takes samples of {shape}; only grey and color "
            "images can be loaded for it."
        )


def _describe_captions(run: OpenRun, data: Any, is_own: bool) -> dict[str, Any]:
    """Whether images are read with their captions, and how, for a run on pairs."""
    if run.towers is None or not (is_own or has_captions(data)):
        return {}
    settings, options = run.settings, {}
    if is_own:
        options = {
            "captions": settings.captions or True,
            "image_column": settings.image_column,
            "text_column": settings.text_column,
        }
    return {"captions": True, "other_kind": run.towers.other.kind, **options}


def _conversion(
    data: Any, source: Source, data_root: str | None, image_column: str | None
) -> list[str]:
    """A sentence if the images are not of the shape that the encoder takes."""
    before = default_shape(data, data_root=data_root, image_column=image_column)
    after = source.shape
    if before == after:
        return []
    changes = ["resized"] * (before[1:] != after[1:])
    if before[0] != after[0]:
        grey = after[0] == 1
        changes.append("turned to grey" if grey else "given three equal channels")
    a, b = ("x".join(map(str, shape)) for shape in (before, after))
    how = " and ".join(changes)
    return [f"Images of {source.name} were {how}: {a}, the encoder takes {b}."]


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
        other = None
        if plan.other_views is not None:
            second: Any = getattr(learner, "other", None)
            head = learner.head if second is None else learner.other_head
            encoder = run.encoder.to(device) if second is None else second
            other = OtherSide(encoder, head, plan.other_views, plan.seeds[1])  # type: ignore[arg-type]
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
