"""``invariance COMMAND``: reads the flags, runs the command, turns errors to words.

Exit codes: 0 done, 2 something the caller can mend, 130 stopped by a signal and saved.
"""

import dataclasses
import functools
import inspect
import operator
import os
import sys
import textwrap
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tyro

from .. import __version__
from ..devices import local_rank
from ..errors import InvarianceError, SettingError, unknown
from ..training import Train
from ._bench import Bench
from ._diagnose import Diagnose
from ._doctor import Doctor
from ._embed import Embed
from ._estimate import EstimateCommand
from ._evaluate import Evaluate
from ._export import Export
from ._list import List
from ._pack import Pack
from ._processes import end_with_starter, run_processes, starts_processes
from ._report import Report
from ._reproduce import Reproduce
from ._search import Search
from ._sweep import HELP as SWEEP_HELP
from ._sweep import Sweep, read_sweep
from ._train_command import split_config_file, train
from ._views import Views

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
    "search": Search,
    "views": Views,
    "estimate": EstimateCommand,
    "reproduce": Reproduce,
    "bench": Bench,
    "doctor": Doctor,
}
HELP = """usage: invariance COMMAND [OPTIONS]

Contrastive representation learning that fits small machines.
  invariance train            learn the generated shapes, in a minute or two
  invariance train FOLDER     learn images of your own
  invariance report RUN       see what came of it
  invariance COMMAND --help   all that a command can be told
  invariance --version        which version this is

commands:"""
FLAGS = tyro.constructors.ConstructorRegistry()
ASKED: list[Any] = []  # dataclasses whose flags are being made
UNSET = ("unset", "None")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    open_streams()
    end_with_starter()
    try:
        if given in (["--version"], ["-V"], ["version"]):
            print(f"invariance {__version__}")
            return 0
        if given in (["--help"], ["-h"], ["help"]):
            print(HELP)
            for name, command in COMMANDS.items():
                line = f"  {name:<9} {(inspect.getdoc(command) or '').splitlines()[0]}"
                print(textwrap.fill(line, 80, subsequent_indent=" " * 12))
            return 0
        command = parse(check_command(given))
        devices = getattr(command, "devices", 1)
        if starts_processes(devices):
            command.check()
            return run_processes(given, devices, command.again)
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
    """Where an output was closed (``>&-``), let what is said there go nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, nowhere)


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
            f"{first!r} is no command: 'invariance train {first}' would train on it."
        )
    raise SettingError(unknown("command", first, [*COMMANDS, "help", "version"]))


def parse(arguments: list[str]) -> Any:
    """The command and its settings; flags override what a file of settings says."""
    name, *rest = join_shards(arguments)
    how: dict[str, Any] = {"prog": f"invariance {name}", "registry": FLAGS}
    if name == "train":
        rest, start = split_config_file(rest)
        return tyro.cli(Train, args=rest, default=start, **how)
    if name == "sweep":
        if {"--help", "-h"} & set(rest) or not rest:
            print(SWEEP_HELP)
            raise SystemExit(0)
        return read_sweep(rest, lambda words: parse(["train", *words]))
    return tyro.cli(COMMANDS[name], args=rest, **how)


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


@FLAGS.struct_rule
def join_help(
    kind: tyro.constructors.StructTypeInfo,
) -> tyro.constructors.StructConstructorSpec | None:
    """Help without the line ends of the source, which would break its lines twice."""
    if not dataclasses.is_dataclass(kind.type) or kind.type in ASKED:
        return None
    ASKED.append(kind.type)  # the next time, tyro's own rule answers
    try:
        spec = tyro.constructors.ConstructorRegistry.get_struct_spec(kind)
    finally:
        ASKED.remove(kind.type)
    if not isinstance(spec, tyro.constructors.StructConstructorSpec):
        return None

    def join(text: Any) -> str:
        return " ".join(((text() if callable(text) else text) or "").split())

    fields = (
        dataclasses.replace(f, helptext=functools.partial(join, f.helptext))
        for f in spec.fields
    )
    return dataclasses.replace(spec, fields=tuple(fields))


@FLAGS.primitive_rule
def parse_switch(
    kind: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
    """On, off or left to us: true, false or auto, however they are written."""
    if typing.get_args(kind.type) != (bool, typing.Literal["auto"]):
        return None
    words: dict[str, bool | str] = {"auto": "auto", "true": True, "false": False}

    def read(given: list[str]) -> Any:
        if given[0].lower() not in words:
            raise ValueError(f"expected one of {', '.join(words)}: got {given[0]!r}")
        return words[given[0].lower()]

    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="{" + ",".join(words) + "}",
        instance_from_str=read,
        is_instance=lambda value: value in words.values(),
        str_from_instance=lambda value: [str(value).lower()],
    )


@FLAGS.primitive_rule
def parse_optional(
    kind: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
    """``X | None`` is shown as X alone; the word "unset" gives None."""
    options = typing.get_args(kind.type)
    if kind.type_origin not in (typing.Union, types.UnionType):
        return None
    if type(None) not in options:
        return None
    rest: Any = functools.reduce(
        operator.or_, (o for o in options if o is not type(None))
    )
    inner = tyro.constructors.ConstructorRegistry.get_primitive_spec(
        tyro.constructors.PrimitiveTypeInfo.make(rest, kind.markers)
    )
    if isinstance(inner, tyro.constructors.UnsupportedTypeAnnotationError):
        return None
    spec = inner

    def read(words: list[str]) -> Any:
        return None if words[0] in UNSET else spec.instance_from_str(words)

    def show(value: Any) -> list[str]:
        return [UNSET[0]] if value is None else spec.str_from_instance(value)

    return dataclasses.replace(
        spec,
        instance_from_str=read,
        str_from_instance=show,
        is_instance=lambda value: value is None or spec.is_instance(value),
        choices=None if spec.choices is None else (*spec.choices, *UNSET),
    )
