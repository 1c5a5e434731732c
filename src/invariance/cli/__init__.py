"""The command line: one file a command, settings as flags."""

from ._main import main, parse

__all__ = ["main", "parse"]
