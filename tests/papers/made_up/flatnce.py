"""Made-up values for claims of flatnce."""

from tests.papers.cases import Case, wobble


def cost(settings, *, hours: float):
    """A line of the table, or a batch; those on the cheap device take so many hours."""
    price = 2.48 if settings["device"] == "V100" else 0.35
    total = hours if settings["device"] == "T4" else 1.0
    prices = {"lowest_price": price, "highest_price": price}
    return {"device_hours": total, "dollars": total * price, **prices}


def curves(settings, pool: float, growth: float = 0.1):
    """A run whose mini-batches are tied and whose pool ends there."""
    end = pool + wobble(settings)
    return {
        "batch_nats": 2.7,
        "pool_nats": end,
        "growth": growth + wobble(settings),
        "steps_read": [0.0, 1.0],
        "batch_curve": [0.0, 2.7],
        "pool_curve": [0.0, end],
    }


def shares(settings, end: float):
    """An ESS that starts at 0.2."""
    start, end = 0.2 + wobble(settings), end + wobble(settings, 0.005)
    worth = {"pool_nats": 5.0, "accuracy": 70.0}
    return {"start": start, "end": end, **worth, "curve": [start, end]}


def informative(settings, reading: str, other: str):
    """One reading goes with accuracy, the other one does not."""
    start = 10 * settings["seed"] + settings["batch"]
    accuracy = [float(start + k) for k in range(6)]
    noise = [1.0, 4.0, 2.0, 5.0, 0.0, 3.0]
    return {"accuracy": accuracy, reading: accuracy, other: noise}


CASES: dict[str, Case] = {
    "saturation_precision": Case(
        supports=lambda s: {
            "error": 0.9 if s["way"] == "plain" and s["gap"] > 10 else 1e-3,
            "nats": 3.0,
        },
        contradicts=lambda s: {"error": 1e-3, "nats": 3.0},
    ),
    "gradient_variance": Case(
        supports=lambda s: {
            "noise": (2 if s["objective"] == "info_nce" else 1) * (64 / s["n"])
            + wobble(s)
        },
        contradicts=lambda s: {
            "noise": (1 if s["objective"] == "info_nce" else 2) * (64 / s["n"])
            + wobble(s)
        },
    ),
    "flat_is_dcl": Case(
        supports=lambda s: {"from_dcl": 1e-15, "from_weighted": 1e-15, "cosine": 0.9},
        contradicts=lambda s: {"from_dcl": 0.1, "from_weighted": 1e-15, "cosine": 0.9},
    ),
    "zero_variance": Case(
        supports=lambda s: {
            "value": 1.0,
            "deviation": 0.0 if s["objective"] == "flat_nce" else 0.1,
            "noise": 3 + wobble(s),
        },
        contradicts=lambda s: {"value": 1.0, "deviation": 0.1, "noise": 3 + wobble(s)},
    ),
    "term_dropping_unstable": Case(
        supports=lambda s: {"error": 1.0 if s["way"].startswith("drop") else 1e-3},
        contradicts=lambda s: {"error": 1.0 if s["way"].endswith("exp") else 1e-3},
    ),
    "ess_range": Case(
        supports=lambda s: {"printed": 1 - 1 / s["n"], "corrected": 1.0},
        contradicts=lambda s: {"printed": 1.0, "corrected": 1.0},
    ),
    "cost_table": Case(
        supports=lambda s: cost(s, hours=5.0),
        contradicts=lambda s: cost(s, hours=10.0),
    ),
    "table_s2": Case(
        supports=lambda s: {
            "printed": s["nats"] - 1 + wobble(s),
            "corrected": s["nats"] + wobble(s),
        },
        contradicts=lambda s: {
            "printed": s["nats"] + wobble(s),
            "corrected": s["nats"] + wobble(s),
        },
    ),
    "proposition_s1_sign": Case(
        supports=lambda s: {"cosine": -1.0, "ratio": 1.0},
        contradicts=lambda s: {"cosine": 1.0, "ratio": 1.0},
    ),
    "flo_formula": Case(
        supports=lambda s: {
            "printed": s["nats"] - 2 + wobble(s),
            "corrected": s["nats"] + wobble(s),
            "gap_at_mean": 0.4,
            "gap_at_log": 1e-15,
        },
        contradicts=lambda s: {
            "printed": s["nats"] + wobble(s),
            "corrected": s["nats"] + 2 + wobble(s),
            "gap_at_mean": 1e-15,
            "gap_at_log": 0.4,
        },
    ),
    "leave_one_out": Case(
        supports=lambda s: {"nats": 2.2 + wobble(s)},
        contradicts=lambda s: {"nats": 2.9 + wobble(s)},
    ),
    "holder_family": Case(
        supports=lambda s: {
            "error": 1e-12,
            "from_mean": 1e-3,
            "from_max": 1e-3,
            "from_min": 1e-3,
        },
        contradicts=lambda s: {
            "error": 0.3,
            "from_mean": 1e-3,
            "from_max": 1e-3,
            "from_min": 1e-3,
        },
    ),
    "ess_schedule_sign": Case(
        supports=lambda s: {
            "end": 1.0 if s["rule"] == "printed" else s["target"] + wobble(s),
            "inverse_temperature": 1.0,
        },
        contradicts=lambda s: {
            "end": s["target"] + wobble(s),
            "inverse_temperature": 1.0,
        },
    ),
    "log_k_curse": Case(
        supports=lambda s: (
            curves(s, 6.0, growth=0.5)
            if s["objective"] == "flat_nce"
            else curves(s, 5.0)
        ),
        contradicts=lambda s: curves(s, 5.0 if s["objective"] == "flat_nce" else 6.0),
    ),
    "ess_over_training": Case(
        supports=lambda s: shares(s, 0.4 if s["objective"] == "flat_nce" else 0.1),
        contradicts=lambda s: shares(s, 0.1),
    ),
    "small_batch": Case(
        supports=lambda s: {
            "accuracy": (70 if s["objective"] == "FlatNCE" or s["batch"] == 256 else 60)
            + wobble(s, 0.1)
        },
        contradicts=lambda s: {
            "accuracy": (70 if s["batch"] == 256 else 60) + wobble(s, 0.1)
        },
    ),
    "large_batch_speed": Case(
        supports=lambda s: {"accuracy": s["batch"] / 4 + wobble(s), "untrained": 5.0},
        contradicts=lambda s: {
            "accuracy": 50 - s["batch"] / 4 + wobble(s),
            "untrained": 5.0,
        },
    ),
    "true_mi_accuracy": Case(
        supports=lambda s: informative(s, "pool_nats", "batch_nats"),
        contradicts=lambda s: informative(s, "batch_nats", "pool_nats"),
    ),
    "fixed_ess": Case(
        supports=lambda s: {
            "accuracy": 70 - 20 * abs(s["target"] - 0.3) + wobble(s),
            "ess": s["target"],
        },
        contradicts=lambda s: {
            "accuracy": 50 + 20 * s["target"] + wobble(s),
            "ess": s["target"],
        },
    ),
}
