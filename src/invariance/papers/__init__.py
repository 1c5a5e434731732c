"""The claims of five papers, each an experiment with a verdict.

A claim is one file under the folder of its paper, and an entry of ``CLAIMS``. It says
what is claimed and where, what is run, and what would refute it; the verdict is
computed from the numbers and their spread.

    from invariance.papers import CLAIMS, reproduce
    (result,) = reproduce("spirals")
    print(result.verdict.outcome, result.verdict.because)
"""

from ._all_claims import CLAIMS, PAPERS, Paper
from ._claim import Cell, Claim, Row, Rows, Verdict, grid
from ._pages import write_pages
from ._results import Result, read_result, require_whole
from ._run_claims import reproduce
from ._spread import Spread, compare, rank_correlation, show_spread

__all__ = [
    "CLAIMS",
    "PAPERS",
    "Cell",
    "Claim",
    "Paper",
    "Result",
    "Row",
    "Rows",
    "Spread",
    "Verdict",
    "compare",
    "grid",
    "rank_correlation",
    "read_result",
    "reproduce",
    "require_whole",
    "show_spread",
    "write_pages",
]
