"""Made-up values for claims of dhel_kcl."""

from tests.papers.cases import Case, wobble

STRICT = ("sum exp 3x", "sum softplus 3x", "(sum exp 3x)²")


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


def spread_out(s, accuracy: float) -> dict:
    """Of a training."""
    geometry = {"alignment": 0.3, "uniformity": -2.0, "rank": 12.0}
    return {"accuracy": accuracy + wobble(s), **geometry}


def ranks(s, rank: float) -> dict:
    """Of projections and features."""
    return {"rank_z": rank + wobble(s), "rank_h": rank - wobble(s), "accuracy": 40.0}


def vary(s, points: float) -> dict:
    """So many points up or down with the hyperparameter."""
    return {"value": 1.0, "accuracy": 40 + points * s["factor"] + wobble(s)}


def evenness(s, telling: str) -> dict:
    """Of seven encoders, in whose order one measure alone is right."""
    place = float(sum(map(ord, s["encoder"])) % 97)
    noise = {"wasserstein": 0.0, "uniformity": 0.0, "mmd": 0.0, "energy": 0.0}
    noise = {name: wobble({**s, "of": name}) for name in noise}
    return {**noise, telling: -place, "accuracy": place}


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
    "dhel_parts": Case(
        supports=lambda s: spread_out(s, 45 if s["parts"] == "DHEL" else 40),
        contradicts=lambda s: spread_out(s, 40 if s["parts"] == "DHEL" else 45),
    ),
    "small_batches_dhel": Case(
        supports=lambda s: spread_out(s, 40 if s["objective"] == "InfoNCE" else 45),
        contradicts=lambda s: spread_out(s, 45 if s["objective"] == "InfoNCE" else 40),
    ),
    "rank_dhel": Case(
        supports=lambda s: ranks(s, 20 if s["objective"] == "DHEL" else 10),
        contradicts=lambda s: ranks(s, 10 if s["objective"] == "DHEL" else 20),
    ),
    "temperature_sensitivity": Case(
        supports=lambda s: vary(s, 8 if s["varied"] == "InfoNCE, tau" else 1),
        contradicts=lambda s: vary(s, 1 if s["varied"] == "InfoNCE, tau" else 8),
    ),
    "augmentation_strength": Case(
        supports=lambda s: spread_out(s, 40 - 8 * abs(s["strength"] - 1)),
        contradicts=lambda s: spread_out(s, 60 - 10 * s["strength"]),
    ),
    "uniformity_predictors": Case(
        supports=lambda s: evenness(s, "wasserstein"),
        contradicts=lambda s: evenness(s, "uniformity"),
    ),
}
