"""Made-up values for claims of page."""

from tests.papers.cases import Case

CASES: dict[str, Case] = {}
