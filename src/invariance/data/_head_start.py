"""A folder read by other processes while this one does something else first.

Importing torch takes seconds, in which one core is busy. ``read_ahead`` is begun
before: a process finds the files of a folder, and all cores read them into memory that
they share with this one. ``load`` takes the images from there when it is asked for the
same. None of these processes knows torch, so making them takes next to no time.

It is only ever a head start. Where it cannot be made, or fails, ``load`` does the work
itself and says what is wrong.
"""

import contextlib
import dataclasses
import mmap
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from math import prod
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..devices import free_bytes
from ._load_request import MOST_RESIDENT, Request
from ._names import is_folder_of_files
from ._workers import choose_workers, may_fork

if TYPE_CHECKING:
    from ._folder import ImageFiles

PIECE = 32  # images that one process reads before it asks for more
ALONE_SECONDS = 0.05  # a process reads that long before it gets others to help
LOOK_SECONDS = 1.0  # how often a process looks whether it is still wanted

# Head starts by what they read, until load takes them.
BEGUN: dict[tuple[Path, Request], "HeadStart"] = {}


@contextlib.contextmanager
def read_ahead(
    data: str,
    *,
    image_size: int | None = None,
    labels: bool = True,
    hold_out: str = "auto",
) -> Iterator[None]:
    """Within this, a folder's images to train on are being read for ``load``.

    Nothing happens for data that are no folder, and where processes start slowly.
    """
    root = Path(data).expanduser()
    request = Request("train", image_size, labels=labels, hold_out=hold_out)
    if not may_fork() or not is_folder_of_files(data):
        yield
        return
    key = root.resolve(), request
    BEGUN[key] = head_start = HeadStart(root, request)
    try:
        yield
    finally:
        BEGUN.pop(key, None)
        head_start.stop()


def take_images(root: Path, request: Request) -> "tuple[ImageFiles, Any] | None":
    """The files of a folder and their images, where they were read ahead.

    The images are a shared array and, by number, why some of them could not be read;
    None where there are too many to keep.
    """
    request = dataclasses.replace(request, data_root=None, seed=0, kind=None)
    head_start = BEGUN.pop((root.resolve(), request), None)
    return None if head_start is None else head_start.wait()


class HeadStart:
    """A process that reads, and the memory it reads into."""

    def __init__(self, root: Path, request: Request) -> None:
        context = multiprocessing.get_context("fork")
        self.memory = os.memfd_create("invariance")
        self.answer, answer = context.Pipe(duplex=False)
        pipe = self.answer, answer
        self.process = context.Process(
            target=find_and_read, args=(root, request, self.memory, pipe, os.getpid())
        )
        self.process.start()
        answer.close()  # so that the other end knows when it is gone

    def wait(self) -> "tuple[ImageFiles, Any] | None":
        """What was read, as soon as it is there; None where that failed."""
        try:
            files, unreadable = self.answer.recv()
        except (EOFError, OSError):
            return None
        if unreadable is None:
            return files, None
        return files, (share_array(self.memory, files), unreadable)

    def stop(self) -> None:
        """End the process, whatever it does."""
        self.answer.close()
        self.process.terminate()
        self.process.join()
        os.close(self.memory)


def find_and_read(
    root: Path,
    request: Request,
    memory: int,
    pipe: tuple[Connection, Connection],
    parent: int,
) -> None:
    """What the process does: answer with the files, and why some cannot be read.

    It ends by itself when its parent is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one that waits is interrupted
    theirs, answer = pipe
    theirs.close()
    from ._folder import find_images  # and with it numpy and Pillow, beside torch

    with contextlib.suppress(Exception):  # load meets it again, and says it
        files = find_images(root, request)
        size = len(files.paths) * prod(files.shape)
        unreadable = None
        if size <= min(free_bytes("cpu") // 4, MOST_RESIDENT):
            os.ftruncate(memory, size)
            images = share_array(memory, files)
            unreadable = read_all_files(files, images, parent)
        answer.send((files, unreadable))  # raises if nobody is left to take it


def share_array(memory: int, files: "ImageFiles") -> Any:
    """The memory as an array of images, which all processes see."""
    import numpy as np

    shape = len(files.paths), *files.shape
    shared = mmap.mmap(memory, prod(shape)) if prod(shape) else b""
    return np.frombuffer(shared, np.uint8).reshape(shape)


def read_all_files(files: "ImageFiles", images: Any, parent: int) -> dict[int, str]:
    """Read every image into its place, by all cores as soon as that pays.

    Returns why some could not be read, by their numbers.
    """
    n = len(images)
    pieces = [range(k, min(k + PIECE, n)) for k in range(0, n, PIECE)]
    unreadable: dict[int, str] = {}
    began = time.perf_counter()
    while pieces and time.perf_counter() < began + ALONE_SECONDS:
        unreadable |= files.read_into(images, pieces.pop())
    if not pieces:
        return unreadable
    context = multiprocessing.get_context("fork")
    turn, boss = context.Value("q", 0), os.getpid()
    answers = []
    for _ in range(min(choose_workers(None, prod(files.shape))[0], len(pieces))):
        receiver, sender = context.Pipe(duplex=False)
        arguments = (files, images, pieces, turn, boss, sender)
        context.Process(target=help_reading, args=arguments, daemon=True).start()
        sender.close()
        answers.append(receiver)
    for answer in answers:
        while not answer.poll(LOOK_SECONDS):
            if os.getppid() != parent:
                raise SystemExit
        unreadable |= answer.recv()  # raises where a process was killed
    return dict(sorted(unreadable.items()))


def help_reading(
    files: "ImageFiles",
    images: Any,
    pieces: list[range],
    turn: Any,
    boss: int,
    answer: Connection,
) -> None:
    """Read one piece after another, as long as there are any and somebody waits."""
    unreadable: dict[int, str] = {}
    while os.getppid() == boss:
        with turn:
            turn.value, k = turn.value + 1, turn.value
        if k >= len(pieces):
            answer.send(unreadable)
            return
        unreadable |= files.read_into(images, pieces[k])
