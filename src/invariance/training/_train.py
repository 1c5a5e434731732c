"""``train``: settings in, a finished run folder out, and nothing lost on the way."""

import contextlib
import dataclasses
import functools
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from ..data import data_exists
from ..devices import is_first_process, name_gpu, started_outside
from ..encoders import check_encoder_name
from ..errors import SettingError, TrainingError
from ..evaluation import Evaluation
from ..folder import (
    BEST_ENCODER,
    CHECKPOINTS,
    CONFIG,
    ENVIRONMENT,
    LOG,
    METRICS,
    Finding,
    Metrics,
    check_settings,
    describe_environment,
    differing_settings,
    find_data,
    hold_run,
    new_folder,
    read_metrics,
    read_record,
    read_settings,
    read_verdict,
    remember_images,
    resume_command,
    to_dict,
    to_yaml,
    write_json,
    write_whole,
)
from ..markup import html_sentences, lines, tag
from ..methods import Learner, Method
from ..processes import ALONE, join_processes
from ..views import ViewSet
from . import _checkpoint
from ._bf16_on_cpu import propose_bf16, refuse_wrong_gradients
from ._captured import own_stream
from ._dry_run import DryRun, dry_run
from ._fabric import arithmetic, choose_precision, keep_form, make_fabric, prepare
from ._finish import Trained, finish, help_score
from ._lightning import Fabric
from ._loop import Loop, Stopped
from ._monitor import Monitor
from ._out_of_memory import explain_overflow, refuse_overflow
from ._readings import Health
from ._run_plan import Plan, make_plan
from ._settings import Train, check_numbers, require_unfinished
from ._share import SharedRun, push_to_hub
from ._start_processes import launch, settle_machine
from ._stopping import Patience, Stop, check_stop_reading
from ._trackers import TRACKERS
from ._watch import Watch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAY_CHANGE = {"data", "machine.devices", "machine.nodes", "machine.strategy"}
EachEpoch = Callable[[int, Learner], Mapping[str, float] | None]


@dataclass(frozen=True)
class Run:
    """A run on disk."""

    folder: Path
    evaluation: Evaluation | None = None
    """Scores beside the baselines; None where there was nothing to score."""

    def __repr__(self) -> str:
        scores = "" if self.evaluation is None else f", {self.evaluation!r}"
        return f"Run({str(self.folder)!r}{scores})"

    def _repr_html_(self) -> str:
        record = read_record(self.folder)
        verdict = [
            lines(
                tag("b", f"{finding.title}."),
                tag("span", finding.text),
                *([tag("code", finding.command)] if finding.command else []),
            )
            for finding in read_verdict(record)
        ]
        scores = self.evaluation or Evaluation(tuple(record.current_rows))
        top = html_sentences([tag("code", self.folder), *verdict])
        return top + scores._repr_html_()

    @property
    def verdict(self) -> list[Finding]:
        """What to make of the run, in words, what decides first."""
        return read_verdict(read_record(self.folder))

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Every reading, oldest first."""
        return read_metrics(self.folder / METRICS)

    def plot(self) -> "Figure":
        """What training has logged, as a figure of matplotlib; see ``inv.plot``."""
        from ..report import plot

        return plot(self.folder)

    def push_to_hub(self, name: str, **how: Any) -> SharedRun:
        """Upload the encoder with a model card; see ``inv.push_to_hub``."""
        return push_to_hub(self.folder, name, **how)

    def encoder(
        self, network: nn.Module | None = None, *, best: bool = False
    ) -> nn.Module:
        """The trained encoder, ready to use; ``best`` is that of the best epoch."""
        path = self.folder / BEST_ENCODER if best else self.folder
        return _checkpoint.load(path, network=network)


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
    """Train as the settings say; objects of one's own replace what they only name.

    Returns the run, or what a dry run found where the settings ask for one.

    Args:
        settings: As on the command line, ``Train(data="photos", method="dcl")``.
        data: An array, (array, labels), ``invariance.data.Samples`` or a torch
            Dataset, instead of a name or path.
        encoder: Any module that maps samples to features. Afterwards it is the trained
            one; with fsdp each process has only a share of its weights, and
            ``run.encoder(network)`` fills another network of its kind.
        method: Four choices of your own.
        views: A ``ViewSet`` of your own.
        other_encoder: A module for the second side of pairs, of a method of two.
        other_views: A ``ViewSet`` for the second side of pairs.
        each_epoch: A function, or several, called after every epoch with its number and
            the learner, in the process that writes; the numbers it returns, if any, are
            logged with that epoch's reading. It may raise ``invariance.Stop("why")`` to
            end the run there, in order, and switch the learner to evaluation. What else
            it changes, such as a temperature, steps replayed from a graph do not see:
            set ``Machine(capture=False)`` for that. On several processes the first
            alone calls it: there, run nothing but ``learner.encoder.eval()``, since all
            else would wait for the others. With fsdp there is no such function.

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
                "each_epoch is called by the first process alone, which with fsdp has "
                "only its share of the weights: use --machine.strategy ddp, or leave "
                "each_epoch out."
            )
        fabric = make_fabric(machine)
        peers = held.enter_context(launch(fabric, say))
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
            f"What was saved before is intact; go on with: {resume_command(folder)}"
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
    settings, first = plan.settings, fabric.is_global_zero
    device, state = fabric.device, None
    if resumes:
        tell = functools.partial(watch.say, important=True)
        say = tell if first else (lambda _: None)
        state = _checkpoint.find_state(folder, plan.source, say)
    if first:
        watch.log = folder / LOG
        if not resumes:
            write_whole(folder / CONFIG, to_yaml(settings).encode())
            given = {} if isinstance(plan.data, str) else {"data": "from Python"}
            environment = describe_environment(str(device), gpu=name_gpu(device))
            environment |= plan.outcome() | given
            precision = choose_precision(settings.machine, device.type)
            environment["used"]["machine.precision"] = precision
            write_json(folder / ENVIRONMENT, environment)
        remember_images(folder, plan.about_images())
        for fact in plan.facts():
            watch.say(fact)
        for warning in plan.warnings():
            watch.say(warning, important=True)
    module = prepare(fabric, plan)
    if first:
        for fact in module.facts():
            watch.say(fact)
        for fact in () if resumes else propose_bf16(fabric, plan):
            watch.say(fact)
    health, done, position = Health(), 0, 0
    monitor = Monitor(plan, folder, device)
    patience = Patience(settings.stop)
    if state is not None:
        done, position = state["step"], state["metrics"]
        module.load(state, plan, health)
        patience.load_state_dict(state.get("patience"))
    if first and resumes:
        who = "" if fabric.world_size == 1 else f" with {fabric.world_size} processes"
        watch.say(f"resuming {folder} after step {done} of {plan.n_steps}{who}")
    if first:
        monitor.load_state_dict((state or {}).get("best"))
    metrics = Metrics(folder / METRICS, position) if first else None

    def save(step: int) -> None:
        kept = module.state(plan, health)  # every process takes part in gathering it
        if metrics is not None:
            kept |= {"step": step, "metrics": metrics.position}
            kept |= {"samples": len(plan.source)}
            kept |= {"best": monitor.state_dict(), "patience": patience.state_dict()}
            _checkpoint.save(folder / CHECKPOINTS, step, kept)

    def keep(epoch: int, step: int) -> None:
        state = module.state(plan, health)
        if first:
            _checkpoint.keep(folder, epoch, step, state)

    config = to_dict(dataclasses.replace(settings, batch_size=plan.batch_size))
    trackers = [TRACKERS[t](folder, config, done) for t in settings.trackers if first]

    def record(reading: dict[str, Any]) -> None:
        if metrics is not None:
            metrics.write(reading)
        for track in trackers:
            track({k: v for k, v in reading.items() if not isinstance(v, str)})

    def knn(epoch: int) -> float | None:
        encoder = module.encoder(plan)
        with module.uncompiled():
            return monitor.look(encoder, epoch) if first else None

    def call_functions(epoch: int) -> Mapping[str, float]:
        modes = {part: part.training for part in plan.learner.modules()}
        numbers: dict[str, float] = {}
        with module.uncompiled():
            for function in functions if first else ():
                try:
                    numbers |= function(epoch, plan.learner) or {}
                except Stop as stop:
                    patience.why = str(stop).rstrip(".") or "Stop was raised"
        for part, mode in modes.items():
            part.training = mode
        return numbers

    if first:
        watch.word = plan.source.kind.word
        watch.begin(plan.n_steps, done)
    try:
        with (
            catch_signals() as stop_asked,
            explain_overflow(fabric, plan, module.wrapped),
            refuse_wrong_gradients(fabric, plan),
            own_stream(device),
        ):
            done = Loop(
                fabric=fabric,
                plan=plan,
                module=module.wrapped,
                feed=module.feed,
                step=module.take_step(plan, watch.say),
                health=health,
                watch=watch,
                record=record,
                save=save,
                keep=keep,
                knn=knn,
                each_epoch=call_functions if functions else None,
                stop_asked=stop_asked,
                patience=patience,
                folder=folder,
            ).run(done)
    except Stopped as stop:
        watch.end()
        if first:
            watch.say(str(stop), important=True)
        raise
    finally:
        watch.end()
        if metrics is not None:
            metrics.close()
    encoder = module.encoder(plan)
    other = None if plan.other_untrained is None else module.encoder(plan, "other")
    heads = module.heads(plan)
    head = None if module.sharded else getattr(plan.learner, "head", None)
    evaluation = None
    processes = join_processes() if fabric.world_size > 1 else ALONE
    trained = Trained(
        plan, done, encoder, other, head, heads, monitor, folder, device, processes
    )
    try:
        with handle_signals(interrupt), module.uncompiled():
            if first:
                evaluation = finish(trained, watch)
            else:
                help_score(trained)
    except KeyboardInterrupt:
        words = (
            "Stopped while scoring; the training is complete and saved. Score it "
            f"with: {resume_command(folder)}"
        )
        if first:
            watch.say(words, important=True)
        raise Stopped(words) from None
    fabric.barrier()
    return Run(folder, evaluation)


def settings_to_resume(asked: Train, *, find_place: bool = True) -> Train:
    """The run's own settings, but for what may change while a run goes on.

    That is how it is shown, where its data are, and which processes share the work.

    Args:
        asked: What came with the request to resume; its ``data``, where given, is the
            place of the data now.
        find_place: Look for the data by name or path, as no object was given.
    """
    folder = Path(asked.resume or "")
    require_unfinished(folder)
    settings, usual = read_settings(folder, Train), Train()
    shown = {name: getattr(asked, name) for name in ("quiet", "json", "dry_run")}
    mine = dataclasses.replace(settings, **shown, resume=asked.resume)
    same = dataclasses.replace(usual, **shown, resume=asked.resume)
    for name in differing_settings(asked, same).keys() & (
        differing_settings(asked, mine).keys() - MAY_CHANGE
    ):
        raise TrainingError(
            "A resumed run keeps its own settings exactly; beside --resume only the "
            "place of the data and the number of processes may be given. Another "
            f"{name} was asked for: to change that, start a new run; --start-from "
            "takes the weights along."
        )
    data = find_data(folder, settings.data, data_exists)
    if asked.data not in (usual.data, settings.data):
        data = asked.data
    if find_place and not data_exists(data):
        raise TrainingError(
            f"{folder} was training on {data!r}, which is not there (any more, or from "
            "here). Put it back, or say where it is now: invariance train PLACE "
            f"--resume {folder}. Nothing was changed."
        )
    machine, wish = settings.machine, asked.machine
    outside = started_outside() is not None  # then torchrun or srun says how many
    machine = dataclasses.replace(
        machine,
        devices=wish.devices or (None if outside else machine.devices),
        nodes=wish.nodes or (None if outside else machine.nodes),
        strategy=machine.strategy if wish.strategy == "auto" else wish.strategy,
    )
    return dataclasses.replace(mine, data=data, resume=None, machine=machine)


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


@contextlib.contextmanager
def catch_signals() -> Iterator[Callable[[], bool]]:
    """Turn the first request to end into a polite one; a second of its kind kills."""
    asked: list[bool] = []
    with handle_signals(lambda: asked.append(True)):
        yield lambda: bool(asked)


def interrupt() -> None:
    """Stop at once what is going on, as Ctrl-C does."""
    raise KeyboardInterrupt


@contextlib.contextmanager
def handle_signals(handle: Callable[[], None]) -> Iterator[None]:
    """Call a function at the first request of each kind to end; then all is as it was.

    Beside an interrupt and a termination: SIGHUP, when a connection is lost (unless
    nohup has it ignored), and SIGUSR1, which Slurm sends before the time is up.
    """
    before: dict[int, Any] = {}

    def receive(number: int, frame: Any) -> None:
        signal.signal(number, before[number])
        handle()

    with contextlib.suppress(ValueError):  # signals belong to the main thread
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"):
            number = getattr(signal, name, None)  # Windows has the first two
            if number is None or (
                name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN
            ):
                continue
            before[int(number)] = signal.signal(number, receive)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            for number, handler in before.items():
                signal.signal(number, handler)
