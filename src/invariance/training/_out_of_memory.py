"""Out of memory, explained: which batch would have fitted."""

import contextlib
import gc
import traceback
from collections.abc import Iterator
from typing import Any

import torch

from ..errors import TrainingError
from ._adversary import arrange
from ._lightning import Fabric
from ._run_plan import Plan


@contextlib.contextmanager
def explain_overflow(fabric: Fabric, plan: Plan, module: Any) -> Iterator[None]:
    """Turn an allocation failure into a sentence with a batch that went through."""
    try:
        yield
    except RuntimeError as cause:
        if not is_out_of_memory(cause):
            raise
        module.zero_grad(set_to_none=True)
        # whoever wrote "with" holds the error while this runs, and its frames hold the
        # batch that did not fit: nothing else would fit beside it
        traceback.clear_frames(cause.__traceback__)
    else:
        return
    free()
    batch, micro = f"{plan.batch_size}", plan.settings.micro_batch
    largest = None
    advice = "use a smaller --batch-size, or --micro-batch"
    if plan.processes == 1:  # others would not take part in trying what fits
        largest = largest_that_fits(fabric, plan, module)
        advice = "not even two samples fit: use a smaller --encoder or --image-size"
    if largest and micro is None:
        advice = (
            f"a trial with {largest} went through, so use --batch-size {largest}, or "
            f"--micro-batch {largest}, which keeps the batch and encodes it in pieces"
        )
    elif largest:
        advice = f"a trial with {largest} went through, so use --micro-batch {largest}"
    if micro is not None:
        batch += f" encoded {micro} at a time"
    raise TrainingError(
        f"Out of memory with batches of {batch}: {advice}. What was saved is intact."
    )


@contextlib.contextmanager
def refuse_overflow() -> Iterator[None]:
    """Turn an allocation failure before the first batch into a sentence."""
    try:
        yield
    except (MemoryError, RuntimeError) as cause:
        if isinstance(cause, RuntimeError) and not is_out_of_memory(cause):
            raise
        raise TrainingError(
            "Out of memory before the first batch: use a smaller --image-size, "
            "--encoder, --width or --hidden. Nothing was written."
        ) from None


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether this is any device's way of saying that memory ran out."""
    text = str(error).lower()
    wordings = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, torch.OutOfMemoryError) or any(w in text for w in wordings)


def largest_that_fits(fabric: Fabric, plan: Plan, module: Any) -> int | None:
    """Halve the batch, or its pieces, until a forward and backward go through."""
    size = min(plan.local_batch, plan.settings.micro_batch or plan.local_batch) // 2
    while size >= 2:
        rows = torch.arange(size)
        try:
            (sides,) = plan.batches([rows], fabric.device)
            views = arrange(plan, plan.see(sides, rows, epoch=0))
            labels, ids = plan.labels(rows, fabric.device), rows.to(fabric.device)
            fabric.backward(module(views, labels, ids).loss)
            module.zero_grad(set_to_none=True)
            return size
        except RuntimeError as cause:
            if not is_out_of_memory(cause):
                raise
            module.zero_grad(set_to_none=True)
        free()
        size //= 2
    return None


def free() -> None:
    """Give back what the failed attempt still holds."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
