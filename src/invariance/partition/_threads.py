"""Tasks shared out to threads, and sums that do not depend on how many there are.

PyTorch shares every single operation out to its threads and waits for all of them at
its end. Thousands of tiles then are thousands of waits, and whenever another process
keeps one thread from its core, the others stand still. Here a thread takes whole tasks
and works alone, with operations of one thread.

Tasks that add to the same sums take turns in the order of their list, whoever computes
them: the sums have the same bits for any number of threads.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache

import torch

Task = tuple[int, int]
Turn = tuple[int, int]  # a sum, and how many tasks add to it before


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
