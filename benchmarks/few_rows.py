"""Every estimator on few rows: is what it shows as a bound one, do intervals hold?

    python benchmarks/few_rows.py --plan                     # seconds per estimator
    python benchmarks/few_rows.py --processes 16             # all of it, resumes
    python benchmarks/few_rows.py --only auto flo --rows 100 300 --minutes 4

100 to 5,000 rows; Gaussians of 1 to 20 columns sharing 0 to 8 nats; labels of class
means in 32 columns; y = x^2 + noise; a product of two of ten columns; labels that have
nothing to do with the columns. Every process has one thread. The order is shuffled,
so that a run cut short by --minutes is a fair sample of the whole. Every estimate is a
line of the file --lines, which a second run takes up; the table and whether the
criteria hold go to results/few_rows.md.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch
from torch import Generator, Tensor

import invariance as inv
from auto_information import RESULTS, gather_facts, said
from invariance.errors import DataError
from invariance.estimators import ESTIMATORS, correlated_gaussian

ROWS = (100, 300, 1000, 5000)
NATS = (0.0, 0.3, 1.0, 2.0, 4.0, 8.0)
COLUMNS = (1, 3, 10, 20)
CLASSES, CLASS_COLUMNS = 10, 32
NOISE_OF_SQUARE, NOISE_OF_PRODUCT = 0.05, 0.1
LOWEST, MOST_ABOVE = -0.5, 1.5  # of a value shown as a bound
SURE, LIKELY = 3.0, 1.645  # standard errors
DEPENDENT = 0.3  # nats above which "independent" is wrong


@dataclass(frozen=True)
class Case:
    """Two variables to draw, and how much they share."""

    name: str
    find_nats: Callable[[], float]
    draw: Callable[[int, Generator], tuple[Tensor, Tensor]]


def draw_labels(n: int, dice: Generator) -> tuple[Tensor, Tensor]:
    """Ten classes whose means have a mean square length of 4, plus unit noise."""
    label = torch.randint(CLASSES, (n,), generator=dice)
    noise = torch.randn(n, CLASS_COLUMNS, generator=dice, dtype=torch.float64)
    return class_means()[label] + noise, label


def draw_unrelated_labels(n: int, dice: Generator) -> tuple[Tensor, Tensor]:
    x, label = draw_labels(n, dice)
    return x, label[torch.randperm(n, generator=dice)]


def draw_square(n: int, dice: Generator) -> tuple[Tensor, Tensor]:
    x = 2 * torch.rand(n, generator=dice, dtype=torch.float64) - 1
    noise = torch.randn(n, generator=dice, dtype=torch.float64)
    return x, x.square() + NOISE_OF_SQUARE * noise


def draw_product(n: int, dice: Generator) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 10, generator=dice, dtype=torch.float64)
    noise = torch.randn(n, generator=dice, dtype=torch.float64)
    return x, x[:, 0] * x[:, 1] + NOISE_OF_PRODUCT * noise


@cache
def class_means() -> Tensor:
    dice = torch.Generator().manual_seed(5)
    means = torch.randn(CLASSES, CLASS_COLUMNS, generator=dice, dtype=torch.float64)
    return 2 * means / means.square().sum(1).mean().sqrt()


def nats_of_labels(draws: int = 200_000) -> float:
    """By Monte Carlo, to about 0.001: E log p(y|x) + log 10 with Bayes's p(y|x)."""
    x, label = draw_labels(draws, torch.Generator().manual_seed(1))
    log_p = (-torch.cdist(x, class_means()).square() / 2).log_softmax(1)
    return (log_p.gather(1, label[:, None]).mean() + math.log(CLASSES)).item()


def nats_of_channel(density: Callable[[Tensor], Tensor], noise: float) -> float:
    """h(Y) - h(noise), by the trapezoidal rule over Y's density."""
    y = torch.linspace(-12, 12, 48_001, dtype=torch.float64)
    p = torch.cat([density(part) for part in y.split(2000)])
    entropy = torch.trapezoid(-torch.xlogy(p, p), y).item()
    return entropy - math.log(2 * math.pi * math.e * noise**2) / 2


def density_of_square(y: Tensor) -> Tensor:
    x = (torch.arange(4000, dtype=torch.float64) + 0.5) / 4000
    return normal(y[:, None] - x.square(), torch.tensor(NOISE_OF_SQUARE)).mean(1)


def density_of_product(y: Tensor) -> Tensor:
    """Given one factor a, the product is normal with deviation |a|."""
    a = torch.linspace(0, 9, 9001, dtype=torch.float64)
    spread = (a.square() + NOISE_OF_PRODUCT**2).sqrt()
    each = 2 * normal(a, torch.tensor(1.0)) * normal(y[:, None], spread)
    return torch.trapezoid(each, a)


def normal(z: Tensor, spread: Tensor) -> Tensor:
    return (-(z / spread).square() / 2).exp() / (spread * math.sqrt(2 * math.pi))


@cache
def all_cases() -> dict[str, Case]:
    gaussians = [
        Case(
            f"gaussian {d} columns, {nats:g} nats",
            partial(float, nats),
            partial(draw_gaussian, correlated_gaussian(d, nats=nats)),
        )
        for d in COLUMNS
        for nats in NATS
    ]
    others = [
        Case("labels of 32 columns", nats_of_labels, draw_labels),
        Case(
            "y = x^2 + noise",
            partial(nats_of_channel, density_of_square, NOISE_OF_SQUARE),
            draw_square,
        ),
        Case(
            "product of two of ten",
            partial(nats_of_channel, density_of_product, NOISE_OF_PRODUCT),
            draw_product,
        ),
        Case("unrelated labels", float, draw_unrelated_labels),
    ]
    return {case.name: case for case in gaussians + others}


def draw_gaussian(pairs, n: int, dice: Generator) -> tuple[Tensor, Tensor]:
    return pairs.sample(n, generator=dice, dtype=torch.float64)


@dataclass(frozen=True)
class Job:
    """One estimate to make."""

    estimator: str
    case: str
    exact: float
    rows: int
    seed: int
    device: str = "cpu"

    @property
    def key(self) -> tuple[str, str, int, int]:
        return self.estimator, self.case, self.rows, self.seed


def measure(job: Job) -> dict:
    """The estimate and what it claims, as plain values."""
    torch.set_num_threads(1)
    draw = all_cases()[job.case].draw
    x, y = draw(job.rows, torch.Generator().manual_seed(9000 + job.seed))
    row: dict = {
        "estimator": job.estimator,
        "case": job.case,
        "rows": job.rows,
        "seed": job.seed,
        "exact": job.exact,
    }
    start = time.perf_counter()
    try:
        e = inv.estimate_mi(
            x, y, estimator=job.estimator, seed=job.seed, device=job.device
        )
    except DataError as error:
        return {**row, "refused": str(error), "seconds": time.perf_counter() - start}
    return {
        **row,
        "seconds": time.perf_counter() - start,
        "nats": e.nats,
        "error": e.std_error,
        "low": e.interval[0],
        "high": e.interval[1],
        "bound": e.lower_bound and not e.withheld,
        "withheld": e.withheld,
        "saturated": e.saturated,
        "steps": e.steps,
        "picked": e.estimator,
        "independent": "independent" in e.sentence,  # of what a person is shown
        "sentence": e.sentence,
    }


# ---------------------------------------------------------------- what is shown


def judge(rows: list[dict]) -> dict[str, tuple[int, int]]:
    """How many break each rule, of how many it speaks of."""
    shown = [r for r in rows if "nats" in r and not r["withheld"]]
    bounds = [r for r in shown if r["bound"]]
    auto = [r for r in shown if r["estimator"] == "auto"]
    dependent = [r for r in shown if r["exact"] > DEPENDENT]
    return {
        f"bounds outside [{LOWEST:g}, truth + {MOST_ABOVE:g}]": count(
            bounds, lambda r: not LOWEST <= r["nats"] <= r["exact"] + MOST_ABOVE
        ),
        f"bounds more than {SURE:g} errors above the truth": count(
            bounds, lambda r: r["nats"] - SURE * r["error"] > r["exact"] + 1e-9
        ),
        "bounds whose 95 % floor is above the truth (5 % may)": count(
            bounds, lambda r: r["nats"] - LIKELY * r["error"] > r["exact"] + 1e-9
        ),
        "auto's 95 % intervals that miss the truth (10 % may)": count(
            auto, lambda r: not r["low"] <= r["exact"] <= r["high"]
        ),
        f'"independent" where the truth exceeds {DEPENDENT:g}': count(
            dependent, lambda r: r["independent"]
        ),
        "withheld": count([r for r in rows if "nats" in r], lambda r: r["withheld"]),
        "refused": count(rows, lambda r: "refused" in r),
    }


def count(rows: list[dict], broken: Callable[[dict], object]) -> tuple[int, int]:
    return sum(bool(broken(r)) for r in rows), len(rows)


def page(rows: list[dict], facts: dict[str, object]) -> str:
    names = [n for n in ESTIMATORS if any(r["estimator"] == n for r in rows)]
    of = {n: [r for r in rows if r["estimator"] == n] for n in names}
    rules = list(judge(rows))
    lines = ["# Estimators on few rows", "", "How many break a rule, of how many:", ""]
    lines += table(
        ["estimator", *rules],
        [
            [name, *(f"{bad} of {n}" if n else "" for bad, n in judge(some).values())]
            for name, some in [*of.items(), ("all", rows)]
        ],
    )
    cases = list(dict.fromkeys(shorten(r["case"]) for r in rows))
    truth = {shorten(r["case"]): r["exact"] for r in rows}
    lines += [
        "",
        "The mean of what was shown (Gaussians over all widths); a dash where all was "
        "withheld or refused. Bounds are meant to be below the truth:",
        "",
        *table(
            ["estimator", "rows", *(f"{c} ({truth[c]:.2f})" for c in cases)],
            [
                [name, f"{n:,}", *(mean_of(of[name], n, c) for c in cases)]
                for name in names
                for n in sorted({r["rows"] for r in of[name]})
            ],
        ),
        "",
    ]
    return "\n".join([*lines, *said(facts)]) + "\n"


def table(head: list[str], body: Iterable[list[str]]) -> list[str]:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in [head, rule, *body]]


def shorten(case: str) -> str:
    """Gaussians of one number of nats stand together."""
    return "gaussian " + case.split(", ")[1] if case.startswith("gaussian") else case


def mean_of(rows: list[dict], n: int, case: str) -> str:
    values = [
        r["nats"]
        for r in rows
        if r["rows"] == n
        and shorten(r["case"]) == case
        and "nats" in r
        and not r["withheld"]
    ]
    return f"{statistics.fmean(values):.2f}" if values else "-"


def plan(names: list[str], sizes: list[int], seeds: int, processes: int) -> None:
    """Print what each estimator would take, from one estimate of each size."""
    cases = all_cases()
    total = 0.0
    for name in names:
        each = [
            measure(Job(name, "gaussian 10 columns, 2 nats", 2, n, 0))["seconds"]
            for n in sizes
        ]
        whole = sum(each) * len(cases) * seeds
        total += whole
        print(
            f"{name:<16} {' '.join(f'{s:7.2f}' for s in each)} s at "
            f"{', '.join(map(str, sizes))} rows; all {len(cases)} cases, {seeds} "
            f"seeds: {whole:6.0f} s of one core, {whole / processes:5.0f} s of "
            f"{processes}",
            flush=True,
        )
    print(f"together {total:.0f} s of one core, {total / processes:.0f} of {processes}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(ESTIMATORS), metavar="NAME")
    parser.add_argument("--cases", default="", help="a word in the case's name")
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=math.inf, help="at most")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--plan", action="store_true", help="say how long, and stop")
    parser.add_argument("--lines", type=Path, default=RESULTS / "few_rows.jsonl")
    parser.add_argument("--table", type=Path, default=RESULTS / "few_rows.md")
    chosen = parser.parse_args()
    if chosen.plan:
        plan(chosen.only, chosen.rows, chosen.seeds, chosen.processes)
        return
    rows = []
    if chosen.lines.exists():
        rows = [json.loads(line) for line in chosen.lines.read_text().splitlines()]
    done = {(r["estimator"], r["case"], r["rows"], r["seed"]) for r in rows}
    truth = {
        name: case.find_nats()
        for name, case in all_cases().items()
        if chosen.cases in name
    }
    jobs = [
        Job(name, case, exact, n, seed, chosen.device)
        for seed in range(chosen.seeds)
        for n in sorted(chosen.rows, reverse=True)
        for case, exact in truth.items()
        for name in chosen.only
    ]
    random.Random(0).shuffle(jobs)
    todo = [job for job in jobs if job.key not in done]
    print(f"{len(todo):,} estimates to make, {len(jobs) - len(todo):,} made before")
    start = time.perf_counter()
    spent: dict[str, float] = defaultdict(float)
    pool = multiprocessing.get_context("spawn").Pool(chosen.processes)
    with pool, chosen.lines.open("a") as lines:
        for number, row in enumerate(pool.imap_unordered(measure, todo), 1):
            rows.append(row)
            spent[row["estimator"]] += row["seconds"]
            lines.write(json.dumps(row) + "\n")
            lines.flush()
            if number % 500 == 0:
                print(f"{number:,} in {time.perf_counter() - start:.0f} s", flush=True)
            if time.perf_counter() - start > 60 * chosen.minutes:
                print(f"stopped after {chosen.minutes:g} minutes, {number:,} made")
                break
    wanted = {job.key for job in jobs}
    rows = [
        r for r in rows if (r["estimator"], r["case"], r["rows"], r["seed"]) in wanted
    ]
    facts = gather_facts(
        estimates=f"{len(rows):,} of the {len(jobs):,} of the grid, drawn at random",
        seconds=round(time.perf_counter() - start),
        processes=chosen.processes,
    )
    chosen.table.write_text(page(rows, facts))
    for rule, (bad, n) in judge(rows).items():
        print(f"{rule}: {bad} of {n}")
    print("seconds:", {name: round(s) for name, s in spent.items()})
    print(f"table: {chosen.table}")


if __name__ == "__main__":
    main()
