"""Made-up values for claims of flatnce."""

from tests.papers.cases import Case, wobble

# What a training of one small run costs, by the lines of the cost table.
TABLE = {"MoCo": 22_900.0, "SimCLR": 1_720.0, "CLIP": 634_000.0}


def cost(settings, *, cheap: float):
    """Dollars of a line; small batches on the cheap device cost so much."""
    small = settings["batch"] == 32
    dear = settings["device"] == "V100"
    dollars = TABLE.get(settings["line"], (2.0 if dear else cheap) if small else 1.0)
    return {"device_hours": 1.0, "dollars": dollars}


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
        supports=lambda s: cost(s, cheap=0.5),
        contradicts=lambda s: cost(s, cheap=1.5),
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
}
