"""A run folder, opened: its settings, its encoders, and the data to judge them by."""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from ..data import ImageSource, data_exists, default_shape, load
from ..encoders import Encoder, build_encoder, standardize
from ..errors import DataError, InvarianceError, SettingError, near_path
from ..training import Run, Train, _checkpoint, _encoder_file
from ..training._plan import begun_from, seed_all
from ..training._run_folder import read_environment, read_settings


@dataclass(frozen=True)
class Opened:
    """What a run folder holds that evaluation needs."""

    folder: Path
    settings: Train
    encoder: Encoder
    best: tuple[Encoder, int] | None
    """The encoder of the best epoch, and its number."""
    own: bool
    """Whether the encoder is a module of the user's own."""
    from_python: bool
    """Whether it was trained on an object, which only its maker can hand over again."""

    @property
    def name(self) -> str:
        """What the run is called."""
        return self.folder.resolve().name


def opened(run: str | Path | Run, *, network: nn.Module | None = None) -> Opened:
    """Open a run, or say what is missing.

    Args:
        run: A run folder, or what ``train`` returned.
        network: The module itself, when the run was trained on one of your own.
    """
    folder = folder_of(run)
    if not (folder / "config.yaml").is_file():
        hint = "" if folder.exists() else near_path(folder)
        if folder.is_file():
            hint = " That is a file: name the folder of its run."
        inside = sorted(p.parent for p in folder.glob("*/config.yaml"))
        if inside:
            hint = f" There are runs inside: did you mean {str(inside[0])!r}?"
        raise DataError(
            f"There is no run at {str(folder)!r}: a run folder holds config.yaml."
            + (hint or " 'invariance list runs' shows the runs there are.")
        )
    settings = read_settings(folder)
    encoder = _encoder_file.load(folder, network=copy.deepcopy(network))
    best, path = None, folder / _encoder_file.BEST
    if path.exists():
        said, _ = _encoder_file.read(path)
        kept = _encoder_file.load(path, network=copy.deepcopy(network))
        best = kept, int(said.get("epoch", 0))
    named = "data" not in read_environment(folder)  # unless it was an object
    return Opened(folder, settings, encoder, best, network is not None, not named)


def folder_of(run: str | Path | Run) -> Path:
    """Where a run is."""
    if not isinstance(run, str | Path | Run):
        raise SettingError(
            f"A run is a folder or what train returned: got {type(run).__name__}."
        )
    return run.folder if isinstance(run, Run) else Path(run).expanduser()


def untrained(run: Opened) -> tuple[Encoder | None, str]:
    """The encoder as it was before training, or None and a sentence that says why."""
    settings, (channels, size, *_) = run.settings, run.encoder.input_shape
    if run.own:
        why = "The first weights of a module of your own are not kept"
        return None, f"{why}: the untrained encoder is left out."
    states = _checkpoint.random_states()
    try:
        seed_all(settings.seed)
        encoder = build_encoder(
            run.encoder.name,
            channels=channels,
            image_size=size,
            pretrained=settings.pretrained,
        )
        first: Any = run.encoder.network[0]  # type: ignore[index]
        mean, std = (x.flatten().tolist() for x in (first.mean, first.std))
        encoder = standardize(encoder, mean, std)
        if settings.start_from:
            encoder = begun_from(settings.start_from, encoder, None)
    except (InvarianceError, OSError, RuntimeError) as cause:
        why = " ".join(str(cause).split())
        return None, f"The untrained encoder is left out: {why}"
    finally:
        _checkpoint.set_random_states(states)
    return encoder.eval(), ""


@dataclass(frozen=True)
class Data:
    """The two parts of a labelled data set, in the encoder's own size."""

    name: str
    train: ImageSource
    test: ImageSource
    notes: tuple[str, ...]


def labelled(
    run: Opened, data: Any = None, *, device: Any = "cpu", root: str | None = None
) -> Data:
    """Data to score a run on: its own, or others brought to its encoder's images."""
    train, notes = part_of(run, data, "train", device=device, root=root)
    if train.labels is None:
        raise DataError(
            f"{train.name} has no labels, and scores compare with labels: use class "
            "folders or an .npz file with labels, or 'invariance diagnose', which "
            "needs none."
        )
    if len(train.labels.unique()) < 2:
        raise DataError(
            f"{train.name} has a single class, and scores tell classes apart: add "
            "images of another, or use 'invariance diagnose', which needs none."
        )
    test, _ = part_of(run, data, "test", device=device, root=root)
    if test.labels is None:
        raise DataError(f"The test part of {test.name} has no labels to score by.")
    return Data(train.name, train, test, notes)


def part_of(
    run: Opened,
    data: Any,
    split: str,
    *,
    device: Any = "cpu",
    root: str | None = None,
    n: int | None = None,
) -> tuple[ImageSource, tuple[str, ...]]:
    """One part of a run's data or of others, and what was done to the images."""
    settings, (channels, size, *_) = run.settings, run.encoder.input_shape
    own = data is None
    if own and run.from_python:
        raise DataError(
            f"{run.name} was trained on an object given in Python, which a run folder "
            "cannot keep: name data with --data, or pass data= in Python."
        )
    if own and not data_exists(settings.data):
        raise DataError(
            f"{run.name} was trained on {settings.data!r}, which is not there (any "
            "more, or from here): put it back, or say with --data FOLDER where it is "
            "now or what to use instead (data= in Python)."
        )
    root = root or settings.data_root
    data = settings.data if own else data
    if channels not in (1, 3):
        raise DataError(
            f"The encoder of {run.name} takes images of {channels} channels; only grey "
            "and colour images can be loaded for it."
        )
    source = load(
        data,
        split=split,
        image_size=size,
        channels=channels,
        n=(settings.limit if own and split == "train" else None) if n is None else n,
        data_root=root,
        device=device,
    )
    notes = tuple(str(n) for n in source.notes if n.kind == "unreadable")
    if not own:
        notes = (*converted(data, source, root), *notes)
    return source, notes


def converted(data: Any, source: ImageSource, root: str | None) -> tuple[str, ...]:
    """A sentence if the images are not of the shape that the encoder takes."""
    there, here = default_shape(data, data_root=root), source.shape
    if there == here:
        return ()
    done = ["resized"] * (there[1:] != here[1:])
    if there[0] != here[0]:
        done.append("turned to grey" if here[0] == 1 else "given three equal channels")
    a, b = ("x".join(map(str, shape)) for shape in (there, here))
    how = " and ".join(done)
    return (f"Images of {source.name} were {how}: {a}, the encoder takes {b}.",)
