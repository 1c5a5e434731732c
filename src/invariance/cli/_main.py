"""``invariance COMMAND``: reads the flags, runs the command, turns errors to words.

Exit codes: 0 done, 2 something the caller can fix, 130 stopped by a signal and saved.
"""

import inspect
import io
import os
import sys
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tyro

from .. import __version__
from ..devices import local_rank
from ..errors import InvarianceError, SettingError, unknown
from ..training import Train
from ._bench import Bench
from ._completion import Completion
from ._diagnose import Diagnose
from ._doctor import Doctor
from ._embed import Embed
from ._estimate import EstimateCommand
from ._evaluate import Evaluate
from ._export import Export
from ._flags import FLAGS
from ._help import ALL, make_short_help
from ._list import List
from ._pack import Pack
from ._processes import end_with_starter, run_processes, starts_processes
from ._report import Report
from ._reproduce import Reproduce
from ._search import Search
from ._share import Share
from ._sweep import HELP as SWEEP_HELP
from ._sweep import Sweep, read_sweep
from ._train_command import split_config_file, train
from ._views import Views
from ._watch import Watch

COMMANDS: dict[str, Any] = {
    "train": Train,
    "sweep": Sweep,
    "evaluate": Evaluate,
    "diagnose": Diagnose,
    "embed": Embed,
    "export": Export,
    "list": List,
    "pack": Pack,
    "report": Report,
    "watch": Watch,
    "search": Search,
    "share": Share,
    "views": Views,
    "estimate": EstimateCommand,
    "reproduce": Reproduce,
    "bench": Bench,
    "doctor": Doctor,
    "completion": Completion,
}
HELP = """usage: invariance COMMAND [OPTIONS]

Contrastive representation learning that fits small machines.
  invariance train            learn from generated shapes, in three minutes
  invariance train FOLDER     learn from your own images
  invariance report RUN       see the results
  invariance watch            follow running trainings in the browser
  invariance COMMAND --help   the options of a command
  invariance --version        the version

commands:"""
HELP_FLAGS = {"--help", "-h", ALL}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    open_streams()
    end_with_starter()
    if not sys.warnoptions:  # Pillow names no file, and what it cannot read we name
        warnings.filterwarnings("ignore", module=r"PIL\.")
    try:
        if given in (["--version"], ["-V"], ["version"]):
            print(f"invariance {__version__}")
            return 0
        if given in (["--help"], ["-h"], ["help"]):
            print(HELP)
            for name, command in COMMANDS.items():
                line = f"  {name:<10} {(inspect.getdoc(command) or '').splitlines()[0]}"
                print(textwrap.fill(line, 80, subsequent_indent=" " * 13))
            return 0
        command = parse(check_command(given))
        devices = getattr(command, "devices", 1)
        if starts_processes(devices):
            command.check()
            return run_processes(given, devices, command.again)
        # Threads that spin while they wait slow each other down severalfold as soon as
        # anything else runs on the machine; asleep they cost next to nothing.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        code = train(command) if isinstance(command, Train) else command.run()
        sys.stdout.flush()  # or a full disk would be met when nobody can tell any more
        return code
    except InvarianceError as error:
        if local_rank() == 0:  # of several processes, one speaks
            print(f"invariance: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("invariance: interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # 'invariance list methods | head -1' has all it wants
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        return 141  # as the shell says of other programs
    except OSError as error:
        name = "" if error.filename is None else f"{str(error.filename)!r}: "
        print(
            f"invariance: {name}{str(error.strerror or error).rstrip('.')}.",
            file=sys.stderr,
        )
        return 2


def open_streams() -> None:
    """Let every name be printed, and what is said to a closed output go nowhere.

    A file name may hold what a terminal without UTF-8, or no terminal at all, can show:
    it is then escaped.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by >&-
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, nowhere)
        elif isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def check_command(given: list[str]) -> list[str]:
    """The words with ``help`` as a flag; a command nobody knows is answered in words.

    >>> check_command(["help", "train"])
    ['train', '--help']
    """
    first, *rest = given
    if first == "help":
        return [*check_command(rest[:1]), "--help"]
    if first in COMMANDS:
        return given
    if Path(first).exists():
        raise SettingError(
            f"{first!r} is not a command: 'invariance train {first}' would train on it."
        )
    raise SettingError(unknown("command", first, [*COMMANDS, "help", "version"]))


def parse(arguments: list[str]) -> Any:
    """The command and its settings; flags override what a file of settings says."""
    name, *rest = join_shards(arguments)
    command = COMMANDS[name]
    how: dict[str, Any] = {"prog": f"invariance {name}", "registry": FLAGS}
    if name == "sweep" and (HELP_FLAGS & set(rest) or not rest):
        print(SWEEP_HELP)
        raise SystemExit(0)
    if ALL in rest:
        rest = ["--help"]
    elif HELP_FLAGS & set(rest) and hasattr(command, "shown_first"):
        print(make_short_help(name, command))
        raise SystemExit(0)
    if name == "train":
        rest, start = split_config_file(rest)
        return tyro.cli(Train, args=rest, default=start, **how)
    if name == "sweep":
        return read_sweep(rest, lambda words: parse(["train", *words]))
    return tyro.cli(command, args=rest, **how)


def join_shards(words: list[str]) -> list[str]:
    """The words with shards that follow each other as one, as a shell lists them.

    >>> join_shards(["train", "0.tar", "1.tar", "--epochs", "1"])
    ['train', '0.tar::1.tar', '--epochs', '1']
    """
    joined: list[str] = []
    for word in words:
        both = bool(joined) and all(w.endswith(".tar") for w in (word, joined[-1]))
        joined[-1:] = [f"{joined[-1]}::{word}"] if both else [*joined[-1:], word]
    return joined
