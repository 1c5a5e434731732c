"""``invariance COMMAND``: reads the flags, runs the command, turns errors to words.

Exit codes: 0 done, 2 something the caller can mend, 130 stopped by a signal and saved.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from .. import __version__
from ..errors import InvarianceError, SettingError, unknown
from ..training import Train
from ._config_file import split_config_file
from ._diagnose import Diagnose
from ._embed import Embed
from ._estimate import EstimateCommand
from ._evaluate import Evaluate
from ._export import Export
from ._list import List
from ._report import Report
from ._search import Search

COMMANDS: dict[str, Any] = {
    "train": Train,
    "evaluate": Evaluate,
    "diagnose": Diagnose,
    "embed": Embed,
    "export": Export,
    "list": List,
    "report": Report,
    "search": Search,
    "estimate": EstimateCommand,
}
DESCRIPTION = (
    "Contrastive representation learning that fits small machines. Start with "
    "'invariance train', which learns the generated shapes in a minute or two, or with "
    "'invariance train FOLDER' on images of your own; 'invariance report RUN' shows "
    "what came of it. 'invariance --version' names this version."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        if given == ["--version"]:
            print(f"invariance {__version__}")
            return 0
        given = check_command(given)
        rest, start = split_config_file(given)
        command = parse(rest, start)
        code = train(command) if isinstance(command, Train) else command.run()
        sys.stdout.flush()  # or a full disk would be met when nobody can tell any more
        return code
    except InvarianceError as error:
        if os.environ.get("LOCAL_RANK", "0") == "0":  # of several processes, one speaks
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


def check_command(given: list[str]) -> list[str]:
    """The words with ``help`` as a flag; a command nobody knows is answered in words.

    >>> check_command(["help", "train"])
    ['train', '--help']
    """
    first, *rest = given
    if first == "help":
        return [*rest, "--help"]
    if first in COMMANDS or first.startswith("-"):
        return given
    if Path(first).exists():
        raise SettingError(
            f"{first!r} is no command: 'invariance train {first}' would train on it."
        )
    raise SettingError(unknown("command", first, COMMANDS))


def parse(arguments: list[str], start: Train) -> Any:
    """The command and its settings; flags override what ``start`` holds."""
    commands: Any = Annotated[Train, tyro.conf.subcommand("train", default=start)]
    for name, command in COMMANDS.items():
        if name != "train":
            commands |= Annotated[command, tyro.conf.subcommand(name)]
    return tyro.cli(
        commands,
        prog="invariance",
        description=DESCRIPTION,
        args=arguments,
        config=(tyro.conf.OmitSubcommandPrefixes,),
    )


def train(settings: Train) -> int:
    """Train; torch is imported only now."""
    # Threads that spin while they wait slow each other down severalfold as soon as
    # anything else runs on the machine; asleep they cost next to nothing.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from ..training import Stopped
    from ..training import train as start

    try:
        start(settings)
    except Stopped:
        return 130
    return 0
