"""``--devices N``: the same command N times, each time with its number.

The processes share the work out among themselves, as those of torchrun do. This one
starts them and waits: the first speaks for all, and what another has to say is shown
only where it fails. An interrupt is passed on, once; where one process ends badly the
others are stopped, and where this one ends they end too.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import IO

from ..devices import usable_cores
from ..errors import SettingError
from ..plain_numbers import check_least
from ..words import count

GRACE_SECONDS = 5.0  # for the others to end by themselves after one has failed
LOOK_SECONDS = 0.1
STARTER = "INVARIANCE_STARTER"  # who has started a process, by its id


def starts_processes(devices: int) -> bool:
    """Whether this process is to start others; those and torchrun's are not."""
    check_least("devices", devices, 1)
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started > 1 and devices not in (1, started):
        raise SettingError(
            f"{started} processes were started already, but --devices asks for "
            f"{devices}: leave it out."
        )
    if devices > usable_cores():  # there are no fewer of them than of GPUs
        raise SettingError(
            "devices is one process per GPU, or per core where there is none, but "
            f"this machine has {count(usable_cores(), 'core')}: got {devices}."
        )
    return devices > 1 and started == 1


def speaks() -> bool:
    """Whether this is the process that prints, of however many there are."""
    return os.environ.get("RANK", "0") == "0"


def end_with_starter() -> None:
    """End this process when the one that has started it by ``--devices`` is gone.

    That one may be killed, and then passes nothing on. The main thread may be waiting
    for another process, so it is not asked.
    """
    starter = int(os.environ.pop(STARTER, "0"))  # it is not that of processes from here
    if starter == 0:
        return

    def watch() -> None:
        while os.getppid() == starter:
            time.sleep(LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="starter").start()


def run_processes(arguments: Sequence[str], n: int, again: str) -> int:
    """Run a command n times and give the exit code of all of them.

    Args:
        arguments: of the command, as it was given.
        n: how many processes.
        again: what a person may do after one was killed.
    """
    threads = max(usable_cores() // n, 1)
    shared = dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(n))
    shared |= {"MASTER_ADDR": "127.0.0.1"}
    shared |= {"MASTER_PORT": str(free_port())}
    shared |= {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads))}
    if os.name == "posix":  # elsewhere Python may stand between a process and its own
        shared |= {STARTER: str(os.getpid())}
    processes: list[subprocess.Popen[bytes]] = []
    outputs: list[IO[bytes]] = []
    received: list[int] = []

    def receive(number: int, frame: object) -> None:
        stop(processes, signal.SIGKILL if number in received else number)
        received.append(number)

    kinds = [signal.SIGINT, signal.SIGTERM]
    hangup = getattr(signal, "SIGHUP", None)  # the terminal was closed
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:  # nohup
        kinds.append(hangup)
    before = {number: signal.signal(number, receive) for number in kinds}
    with contextlib.ExitStack() as files:
        try:
            for rank in range(n):
                outputs.append(files.enter_context(tempfile.TemporaryFile()))
                processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "invariance", *arguments],
                        env=os.environ | shared | {"RANK": str(rank)},
                        stdout=outputs[rank] if rank else None,
                        stderr=outputs[rank] if rank else None,
                        start_new_session=True,  # an interrupt comes from here alone
                    )
                )
            failed = wait(processes)
        finally:
            stop(processes, signal.SIGKILL)
            for number, handler in before.items():
                signal.signal(number, handler)
        codes = [process.returncode for process in processes]
        if received:
            return codes[0] if codes[0] > 0 else 128 + received[0]
        if failed is None:
            return 0
        return explain_failure(codes, failed, outputs[failed], again)


def wait(processes: Sequence["subprocess.Popen[bytes]"]) -> int | None:
    """Which process failed first; the others do not outlive it for long.

    Several may fail of one cause, and have a few seconds to say so.
    """
    failed, since = None, 0.0
    while any(process.poll() is None for process in processes):
        time.sleep(LOOK_SECONDS)
        codes = [process.poll() for process in processes]
        if failed is None and any(codes):
            failed, since = next(k for k, code in enumerate(codes) if code), time.time()
        if failed is not None and (
            (codes[failed] or 0) < 0 or time.time() - since > GRACE_SECONDS
        ):
            stop(processes, signal.SIGKILL)
    codes = [process.wait() for process in processes]
    if failed is None and any(codes):
        failed = next(k for k, code in enumerate(codes) if code)
    return failed


def stop(processes: Sequence["subprocess.Popen[bytes]"], number: int) -> None:
    """Send a signal to those that are still at work."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(number)


def explain_failure(
    codes: Sequence[int], rank: int, output: IO[bytes], again: str
) -> int:
    """Show what the one that failed has said, unless the first has spoken for all."""
    if codes[rank] < 0:
        print(
            f"invariance: process {rank + 1} of {len(codes)} was killed (signal "
            f"{-codes[rank]}); {again}.",
            file=sys.stderr,
        )
        return 128 - codes[rank]
    if codes[0] <= 0:
        output.seek(0)
        sys.stderr.write(output.read().decode("utf-8", "replace"))
    return codes[rank]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
