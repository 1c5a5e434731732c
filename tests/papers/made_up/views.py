"""Made-up values for claims of the views paper."""

from tests.papers.cases import Case, wobble


def make_accuracy(settings, most):
    """Of a probe: best at noise 0.4, and something else with the most noise."""
    accuracy = {0.0: 50.0, 5.0: most}.get(settings["noise"], 60.0)
    accuracy += 10 * (settings["noise"] == 0.4) + wobble(settings)
    return {"accuracy": accuracy, "raw": 62.0, "nats": 1.0}


CASES: dict[str, Case] = {
    "vince_constant": Case(
        supports=lambda s: {
            "nats": 1.0,
            "without": 0.5,
            "with": -0.5 + wobble(s),
            "as_printed": -1.0,
            "info_nce": 0.5,
        },
        contradicts=lambda s: {
            "nats": 1.0,
            "without": 2.1,
            "with": 1.1 + wobble(s),
            "as_printed": 0.5,
            "info_nce": 0.5,
        },
    ),
    "rejection_normalizer": Case(
        supports=lambda s: {
            "nats": 1.0,
            "printed": 7.0 + wobble(s),
            "right": 0.8,
            "mean_weight": 9.0,
        },
        contradicts=lambda s: {
            "nats": 1.0,
            "printed": 0.8 + wobble(s),
            "right": 0.8,
            "mean_weight": 1.0,
        },
    ),
    "hard_safe_easy_overshoots": Case(
        supports=lambda s: {
            "nats": 1.0,
            "info_nce": 0.8,
            "hard": 0.4,
            "easy": 1.4 + wobble(s),
        },
        contradicts=lambda s: {
            "nats": 1.0,
            "info_nce": 0.8,
            "hard": 0.4,
            "easy": 0.8 + wobble(s),
        },
    ),
    "corollary_constant": Case(
        supports=lambda s: {"weighted": -1.0, "constant": -0.1, "excess": 0.9},
        contradicts=lambda s: {"weighted": -0.1, "constant": -1.0, "excess": -0.9},
    ),
    "vince_weighted": Case(
        supports=lambda s: {
            "weighted": 1e-12,
            "unweighted": 20 + wobble(s),
            "effective_share": 0.3,
        },
        contradicts=lambda s: {
            "weighted": 1e-12,
            "unweighted": 1e-12,
            "effective_share": 0.3,
        },
    ),
    "spirals": Case(
        supports=lambda s: make_accuracy(s, most=50.0),
        contradicts=lambda s: make_accuracy(s, most=70.0),
    ),
    "ring_positive": Case(
        supports=lambda s: {"nats": 1.0, "with": 0.6, "without": 1.3 + wobble(s)},
        contradicts=lambda s: {"nats": 1.0, "with": 0.6, "without": 0.7 + wobble(s)},
    ),
    "la_not_a_bound": Case(
        supports=lambda s: {
            "nats": 1.0,
            "ball": 0.5,
            "la": 1.2 + wobble(s),
            "least_gain": 0.2,
        },
        contradicts=lambda s: {
            "nats": 1.0,
            "ball": 0.5,
            "la": 0.4 + wobble(s),
            "least_gain": -0.2,
        },
    ),
    "acceptance_gradient": Case(
        supports=lambda s: {"printed": -1.0, "true": 0.5 + wobble(s), "exact": 0.0},
        contradicts=lambda s: {"printed": 0.5, "true": 0.5, "exact": 0.0},
    ),
}
