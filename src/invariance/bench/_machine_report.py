"""All that was timed on a machine, beside the reference machine of its kind.

``reference.json`` has one report per kind of device, "cuda" and "cpu", each written by
``invariance bench --write`` on the machine it names.
"""

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..devices import choose_device, name_gpu, usable_cores
from ..errors import DataError
from ..folder import describe_environment, write_json
from ..words import align
from ._ceilings import Ceilings, measure_ceilings
from ._timed_work import (
    LIMITS,
    Work,
    format_digits,
    time_decoding,
    time_losses,
    time_steps,
    time_views,
)

REFERENCE = Path(__file__).with_name("reference.json")
PACKAGES = ("torch", "torchvision", "timm")
PARTS: dict[str, Callable[..., Iterator[Work]]] = {
    "the loss": time_losses,
    "views": time_views,
    "training steps": time_steps,
    "decoding": time_decoding,
}


@dataclass(frozen=True)
class MachineReport:
    """What one machine does."""

    kind: str
    """"cuda", "cpu" or another of torch's kinds of device."""
    machine: str
    """What the device is called, and the number of cores."""
    date: str
    versions: dict[str, str | None]
    ceilings: Ceilings
    work: tuple[Work, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as in reference.json."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "MachineReport":
        """What ``as_dict`` gave."""
        ceilings = Ceilings(**values["ceilings"])
        work = tuple(Work(**each) for each in values["work"])
        return cls(**{**values, "ceilings": ceilings, "work": work})

    def lines(self, reference: "MachineReport | None" = None) -> Iterator[str]:
        """A table for people, and what its words mean."""
        yield f"this machine: {self.about}"
        if reference is not None:
            yield f"reference:    {reference.about}"
        at_best = self.ceilings
        yield (
            f"at best:      {format_rate(at_best.flops, 'FLOP/s')} in matrix products, "
            f"{format_rate(at_best.bytes, 'B/s')} copied, "
            f"{1e6 * at_best.start:.1f} µs to start an operation"
            + (f" ({1e6 * at_best.chained:.1f} in a graph)" * (self.kind == "cuda"))
        )
        yield ""
        title = ("", "this machine", "reference", "ratio", "limited by", "of the limit")
        table = [title, *(self._row(work, reference) for work in self.work)]
        if reference is None:
            table = [row[:2] + row[4:] for row in table]
        yield from align(table)
        yield ""
        if reference is not None:
            yield "ratio: how many times as fast as the reference this machine is."
        yield "limited by: what sets the least time this machine could take."
        yield "of the limit: how close it comes to that; 100 % is as fast as possible."
        for limit in dict.fromkeys(work.limit for work in self.work):
            yield f"  {limit}: {LIMITS[limit]}"

    @property
    def about(self) -> str:
        """The machine in a line."""
        versions = ", ".join(f"{k} {v}" for k, v in self.versions.items() if v)
        return f"{self.machine}; {versions}; {self.date}"

    def _row(self, work: Work, reference: "MachineReport | None") -> tuple[str, ...]:
        others = () if reference is None else reference.work
        other = next((each for each in others if each.name == work.name), None)
        return (
            work.name,
            str(work),
            "-" if other is None else str(other),
            "-" if other is None else f"{other.seconds / work.seconds:.2f}",
            work.limit,
            f"{format_digits(100 * work.share)} %",
        )


def measure_machine(
    device: str = "auto",
    *,
    quick: bool = False,
    say: Callable[[str], object] = lambda _: None,
) -> MachineReport:
    """Time everything on one device, in two minutes at most on an idle machine.

    Args:
        device: "auto", "cpu", "cuda" or another that torch knows.
        quick: a few seconds of smaller work instead, to see that all runs.
        say: told what is being timed.
    """
    place = choose_device(device, auto=("cuda",))
    say("timing matrix products, copies and starts ...")
    ceilings = measure_ceilings(place, quick=quick)
    work: list[Work] = []
    for name, time_part in PARTS.items():
        say(f"timing {name} ...")
        work += time_part(ceilings, place, quick=quick)
    name = name_gpu(place) or place.type.upper()
    packages = describe_environment(str(place))["packages"]
    return MachineReport(
        kind=place.type,
        machine=f"{name}, {usable_cores()} cores",
        date=time.strftime("%Y-%m-%d"),
        versions={package: packages[package] for package in PACKAGES},
        ceilings=ceilings,
        work=tuple(work),
    )


def read_reference(kind: str, path: Path = REFERENCE) -> MachineReport | None:
    """The report of the reference machine with this kind of device, if there is one."""
    values = read_reports(path).get(kind)
    return None if values is None else MachineReport.from_dict(values)


def write_reference(report: MachineReport, path: Path) -> None:
    """Put a report into a file of them, in place of the one of its kind."""
    reports = read_reports(path) | {report.kind: report.as_dict()}
    advice = "Name another file with --write."
    write_json(path, dict(sorted(reports.items())), advice=advice)


def read_reports(path: Path) -> dict[str, Any]:
    """The reports of a file by kind; none where there is no file yet."""
    if not path.exists():
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise DataError(f"{str(path)!r} is not a file of reports: name another.")
    return values


def format_rate(value: float, unit: str) -> str:
    """A large number per second, with a prefix.

    >>> format_rate(7.08e14, "FLOP/s"), format_rate(4.3e12, "B/s")
    ('708 TFLOP/s', '4.3 TB/s')
    """
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
