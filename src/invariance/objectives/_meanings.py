"""What the settings that objectives share mean: shown by every function's help.

A function documents the settings of its own; these follow, as its signature has them.
"""

import inspect
from collections.abc import Iterable
from textwrap import indent

MEANINGS = {
    "temperature": """\
temperature (above 0, or learned): Divides every score: a low one looks at the
    nearest negatives only.""",
    "normalize": """\
normalize: Divide rows by their length first.""",
    "gather": """\
gather (True, False, "ring", "equal"): Whose rows are used when there are several
    processes, each with any number of its own rows.
    Not given: only this process's rows, with a warning.
    False: only this process's rows, without a warning.
    True: those of all processes, gathered once, or circulating where they would not
    fit. Value and gradient (averaged over processes, as DistributedDataParallel
    does) are those of one process with the whole batch.
    "ring": those of all, circulating from process to process, so that none holds
    them all.
    "equal": as True, with a promise that all processes have equally many rows: a
    GPU then does not exchange the numbers, which would be a wait. A CPU does, and
    refuses unequal ones.""",
    "reduction": """\
reduction ("mean", "none"): One number, or one value per sample, the mean over its
    views. A loss that is not a mean over samples refuses "none".""",
}


def explain_settings(doc: str | None, names: Iterable[str], *more: str | None) -> str:
    """A docstring with what settings mean, also those that it shares with others.

    Args:
        doc: Its ``Settings:``, if it has any, stand last before the examples.
        names: All of its settings.
        more: Docstrings whose settings are its own as well.

    >>> print(explain_settings("A loss.", ["normalize"]))
    A loss.
    <BLANKLINE>
    Settings:
        normalize: Divide rows by their length first.
    """
    text, example, rest = inspect.cleandoc(doc or "").partition("\n>>> ")
    text, _, own_settings = text.partition("\nSettings:\n")
    blocks = [own_settings, *map(read_settings, more)]
    blocks += [indent(MEANINGS[name], "    ") for name in names if name in MEANINGS]
    settings = "\n".join(block.strip("\n") for block in blocks if block.strip())
    explained = f"{text.rstrip()}\n\nSettings:\n{settings}"
    return f"{explained}\n\n>>> {rest}" if example else explained


def read_settings(doc: str | None) -> str:
    """The settings that a docstring explains."""
    _, _, text = inspect.cleandoc(doc or "").partition("\nSettings:\n")
    return text.partition("\n\n")[0]
