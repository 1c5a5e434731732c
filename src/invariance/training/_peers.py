"""Peers: processes that train together notice when one of them is gone or hangs.

A collective waits for everybody, for half an hour, and says nothing meanwhile. So every
process keeps one more connection, to the first, over which a thread of its own sends a
beat per second. A process that ends, however it ends, closes its connection: that is
seen at once. One that is stopped, or whose machine is out of reach, falls silent: that
is seen after ``SILENCE`` seconds. The first process tells the others, and each ends,
the first with a sentence that says why.

Compiling, scoring and saving take as long as they like: the beat does not depend on the
main thread. Whoever was away itself, as after Ctrl-Z, counts anew before it blames
another.
"""

import contextlib
import os
import secrets
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from ..errors import InvarianceError, TrainingError

BEAT = 1.0  # seconds from one beat to the next
SILENCE = 15.0  # seconds without a beat until a process counts as hanging
GRACE = 3.0  # seconds for the main thread to end by itself before it is ended
JOINING = 60.0  # seconds for all to connect, once they have met
BYE, LOST = b"bye", b"lost "  # an empty line is a beat


class Peer(NamedTuple):
    """A process of the run."""

    rank: int
    pid: int
    host: str
    place: str
    """Equal where one process can end the other: machine and space of process ids."""

    def __str__(self) -> str:
        return f"Process {self.rank} (pid {self.pid} on {self.host})"


@dataclass
class Link:
    """A connection with a peer, and what is known over it."""

    socket: socket.socket
    peer: Peer
    heard: float
    """When something came last, by this process's clock."""
    unread: bytes = b""
    """The beginning of a line."""
    left: bool = False
    """Whether the peer has said goodbye."""
    closed: bool = False

    def send(self, line: bytes) -> None:
        """One line; nobody waits for a peer that does not listen."""
        with contextlib.suppress(OSError):
            self.socket.send(line + b"\n")

    def read(self) -> list[bytes]:
        """The lines that have come since the last time."""
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:  # the peer was killed before it had read everything
            data = b""
        self.closed = not data
        self.heard = time.monotonic()
        *lines, self.unread = (self.unread + data).split(b"\n")
        return lines


class Peers:
    """The other processes of a run, watched until the ``with`` block ends.

    Args:
        say: Called with a sentence before this process is ended.
        children: Processes that this one has started, by rank.
        parent: The process that has started this one, where it was the first of these.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        *,
        children: Mapping[int, "subprocess.Popen[bytes]"] | None = None,
        parent: int | None = None,
    ) -> None:
        self.say, self.children, self.parent = say, children or {}, parent
        self.rank = 0 if parent is None else 1
        self.advice = ""
        """What to do when a peer is lost, in a sentence."""
        self.verdict = ""
        """What has happened, once a peer is lost."""
        self.links: list[Link] = []
        self.met = threading.Event()
        self.lost = threading.Event()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True, name="peers")

    def meet(
        self,
        rank: int,
        n_processes: int,
        broadcast: Callable[[Any], Any],
        address: str = "127.0.0.1",
    ) -> None:
        """Connect with the others, who call this at the same time.

        Args:
            rank: Of this process.
            n_processes: That call.
            broadcast: Gives every process what the first one puts in.
            address: Where the others find the first process.
        """
        self.rank = rank
        me = Peer(rank, os.getpid(), socket.gethostname(), find_place())
        if rank == 0:
            with open_door(address) as door:
                token = secrets.token_hex(16)
                broadcast((door.getsockname()[1], token, tuple(me)))
                self.links = receive_peers(door, token, n_processes - 1)
            known = {link.peer.rank for link in self.links}
            for other in sorted({*range(1, n_processes)} - known):
                self.say(f"Process {other} did not connect, so it is not watched.")
        else:
            port, token, first = broadcast(None)
            try:
                link = socket.create_connection((address, port), timeout=JOINING)
                link.sendall("\t".join([token, *map(str, me)]).encode() + b"\n")
                self.links = [make_link(link, Peer(*first))]
            except OSError as cause:
                self.say(f"{me} is not watched: {cause}.")
        self.met.set()

    def __enter__(self) -> "Peers":
        self.thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # a collective fails a moment before it is known whose fault that was
        failed = isinstance(error, Exception) and not isinstance(error, InvarianceError)
        if failed:
            self.lost.wait(GRACE)
        self.over.set()
        self.thread.join()
        # who was asked to stop leaves with all the others, and the first leaves last
        asked = isinstance(error, KeyboardInterrupt) and kind is not KeyboardInterrupt
        polite = error is None or (asked and self.rank > 0)
        for link in self.links:
            link.send(BYE if polite else LOST + self._describe(error).encode())
            link.socket.close()
        if failed and self.lost.is_set():
            raise TrainingError(self.verdict) from None

    def _describe(self, error: BaseException | None) -> str:
        if not isinstance(error, Exception):
            return f"Process {self.rank} was interrupted"
        why = next(iter(str(error).splitlines()), type(error).__name__)
        return f"Process {self.rank} ended with an error ({why.rstrip('.')})"

    def _watch(self) -> None:
        """Beat, listen, and end the run when someone is missing."""
        last = time.monotonic()
        while not self.over.wait(0 if self.met.is_set() else BEAT / 4):
            message = ""
            if self.met.is_set():
                for link in self.links:
                    link.send(b"")
                message = self._listen(BEAT)
                now = time.monotonic()
                if now - last > SILENCE / 4:  # away itself: beats may wait to be read
                    for link in self.links:
                        link.heard = now
                last = now
                problem = message or self._find_missing()
            else:
                problem = self._find_unborn()
            if problem and not self.over.is_set():
                self._end(problem, seen=not message)
                return

    def _listen(self, seconds: float) -> str:
        """Take in what peers send; gives what one says of a loss, in words."""
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            for link in self.links:
                if not link.closed:
                    selector.register(link.socket, selectors.EVENT_READ, link)
            while (left := end - time.monotonic()) > 0 and not self.over.is_set():
                for key, _ in selector.select(min(left, BEAT / 4)):
                    link = key.data
                    for line in link.read():
                        link.left |= line == BYE
                        if line.startswith(LOST):
                            return str(line.removeprefix(LOST), errors="replace")
                    if link.closed:
                        selector.unregister(link.socket)
                        if not link.left:
                            return ""
        return ""

    def _find_unborn(self) -> str:
        """Which process has ended before all have met, in words."""
        if self.parent is not None and self.parent != os.getppid():
            return f"Process 0 (pid {self.parent}) has ended"
        for rank, child in self.children.items():
            if child.poll() is not None:
                return describe_end(rank, child)
        return ""

    def _find_missing(self) -> str:
        """Who is gone or silent, in words; nothing while all are well."""
        for link in self.links:
            if link.left:
                continue
            child = self.children.get(link.peer.rank)
            if link.closed and child is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(BEAT)
                    return describe_end(link.peer.rank, child)
            if link.closed:
                return f"{link.peer} has ended"
            if time.monotonic() - link.heard > SILENCE:
                if link.peer.place == find_place():  # else it would hold on to the run
                    with contextlib.suppress(OSError):
                        os.kill(link.peer.pid, signal.SIGKILL)
                return (
                    f"{link.peer} has not been heard of for {SILENCE:.0f} seconds (it "
                    "hangs, or its machine is out of reach)"
                )
        return ""

    def _end(self, problem: str, *, seen: bool) -> None:
        """Tell the others, and end this process if it does not end by itself.

        The first process speaks for all; the others where they themselves have seen
        what happened, which is when the first one is gone.
        """
        self.verdict = f"{problem}, so the run has ended. {self.advice}".strip()
        for link in self.links:
            link.send(LOST + problem.encode())
        self.lost.set()
        if self.rank > 0 and seen:
            self.say(self.verdict)
        if self.over.wait(GRACE):
            return
        if self.rank == 0:
            self.say(self.verdict)
        for child in self.children.values():
            child.kill()
        os._exit(2)


def make_link(connection: socket.socket, peer: Peer) -> Link:
    """A link from which one reads what there is."""
    connection.setblocking(False)
    return Link(connection, peer, time.monotonic())


def receive_peers(door: socket.socket, token: str, n_peers: int) -> list[Link]:
    """Links with those who know the token, as many as come in time."""
    links: list[Link] = []
    deadline = time.monotonic() + JOINING
    door.settimeout(BEAT)
    while len(links) < n_peers and time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            connection, _ = door.accept()
            links.append(make_link(connection, read_hello(connection, token)))
    return links


def open_door(address: str) -> socket.socket:
    """A listening socket at a free port, for this machine only where that is enough."""
    if address == "127.0.0.1":
        return socket.create_server((address, 0))
    if socket.has_dualstack_ipv6():
        return socket.create_server(
            ("", 0), family=socket.AF_INET6, dualstack_ipv6=True
        )
    return socket.create_server(("", 0))


def read_hello(link: socket.socket, token: str) -> Peer:
    """Who has connected; raises ValueError at a stranger."""
    link.settimeout(BEAT)
    line = b""
    while not line.endswith(b"\n") and len(line) < 1000:
        data = link.recv(1000)
        if not data:
            break
        line += data
    given, *who = line.decode().rstrip("\n").split("\t")
    if len(who) != len(Peer._fields) or not secrets.compare_digest(given, token):
        link.close()
        raise ValueError("not one of ours")
    rank, pid, host, place = who
    return Peer(int(rank), int(pid), host, place)


def find_place() -> str:
    """Machine and space of process ids; where it cannot be told, like no other."""
    try:
        space = Path("/proc/self/ns/pid").stat().st_ino
        machine = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8")
    except OSError:
        return secrets.token_hex(8)  # equal to nobody's
    return f"{machine.strip()}/{space}"


def describe_end(rank: int, child: "subprocess.Popen[bytes]") -> str:
    """How a process that this one has started came to its end."""
    code, who = child.returncode, f"Process {rank} (pid {child.pid})"
    if code is not None and code < 0:
        return f"{who} was killed by {signal.Signals(-code).name}"
    return f"{who} has ended" + (f" with exit code {code}" if code else "")
