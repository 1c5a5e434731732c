"""Made-up values for claims of the views paper."""

from tests.papers.cases import Case, wobble


def make_accuracy(settings, most):
    """Of a probe: best at noise 0.4, and something else with the most noise."""
    accuracy = {0.0: 50.0, 5.0: most}.get(settings["noise"], 60.0)
    accuracy += 10 * (settings["noise"] == 0.4) + wobble(settings)
    return {"accuracy": accuracy, "raw": 62.0, "nats": 1.0}


def make_arm(settings, **accuracies):
    """Accuracy of an arm, by the letters that its name begins with."""
    arm = settings["arm"]
    (accuracy,) = [v for k, v in accuracies.items() if arm.startswith(k.strip("_"))]
    return {"accuracy": accuracy + wobble(settings), "untrained": 30.0}


def make_views(settings, nothing, crop):
    """Accuracy with all views, with none, and without crops; others do not matter."""
    accuracy = {"none at all": nothing, "no crop": crop}.get(settings["arm"], 60.0)
    return {"accuracy": accuracy + wobble(settings), "untrained": 30.0}


def make_momentum(settings, last, slow):
    """Accuracy with the last view alone, with many, and with the usual bank."""
    accuracy = {"0.0": last, "0.98": slow}.get(settings["arm"], 60.0)
    return {"accuracy": accuracy + wobble(settings), "untrained": 30.0}


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
    "masked_words": Case(
        supports=lambda s: {
            "loss": 3.0,
            "entropy": 3.0,
            "printed": 0.6 + wobble(s),
            "right": wobble(s),
        },
        contradicts=lambda s: {
            "loss": 3.6,
            "entropy": 3.0,
            "printed": -0.1 + wobble(s),
            "right": -0.6,
        },
    ),
    "local_dim": Case(
        supports=lambda s: make_arm(s, local=60.0, _global=50.0),
        contradicts=lambda s: make_arm(s, local=50.0, _global=60.0),
    ),
    "bank_is_a_view": Case(
        supports=lambda s: {
            "scale": 2.0,
            "predicted_scale": 2.0,
            "length": 0.7,
            "cosine": 1.0,
            "cosine_of_bank": 1.0,
        },
        contradicts=lambda s: {
            "scale": 1.0,
            "predicted_scale": 2.0,
            "length": 0.7,
            "cosine": 1.0,
            "cosine_of_bank": 1.0,
        },
    ),
    "ir_is_info_nce": Case(
        supports=lambda s: {
            "loss_error": 1e-12,
            "gradient_error": 1e-12,
            "nats": 2.0,
            "ceiling": 3.0,
        },
        contradicts=lambda s: {
            "loss_error": 0.1,
            "gradient_error": 1e-12,
            "nats": 2.0,
            "ceiling": 3.0,
        },
    ),
    "ball_ring_ir": Case(
        supports=lambda s: make_arm(s, all=50.0, ball=60.0, ring=61.0),
        contradicts=lambda s: make_arm(s, all=60.0, ball=50.0, ring=51.0),
    ),
    "la_or_ring": Case(
        supports=lambda s: make_arm(s, Local=60.0, ring=50.0),
        contradicts=lambda s: make_arm(s, Local=50.0, ring=60.0),
    ),
    "augmentations": Case(
        supports=lambda s: make_views(s, nothing=30.0, crop=45.0),
        contradicts=lambda s: make_views(s, nothing=65.0, crop=60.0),
    ),
    "temperature_07_or_1": Case(
        supports=lambda s: {"accuracy": 60 + wobble(s), "untrained": 30.0},
        contradicts=lambda s: {
            "accuracy": 50 + 20 * float(s["arm"]) + wobble(s),
            "untrained": 30.0,
        },
    ),
    "bank_momentum": Case(
        supports=lambda s: make_momentum(s, last=60.0, slow=50.0),
        contradicts=lambda s: make_momentum(s, last=50.0, slow=70.0),
    ),
    "vince_plus": Case(
        supports=lambda s: make_arm(s, learned=60.0, nearest=50.0, none=50.0),
        contradicts=lambda s: make_arm(s, learned=50.0, nearest=60.0, none=50.0),
    ),
}
