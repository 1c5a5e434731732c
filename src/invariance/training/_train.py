"""``train``: settings in, a finished run folder out, and nothing lost on the way."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from ..devices import is_first_process, name_gpu
from ..encoders import check_encoder_name
from ..errors import SettingError
from ..folder import (
    CONFIG,
    ENVIRONMENT,
    LOG,
    check_settings,
    describe_environment,
    hold_run,
    new_folder,
    remember_images,
    resume_command,
    to_yaml,
    write_json,
    write_whole,
)
from ..methods import Method
from ..processes import ALONE, join_processes
from ..views import ViewSet
from . import _checkpoint
from ._bf16_on_cpu import advise_on_bf16
from ._dry_run import DryRun, dry_run
from ._fabric import arithmetic, choose_precision, make_fabric
from ._finish import Trained, finish, help_score
from ._lightning import Fabric
from ._loop import Loop, Stopped
from ._make_plan import make_plan
from ._out_of_memory import refuse_overflow
from ._prepared import keep_form, prepare
from ._resume import settings_to_resume
from ._run import Run
from ._run_plan import Plan
from ._run_writer import EachEpoch, RunWriter
from ._settings import Train, check_numbers
from ._signals import catch_signals, handle_signals, interrupt
from ._start_processes import launch, settle_machine
from ._stopping import check_stop_reading
from ._watch import Watch


def train(
    settings: Train | None = None,
    *,
    data: Any = None,
    encoder: nn.Module | None = None,
    method: Method | None = None,
    views: ViewSet | None = None,
    other_encoder: nn.Module | None = None,
    other_views: ViewSet | None = None,
    each_epoch: EachEpoch | Sequence[EachEpoch] | None = None,
) -> Run | DryRun:
    """Train as the settings say; your own objects can replace what settings name.

    Returns the run, or what a dry run found where the settings ask for one.

    Args:
        settings: As on the command line, ``Train(data="photos", method="dcl")``.
        data: An array, (array, labels), ``invariance.data.Samples`` or a torch
            Dataset, instead of a name or path.
        encoder: Any module that maps samples to features. Afterwards it is the trained
            one; with fsdp each process has only a share of its weights, and
            ``run.encoder(network)`` fills another network of its kind.
        method: Your own four choices.
        views: Your own ``ViewSet``.
        other_encoder: A module for the second side of pairs, of a method of two.
        other_views: A ``ViewSet`` for the second side of pairs.
        each_epoch: A function, or several, called after every epoch with its number and
            the learner, in the process that writes; the numbers it returns, if any, are
            logged with that epoch's reading. It may raise ``invariance.Stop("why")`` to
            end the run there, in order, and switch the learner to evaluation. Steps
            replayed from a graph do not see anything else that it changes, such as a
            temperature: set ``Machine(capture=False)`` for that. On several processes
            only the first calls it: there, run only ``learner.encoder.eval()``, since
            anything else would wait for the others. It cannot be used with fsdp.

    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +ELLIPSIS
    ...     small = {"limit": 64, "epochs": 1, "evaluate": False, "quiet": True}
    ...     run = train(Train(data="shapes", method="dcl", out=folder, **small))
    ...     encoder = run.encoder()  # or invariance.load(run.folder), at any time
    It did not learn...
    >>> encoder(torch.rand(2, 3, 32, 32)).shape  # images from 0 to 1
    torch.Size([2, 256])
    """
    example = "Train(data='photos', method='dcl')"
    settings = check_settings(Train, settings, example)
    given = each_epoch if isinstance(each_epoch, Sequence) else [each_epoch]
    functions: list[EachEpoch] = [
        function for function in given if function is not None
    ]
    check_objects(encoder, method, views, functions)
    check_objects(other_encoder, None, other_views, ())
    objects: dict[str, Any] = {"data": data, "encoder": encoder}
    objects |= {"method": method, "views": views}
    objects |= {"other_encoder": other_encoder, "other_views": other_views}
    watch = Watch(quiet=settings.quiet, as_json=settings.json)
    folder = Path(settings.resume) if settings.resume else None
    if folder is not None:
        settings = settings_to_resume(settings, find_place=data is None)
        objects["started"] = True
    check_numbers(settings)
    check_stop_reading(settings.stop, has_functions=bool(functions))
    if encoder is None and settings.encoder != "auto":
        check_encoder_name(settings.encoder)  # before any image is read
    if settings.dry_run:
        with keep_form(encoder), keep_form(other_encoder):
            return dry_run(settings, watch, folder, **objects)
    say = functools.partial(watch.say, important=True)
    with arithmetic(settings.machine, say), contextlib.ExitStack() as held:
        held.enter_context(keep_form(encoder))
        held.enter_context(keep_form(other_encoder))
        if folder is not None and is_first_process():
            held.enter_context(hold_run(folder, say))
        settings = dataclasses.replace(
            settings, machine=settle_machine(settings.machine)
        )
        machine = settings.machine
        if functions and machine.strategy == "fsdp" and machine.n_processes > 1:
            raise SettingError(
                "each_epoch is called only by the first process, which with fsdp has "
                "only its share of the weights: use --machine.strategy ddp, or leave "
                "each_epoch out."
            )
        fabric = make_fabric(machine)
        peers = held.enter_context(launch(fabric, say))
        if not fabric.is_global_zero:  # one process speaks for all
            nowhere = held.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
            watch = Watch(quiet=True, out=nowhere)
        with refuse_overflow():
            plan = make_plan(
                settings, processes=fabric.world_size, device=fabric.device, **objects
            )
        resumes = folder is not None
        if folder is None:
            folder = Path()
            if fabric.is_global_zero:
                folder = new_folder(settings.out, plan.name)
                held.enter_context(hold_run(folder, say))
            folder = Path(fabric.broadcast(str(folder)))
        peers.advice = (
            f"What was saved before is intact; continue with: {resume_command(folder)}"
        )
        return execute(fabric, plan, watch, folder, resumes, functions)


def execute(
    fabric: Fabric,
    plan: Plan,
    watch: Watch,
    folder: Path,
    resumes: bool,
    functions: Sequence[EachEpoch] = (),
) -> Run:
    """Run a plan in a new folder, or go on in an old one."""
    first, state = fabric.is_global_zero, None
    if resumes:
        tell = functools.partial(watch.say, important=True)
        state = _checkpoint.find_state(folder, plan.source, tell)
    if first:
        watch.log = folder / LOG
        write_beginning(fabric, plan, folder, resumes)
    for fact in plan.facts():
        watch.say(fact)
    for warning in plan.warnings():
        watch.say(warning, important=True)
    prepared = prepare(fabric, plan)
    for fact in prepared.facts():
        watch.say(fact)
    for fact in () if resumes else advise_on_bf16(fabric, plan):
        watch.say(fact)
    writer = RunWriter(prepared, folder, functions, watch, state)
    done = writer.done
    if resumes:
        who = "" if fabric.world_size == 1 else f" with {fabric.world_size} processes"
        watch.say(f"resuming {folder} after step {done} of {plan.n_steps}{who}")
    watch.word = plan.source.kind.word
    watch.begin(plan.n_steps, done)
    try:
        with catch_signals() as stop_asked, prepared.stepping():
            step = prepared.make_step(watch.say)
            done = Loop(prepared, step, writer, stop_asked).run(done)
    except Stopped as stop:
        watch.end()
        watch.say(str(stop), important=True)
        raise
    finally:
        watch.end()
        writer.close()
    towers = prepared.towers()
    encoder = prepared.encoder() if towers is None else towers.encoder
    head = None if prepared.sharded else plan.learner.head
    evaluation = None
    processes = join_processes() if fabric.world_size > 1 else ALONE
    best = writer.monitor
    where = folder, fabric.device, processes
    trained = Trained(plan, done, encoder, head, towers, best, *where)
    try:
        with handle_signals(interrupt), prepared.uncompiled():
            if first:
                evaluation = finish(trained, watch)
            else:
                help_score(trained)
    except KeyboardInterrupt:
        words = (
            "Stopped while scoring; the training is complete and saved. Score it "
            f"with: {resume_command(folder)}"
        )
        watch.say(words, important=True)
        raise Stopped(words) from None
    fabric.barrier()
    return Run(folder, evaluation)


def write_beginning(fabric: Fabric, plan: Plan, folder: Path, resumes: bool) -> None:
    """Write what a run folder begins with; when resumed, what is not there yet."""
    device = fabric.device
    if not resumes:
        write_whole(folder / CONFIG, to_yaml(plan.settings).encode())
    # a run that was killed between the two files has none yet
    if not resumes or not (folder / ENVIRONMENT).exists():
        given = {} if isinstance(plan.data, str) else {"data": "from Python"}
        environment = describe_environment(str(device), gpu=name_gpu(device))
        environment |= plan.outcome() | given
        precision = choose_precision(plan.settings.machine, device.type)
        environment["used"]["machine.precision"] = precision
        write_json(folder / ENVIRONMENT, environment)
    remember_images(folder, plan.about_images())


def check_objects(
    encoder: Any, method: Any, views: Any, functions: Sequence[Any]
) -> None:
    """Refuse objects that are not what they stand in for."""
    if encoder is not None and not isinstance(encoder, nn.Module):
        raise SettingError(
            f"encoder is a torch.nn.Module that maps samples to features: got "
            f"{encoder!r}. Encoders by name go into the settings, as "
            "Train(encoder='resnet18'); a function can be the forward of a Module."
        )
    if method is not None and not isinstance(method, Method):
        raise SettingError(
            f"method is an invariance.Method: got {method!r}. Methods by name go into "
            "the settings, as Train(method='dcl')."
        )
    if views is not None and not isinstance(views, ViewSet):
        raise SettingError(
            f"views is a ViewSet, which makes the views of whole batches: got "
            f"{views!r}. Recipes by name go into the settings, as Train(views='weak'), "
            "and a list of invariance.views' operations makes a ViewSet."
        )
    for function in functions:
        if not callable(function):
            raise SettingError(
                "each_epoch is a function of an epoch's number and the learner that "
                f"gives readings by name, or a list of them: got {function!r}."
            )
