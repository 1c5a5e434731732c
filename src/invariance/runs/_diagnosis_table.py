"""A diagnosis as lines to read: numbers of h and z side by side, sentences below."""

import textwrap
from collections.abc import Iterable, Sequence

from ..diagnostics import Diagnosis, Reading

GRADIENT = "gradient signal to noise"
KEPT = "augmentation kept"
MOST_NAME, CELL, SCALE = 42, 8, 15  # widths of the columns


def render_diagnosis(diagnosis: Diagnosis, width: int = 100) -> list[str]:
    """Readings one below the other; the two large families as tables of their own."""
    groups: dict[str, list[Reading]] = {}
    kept: dict[str, list[Reading]] = {}
    for reading in diagnosis.readings:
        if reading.name == KEPT:
            kept.setdefault(str(reading.augmentation), []).append(reading)
        elif reading.name != GRADIENT:
            groups.setdefault(reading.label, []).append(reading)
    names = min(MOST_NAME, max(width - 2 * CELL - 2 * SCALE, 24))
    scales = f"{'ideal':>{SCALE}}{'at most':>{SCALE}}"
    lines = [f"{'reading':<{names}}{'h':>{CELL}}{'z':>{CELL}}{scales}"]
    for label, group in groups.items():
        lines += row(label, group, names)
        for reading in dedupe(group):
            lines += wrap(f"{reading.of}: {reading.meaning}", width)
    if kept:
        lines += ["", "variance of each augmentation that a linear map recovers (R²)"]
        for name, group in kept.items():
            lines += row(name, group, names)
    lines += gradients(diagnosis.readings)
    for note in diagnosis.notes:
        lines += textwrap.wrap(f"note: {note}", width, subsequent_indent="  ")
    return lines


def row(name: str, group: Sequence[Reading], names: int) -> list[str]:
    """One name's numbers, of h and of z; below the name where that takes the line."""
    values = {reading.of: number(reading.value) for reading in group}
    unit = f" ({group[0].unit})" if group[0].unit else ""
    ideal, most = (
        " | ".join(dict.fromkeys(filter(None, map(number, ends))))
        for ends in ([r.ideal for r in group], [r.most for r in group])
    )
    cells = f"{values.get('h', ''):>{CELL}}{values.get('z', ''):>{CELL}}"
    cells = f"{cells}{ideal:>{SCALE}}{most:>{SCALE}}".rstrip()
    title = name + unit
    if len(title) > names:
        return [title, " " * names + cells]
    return [f"{title:<{names}}{cells}"]


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
    first = max(map(len, grid)) + 2
    lines.append(" " * first + "".join(f"{size:>{CELL}}" for size in sizes))
    for objective, cells in grid.items():
        text = "".join(f"{cells.get(size, ''):>{CELL}}" for size in sizes)
        lines.append(f"{objective:<{first}}{text}")
    return lines


def wrap(text: str, width: int) -> list[str]:
    """Indented, and broken at the width of the window."""
    return textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="     ")


def number(value: float | None) -> str:
    """Few digits, no exponent for what people meet.

    >>> number(0.12345), number(12800.0), number(4.0), number(-3.9), number(None)
    ('0.123', '12,800', '4', '-3.90', '')
    """
    if value is None:
        return ""
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"
