"""Whose rows a loss takes: this process's alone, or those of all processes.

``gather`` says it: True, or "ring" where all rows together do not fit into memory; or
"equal" if every process is known to have as many rows, which saves asking. Either way
each process computes its own rows against all, and has the loss of the whole batch. A
``Share`` says the same of rows whose numbers are known.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import torch
from torch import Tensor

from ..checked_rows import may_look
from ..errors import InvarianceError, SettingError, ShapeError, unknown
from ..partition import Share, gather_rows, has_company, share_rows


def check_gather(name: str, value: Any) -> None:
    """Raise unless the setting says whose rows are taken, or nothing."""
    words = ("equal", "ring")
    if not isinstance(value, bool | Share | None) and value not in words:
        raise SettingError(unknown(name, value, ("True", "False", *words)))


Gather = Annotated[bool | str | Share | None, check_gather]

ALL_OR_ONE = (
    "This loss is called by one of several processes and takes only the rows of that "
    "process: pass gather=True for the loss of the whole batch, or gather=False if "
    "that is what you want."
)
_told = False  # once per process


def take_share(x: Tensor, gather: Any) -> Share | None:
    """Which rows of all processes these are; None if no others are taken.

    A loss that was not told either way, and is one of several, says so once.
    """
    if isinstance(gather, Share):
        return gather
    if gather is None:
        _tell_unless_alone()
    if not gather:
        return None
    share = share_rows(x, equal=gather == "equal", ring=gather == "ring")
    if share is not None and share.total < 2:
        raise ShapeError(
            "A loss over processes needs at least 2 rows among them, since a sample is "
            f"contrasted with the others: got {share.total}."
        )
    return share


def check_on_all(
    check: Callable[..., None], x: Tensor, *more: Any, share: Share | None
) -> None:
    """Check this process's rows, and what comes with them; if one refuses, all do.

    If one raised alone, the others would wait for its rows. On an accelerator asking
    them would be a wait as well: there it does raise alone.
    """
    if share is None or not may_look(x):
        check(x, *more, share=share)
        return
    problem = None
    try:
        check(x, *more, share=share)
    except InvarianceError as error:
        problem = error
    one_each = share._replace(sizes=(1,) * share.n_processes)
    flag = torch.tensor([int(problem is not None)])
    refused = gather_rows(flag, share=one_each).nonzero().flatten().tolist()
    if problem is not None:
        raise problem
    if refused:
        who = ", ".join(map(str, refused))
        raise ShapeError(
            f"The loss of all processes needs the rows of each: process {who} "
            "refused its rows; its own message says why."
        )


def _tell_unless_alone() -> None:
    global _told
    if torch.compiler.is_compiling() or _told or not has_company():
        return
    _told = True
    warnings.warn(ALL_OR_ONE, stacklevel=7)  # who called the loss


def count_rows(x: Tensor, share: Share | None) -> int:
    """Rows that are taken, of this process or of all."""
    return x.shape[-2] if share is None else share.total


def anchors_for(
    source: Any, rows: Sequence[Tensor | None], ids: Tensor, share: Share | None
) -> tuple[list[Any], Tensor, Share | None]:
    """The anchors that a source is asked about, and their share.

    One that answers row by row is asked about own rows; another, whose answer depends
    on the whole batch, about those of all.
    """
    if share is None or getattr(source, "row_by_row", False):
        return list(rows), ids, share
    everyone = [
        x if x is None else gather_rows(x.movedim(-2, 0), share=share).movedim(0, -2)
        for x in rows
    ]
    return everyone, gather_rows(ids, share=share), None
