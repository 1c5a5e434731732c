"""Made-up values for claims of the page."""

import math

from tests.papers.cases import Case, wobble

READINGS = ("uniformity", "alignment", "accuracy", "untrained", "rank", "ess")


def trained(s, **values: float) -> dict:
    """Of a training: what is not given is the same everywhere."""
    given = dict.fromkeys((*READINGS, "hard_share", "nats"), 0.5) | values
    return {name: value + wobble(s, 1e-3) for name, value in given.items()}


def heads(s, h: float, z: float) -> dict:
    """What is read before and after the head."""
    names = ("brightness", "contrast", "saturation", "hue", "colors", "class")
    return {f"{name}_h": h + wobble(s) for name in names} | {
        f"{name}_z": z - wobble(s) for name in names
    }


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
    "collapse": Case(
        supports=lambda s: trained(
            s, uniformity=-0.01 if s["method"] == "alignment alone" else -2.0
        ),
        contradicts=lambda s: trained(s, uniformity=-2.0),
    ),
    "small_tau": Case(
        supports=lambda s: trained(s, hard_share=0.9 - s["temperature"]),
        contradicts=lambda s: trained(s, hard_share=0.1 + s["temperature"]),
    ),
    "moco_roles": Case(
        supports=lambda s: trained(
            s, uniformity=-2.0 if s["roles"] == "query learns" else -0.1
        ),
        contradicts=lambda s: trained(s, uniformity=-2.0),
    ),
    "queue_or_batch": Case(
        supports=lambda s: trained(s, accuracy=40.0),
        contradicts=lambda s: trained(
            s, accuracy=45.0 if s["negatives"] == "large batch" else 30.0
        ),
    ),
    "more_negatives": Case(
        supports=lambda s: trained(
            s, nats=4 - 8 / s["negatives"], accuracy=45 - 80 / s["negatives"]
        ),
        contradicts=lambda s: trained(
            s, nats=s["negatives"] / 200, accuracy=s["negatives"] / 10
        ),
    ),
    "exercise_head": Case(
        supports=lambda s: heads(s, h=0.5, z=0.1),
        contradicts=lambda s: heads(s, h=0.1, z=0.5),
    ),
}
