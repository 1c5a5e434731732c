"""Run folders in, HTML out; it reads files only."""

from ._compare import write_comparison
from ._live import Gaze, make_live_page, show_now
from ._report import write_report

__all__ = ["Gaze", "make_live_page", "show_now", "write_comparison", "write_report"]
