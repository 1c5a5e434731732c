"""Several processes for tests: forked, joined in a gloo group, with what each answers.

Forking costs a tenth of a second where starting Python and torch would cost four.
"""

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

SECONDS = 100  # that processes wait for one another


def on_processes(
    n_processes: int,
    work: Callable[[int], Any],
    folder: Path,
    *,
    torchrun: bool = False,
) -> list[Any]:
    """What ``work(rank)`` returns on each process of a group, in their order.

    With ``torchrun`` they are told what torchrun would tell them, and make the group
    themselves. If one of them fails, so does this, with what they all said.
    """
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    context = multiprocessing.get_context("fork")
    files = [folder / f"{n_processes}-{rank}.pt" for rank in range(n_processes)]
    processes = [
        context.Process(
            target=join, args=(rank, n_processes, port, work, file, torchrun)
        )
        for rank, file in enumerate(files)
    ]
    for file in files:  # of an earlier call: one that dies now leaves none
        file.unlink(missing_ok=True)
    for process in processes:
        process.start()
    for process in processes:
        process.join(3 * SECONDS)
    late = [process for process in processes if process.is_alive()]
    for process in late:
        process.kill()
    assert not late, f"{len(late)} of {n_processes} processes wait for ever."
    died = [k for k, file in enumerate(files) if not file.exists()]
    answers = [torch.load(f, weights_only=False) for f in files if f.exists()]
    problems = [text for _, text in answers if text]
    problems += [f"Process {rank} of {n_processes} died." for rank in died]
    assert not problems, "\n".join(problems)
    return [answer for answer, _ in answers]


def join(
    rank: int,
    n_processes: int,
    port: int,
    work: Callable[[int], Any],
    file: Path,
    torchrun: bool,
) -> None:
    """Be one process of the group."""
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}"}
    if torchrun:
        os.environ |= {
            **dict.fromkeys(("RANK", "LOCAL_RANK"), f"{rank}"),
            **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), f"{n_processes}"),
            "GROUP_RANK": "0",
            "TORCHELASTIC_RUN_ID": "tests",
        }
    answer, problem = None, ""
    try:
        if not torchrun:
            dist.init_process_group(
                "gloo",
                rank=rank,
                world_size=n_processes,
                timeout=timedelta(seconds=SECONDS),
            )
        answer = work(rank)
        if dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()
    except BaseException:
        problem = f"Process {rank} of {n_processes}:\n{traceback.format_exc()}"
    torch.save((answer, problem), file)
    os._exit(0)  # what the tests' process would do at its end is not repeated
