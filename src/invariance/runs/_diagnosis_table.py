"""A diagnosis as lines to read: numbers of h and z side by side, sentences below."""

import textwrap
from collections.abc import Iterable, Sequence

from ..diagnostics import Diagnosis, Reading

GRADIENT = "gradient signal to noise"
KEPT = "augmentation kept"
NAMES, CELL, SCALE = 42, 9, 16  # widths of the columns
HEAD = f"{'reading':<{NAMES}}{'h':>{CELL}}{'z':>{CELL}}"
HEAD += f"{'ideal':>{SCALE}}{'at most':>{SCALE}}"


def render_diagnosis(diagnosis: Diagnosis, width: int = 100) -> list[str]:
    """Readings one below the other; the two large families as tables of their own."""
    groups: dict[str, list[Reading]] = {}
    kept: dict[str, list[Reading]] = {}
    for reading in diagnosis.readings:
        if reading.name == KEPT:
            kept.setdefault(str(reading.augmentation), []).append(reading)
        elif reading.name != GRADIENT:
            groups.setdefault(reading.label, []).append(reading)
    lines = [HEAD]
    for label, group in groups.items():
        lines.append(row(label, group))
        for reading in dedupe(group):
            lines += wrap(f"{reading.of}: {reading.meaning}", width)
    if kept:
        lines += ["", "variance of each augmentation that a linear map reads off (R²)"]
        lines += [row(name, group) for name, group in kept.items()]
    lines += gradients(diagnosis.readings)
    return [*lines, *(f"note: {note}" for note in diagnosis.notes)]


def row(name: str, group: Sequence[Reading]) -> str:
    """One name's numbers, of h and of z."""
    values = {reading.of: number(reading.value) for reading in group}
    unit = f" ({group[0].unit})" if group[0].unit else ""
    ideal, most = (
        " | ".join(dict.fromkeys(filter(None, map(number, ends))))
        for ends in ([r.ideal for r in group], [r.most for r in group])
    )
    cells = f"{values.get('h', ''):>{CELL}}{values.get('z', ''):>{CELL}}"
    return f"{name + unit:<{NAMES}}{cells}{ideal:>{SCALE}}{most:>{SCALE}}".rstrip()


def dedupe(group: Sequence[Reading]) -> Iterable[Reading]:
    """The readings, without one that says what another said."""
    return {reading.meaning: reading for reading in group}.values()


def gradients(readings: Iterable[Reading]) -> list[str]:
    """Objectives down, batch sizes across."""
    grid: dict[str, dict[int, str]] = {}
    for reading in readings:
        if reading.name == GRADIENT:
            cells = grid.setdefault(str(reading.objective), {})
            cells[reading.batch_size or 0] = number(reading.value)
    if not grid:
        return []
    sizes = list(dict.fromkeys(size for cells in grid.values() for size in cells))
    lines = [
        "",
        "gradient: length of its mean over the noise of a batch, by batch size",
    ]
    lines.append(" " * NAMES + "".join(f"{size:>{CELL}}" for size in sizes))
    for objective, cells in grid.items():
        text = "".join(f"{cells.get(size, ''):>{CELL}}" for size in sizes)
        lines.append(f"{objective:<{NAMES}}{text}")
    return lines


def wrap(text: str, width: int) -> list[str]:
    """Indented, and broken at the width of the window."""
    return textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="     ")


def number(value: float | None) -> str:
    """Few digits, no exponent for what people meet.

    >>> number(0.12345), number(12800.0), number(-3.9), number(None)
    ('0.123', '12,800', '-3.90', '')
    """
    if value is None:
        return ""
    if value == int(value) and abs(value) >= 10:
        return f"{int(value):,}"
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"
