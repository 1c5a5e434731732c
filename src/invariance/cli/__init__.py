"""The command line: one file per command, settings as flags."""

from ._flags import list_flags
from ._main import COMMANDS, main, parse

__all__ = ["COMMANDS", "list_flags", "main", "parse"]
