"""A run folder in, one HTML file out; it reads files only."""

from ._report import write_report

__all__ = ["write_report"]
