"""The score matrix in tiles: which pairs count, and who visits which tile.

Most tiles hold no pair of equal ids and skip the mask. On a CPU threads share the
tiles: a tile is small enough for a core's cache, and large enough that the Python
between its operations does not count.

PyTorch shares every single operation out to its threads and waits for all of them at
its end. Thousands of tiles then are thousands of waits, and whenever another process
keeps one thread from its core, the others stand still. Here a thread takes whole tiles
and works alone, with operations of one thread. Tiles that add to the same sums take
turns in the order of their list, whoever computes them: the sums have the same bits for
any number of threads.
"""

import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from ._plan import count_threads, cut, tile_sides

# For fewer pairs than this, ids are compared as they are.
FEW_IDS = 2**14
EXACT_IDS = 2**24  # integers up to here are numbers of float32

Task = tuple[int, int]
Turn = tuple[int, int]  # a sum, and how many tasks add to it before


class Pairs(NamedTuple):
    """Rows, columns, and which pairs of them count.

    A pair is left out when its ids are equal, or when its score lies outside the
    band ``low[i] <= score <= high[i]``.
    """

    x: Tensor
    y: Tensor
    row_ids: Tensor | None = None
    column_ids: Tensor | None = None
    low: Tensor | None = None
    high: Tensor | None = None
    symmetric: bool = False
    longest: float = math.inf  # what the length of a row is known not to exceed

    def block(self, rows: slice, columns: slice, *, with_ids: bool) -> "Pairs":
        """Some of them; without ids where those cannot be equal."""
        on_side = (self.row_ids, rows), (self.column_ids, columns)
        row_ids, column_ids = (
            ids[side] if with_ids and ids is not None else None for ids, side in on_side
        )
        low, high = (b if b is None else b[rows] for b in (self.low, self.high))
        return Pairs(self.x[rows], self.y[columns], row_ids, column_ids, low, high)

    def find_excluded(self, scores: Tensor) -> Tensor | None:
        """Which of the pairs are left out, or None if none can be."""
        excluded = None
        if self.row_ids is not None and self.column_ids is not None:
            excluded = self.row_ids[:, None] == self.column_ids
        if self.low is not None:
            below = scores < self.low[:, None]
            excluded = below if excluded is None else excluded | below
        if self.high is not None:
            above = scores > self.high[:, None]
            excluded = above if excluded is None else excluded | above
        return excluded

    def make_ids_numbers(self) -> "Pairs":
        """Ids in the rows' type where they fit it: ``drop_excluded`` is faster then."""
        sides = [ids for ids in (self.row_ids, self.column_ids) if ids is not None]
        few = len(self.x) * len(self.y) < FEW_IDS
        # to ask for their range is a wait for a device, so only a CPU is asked
        if not sides or few or self.x.device.type != "cpu":
            return self
        if any(max(map(abs, _find_range(ids))) > EXACT_IDS for ids in sides):
            return self
        row_ids = sides[0].to(self.x.dtype)
        shared = sides[1] is sides[0]
        column_ids = row_ids if shared else sides[1].to(self.x.dtype)
        return self._replace(row_ids=row_ids, column_ids=column_ids)

    def drop_excluded(
        self, scores: Tensor, terms: Tensor, spare: Tensor | None = None
    ) -> None:
        """Set the terms of pairs that are left out to zero, in place."""
        ids, others = self.row_ids, self.column_ids
        has_band = self.low is not None or self.high is not None
        if ids is None or others is None or ids.dtype != terms.dtype or has_band:
            excluded = self.find_excluded(scores)
            if excluded is not None:
                terms.masked_fill_(excluded, 0.0)
        else:  # to multiply by 0 or 1 takes an eighth of the time of a mask
            spare = torch.empty_like(terms) if spare is None else spare
            terms.mul_(torch.ne(ids[:, None], others, out=spare))


class Tile(NamedTuple):
    """One block of the score matrix; its scores are the visitor's to overwrite."""

    pairs: Pairs  # its own rows, columns and ids
    rows: slice
    columns: slice
    scores: Tensor
    spare: Tensor  # memory of the same shape
    on_diagonal: bool  # of a symmetric matrix: both (i, j) and (j, i) are inside


def visit_tiles(
    pairs: Pairs, visit: Callable[[Tile], None], *, columns: bool = False
) -> None:
    """Call ``visit`` with all tiles, or half of them if the matrix is symmetric.

    Several threads may do so at once. Visits may add to sums of a tile's rows and, if
    ``columns`` or if the matrix is symmetric, of its columns: those are in order.
    """
    x, y = pairs.x, pairs.y
    sides = tile_sides(len(x), len(y), x.element_size(), x.device)
    if pairs.symmetric:
        sides = (min(sides), min(sides))
    row_spans, column_spans = list(cut(len(x), sides[0])), list(cut(len(y), sides[1]))
    n, m = len(row_spans), len(column_spans)
    may_meet = _find_meetings(pairs, row_spans, column_spans)

    def start() -> Callable[[int, int], None]:
        memory = x.new_empty(2, sides[0] * sides[1]).unbind()

        def visit_tile(r: int, c: int) -> None:
            rows, columns = row_spans[r], column_spans[c]
            part = pairs.block(rows, columns, with_ids=may_meet[r][c])
            shape = len(part.x), len(part.y)
            scores, spare = [flat[: math.prod(shape)].view(shape) for flat in memory]
            torch.mm(part.x, part.y.T, out=scores)
            on_diagonal = pairs.symmetric and r == c
            visit(Tile(part, rows, columns, scores, spare, on_diagonal))

        return visit_tile

    # every tile with the sums it adds to: a number per span of rows, then of columns
    if pairs.symmetric:
        tasks = [((r, c), {r, c}) for r, c in _order_triangle(n)]
        width = n // 2
    elif columns:
        tasks = [
            ((r, (r + c) % m), {r, n + (r + c) % m}) for c in range(m) for r in range(n)
        ]
        width = min(n, m)
    else:
        tasks = [((r, c), {r}) for c in range(m) for r in range(n)]
        width = n
    share_out(tasks, start, count_threads(x, y, width))


def _order_triangle(n: int) -> list[tuple[int, int]]:
    """Each pair out of n once; those next to each other have no member in common.

    >>> _order_triangle(4)
    [(0, 0), (1, 1), (2, 2), (3, 3), (0, 1), (2, 3), (1, 2), (3, 0), (0, 2), (1, 3)]
    """
    pairs = [(r, r) for r in range(n)]
    for gap in range(1, n // 2 + 1):
        first = range(gap if 2 * gap == n else n)
        pairs += [(r, (r + gap) % n) for r in sorted(first, key=lambda r: r // gap % 2)]
    return pairs


def _find_meetings(
    pairs: Pairs, row_spans: list[slice], column_spans: list[slice]
) -> list[list[bool]]:
    """Whether a tile can hold equal ids at all: most cannot, and skip the mask.

    Asking costs a wait for the device, so only a CPU is asked; a single tile is not.
    """
    worth = len(row_spans) + len(column_spans) > 2 and pairs.x.device.type == "cpu"
    if pairs.row_ids is None or pairs.column_ids is None or not worth:
        return [[True] * len(column_spans) for _ in row_spans]
    rows = [_find_range(pairs.row_ids[span]) for span in row_spans]
    columns = rows
    if pairs.column_ids is not pairs.row_ids or column_spans != row_spans:
        columns = [_find_range(pairs.column_ids[span]) for span in column_spans]
    return [[a <= d and c <= b for c, d in columns] for a, b in rows]


def _find_range(ids: Tensor) -> tuple[float | int, float | int]:
    low, high = torch.aminmax(ids)
    return low.item(), high.item()


def share_out(
    tasks: Sequence[tuple[Task, Set[int]]],
    start: Callable[[], Callable[[int, int], None]],
    n_threads: int,
) -> None:
    """Do all tasks; an error in one of them is raised here.

    Args:
        tasks: Each with the numbers of the sums that it adds to, in this order.
        start: Called once by every thread, so that it has memory of its own; returns
            what does a task.
        n_threads: With one, the caller does all of it, as it does where a mode such as
            ``FlopCounterMode`` watches operations: modes see their own thread alone.
    """
    if n_threads == 1 or torch._C._len_torch_dispatch_stack():
        work = start()
        for task, _ in tasks:
            work(*task)
        return
    turns = _Turns()
    queue = iter([(task, turns.issue(sums)) for task, sums in tasks])

    def run() -> None:
        # grad mode is a thread's own, and tensors of the caller's may be either kind
        with torch.inference_mode(), turns:
            work = start()
            for task, turn in queue:  # a list's iterator gives every task once
                if not turns.wait_for(turn):
                    return
                work(*task)
                turns.finish(turn)

    running: list[Future[None]] = []
    try:
        try:
            pool = _open_pool(n_threads, os.getpid())
            running += [pool.submit(run) for _ in range(n_threads)]
        except RuntimeError:  # Python is ending and starts no threads any more
            run()
        for thread in running:
            thread.result()
    finally:
        turns.stop()
        wait(running)


class _Turns:
    """Which tasks are finished, and whose turn it is to add to a sum.

    As a context manager it stops the other threads when one fails.
    """

    def __init__(self) -> None:
        self.issued: Counter[int] = Counter()
        self.finished: Counter[int] = Counter()
        self.stopped = False
        self.changed = threading.Condition()

    def issue(self, sums: Set[int]) -> list[Turn]:
        """The next turn at each of the sums."""
        turns = [(number, self.issued[number]) for number in sums]
        self.issued.update(sums)
        return turns

    def wait_for(self, turns: Sequence[Turn]) -> bool:
        """Wait until all of them have come; whether there is still something to do."""
        with self.changed:
            while not self.stopped and any(
                self.finished[number] != turn for number, turn in turns
            ):
                self.changed.wait()
        return not self.stopped

    def finish(self, turns: Sequence[Turn]) -> None:
        with self.changed:
            for number, _ in turns:
                self.finished[number] += 1
            self.changed.notify_all()

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.stop()


@cache
def _open_pool(n_threads: int, process: int) -> ThreadPoolExecutor:
    """Threads with one thread per operation; a process that was forked has its own."""
    started = threading.Barrier(n_threads + 1, timeout=60)

    def set_up() -> None:
        torch.get_num_threads()  # the first question sets the number
        torch.set_num_threads(1)  # for this thread alone
        started.wait()

    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(n_threads, thread_name_prefix="invariance")
    try:
        for _ in range(n_threads):
            pool.submit(set_up)
        started.wait()
    except BaseException:  # an interrupt: those that wait here would keep Python open
        started.abort()
        pool.shutdown(cancel_futures=True)
        raise
    finally:
        # a thread that starts later takes the number that was set last, by any thread
        torch.set_num_threads(before)
    return pool
