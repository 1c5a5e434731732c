"""Made-up values for claims of flatnce."""

from tests.papers.cases import Case

CASES: dict[str, Case] = {}
