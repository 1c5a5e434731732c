"""All settings of a training run: one source for Python, flags, YAML and the report.

The text under a field is its help. Nothing here imports torch, so that help is quick.
"""

import dataclasses
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from tyro import conf

from ..data import require_data
from ..devices import check_workers
from ..errors import SettingError, TrainingError, choose, suggest_fields, unknown
from ..folder import CONFIG, ENCODER, flatten
from ..methods import METHODS
from ..plain_numbers import check_positive_number
from ._trackers import check_installed

LARGEST_SEED = 2**40  # times 100,003, for the order of an epoch, it fits 64 bits
BATCH = 128  # samples, where nobody says how many
PEAKS = {"adamw": 0.004, "sgd": 0.12, "lars": 0.3}  # learning rates for 256 samples
# What weight decay acts on. SGD: measured (25 epochs of CIFAR-10 at batch 512, two
# seeds: kNN 68.2 and 68.1 % with all, 66.2 and 66.5 % with matrices); LARS as SimCLR's
# released code, AdamW as its usual recipes.
DECAYS = {"adamw": "matrices", "sgd": "all", "lars": "matrices"}
STRATEGIES = ("auto", "ddp", "fsdp")
VIEWS = (
    *("simclr", "byol", "weak", "shapes", "multi_crop", "evaluation", "identity"),
    *("noise", "uniform_noise", "scarf", "hide_columns"),
    *("same", "drop_words", "one_caption", "masked", "graphcl"),
)
NOTHING = "(default: none)"
EMPTY = conf.arg(help_behavior_hint=NOTHING)

Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["auto", "32", "bf16", "fp16"]
Options = dict[str, int | float | bool | str | None]


@suggest_fields
@dataclass(frozen=True, kw_only=True)
class Optim:
    """How the weights move."""

    name: Literal["sgd", "adamw", "lars"] = "adamw"
    """adamw needs least tuning; sgd has momentum; lars is for batches above 1,000."""
    lr: float | None = None
    """Peak learning rate for 256 samples. Default: adamw 0.004, sgd 0.12, lars 0.3."""
    lr_scaling: Literal["linear", "sqrt", "none"] = "sqrt"
    """How the learning rate grows with the samples of one step (relative to 256)."""
    weight_decay: float = 1e-4
    """Pull of the weights to zero, times the learning rate."""
    decay: Literal["auto", "all", "matrices"] = "auto"
    """What it pulls: "matrices" spares biases and norms, "all" does not; auto is all
    for sgd, matrices for adamw and lars."""
    momentum: float = 0.9
    """Of sgd and lars."""
    warmup: float = 0.05
    """Share of training in which the learning rate rises to its peak."""
    clip_norm: float | None = None
    """Scale the gradient down to this norm when it is longer."""
    accumulate: int = 1
    """Batches whose gradients are added before a step. Each is contrasted by itself:
    more accumulation steadies the gradient, it does not add negatives."""


@suggest_fields
@dataclass(frozen=True, kw_only=True)
class Ess:
    """Let the temperature follow an effective sample size of the negatives."""

    target: float | None = None
    """Share of the negatives that should carry the weight, 0 to 1; the FlatNCE paper
    advises 0.15 to 0.4. Unset: the temperature is not adjusted."""
    end: float | None = None
    """The target at the end of training, approached linearly. Unset: the target stays
    constant."""
    schedule: Annotated[tuple[float, ...], EMPTY] = ()
    """Instead of both: targets at equal distances over training, joined by straight
    lines. With '0.5 0.2 0.3' the target falls from 0.5 to 0.2 halfway and rises to 0.3
    at the end."""
    rate: float = 0.01
    """Relative change of the inverse temperature at each step."""

    @property
    def targets(self) -> tuple[float, ...]:
        """At even distances over training; none where no ESS is asked for."""
        if self.schedule or self.target is None:
            return self.schedule
        return (self.target,) if self.end is None else (self.target, self.end)


@suggest_fields
@dataclass(frozen=True, kw_only=True)
class Attack:
    """How adversarial views are found, with --views.adversarial."""

    epsilon: float | None = None
    """How far a view may be changed, with pixels from 0 to 1. Default: 8/255, or
    128/255 for l2."""
    steps: int = 5
    """Steps of projected gradient ascent (PGD); each costs as much as training on the
    batch once more."""
    step_size: float | None = None
    """Length of a step. Default: a quarter of epsilon."""
    norm: Literal["linf", "l2"] = "linf"
    """What epsilon bounds: the change of every pixel (linf), or the length of the whole
    change (l2)."""


@suggest_fields
@dataclass(frozen=True, kw_only=True)
class Federated:
    """Train at simulated clients, which keep their samples and send weights."""

    clients: int | None = None
    """Number of clients that share the samples. Unset: all samples are in one place,
    and there are no rounds."""
    skew: float | None = None
    """Parameter of the Dirichlet distribution that splits the samples of each class
    among the clients: at 0.1 a client has few classes, at 100 about as many samples of
    each. Unset: equal parts, whatever the labels."""
    assignment: str | None = None
    """Instead of both: a .npy file, or a text file with one line per sample, that names
    the client of every training sample, in order."""
    participation: float = 1.0
    """Share of the clients that take part in a round."""
    local_steps: int | None = None
    """Steps that a client takes in a round."""
    local_epochs: int | None = None
    """Or passes over its own samples that a client makes in a round. Default: 1."""
    optimizer: Literal["fresh", "kept"] = "fresh"
    """Whether a client's optimizer starts fresh in every round (FedAvg) or is kept for
    its next one."""
    clip: float | None = None
    """Longest norm of an update that a client may send; longer ones are scaled down."""
    noise: float | None = None
    """Gaussian noise on the sum of the updates: its standard deviation divided by clip.
    Every client then counts equally, however many samples it has."""

    @property
    def asked(self) -> bool:
        """Whether there are clients at all."""
        return self.clients is not None or self.assignment is not None


@suggest_fields
@dataclass(frozen=True, kw_only=True)
class Stopping:
    """End the run before its last epoch, once it stops improving."""

    patience: int | None = None
    """Epochs without a gain after which the run ends; it is scored like any other. The
    learning rate falls over all --epochs and has not come down by then, so a run of
    fewer epochs may do better. Unset: run all epochs."""
    reading: str = "auto"
    """What must improve: knn, read among training samples every --knn-every epochs, or
    loss, the mean over an epoch; in Python also a number that each_epoch returns, where
    more is better. auto: knn if there are labels. Test samples are never used."""
    min_gain: float = 0.0
    """Only more than this over the best so far is a gain; for knn 0.01 is one
    percentage point."""


@suggest_fields
@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where it runs."""

    device: Device = "auto"
    """"auto" takes a GPU if there is one."""
    devices: int | None = None
    """Processes on each machine, one per device. Default: as many as torchrun or srun
    has started, else 1; --resume: as before."""
    nodes: int | None = None
    """Number of machines. Default: as for devices."""
    strategy: str = "auto"
    """How processes share the work: "auto" (ddp when there are several), "ddp", or
    "fsdp" (which also shares out the weights and the optimizer's state)."""
    precision: Precision = "auto"
    """"auto" is bf16 on a GPU that has it, 32 otherwise."""
    compile: bool | Literal["auto"] = "auto"
    """Compile the encoder with torch.compile; "auto" does so on a GPU if the run is
    long enough to win back the half minute it takes. Anything torch compiled before in
    the same process is compiled again when it is next called."""
    capture: bool = True
    """Replay steps from a CUDA graph, if everything they need is on one GPU."""
    deterministic: bool = True
    """Use only reproducible arithmetic: the same seed, machine and versions then give
    the same run bit for bit, resumed or not."""

    @property
    def n_processes(self) -> int:
        """Processes on all machines together."""
        return (self.devices or 1) * (self.nodes or 1)


@suggest_fields
@dataclass(frozen=True, kw_only=True)
class Train:
    """Train an encoder on unlabeled samples; --config FILE reads settings."""

    shown_first: ClassVar[tuple[str, ...]] = (
        *(
            "data",
            "method",
            "encoder",
            "epochs",
            "batch_size",
            "optim.lr",
            "pretrained",
        ),
        *("machine.devices", "seed", "name", "resume", "dry_run"),
    )
    """What the short help shows."""
    examples: ClassVar[tuple[str, ...]] = (
        "invariance train                                generated shapes, 3 minutes",
        "invariance train photos --epochs 100            a folder of your own images",
        "invariance train --resume runs/photos-simclr    continue where it stopped",
    )
    data: Annotated[str, conf.Positional, conf.arg(metavar="[DATA]")] = "shapes"
    """A folder of images, with or without captions, or shards of them (.tar); a file of
    images or vectors (.npy, .npz), of sentences (.txt, .csv, .jsonl), a table (.csv,
    .parquet), graphs (.jsonl, or a folder of the TU collection), audio or series;
    hf:NAME for a Hugging Face data set; or a named set (shapes, cifar10, ...: see
    'invariance list data')."""
    method: str = "simclr"
    """Learning method: see 'invariance list methods'."""
    encoder: str = "auto"
    """"tiny", any timm name (resnet18, vit_tiny_patch16_224), "torchvision/NAME", for
    rows mlp or mlp-128-128-2 with the widths of its layers, for graphs gin; auto is
    tiny up to 64 pixels and resnet18 above, mlp for rows, gin for graphs."""
    other_encoder: str = "auto"
    """Network for the second side of pairs, for methods with two encoders; for captions
    text_tiny, text_small, text_base or transformers/NAME."""
    captions: str | None = None
    """A .csv, .jsonl or .parquet file of captions, for methods of images and captions.
    Default: the captions.csv, .jsonl or .parquet in the folder of images."""
    image_column: str | None = None
    """The column of images, in that file or in a Hugging Face data set. Default: image,
    file, filename, path or similar."""
    text_column: str | None = None
    """The column of captions. Default: caption, text, title, sentence or similar."""
    pretrained: bool = False
    """Start from timm's weights."""
    start_from: str | None = None
    """Start from the encoder of another run or .safetensors file (weights only)."""
    epochs: int = 20
    """Passes over the data; in a federated run, rounds."""
    batch_size: int | None = None
    """Samples in one contrast, over all processes. Default: 128, or as many as give a
    small data set two steps per epoch."""
    micro_batch: int | None = None
    """Samples that each process encodes at once. A larger batch is encoded in pieces of
    this size, twice, and needs the memory of one piece; loss and gradient are those of
    the whole batch, but a batch norm sees one piece at a time. Default: all."""
    temperature: float | Literal["learned"] | None = None
    """Temperature of the objective; "learned" trains it along with the weights,
    starting from the option temperature_start and never below temperature_minimum.
    Default: the method's."""
    critic: Literal["dot", "bilinear", "separable", "mlp"] | None = None
    """What scores two projections: dot, their cosine divided by the temperature; or a
    learned critic: bilinear, separable, mlp. Default: the method's."""
    options: Annotated[
        Options, conf.arg(metavar="[NAME VALUE ...]", help_behavior_hint=NOTHING)
    ] = field(default_factory=dict)
    """Further settings of the method, its objective, negatives and views, such as
    'kernel log' or 'symmetric true size 1024': see 'invariance list methods NAME'."""
    views: str = "auto"
    """Augmentations: simclr, byol, weak, multi_crop, shapes; noise and uniform_noise
    for images and rows; scarf and hide_columns for rows; graphcl for graphs; auto fits
    the data."""
    views_drop: Annotated[
        tuple[str, ...], conf.arg(name="views.drop", help_behavior_hint=NOTHING)
    ] = ()
    """Operations to leave out of the views, such as 'blur gray': see 'invariance list
    views NAME'."""
    views_strength: Annotated[
        dict[str, float],
        conf.arg(
            name="views.strength",
            metavar="[NAME STRENGTH ...]",
            help_behavior_hint=NOTHING,
        ),
    ] = field(default_factory=dict)
    """Operations of the views to weaken, such as 'crop 0.5 color 0.2': 1 leaves one as
    it is, 0 removes it."""
    views_adversarial: Annotated[
        Literal["first", "all", "added"] | None, conf.arg(name="views.adversarial")
    ] = None
    """Change views a little so that the loss rises most, and train on them: the first
    view, all of them, or an added copy of the first. See --attack."""
    n_views: int | None = None
    """Views of each sample. Default: the method's."""
    head: Literal["none", "linear", "mlp2", "mlp3"] | None = None
    """Projection head. Default: the method's."""
    hidden: int | None = None
    """Width of the head's hidden layers. Default: the method's."""
    width: int | None = None
    """Width of the projections. Default: the method's."""
    image_size: int | None = None
    """Side of the images in pixels. Default: the data's, at most 128 for folders."""
    window: int | None = None
    """For sequences: values of time in a window. Default: whole sequences if all have
    one length, 1.28 s for audio, 128 values otherwise."""
    stride: int | None = None
    """For sequences: values from one window to the next. Default: one window."""
    time_column: str | None = None
    """For a table of values over time: the column with the times, if it has no usual
    name."""
    target: str | None = None
    """For a table or a Hugging Face data set: the column of classes, or of numbers to
    predict, used for scores and never as an input. Default: one called target, label,
    class or y."""
    columns: Annotated[tuple[str, ...], EMPTY] = ()
    """For a table: the columns to learn from. Default: all but the target."""
    limit: int | None = None
    """Use at most this many samples."""
    storage: Literal["auto", "resident", "streamed"] = "auto"
    """Keep all samples on the device, or read them during training; auto keeps them if
    they take no more than a quarter of its free memory."""
    workers: int | None = None
    """Processes that read streamed samples. Default: one per core, fewer if memory is
    short."""
    labels: bool = True
    """Use the data's labels, such as class folders, for scores; use --no-labels if
    folders mean something else, such as years."""
    hold_out: Literal["auto", "tenth", "nothing"] = "auto"
    """What to keep from training if the data have no test part; auto is a tenth if
    there are labels to score by."""
    data_root: str | None = None
    """Where named sets are kept. Default: $INVARIANCE_DATA or ~/.cache/invariance."""
    seed: int = 0
    """Seed of weights, order and views."""
    optim: Optim = field(default_factory=Optim)
    ess: Ess = field(default_factory=Ess)
    attack: Attack = field(default_factory=Attack)
    federated: Federated = field(default_factory=Federated)
    stop: Stopping = field(default_factory=Stopping)
    machine: Machine = field(default_factory=Machine)
    out: str = "runs"
    """Folder for run folders."""
    name: str | None = None
    """Name of the run folder. Default: data and method. A name that is taken gets a
    number."""
    trackers: Annotated[tuple[Literal["tensorboard", "wandb"], ...], EMPTY] = ()
    """Also send readings to these, if they are installed."""
    log_every: int = 0
    """Steps between lines of metrics.jsonl; 0 means about ten lines per epoch."""
    knn_every: int = 5
    """Epochs between kNN readings, if there are labels; 0 means never."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints, and so the most work that can be lost; 0 saves at
    every step."""
    keep_every: int = 0
    """Epochs between states of the learner that are kept for good, including the first
    and the last, to see what training did: 'invariance diagnose RUN --kept'. 0 keeps
    none; each is about as large as the encoder, the head and the memory."""
    evaluate: bool = True
    """Evaluate at the end, beside raw samples and the untrained encoder."""
    resume: str | None = None
    """Continue this run exactly where it stopped, with its own settings."""
    dry_run: bool = False
    """Say what would happen and try one batch, but write nothing."""
    quiet: bool = False
    """Print only warnings and the result."""
    json: bool = False
    """Print every reading as a line of JSON."""


def resolve_decay(optim: Optim) -> str:
    """What weight decay acts on, "all" or "matrices"."""
    return DECAYS[optim.name] if optim.decay == "auto" else optim.decay


def usual_settings() -> dict[str, Any]:
    """What the settings are when nobody sets them, nested as in a run's file."""
    machine = Machine(devices=1, nodes=1)
    return dataclasses.asdict(Train(batch_size=BATCH, machine=machine))


def complete_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted names, with defaults for those that are left out.

    >>> complete_settings({"optim.name": "sgd"})["optim.lr"]
    0.12
    """
    settings = flatten(usual_settings()) | dict(values)
    name = str(settings.get("optim.name"))
    if settings.get("optim.lr") is None:
        settings["optim.lr"] = PEAKS.get(name)
    if settings["optim.decay"] == "auto":  # biases were spared before it was a setting
        known = "optim.decay" in values
        settings["optim.decay"] = DECAYS.get(name) if known else "matrices"
    return settings


def check_names(settings: Train) -> None:
    """Refuse a method or views that nobody knows and data that are not there."""
    choose(METHODS, settings.method, "method")
    if settings.views not in ("auto", *VIEWS):
        raise SettingError(unknown("views", settings.views, VIEWS))
    require_data(settings.data)


def check_numbers(settings: Train) -> None:
    """Refuse numbers, and a strategy, that cannot work before time is spent on them."""
    for name, value, least in (
        ("epochs", settings.epochs, 1),
        ("batch_size", settings.batch_size, 2),
        ("micro_batch", settings.micro_batch, 1),
        ("machine.devices", settings.machine.devices, 1),
        ("machine.nodes", settings.machine.nodes, 1),
        ("optim.accumulate", settings.optim.accumulate, 1),
        ("n_views", settings.n_views, 1),
        ("log_every", settings.log_every, 0),
        ("checkpoint_seconds", settings.checkpoint_seconds, 0),
        ("knn_every", settings.knn_every, 0),
        ("keep_every", settings.keep_every, 0),
        ("limit", settings.limit, 1),
        ("image_size", settings.image_size, 1),
        ("window", settings.window, 2),
        ("stride", settings.stride, 1),
        ("optim.weight_decay", settings.optim.weight_decay, 0),
        ("attack.steps", settings.attack.steps, 1),
        ("federated.clients", settings.federated.clients, 1),
        ("federated.local_steps", settings.federated.local_steps, 1),
        ("federated.local_epochs", settings.federated.local_epochs, 1),
        ("stop.patience", settings.stop.patience, 1),
        ("stop.min_gain", settings.stop.min_gain, 0),
    ):
        if value is not None and not value >= least:
            raise SettingError(f"{name} must be at least {least}: got {value}.")
    for name, number in (
        ("optim.lr", settings.optim.lr),
        ("optim.clip_norm", settings.optim.clip_norm),
        ("temperature", settings.temperature),
        ("attack.epsilon", settings.attack.epsilon),
        ("attack.step_size", settings.attack.step_size),
        ("federated.skew", settings.federated.skew),
        ("federated.clip", settings.federated.clip),
        ("federated.noise", settings.federated.noise),
    ):
        if number is not None and number != "learned":
            check_positive_number(name, number)
    if math.isinf(settings.optim.weight_decay):
        raise SettingError("optim.weight_decay must be finite: got inf.")
    if not 0 <= settings.optim.warmup < 1:
        raise SettingError(
            f"optim.warmup is a share of training, 0 to 1: got {settings.optim.warmup}."
        )
    if not 0 <= settings.optim.momentum < 1:
        raise SettingError(
            f"optim.momentum lies between 0 and 1: got {settings.optim.momentum}."
        )
    if not 0 < settings.federated.participation <= 1:
        raise SettingError(
            "federated.participation is the share of the clients that take part in a "
            f"round, above 0 and up to 1: got {settings.federated.participation}."
        )
    if abs(settings.seed) > LARGEST_SEED:
        raise SettingError(
            f"seed lies between -{LARGEST_SEED} and {LARGEST_SEED}: got "
            f"{settings.seed}."
        )
    if settings.machine.strategy not in STRATEGIES:
        raise SettingError(unknown("strategy", settings.machine.strategy, STRATEGIES))
    if settings.micro_batch is not None and settings.machine.strategy == "fsdp":
        raise SettingError(
            "A batch in pieces (micro_batch) is encoded again in the backward pass, "
            "for which fsdp does not gather the weights: use --machine.strategy ddp."
        )
    if settings.views_adversarial and settings.machine.strategy == "fsdp":
        raise SettingError(
            "Adversarial views take their own gradients between the steps, for which "
            "fsdp does not gather the weights: use --machine.strategy ddp."
        )
    check_workers(settings.workers)
    check_installed(settings.trackers)


def require_unfinished(folder: Path) -> None:
    """Raise a sentence unless there is a run to go on with."""
    if not (folder / CONFIG).exists():
        raise TrainingError(
            f"There is no run to resume at {str(folder)!r}: 'invariance list runs' "
            "lists all runs."
        )
    if (folder / ENCODER).exists():
        raise TrainingError(
            f"{folder} is finished. To train further, start a new run from its "
            "encoder, with the same data and settings: invariance train --config "
            f"{shlex.quote(str(folder / CONFIG))} --start-from "
            f"{shlex.quote(str(folder))}"
        )
