"""Run folders in, HTML or one figure out; it reads files only."""

from typing import TYPE_CHECKING

from ..late_imports import import_late
from ._compare import write_comparison
from ._live import Gaze, make_live_page, show_now
from ._report import write_report

if TYPE_CHECKING:
    from ._plot import plot

__all__ = [
    "Gaze",
    "make_live_page",
    "plot",
    "show_now",
    "write_comparison",
    "write_report",
]

# matplotlib takes a while, and a page needs none of it
__getattr__, __dir__ = import_late(__name__, {"_plot": "plot"})
