"""The rows of a batch: whose they are, checked, and ready to be scored.

``gather`` says whose: this process's alone, or those of all processes. True, or "ring"
where all rows together do not fit into memory; or "equal" if every process is known to
have as many rows, which saves asking. Either way each process computes its own rows
against all, and has the loss of the whole batch. A ``Share`` says the same of rows
whose numbers are known.

    batch = read_pair(u, v, normalize=normalize, gather=gather)
    u, v = batch.views
    negatives = log_partition(u, v, scale=scale, **batch.pairing)
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..checked_rows import SHORTEST, divide_by_length, may_look
from ..errors import InvarianceError, NotFiniteError, ShapeError, warn_caller
from ..partition import (
    Share,
    fused_unit_rows,
    gather_last,
    gather_rows,
    has_company,
    number_rows,
    share_rows,
)

HALVES = (torch.float16, torch.bfloat16)
ALL_OR_ONE = (
    "This loss is called by one of several processes and takes only the rows of that "
    "process: pass gather=True for the loss of the whole batch, or gather=False if "
    "that is what you want."
)
AS_VIEWS = "stack the views with torch.stack([u, v, ...])"
_told = False  # once per process


class Batch(NamedTuple):
    """This process's rows, and what sums over their pairs need to know of them."""

    views: Any
    """(n, d) each, in at least float32: [u, v], a tensor (views, n, d), or [rows]."""
    unit: bool
    """Whether the rows were divided by their length."""
    precision: str
    """How precisely a fused kernel need multiply them."""
    share: Share | None
    """Which rows of all processes these are; None if no others are taken."""

    @property
    def n(self) -> int:
        """Samples, those of all processes where these are taken."""
        return self.views[0].shape[0] if self.share is None else self.share.total

    @property
    def ids(self) -> Int[Tensor, " n"]:
        """Equal ids mark rows of one sample, never each other's negatives."""
        return number_rows(self.views[0], self.share)

    @property
    def pairing(self) -> dict[str, Any]:
        """For sums over pairs: what is left out, how precisely, and whose rows."""
        ids = self.ids
        how = {"precision": self.precision, "share": self.share}
        return {"row_ids": ids, "column_ids": ids, **how}

    @property
    def longest(self) -> float:
        """What is known of the rows' length, for a log-partition."""
        return 1.0 if self.unit else math.inf

    def of_all(self, x: Float[Tensor, "*k n"]) -> Float[Tensor, "*k m"]:
        """One number per row, of the rows of all processes."""
        return gather_last(x, self.share)


def read_pair(u: Tensor, v: Tensor, *, normalize: bool = True, gather: Any) -> Batch:
    """Two views checked, raised to float32 and, unless asked not to, of unit length."""
    share = share_pair(u, v, gather)
    return make_batch((u, v), normalize=normalize, share=share)


def make_batch(
    views: Sequence[Tensor] | Tensor, *, normalize: bool, share: Share | None
) -> Batch:
    """Rows that are checked already, made ready."""
    if isinstance(views, Tensor):  # several views in one
        ready = ready_rows(views, normalize)
        return Batch(ready, normalize, tile_precision(views), share)
    each = [ready_rows(x, normalize) for x in views]
    return Batch(each, normalize, tile_precision(*views), share)


def paired_rows(
    u: Tensor, v: Tensor, *, normalize: bool = True, gather: Any
) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"]]:
    """Two views as ``read_pair`` has them, but with the rows of all processes.

    For a loss that is no sum over pairs of rows: every process computes the whole.
    """
    share = share_pair(u, v, gather)
    if share is not None:
        u, v = gather_rows(u, share=share), gather_rows(v, share=share)
    return ready_rows(u, normalize), ready_rows(v, normalize)


# ---------------------------------------------------------------- rows made ready


def ready_rows(x: Float[Tensor, "*v n d"], unit: bool) -> Float[Tensor, "*v n d"]:
    """Rows in at least float32 and, if asked, of unit length."""
    return unit_rows(x) if unit else at_least_float32(x)


def unit_rows(x: Float[Tensor, "*v n d"]) -> Float[Tensor, "*v n d"]:
    """``divide_by_length`` in at least float32, in one launch on a GPU."""
    fused = fused_unit_rows(x, SHORTEST)
    return divide_by_length(at_least_float32(x)) if fused is None else fused


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision is raised to float32; float32 and float64 are kept."""
    if x.dtype in (torch.float32, torch.float64):
        return x
    return x.to(torch.promote_types(x.dtype, torch.float32))


def tile_precision(*rows: Tensor) -> str:
    """How precisely a fused kernel need multiply rows made from these.

    Their unit rows are float32, but rows that came in 16 bits carry no more than those:
    rounding them once more, to the 11 bits of a float16, costs little.
    """
    return "half" if all(x.dtype in HALVES for x in rows) else "auto"


def full_precision(x: Tensor) -> contextlib.AbstractContextManager[Any]:
    """No autocast: products in half precision lose digits that a loss needs."""
    if not torch.amp.is_autocast_available(x.device.type):
        return contextlib.nullcontext()
    return torch.autocast(x.device.type, enabled=False)


# ---------------------------------------------------------------- whose rows


def share_pair(u: Tensor, v: Tensor, gather: Any) -> Share | None:
    """Check two views; which rows of all processes they are, if others are taken."""
    check_tensor(u, "u")
    share = take_share(u, gather)
    check_on_all(check_pair, u, v, share=share)
    return share


def share_views(z: Tensor, gather: Any) -> Share | None:
    """Check several views of every sample; which samples of all processes these are."""
    check_tensor(z, "z", AS_VIEWS)
    share = take_share(z.transpose(0, 1) if z.ndim == 3 else z, gather)
    check_on_all(check_views, z, share=share)
    return share


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


def _tell_unless_alone() -> None:
    global _told
    if torch.compiler.is_compiling() or _told or not has_company():
        return
    _told = True
    warn_caller(ALL_OR_ONE)


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


# ---------------------------------------------------------------- anchors of a source


def anchor_rows(
    u: Tensor,
    v: Tensor | None,
    ids: Tensor,
    *,
    normalize: bool = True,
    share: Share | None = None,
) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"] | None]:
    """Anchors and, if given, their positives, checked as a pair's rows are."""
    check_tensor(u, "u")
    check_on_all(check_anchors, u, v, ids, share=share)
    return ready_rows(u, normalize), None if v is None else ready_rows(v, normalize)


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


# ---------------------------------------------------------------- checks


def check_pair(
    u: Tensor, v: Tensor, least: int = 2, share: Share | None = None
) -> None:
    """Raise unless u and v are two views of the same samples."""
    check_tensor(u, "u")
    check_tensor(v, "v")
    if u.ndim == v.ndim == 2 and u.shape != v.shape:
        shapes = f"got {tuple(u.shape)} and {tuple(v.shape)}"
        if len(u) == len(v):
            raise ShapeError(
                f"u and v need rows of one width: {shapes}. Project both views to the "
                "same width."
            )
        raise ShapeError(
            f"u and v need one row per sample: {shapes}. If the last batch is short, "
            "load with drop_last=True."
        )
    check_rows(u, "u", least=least, share=share)
    check_rows(v, "v", least=least, share=share)
    if u.device != v.device:
        raise ShapeError(
            f"u and v must be on one device: got {u.device} and {v.device}."
        )


def check_anchors(
    u: Tensor, v: Tensor | None, ids: Tensor, share: Share | None
) -> None:
    """Raise unless u are anchors, ids their numbers and v, if given, their partners."""
    check_ids(ids, len(u))
    if v is None:
        check_rows(u, "u", least=1, share=share)
    else:
        check_pair(u, v, least=1, share=share)


def check_ids(ids: Tensor, n: int) -> None:
    """Raise unless there is one integer per sample."""
    check_tensor(ids, "ids", "pass the samples' numbers in the data set as a tensor")
    if ids.shape != (n,) or ids.is_floating_point():
        raise ShapeError(
            f"ids need one integer per sample: expected ({n},), got {tuple(ids.shape)} "
            f"of {ids.dtype}."
        )


def check_views(z: Tensor, share: Share | None = None) -> None:
    """Raise unless z is several views of the same samples."""
    if z.ndim != 3 or z.shape[0] < 2 or (share is None and z.shape[1] < 2):
        raise ShapeError(
            "z needs the shape (views, n, d), at least 2 views of at least 2 samples: "
            f"got {tuple(z.shape)}. Stack them with torch.stack([u, v, ...]); if the "
            "last batch is short, load with drop_last=True."
        )
    check_rows(z.detach().flatten(0, 1), "z", share=share)


def check_tensor(
    x: Any, name: str, advice: str = "convert with torch.as_tensor(...)"
) -> None:
    """Raise unless x is a tensor."""
    if not isinstance(x, Tensor):
        kind = "None" if x is None else type(x).__name__
        raise ShapeError(f"{name} must be a torch tensor, not {kind}: {advice}.")


def check_rows(
    x: Tensor, name: str, *, least: int = 2, share: Share | None = None
) -> None:
    """Raise unless x is a finite floating-point matrix with enough rows.

    On an accelerator, and inside a compiled graph, looking for NaN would stall the
    queue; there a NaN comes out as a NaN loss instead. One of several processes may
    have no rows at all; its check is part of ``check_on_all``.
    """
    least = least if share is None else 0
    check_tensor(x, name)
    if x.ndim != 2:
        raise ShapeError(
            f"{name} needs the shape (n, d), one row per sample: got {tuple(x.shape)}."
        )
    if not x.is_floating_point():
        raise ShapeError(
            f"{name} must be floating point, not {x.dtype}: pass embeddings, or "
            "convert with .float()."
        )
    if x.shape[0] < least or x.shape[1] < 1:
        raise ShapeError(
            f"{name} needs at least {least} rows of at least one number, since a "
            f"sample is contrasted with the others: got {tuple(x.shape)}. If the last "
            "batch is short, load with drop_last=True."
        )
    if not may_look(x):
        return
    # one NaN or infinity makes the sum one too; only then are its rows looked for
    bad = 0
    if not math.isfinite(float(x.detach().sum())):
        bad = int((~torch.isfinite(x.detach())).any(1).sum())
    if bad:
        raise NotFiniteError(
            f"{name} has NaN or infinite numbers in {bad} of {len(x)} rows. The "
            "network has diverged or its input is broken: lower the learning rate, "
            "clip the gradient, or check the data."
        )
