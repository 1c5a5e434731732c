"""``invariance COMMAND``: reads the flags, runs the command, turns errors to words.

Exit codes: 0 done, 2 something the caller can mend, 130 stopped by a signal and saved.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import tyro

from ..errors import InvarianceError
from ..training import Train
from ._config_file import split_config_file
from ._diagnose import Diagnose
from ._embed import Embed
from ._evaluate import Evaluate
from ._export import Export
from ._list import List
from ._report import Report
from ._search import Search

DESCRIPTION = (
    "Contrastive representation learning that fits small machines. Start with "
    "'invariance train', which learns the generated shapes in a minute or two, or with "
    "'invariance train FOLDER' on images of your own; 'invariance report RUN' shows "
    "what came of it."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        rest, start = split_config_file(given)
        command = parse(rest, start)
        return train(command) if isinstance(command, Train) else command.run()
    except InvarianceError as error:
        if os.environ.get("LOCAL_RANK", "0") == "0":  # of several processes, one speaks
            print(f"invariance: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("invariance: interrupted.", file=sys.stderr)
        return 130


def parse(arguments: list[str], start: Train) -> Any:
    """The command and its settings; flags override what ``start`` holds."""
    commands: Any = (
        Annotated[Train, tyro.conf.subcommand("train", default=start)]
        | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
        | Annotated[Diagnose, tyro.conf.subcommand("diagnose")]
        | Annotated[Embed, tyro.conf.subcommand("embed")]
        | Annotated[Export, tyro.conf.subcommand("export")]
        | Annotated[List, tyro.conf.subcommand("list")]
        | Annotated[Report, tyro.conf.subcommand("report")]
        | Annotated[Search, tyro.conf.subcommand("search")]
    )
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
