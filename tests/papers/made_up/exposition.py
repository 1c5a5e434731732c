"""Made-up values for claims of the exposition."""

import math

from tests.papers.cases import Case, wobble


def prove(s, *, gap, excess):
    """Steps of the printed proof: true ones have neither gap nor excess."""
    bound = 2 - gap + wobble(s)
    loss = math.log(s["n"]) - bound
    printed = loss - gap + wobble(s, 1e-3)
    return {
        "loss": loss,
        "loss_printed": printed,
        "bound": bound,
        "bound_printed": math.log(s["n"]) - printed,
        "third_printed": excess + wobble(s, 1e-3),
        "third_right": wobble(s, 1e-3),
        "excess_printed": excess + wobble(s, 1e-3),
        "excess_right": 0.0,
    }


CASES = {
    "any_critic": Case(
        supports=lambda s: {"bound": 1.9 + wobble(s)},
        contradicts=lambda s: {"bound": 2.4 + wobble(s)},
    ),
    "printed_proof": Case(
        supports=lambda s: prove(s, gap=0.5, excess=2.0),
        contradicts=lambda s: prove(s, gap=0.0, excess=0.0),
    ),
    "tight_in_k": Case(
        supports=lambda s: {"bound": 1.0, "gap": 4 / s["n"] + wobble(s, 1e-4)},
        contradicts=lambda s: {"bound": 1.0, "gap": 0.5 + wobble(s, 1e-4)},
    ),
    "bias_in_k": Case(
        supports=lambda s: {"bias": -0.1, "printed": -0.1, "share": 1 + wobble(s)},
        contradicts=lambda s: {"bias": -0.3, "printed": -0.1, "share": 3 + wobble(s)},
    ),
}
