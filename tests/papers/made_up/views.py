"""Made-up values for claims of views."""

from tests.papers.cases import Case

CASES: dict[str, Case] = {}
