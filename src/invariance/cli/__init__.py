"""The command line: one file a command, settings as flags."""

from ._main import main

__all__ = ["main"]
