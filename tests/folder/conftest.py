"""Run folders made up in a moment."""

from tests.made_runs import made

__all__ = ["made"]
