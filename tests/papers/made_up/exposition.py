"""Made-up values for claims of the exposition."""

from tests.papers.cases import Case, wobble

CASES = {
    "any_critic": Case(
        supports=lambda s: {"bound": 1.9 + wobble(s)},
        contradicts=lambda s: {"bound": 2.4 + wobble(s)},
    ),
}
