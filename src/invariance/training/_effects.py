"""Settings that would change nothing are refused, each with what to do about it.

A setting at its default is no question: nobody asked for it. Runs that were started
before a rule was made go on as they were.
"""

from collections.abc import Iterator
from typing import Any

from ..data import DATA_SETS, GENERATED, data_exists, is_hub
from ..encoders import HEADS
from ..errors import SettingError
from ..methods import Method
from ._settings import BATCH, Attack, Ess, Federated, Optim, Stopping, Train


def refuse_idle_settings(
    settings: Train, method: Method, *, processes: int = 1, **objects: Any
) -> None:
    """Raise for the first setting that would have no effect in a new run.

    Args:
        settings: Of the run.
        method: The method as the settings have changed it.
        processes: How many share its batches.
        **objects: What was given in Python instead of a name: data, encoder, views.
    """
    for problem in find_idle_settings(settings, method, processes, **objects):
        raise SettingError(problem)


def find_idle_settings(
    settings: Train,
    method: Method,
    processes: int,
    *,
    data: Any = None,
    encoder: Any = None,
    views: Any = None,
) -> Iterator[str]:
    """A sentence for each setting without effect."""
    optim, ess = settings.optim, settings.ess
    if optim.name == "adamw" and optim.momentum != Optim.momentum:
        yield (
            "optim.momentum is for sgd and lars; adamw has its own averages: leave "
            "it out, or add --optim.name sgd."
        )
    if optim.decay != "auto" and optim.weight_decay == 0:
        yield (
            "optim.decay says what weight decay acts on, but there is no weight "
            "decay: leave it out, or set --optim.weight-decay."
        )
    batch = settings.batch_size or BATCH
    if settings.micro_batch is not None and settings.micro_batch >= batch // processes:
        each = "this one has"
        if processes > 1:
            each = f"each of {processes} processes has {batch // processes} of its"
        yield (
            f"micro_batch {settings.micro_batch} is a piece of a larger batch, and "
            f"{each} {batch} samples: leave it out, or use a larger --batch-size."
        )
    if ess.schedule and (ess.target, ess.end) != (None, None):
        yield (
            "ess.schedule sets the targets of the whole training: leave ess.target "
            "and ess.end out."
        )
    if not ess.targets and (ess.end, ess.rate) != (Ess.end, Ess.rate):
        yield (
            "ess.end and ess.rate say how the temperature follows an effective "
            "sample size, but no target is set: add --ess.target 0.3, or leave them "
            "out."
        )
    if settings.views_adversarial is None and settings.attack != Attack():
        yield (
            "attack says how adversarial views are found, but none are asked for: "
            "add --views.adversarial first, or leave it out."
        )
    yield from find_idle_clients(settings.federated)
    yield from find_idle_stopping(settings)
    if settings.temperature is not None and "temperature" in settings.options:
        yield (
            "The temperature is given twice, by itself and as an option: leave one "
            "of them out."
        )
    plain = HEADS.get(method.head, 2) < 2
    if settings.hidden is not None and plain and not has_predictor(method):
        yield (
            f"hidden is the width of layers that the head {method.head!r} does not "
            "have: leave it out, or add --head mlp2."
        )
    if settings.width is not None and method.head == "none":
        yield (
            "width is the width of the projections, and without a head these are the "
            "encoder's features: leave it out, or add --head linear."
        )
    elif settings.width is not None and method.positives == "tokens":
        yield (
            "width is the width of the projections, which here must match the rows "
            "of the tower's table: leave it out."
        )
    if settings.pretrained and settings.start_from:
        yield (
            "pretrained and start_from both say where the weights come from: leave "
            "one of them out."
        )
    if settings.pretrained and encoder is not None:
        yield (
            "pretrained downloads weights by the encoder's name, but the encoder was "
            "given as an object, with its own weights: leave pretrained out."
        )
    if settings.other_encoder != "auto" and method.encoder != "two":
        yield (
            "other_encoder is the network of a pair's second side, but "
            f"{settings.method} has one encoder for everything: leave it out."
        )
    columned = is_hub(settings.data if data is None else data)
    for name in ("captions", "image_column"):
        idle = method.encoder != "two" and not (columned and name == "image_column")
        if getattr(settings, name) is not None and idle:
            yield (
                f"{name} is for methods of images and captions, and "
                f"{settings.method} is not one: leave it out, or add --method clip."
            )
    if settings.workers is not None and settings.storage == "resident":
        yield (
            "workers decode streamed images, but storage is resident: leave out "
            "workers or storage."
        )
    named = settings.data in DATA_SETS and settings.data not in GENERATED
    unnamed = data is not None or (not named and data_exists(settings.data))
    if settings.data_root is not None and unnamed:
        yield (
            "data_root is where named sets, such as cifar10, are kept, and these "
            "data are not a named set: leave it out, or give the whole path as the "
            "data."
        )
    if views is not None and (settings.views_drop or settings.views_strength):
        yield (
            "views_drop and views_strength are for views by name, but these views "
            "were given as an object: use invariance.views.weaken on its lists."
        )
    if settings.json and settings.quiet:
        yield "--json prints every reading and --quiet none: leave one of them out."


def find_idle_clients(federated: Federated) -> Iterator[str]:
    """A sentence for each setting of clients without effect."""
    if not federated.asked and federated != Federated():
        yield (
            "The settings federated.* say how clients train, but there are no "
            "clients: add --federated.clients 10, or leave them out."
        )
    if federated.assignment is not None and federated.clients is not None:
        yield (
            "federated.assignment says which client has each sample, and so how many "
            "clients there are: leave federated.clients out."
        )
    if federated.assignment is not None and federated.skew is not None:
        yield (
            "federated.skew distributes samples at random, and federated.assignment "
            "says which client has each: leave one of them out."
        )
    if federated.skew is not None and federated.clients == 1:
        yield (
            "federated.skew has no effect on a single client, which has all samples: "
            "leave it out."
        )
    if federated.local_steps is not None and federated.local_epochs is not None:
        yield (
            "federated.local_steps and federated.local_epochs both say how long a "
            "client trains in a round: leave one of them out."
        )


def find_idle_stopping(settings: Train) -> Iterator[str]:
    """A sentence for each setting of an early end without effect."""
    stop = settings.stop
    if stop.patience is None and stop != Stopping():
        yield (
            "stop.reading and stop.min_gain say when a run ends early, but early "
            "stopping is off: add --stop.patience 10, or leave them out."
        )
    if stop.patience is not None and stop.reading == "knn" and not settings.knn_every:
        yield (
            "stop.reading knn needs kNN readings, and --knn-every 0 takes none: leave "
            "one of them out, or use --stop.reading loss."
        )


def has_predictor(method: Method) -> bool:
    """Whether a predictor, which has a hidden layer, goes on top of the head."""
    return method.encoder == "predictor" or method.negatives == "none" != method.encoder
