"""Made-up values for claims of dhel_kcl."""

from tests.papers.cases import Case, wobble

STRICT = ("sum exp 3x", "sum softplus 3x", "(sum exp 3x)²", "log(1 + sum exp 3x)")


def end_at(distance: float, s) -> dict:
    """Of a descent that ends so far from the simplex."""
    return {
        "distance": distance,
        "alignment": 0.0,
        "uniformity": -4.0,
        "loss": 1.0 + wobble(s),
        "simplex_loss": 2.0,
        "excess": -0.1,
        "cosines": [-0.1 + distance, 0.2],
    }


CASES: dict[str, Case] = {
    "simplex": Case(
        supports=lambda s: end_at(0.6 if s["points"] == "8 in 3" else 0.001, s),
        contradicts=lambda s: end_at(0.6, s),
    ),
    "same_minimizer": Case(
        supports=lambda s: end_at(0.7 if s["batches"] == "fixed batches" else 0.001, s),
        contradicts=lambda s: end_at(
            0.001 if s["batches"] == "all at once" else 0.4, s
        ),
    ),
    "convexity": Case(
        supports=lambda s: {
            "distance": 0.001 if s["member"] in STRICT else 0.5,
            "gain": 0.0 if s["member"] in STRICT else 0.1,
        },
        contradicts=lambda s: {"distance": 0.5, "gain": 0.1},
    ),
    "released_dhel": Case(
        supports=lambda s: {
            "released": 1.0,
            "symmetric": 1.0,
            "formula": 3.0,
            "gradient_error": 0.1,
            "weight": 1.0,
        },
        contradicts=lambda s: {
            "released": 3.0,
            "symmetric": 1.0,
            "formula": 3.0,
            "gradient_error": 0.0,
            "weight": 2.0,
        },
    ),
    "kcl_batch_free": Case(
        supports=lambda s: {
            "loss": wobble(s) + (0 if s["objective"] == "KCL" else s["n"] ** 0.5),
            "deviation": 1.0,
        },
        contradicts=lambda s: {"loss": wobble(s) + s["n"] ** 0.5, "deviation": 1.0},
    ),
    "kcl_gradient_variance": Case(
        supports=lambda s: {
            "bias": wobble(s, 1e-3),
            "signal": 0.1 * s["n"] ** 0.5,
            "samples_for_one": 100.0,
        },
        contradicts=lambda s: {
            "bias": 1 / s["n"] + wobble(s, 1e-3),
            "signal": 0.1 * s["n"] ** 0.5,
            "samples_for_one": 100.0,
        },
    ),
}
