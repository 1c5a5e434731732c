"""Does FlatNCE at batch 32 match InfoNCE at 256? The small-batch study on CIFAR-10.

    python benchmarks/small_batch.py FOLDER --plan           # what is left, how long
    python benchmarks/small_batch.py cifar10-jpeg.tar.xz --minutes 9 --parallel 2
    python benchmarks/small_batch.py FOLDER --minutes 9 --machine.compile True
    python benchmarks/small_batch_report.py                  # table, verdicts, figures

ResNet-18, SimCLR's augmentation, SGD with a rise and a cosine. Six objectives, with a
fixed temperature and with the ESS controller (KCL has no temperature to control; DCL's
runs are FlatNCE's, see ``STANDS_FOR``). Of the 50,000 training images 5,000 are never
trained on: each objective's learning rate and temperature (KCL: gamma; controlled: the
ESS asked for) are chosen by the linear probe on these, with the same five short runs
for each, at batch 32 and at batch 256. Batch 64 takes the choice of 32 and batch 512
that of 256. Then come runs of 100 epochs with other seeds, and the test set is looked
at once, at the end of each of them. ``--try NT-Xent 32 0.2`` adds such runs at a
temperature that was not chosen; the report shows them apart, and no verdict uses them.

The study goes on over as many calls as it takes: ``--lines`` is read first, and every
finished run adds a line. Jobs come in a fixed order, what answers the question first.
After ``--minutes`` nothing is running: a job is started only if it should be done by
then. ``--parallel`` runs share one GPU, each in a process of its own that does one job
after the other; ``--lanes 32 32 256`` is a process for each, which does runs of that
batch, so that the long runs begin together. Kernels of several processes run side by
side only under NVIDIA's MPS (nvidia-cuda-mps-control -d); without it they take turns. A
process that is killed under MPS takes all others on that GPU with it: run nothing else
there. Flags that are not named here are those of 'invariance train', for every run.
"""

import argparse
import dataclasses
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
from torch import multiprocessing

from cifar10 import (
    RESULTS,
    Parts,
    Row,
    add_line,
    find_folder,
    load_parts,
    make_parser,
    parse_study,
    read_flags,
    read_lines,
    train_and_score,
)
from invariance.errors import InvarianceError, SettingError, choose
from invariance.folder import flatten
from invariance.training import usual_settings

LINES = RESULTS / "small_batch.jsonl"
FLAGS = (
    *("--optim.name", "sgd", "--optim.weight-decay", "5e-4"),
    *("--checkpoint-seconds", "1e9"),  # a run that does not fit is not started
)
N_TRAIN = 45_000
RATES = (0.1, 0.2, 0.4)  # peaks for 256 samples; they grow with the root of the batch
TARGETS = (0.15, 0.3, 0.5)  # shares of the negatives, tried for each objective
SWEEP = (0.05, 0.15, 0.3, 0.5, 0.8)  # shares that tell whether moderate ones are best
TUNED = {32: 32, 64: 32, 256: 256, 512: 256}  # at which batch a batch's choice was made
SEEDS = (0, 1, 2)
TUNING_SEED = 100  # none of the final ones


@dataclasses.dataclass(frozen=True)
class Objective:
    """What is tuned beside the learning rate."""

    method: str
    flag: str = "--temperature"
    values: tuple[float, ...] = (0.1, 0.2, 0.5)


OBJECTIVES = {
    "InfoNCE": Objective("info_nce"),
    "NT-Xent": Objective("simclr"),
    "FlatNCE": Objective("flatclr"),
    "DCL": Objective("dcl"),
    "DHEL": Objective("dhel"),
    "KCL": Objective("kcl", "gamma", (4.0, 8.0, 16.0)),
}
# FlatNCE's gradient is DCL's, so its runs stand for DCL's, which are not made. Eighteen
# were, two of them on a GPU: their scores equal FlatNCE's to the last digit.
STANDS_FOR = {"DCL": "FlatNCE"}
FIRST, SECOND = ("InfoNCE", "FlatNCE"), ("DHEL", "NT-Xent")  # what claims are about
ESS = tuple(name for name in OBJECTIVES if name != "KCL")

# Seconds per epoch of 50,000 images for one run alone on an H200, expected; how many
# times the work of one run several together get done under MPS (measured at 32: four
# captured steps at once 1.6, eight no more, and without MPS none); and what a run takes
# besides.
EPOCH = {32: 4.0, 64: 2.6, 128: 1.8, 256: 1.4, 512: 1.2}
GAIN = {32: 1.6, 64: 1.4, 128: 1.2, 256: 1.1, 512: 1.0}
BESIDE = 12.0
START = 25.0  # seconds until a new process is ready
DIED = "the process died"


@dataclasses.dataclass(frozen=True)
class Job:
    """One run of the study."""

    stage: str
    """"knob" and "rate" choose; "final" and "sweep" (of ESS targets) answer; "try" is
    as a final run, with a knob that was not chosen."""
    objective: str
    control: str
    """"fixed" temperature, or "ess"."""
    batch_size: int
    knob: float
    """Temperature (KCL: gamma), or the ESS asked for."""
    lr: float
    epochs: int
    seed: int
    ready: bool = dataclasses.field(default=True, compare=False)
    """Whether knob and lr have been chosen; until then they are guesses."""

    def flags(self) -> list[str]:
        """As 'invariance train' takes them."""
        objective = OBJECTIVES[self.objective]
        knob = [objective.flag, str(self.knob)]
        if self.control == "ess":
            knob = ["--ess.target", str(self.knob)]
        elif not objective.flag.startswith("--"):
            knob = ["--options", *knob]
        pairs = {
            "--method": objective.method,
            "--batch-size": self.batch_size,
            "--optim.lr": self.lr,
            "--epochs": self.epochs,
            "--seed": self.seed,
            # a few readings per epoch are enough, and each waits for the device
            "--log-every": max(N_TRAIN // self.batch_size // 4, 1),
        }
        words = [str(word) for pair in pairs.items() for word in pair]
        return [*FLAGS, *words, *knob]

    @property
    def values(self) -> dict[str, Any]:
        """What names the job in a row."""
        values = dataclasses.asdict(self)
        del values["ready"]
        return values

    @property
    def trained(self) -> "Job":
        """The job that is done for it: mostly itself."""
        name = STANDS_FOR.get(self.objective, self.objective)
        return dataclasses.replace(self, objective=name)

    def __str__(self) -> str:
        how = "" if self.control == "fixed" else ", ESS"
        return (
            f"{self.stage}: {self.objective}{how}, batch {self.batch_size}, "
            f"{self.knob:g}, rate {self.lr:g}, seed {self.seed}"
        )


@dataclasses.dataclass(frozen=True)
class Study:
    """All jobs, given the rows there are."""

    rows: Sequence[Row]
    tune_epochs: int = 10
    epochs: int = 100
    sweep_epochs: int = 30
    n_phases: int | None = None
    """Only so many phases, the first ones; all where None."""
    seeds: Sequence[int] = SEEDS
    """Of final runs and ESS targets; more of them make intervals narrower."""
    tries: Sequence[tuple[str, int, float]] = ()
    """Objective, batch and knob of final runs beside those with the chosen knob."""

    def phases(self) -> Iterator[tuple[str, list[Job]]]:
        """What is asked for, in order, with what each phase is for."""
        for title, jobs in itertools.islice(self.all_phases(), self.n_phases):
            yield title, [job.trained for job in jobs]

    def all_phases(self) -> Iterator[tuple[str, list[Job]]]:
        late = [name for name in OBJECTIVES if name not in FIRST + SECOND]
        pair, others = (32, 256), (64, 512)
        if self.tries:
            yield "knobs that were not chosen", self.tried()
        yield "choosing for InfoNCE and FlatNCE", self.tuning(FIRST, "fixed")
        yield "8-fold batch efficiency", self.finals(FIRST, "fixed", pair)
        both = self.tuning(SECOND, "fixed") + self.finals(SECOND, "fixed", pair)
        yield "DHEL and NT-Xent", both
        yield "ESS targets of FlatNCE", self.sweep()
        both = self.tuning(late, "fixed") + self.finals(late, "fixed", pair)
        yield "DCL and KCL", both
        yield "batch 64 and 512", self.finals(OBJECTIVES, "fixed", others)
        both = self.tuning(ESS, "ess") + self.finals(ESS, "ess", pair)
        yield "with the ESS controller", both
        yield "batch 64 and 512 with the controller", self.finals(ESS, "ess", others)

    def tuning(self, names: Sequence[str], control: str) -> list[Job]:
        """Five runs for each objective and batch: three knobs, then two more rates."""
        jobs = []
        for batch in (256, 32):
            for name in names:
                jobs += self.knob_jobs(name, control, batch)
            for name in names:
                jobs += self.rate_jobs(name, control, batch)
        return jobs

    def knob_jobs(self, name: str, control: str, batch: int) -> list[Job]:
        knobs = TARGETS if control == "ess" else OBJECTIVES[name].values
        how = (RATES[1], self.tune_epochs, TUNING_SEED)
        return [Job("knob", name, control, batch, knob, *how) for knob in knobs]

    def rate_jobs(self, name: str, control: str, batch: int) -> list[Job]:
        knob, ready = self.best(self.knob_jobs(name, control, batch))
        how = (self.tune_epochs, TUNING_SEED, ready)
        rates = (RATES[0], RATES[2])
        return [Job("rate", name, control, batch, knob.knob, lr, *how) for lr in rates]

    def choose(self, name: str, control: str, batch: int) -> tuple[Job, bool]:
        """The best of the five runs, and whether all five are there."""
        batch = TUNED[batch]
        knob, ready = self.best(self.knob_jobs(name, control, batch))
        rates = self.rate_jobs(name, control, batch)
        best, all_there = self.best([knob, *rates])
        return best, ready and all_there

    def best(self, jobs: Sequence[Job]) -> tuple[Job, bool]:
        """By the linear probe on held-out images; the middle one until all are done."""
        scores = {job: self.score(job) for job in jobs}
        if any(score is None for score in scores.values()):
            return jobs[len(jobs) // 2 if len(jobs) == len(TARGETS) else 0], False
        return max(jobs, key=lambda job: scores[job] or 0.0), True

    def score(self, job: Job) -> float | None:
        """Of a finished run; 0 for one that diverged, None for one that is to come."""
        row = find_row(self.rows, job)
        if row is None or row.get("failed") == DIED:
            return None
        return row["held_out"]["linear"] if "held_out" in row else 0.0

    def finals(
        self, names: Sequence[str] | Mapping[str, Any], control: str, batches: Any
    ) -> list[Job]:
        """One seed of everything before the next."""
        jobs = []
        for seed in self.seeds:
            for batch in batches:
                for name in names:
                    best, ready = self.choose(name, control, batch)
                    how = (best.knob, best.lr, self.epochs, seed, ready)
                    jobs.append(Job("final", name, control, batch, *how))
        return jobs

    def tried(self) -> list[Job]:
        """Final runs with a knob that was asked for, at the rate that was chosen."""
        jobs = []
        for seed in self.seeds:
            for name, batch, knob in self.tries:
                best, ready = self.choose(name, "fixed", batch)
                how = (knob, best.lr, self.epochs, seed, ready)
                jobs.append(Job("try", name, "fixed", batch, *how))
        return jobs

    def sweep(self) -> list[Job]:
        """FlatNCE held at one ESS or another, with the rate chosen for it before."""
        best, ready = self.choose("FlatNCE", "fixed", 256)
        how = (best.lr, self.sweep_epochs)
        return [
            Job("sweep", "FlatNCE", "ess", 256, target, *how, seed, ready)
            for seed in self.seeds
            for target in SWEEP
        ]

    def left(self) -> list[Job]:
        """What has no row yet, in order."""
        jobs = dict.fromkeys(job for _, phase in self.phases() for job in phase)
        return [job for job in jobs if find_row(self.rows, job) is None]


def find_row(rows: Sequence[Row], job: Job) -> Row | None:
    """The row of a job that was done, or of the one that stands for it, or None."""
    wanted = job.values, job.trained.values
    return next((row for v in wanted for row in rows if row["job"] == v), None)


def fill_in(rows: Sequence[Row]) -> list[Row]:
    """All rows, and those of runs that stand for others under the other name, too."""
    filled = list(rows)
    for name, trained in STANDS_FOR.items():
        for row in rows:
            values = row["job"] | {"objective": name}
            stands = row["job"]["objective"] == trained and values["stage"] != "sweep"
            if stands and all(other["job"] != values for other in rows):
                filled.append(row | {"job": values})
    return filled


def estimate(job: Job, rows: Sequence[Row], parallel: int) -> tuple[float, float]:
    """Seconds a job takes by the clock among so many, and of the device's time.

    By the slowest of the runs of that batch that were measured with so many together
    (some had quicker company than others), or else by what is expected of an H200.
    """
    batch = job.batch_size
    like = [
        row["seconds"] | {"epochs": row["job"]["epochs"]}
        for row in rows
        if row["job"]["batch_size"] == batch
        and row.get("parallel") == parallel
        and "held_out" in row
    ]
    if like:
        epoch = max((s["training"] + s["curve"]) / s["epochs"] for s in like)
        beside = max(s["preparing"] + s["evaluation"] for s in like)
        wall = job.epochs * epoch + beside
        return wall, wall / parallel
    gain = min(GAIN[batch], parallel)
    alone = job.epochs * EPOCH[batch] * N_TRAIN / 50_000 + BESIDE
    return alone * parallel / gain, alone / gain


class Worker:
    """A process that does one job after the other; all share one copy of the images.

    Args:
        parts: The images.
        options: Of the command.
        batch_size: What its jobs have; any where None.
    """

    def __init__(
        self, parts: Parts, options: argparse.Namespace, batch_size: int | None
    ) -> None:
        self.batch_size = batch_size
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=work, args=(theirs, parts, options), daemon=True
        )
        self.process.start()
        theirs.close()  # or the end of the process would not be noticed
        self.job: Job | None = None
        self.ready = False

    def start(self, job: Job) -> None:
        self.job = job
        self.pipe.send(job)

    def finish(self) -> Row:
        """What the job gave; a process that died fails its job."""
        assert self.job is not None
        job, self.job, self.ready = self.job, None, True
        try:
            row = self.pipe.recv()
        except EOFError:
            row = {"failed": DIED}
            self.process.join(10)  # or it would seem alive, and get the next job
        return {"job": job.values, **row}


def work(pipe: Connection, parts: Parts, options: argparse.Namespace) -> None:
    """What a worker does until its pipe is closed."""
    torch.set_num_threads(max((os.cpu_count() or 1) // options.parallel, 1))
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        row = do_job(job, parts, options.train)
        pipe.send({"parallel": options.parallel, **row})


def do_job(job: Job, parts: Parts, words: Sequence[str]) -> Row:
    """Train and score; only what answers a question looks at the test set.

    Args:
        job: What to run.
        parts: The images, with the test set.
        words: Further flags of 'invariance train'.
    """
    final = job.stage in ("final", "try")
    parts = parts if final else dataclasses.replace(parts, test=None)
    every = max(job.epochs // 10, 1) if final else job.epochs
    try:
        settings = read_flags([*job.flags(), *words])
        row = train_and_score(settings, parts, every=every)
    except InvarianceError as error:  # such as a run that diverged
        return {"failed": str(error)}
    row["settings"] = shorten(row["settings"])
    del row["command"]
    return row


def shorten(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are not at their defaults, and those that could be mixed up.

    Defaults of the optimizer and the machine may change from one call to another.
    """
    usual, always = flatten(usual_settings()), ("optim.", "machine.")
    return {
        name: value
        for name, value in settings.items()
        if value != usual.get(name, "") or name.startswith(always)
    }


def read_rows(*paths: Path | None) -> list[Row]:
    """Every line; of a job that was done twice, the first one that did not fail.

    A process that died says nothing of its job, unlike a run that diverged: such a job
    is still to be done.
    """
    rows: dict[str, Row] = {}
    for path in paths:
        for row in [] if path is None else read_lines(path):
            if row.get("failed") == DIED:
                continue
            key = json.dumps(row["job"], sort_keys=True)
            if key not in rows or "failed" in rows[key]:
                rows[key] = row
    return list(rows.values())


def refuse_other_runs(rows: Sequence[Row], encoder: str, n_train: int) -> None:
    """One study is of one network and one set of images, which no job names."""
    others = {
        (row["settings"]["encoder"], row["n_train"])
        for row in rows
        if "settings" in row
    } - {(encoder, n_train)}
    if others:
        there = ", ".join(f"{name} on {n:,} images" for name, n in sorted(others))
        raise SettingError(
            f"The lines have runs of {there}, this would be {encoder} on {n_train:,}: "
            "say --lines with another file."
        )


def run(options: argparse.Namespace) -> None:
    """Do jobs until the time is up or none is left."""
    deadline = time.monotonic() + 60 * options.minutes
    rows = read_rows(options.lines)
    parts = load_parts(find_folder(options.data), test=True, n=options.limit)
    refuse_other_runs(rows, read_flags(options.train).encoder, len(parts.train))
    lanes = options.lanes or [None] * options.parallel
    workers = [Worker(parts, options, batch_size) for batch_size in lanes]
    while True:
        study = make_study(options, rows)
        running = {worker.job for worker in workers if worker.job is not None}
        waiting = [job for job in study.left() if job.ready and job not in running]
        for worker in workers:
            if worker.job is None:
                until = deadline - (0 if worker.ready else START)
                lane = [
                    job
                    for job in waiting
                    if worker.batch_size in (None, job.batch_size)
                ]
                job = next_job(lane, rows, options.parallel, until)
                if job is not None:
                    waiting.remove(job)
                    worker.start(job)
        busy = {worker.pipe: worker for worker in workers if worker.job is not None}
        if not busy:
            tell_what_is_left(waiting, rows, options.parallel, deadline)
            break
        for pipe in wait(list(busy), timeout=max(deadline - time.monotonic(), 0) + 20):
            worker = busy[pipe]  # type: ignore[index]
            row = worker.finish()
            rows.append(row)
            for path in dict.fromkeys(p for p in (options.lines, options.also) if p):
                add_line(path, row)
            print(
                f"{describe(row)}  ({deadline - time.monotonic():.0f} s left)",
                flush=True,
            )
            if not worker.process.is_alive():
                workers.remove(worker)
        if time.monotonic() > deadline + 15:
            jobs = [str(worker.job) for worker in workers if worker.job is not None]
            print(f"Out of time; given up: {'; '.join(jobs) or 'nothing'}.")
            break
    for worker in workers:
        worker.process.terminate()


def tell_what_is_left(
    waiting: Sequence[Job], rows: Sequence[Row], parallel: int, deadline: float
) -> None:
    """Why nothing runs any more, if something could."""
    if waiting:
        shortest = min(estimate(job, rows, parallel)[0] for job in waiting)
        print(
            f"{len(waiting)} runs could be started, but none of a lane's batch within "
            f"the {deadline - time.monotonic():.0f} s left; the shortest should take "
            f"{shortest:.0f} s, and a new process {START:.0f} s more."
        )


def next_job(
    waiting: Sequence[Job], rows: Sequence[Row], parallel: int, deadline: float
) -> Job | None:
    """The first that should be done in time."""
    left = deadline - time.monotonic()
    return next((j for j in waiting if estimate(j, rows, parallel)[0] <= left), None)


def describe(row: Row) -> str:
    """A row in one line of words."""
    job = Job(**row["job"])
    if "failed" in row:
        return f"{job}: {row['failed']}"
    scores = row.get("test") or row["held_out"]
    return (
        f"{job}: kNN {scores['knn']:.2f} %, linear {scores['linear']:.2f} % on "
        f"{'test' if 'test' in row else 'held-out'} images, "
        f"{row['seconds']['training']:.0f} s"
    )


def show_plan(options: argparse.Namespace) -> None:
    """Every phase: how many runs are left, and how long they should take."""
    rows = read_rows(options.lines)
    study, total = make_study(options, rows), 0.0
    seen: set[Job] = set()
    for title, jobs in study.phases():
        new = [job for job in dict.fromkeys(jobs) if job not in seen]
        seen |= set(new)
        left = [job for job in new if find_row(rows, job) is None]
        minutes = sum(estimate(job, rows, options.parallel)[1] for job in left) / 60
        total += minutes
        longest = max((estimate(j, rows, options.parallel)[0] for j in left), default=0)
        print(
            f"{title}: {len(left)} of {len(new)} runs left, {minutes:.0f} min of the "
            f"device ({total:.0f} so far); the longest takes {longest:.0f} s"
        )


def make_study(options: argparse.Namespace, rows: Sequence[Row]) -> Study:
    lengths = (options.tune_epochs, options.epochs, options.sweep_epochs)
    tries = [read_try(words) for words in options.tries]
    return Study(
        rows, *lengths, n_phases=options.phases, seeds=options.seeds, tries=tries
    )


def read_try(words: Sequence[str]) -> tuple[str, int, float]:
    """What one --try asks for."""
    name, batch, knob = words
    choose(OBJECTIVES, name, "objective")
    try:
        asked = int(batch), float(knob)
    except ValueError:
        asked = 0, math.nan
    if asked[0] not in TUNED or not asked[1] > 0:
        raise SettingError(
            "--try takes an objective, a batch of the study "
            f"({', '.join(map(str, TUNED))}) and a knob above 0: got {' '.join(words)}."
        )
    return name, *asked


def main(words: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__, ", for every run")
    parser.add_argument("--plan", action="store_true", help="say what is left to do")
    parser.add_argument("--tune-epochs", type=int, default=Study.tune_epochs)
    parser.add_argument("--epochs", type=int, default=Study.epochs)
    parser.add_argument("--sweep-epochs", type=int, default=Study.sweep_epochs)
    parser.add_argument("--limit", type=int, help="use at most so many images")
    parser.add_argument("--phases", type=int, help="only so many, the first ones")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=SEEDS, help="of all but short runs"
    )
    parser.add_argument(
        "--try",
        dest="tries",
        nargs=3,
        action="append",
        default=[],
        metavar=("OBJECTIVE", "BATCH", "KNOB"),
        help="first of all, final runs with this temperature (KCL: gamma)",
    )
    parser.add_argument(
        "--lanes", type=int, nargs="+", metavar="BATCH", help="a process for each"
    )
    parser.add_argument("--also", type=Path, help="new rows go here, too")
    options, options.train = parse_study(parser, words, lines=LINES, parallel=2)
    if options.lanes:
        options.parallel = len(options.lanes)
    try:
        read_flags(options.train)  # what nobody knows is said before anything starts
        show_plan(options) if options.plan else run(options)
    except InvarianceError as error:
        print(f"small_batch: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
