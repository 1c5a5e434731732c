"""Run folders in, one HTML file out; it reads files only."""

from ._compare import write_comparison
from ._report import write_report

__all__ = ["write_comparison", "write_report"]
