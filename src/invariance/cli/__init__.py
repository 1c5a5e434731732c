"""The command line: one file per command, settings as flags."""

from ._flags import list_flags
from ._main import COMMANDS, main, parse
from ._watch import make_server

__all__ = ["COMMANDS", "list_flags", "main", "make_server", "parse"]
