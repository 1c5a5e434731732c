"""Made-up values for claims of dhel_kcl."""

from tests.papers.cases import Case

CASES: dict[str, Case] = {}
