"""Made-up values for claims of the page."""

import math

from tests.papers.cases import Case, wobble

CASES: dict[str, Case] = {
    "log_n_off_by_one": Case(
        supports=lambda s: {
            "loss": 0.0,
            "nats": math.log(s["n"] + 0.5) + wobble(s, 1e-4),
        },
        contradicts=lambda s: {"loss": 0.7, "nats": math.log(s["n"]) - 0.3 + wobble(s)},
    ),
    "align_uniform_split": Case(
        supports=lambda s: {"loss": -2.0, "exact_error": 1e-15, "gap": wobble(s)},
        contradicts=lambda s: {"loss": -2.0, "exact_error": 0.1, "gap": wobble(s)},
    ),
    "exercise_negatives": Case(
        supports=lambda s: {
            "negatives": 2 * s["n"] - 2,
            "ceiling": math.log(2 * s["n"] - 1),
            "guess": math.log(2 * s["n"] - 1),
        },
        contradicts=lambda s: {
            "negatives": s["n"] - 1,
            "ceiling": math.log(s["n"]),
            "guess": math.log(s["n"]),
        },
    ),
}
