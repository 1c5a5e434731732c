"""From settings to a plan: everything a run needs, before anything is written."""

import copy
import dataclasses
import math
from typing import Any

import torch
from torch import nn

from ..data import Image, Source, load
from ..devices import require_memory
from ..encoders import Encoder
from ..errors import DataError, SettingError, choose
from ..methods import METHODS, Learner, Method, build, customize
from ..negatives import NEGATIVES
from ..randomness import seed_all
from ..views import ViewSet
from ._clients import Clients, check_federated, share_samples
from ._effects import refuse_idle_settings
from ._ess_controller import EssController
from ._run_data import (
    check_kind,
    check_memories,
    check_varied,
    choose_batch,
    choose_loading,
    find_tokenizer,
    make_order,
    uses_pairs,
)
from ._run_encoder import make_encoder, refuse_single_samples, start_weights_from
from ._run_plan import Plan
from ._run_views import (
    apply_recipe,
    choose_options,
    choose_recipe,
    make_attack,
    make_views,
)
from ._schedule import peak_rate
from ._settings import Train
from ._stopping import settle_stopping


def make_plan(
    settings: Train,
    *,
    data: Any = None,
    encoder: nn.Module | None = None,
    method: Method | None = None,
    views: ViewSet | None = None,
    other_encoder: nn.Module | None = None,
    other_views: ViewSet | None = None,
    processes: int = 1,
    device: torch.device | str = "cpu",
    started: bool = False,
) -> Plan:
    """Resolve settings; objects given stand in for what settings can only name.

    A run that was ``started`` before may have settings without effect: it goes on.
    """
    four = choose_method(settings, method)
    if not started:
        given = {"data": data, "encoder": encoder, "views": views}
        refuse_idle_settings(settings, four, processes=processes, **given)
    data = settings.data if data is None else data
    source = load_source(settings, four, data, device)
    check_kind(settings, four, source, started)
    check_varied(source)
    pairs = uses_pairs(four, source)
    if pairs and four.encoder != "two":  # both sides are views, as crops are
        four = customize(four, n_views=settings.n_views or 1)
    recipe = None
    if views is None:
        recipe = choose_recipe(settings, four, data, source.kind)
    options = choose_options(settings, four, recipe)
    if settings.hold_out != "auto" and source.origin.own_test and not started:
        raise SettingError(
            f"hold_out is for data without their own test part, and {source.name} "
            "has one: leave it out."
        )
    clients: Clients | None = None
    if settings.federated.asked:
        check_federated(settings, four, processes)
        clients = share_samples(settings.federated, source, settings.seed)
    n_places = 1 if clients is None else len(clients.names)
    batch_size, why_batch = choose_batch(settings, source, processes, n_places)
    stop = settle_stopping(settings, labeled=source.labels is not None)
    settings = dataclasses.replace(settings, stop=stop)
    order = make_order(settings, source, batch_size, clients, processes)
    check_labels(settings, four, source)
    chosen = views or make_views(settings, four, data, source)
    if chosen.prepare is None and not isinstance(source.kind, Image):
        chosen = dataclasses.replace(chosen, prepare=source.kind.prepare)
    if pairs and source.other is not None and other_views is None:
        side = source.other
        other_views = apply_recipe(side.kind.views, side, len(chosen))
    if settings.n_views not in (None, len(chosen)) and not started:
        also = " (its options are n_global and n_local)" * (recipe == "multi_crop")
        raise SettingError(
            f"{recipe or 'The view set'} makes {len(chosen)} views{also}, and "
            f"n_views asks for {settings.n_views}: leave n_views out, or choose "
            "other views."
        )
    n_views = len(chosen) + (len(other_views) if other_views is not None else 0)
    if n_views < 2 and not contrasts_one_view(four):
        raise SettingError(
            "Contrast needs two views or more, but the view set has one."
        )
    attack = make_attack(settings, chosen, source.kind, n_views)
    local = batch_size // processes
    if settings.micro_batch is not None and chosen.is_built_in:
        local = min(local, settings.micro_batch)
    require_room(source, local, n_views, device)
    check_memories(four, options, len(source), device)
    seed_all(settings.seed)
    network, other = make_networks(settings, four, source, encoder, other_encoder)
    seed, n_samples = settings.seed, len(source)
    learner = build(
        four, network, other=other, n_samples=n_samples, seed=seed, **options
    )
    learner.n_first = len(chosen) + (settings.views_adversarial == "added")
    learner.equal_shares = True  # a batch is a multiple of the processes
    learner.micro_batch = settings.micro_batch
    if settings.micro_batch == 1 and not started:
        refuse_single_samples(learner)
    towers = copy.deepcopy(learner.towers)
    return Plan(
        settings=settings,
        data=data,
        method=four,
        batch_size=batch_size,
        source=source,
        views=chosen,
        recipe=recipe,
        learner=learner,
        untrained=copy.deepcopy(network) if towers is None else towers.encoder,
        untrained_towers=towers,
        controller=make_controller(settings, learner),
        processes=processes,
        order=order,
        peak=peak_rate(settings.optim, batch_size * settings.optim.accumulate),
        why_batch=why_batch,
        own_encoder=encoder is not None or other_encoder is not None,
        other_views=other_views if pairs else None,
        attack=attack,
    )


def choose_method(settings: Train, given: Method | None) -> Method:
    """The four choices, with what the settings change in them."""
    return customize(
        given or choose(METHODS, settings.method, "method"),
        n_views=settings.n_views,
        critic=settings.critic,
        head=settings.head,
        hidden=settings.hidden,
        width=settings.width,
    )


def load_source(
    settings: Train, method: Method, data: Any, device: torch.device | str
) -> Source:
    """The samples to train on, in the memory of the device where they fit."""
    return load(
        data,
        kind=method.samples if method.samples not in ("any", "pair") else None,
        image_size=settings.image_size,
        window=settings.window,
        stride=settings.stride,
        time_column=settings.time_column,
        columns=settings.columns,
        n=settings.limit,
        storage=settings.storage,
        workers=settings.workers,
        device=device,
        tokenizer=find_tokenizer(settings),
        **choose_loading(settings, method),
    )


def check_labels(settings: Train, method: Method, source: Source) -> None:
    """Raise where a method that learns from labels has none, or one class only."""
    if not method.labeled:
        return
    if source.labels is None:
        raise DataError(
            f"{settings.method} learns from labels, but {source.name} has none: use "
            "class folders, or a method that needs no labels, such as simclr."
        )
    if len(source.labels.unique()) < 2:
        raise DataError(
            f"{settings.method} tells classes apart, but {source.name} has only one: "
            "use a method that needs no labels, such as simclr."
        )


def contrasts_one_view(method: Method) -> bool:
    """Whether a view is compared with a memory's row of its sample, or with itself."""
    remembers = method.negatives in NEGATIVES and method.encoder == "one"
    return remembers or method.within_views


def require_room(
    source: Source, n_samples: int, n_views: int, device: torch.device | str
) -> None:
    """Raise where the views of so many samples would not fit into memory."""
    kind = source.kind
    require_memory(
        f"A batch of {n_views} views of {n_samples} {kind.word}s of {kind.shape_words}",
        4 * n_samples * n_views * math.prod(source.shape),
        device,
        "use a smaller --image-size, --batch-size or --micro-batch",
    )


def make_networks(
    settings: Train,
    method: Method,
    source: Source,
    encoder: nn.Module | None,
    other_encoder: nn.Module | None,
) -> tuple[Encoder, Encoder | None]:
    """The encoder, and that of a pair's second side where there are two."""
    start, dropout = settings.start_from, method.dropout
    network = make_encoder(
        settings.encoder,
        source,
        encoder,
        pretrained=settings.pretrained,
        dropout=dropout,
    )
    if start:
        network = start_weights_from(start, network, encoder)
    if method.encoder != "two" or source.other is None:
        return network, None
    other = make_encoder(
        settings.other_encoder, source.other, other_encoder, dropout=dropout
    )
    if start:
        other = start_weights_from(start, other, other_encoder, side="other")
    return network, other


def make_controller(settings: Train, learner: Learner) -> EssController | None:
    """What holds the effective sample size, where that is asked for."""
    if not settings.ess.targets:
        return None
    memory: Any = getattr(learner, "negatives", None)  # an empty one will fill up
    most = (memory.n_negatives or None) if memory else None
    return EssController(learner.objective, settings.ess, n_negatives=most)
