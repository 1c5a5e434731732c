"""Processes that are started once and form groups of several sizes, one after another.

Starting one costs seconds and a check milliseconds, so every process runs all checks of
a file and tells what failed.
"""

import multiprocessing
import os
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

MOST_SECONDS = 400


def run_in_company(
    check: Callable[..., dict[str, str]], groups: Sequence[Sequence]
) -> dict[str, list[str]]:
    """What failed, by what was checked; a check fails where any process fails.

    Args:
        check: Called by every process of a group with the group's item; returns what it
            checked, with an empty string or what was wrong.
        groups: A sequence for each group, one item per process.
    """
    context, most = multiprocessing.get_context("fork"), max(map(len, groups))
    queue, ready = context.Queue(), context.Barrier(most)
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            context.Process(
                target=_work, args=(rank, groups, check, folder, queue, ready)
            )
            for rank in range(most)
        ]
        for process in processes:
            process.start()
        try:
            told = [queue.get(timeout=MOST_SECONDS) for _ in processes]
        finally:
            for process in processes:
                process.join(5)
                process.kill()
    answers: dict[str, list[str]] = {}
    for found in told:
        for name, message in found:
            answers.setdefault(name, []).append(message)
    return answers


def _work(rank, groups, check, folder, queue, ready):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    found = []
    for number, group in enumerate(groups):
        try:
            ready.wait(MOST_SECONDS)
        except threading.BrokenBarrierError:  # another process has failed
            break
        if rank >= len(group):
            continue
        store = dist.FileStore(f"{folder}/{number}", len(group))
        dist.init_process_group(
            "gloo",
            store=store,
            rank=rank,
            world_size=len(group),
            timeout=timedelta(seconds=120),
        )
        try:
            found += check(rank, group).items()
        except Exception:
            found.append((f"group {group}", traceback.format_exc()))
            ready.abort()
            break
        dist.barrier()
        dist.destroy_process_group()
    queue.put(found)
