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


def share(s, *, bound):
    """A bound of 2 nats, with several views."""
    fixed = {"nats_of_pairs": 2.0, "nats_of_all": 3.0}
    return {"bound": bound + wobble(s), "own": -0.1 + wobble(s), **fixed}


def differ(s, *, printed, opposite):
    """Errors of the gradient with both signs."""
    errors = {"error_printed": printed, "error_opposite": opposite}
    return {**errors, "direction_printed": 1 - printed, "to_positive": -2 + wobble(s)}


def learn(s, gain):
    """Accuracies of a training, with its time."""
    return {"accuracy": 40 + gain + wobble(s), "untrained": 30.0, "seconds": 5.0}


def head(s, gains):
    """Accuracies of both sides of a head."""
    accuracy = 40 + gains.get(s["head"], 0) + wobble(s)
    return {"accuracy": accuracy, "above": 35.0}


def discard(s, *, h, z):
    """What is read of two augmentations."""
    h, z = h + wobble(s), z + wobble(s)
    values = {"mean_h": h, "mean_z": z}
    return values | {"from_h": {"crop": h, "hue": h}, "from_z": {"crop": z, "hue": z}}


def play(s, *, value):
    """The value of encoders, of which the first keeps most."""
    return {"value": value + wobble(s), "kept": 1 - s["angle"] / 90}


NWJ = {"nwj": 1.0, "nwj_without_one": 0.6}
GAINS = ("gain_importance", "gain_stratified", "gain_control variate")
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
    "jsd_bound": Case(
        supports=lambda s: {"printed": -0.5 + wobble(s)} | NWJ,
        contradicts=lambda s: {"printed": s["nats"] + 0.5 + wobble(s)} | NWJ,
    ),
    "dv_minibatch": Case(
        supports=lambda s: {"excess": -0.1 + wobble(s)},
        contradicts=lambda s: {"excess": 0.3 + wobble(s)},
    ),
    "binary_nce_log_k": Case(
        supports=lambda s: {
            "offset_printed": -math.log(s["k"]) + wobble(s),
            "offset_right": wobble(s),
        },
        contradicts=lambda s: {"offset_printed": wobble(s), "offset_right": wobble(s)},
    ),
    "multi_view_bound": Case(
        supports=lambda s: share(s, bound=1.9),
        contradicts=lambda s: share(s, bound=2.3),
    ),
    "gradient_sign": Case(
        supports=lambda s: differ(s, printed=2.0, opposite=1e-16),
        contradicts=lambda s: differ(s, printed=1e-16, opposite=2.0),
    ),
    "temperature_focus": Case(
        supports=lambda s: {
            "hard_share": 1 - 0.8 * s["temperature"] + wobble(s),
            "length": 1 / s["temperature"] + wobble(s),
        },
        contradicts=lambda s: {"hard_share": 0.1 + wobble(s), "length": 1 + wobble(s)},
    ),
    "cosine_critic": Case(
        supports=lambda s: {
            "kept": 0.99 + wobble(s, 1e-3),
            "r2_log_ratio": 0.9 + wobble(s),
            "r2_ratio": 0.2 + wobble(s),
        },
        contradicts=lambda s: {
            "kept": 0.5 + wobble(s),
            "r2_log_ratio": 0.5 + wobble(s),
            "r2_ratio": 0.2 + wobble(s),
        },
    ),
    "partition_error": Case(
        supports=lambda s: {"error": (1 + wobble(s)) / math.sqrt(s["n"])},
        contradicts=lambda s: {"error": 0.3 + wobble(s)},
    ),
    "partition_sampling": Case(
        supports=lambda s: dict.fromkeys(GAINS, 3 + wobble(s)),
        contradicts=lambda s: dict.fromkeys(GAINS, 0.8 + wobble(s)),
    ),
    "optimal_critic": Case(
        supports=lambda s: {"r2": 0.97 + wobble(s), "level_deviation": 1 + wobble(s)},
        contradicts=lambda s: {"r2": 0.3 + wobble(s), "level_deviation": 1 + wobble(s)},
    ),
    "sampling_cost": Case(
        supports=lambda s: learn(s, math.log(s["negatives"])),
        contradicts=lambda s: learn(s, -math.log(s["negatives"])),
    ),
    "batch_size_accuracy": Case(
        supports=lambda s: learn(s, math.log(s["batch_size"])),
        contradicts=lambda s: learn(s, -math.log(s["batch_size"])),
    ),
    "head_worth": Case(
        supports=lambda s: head(s, {"none": -5, "linear": -1}),
        contradicts=lambda s: head(s, {"none": 5, "linear": 1}),
    ),
    "head_discards": Case(
        supports=lambda s: discard(s, h=0.6, z=0.2),
        contradicts=lambda s: discard(s, h=0.2, z=0.6),
    ),
    "cosine_shifts": Case(
        supports=lambda s: {"scaled": 1e-16, "shifted": 0.5 + wobble(s)},
        contradicts=lambda s: {"scaled": 1e-16, "shifted": 1e-16},
    ),
    "encoder_game": Case(
        supports=lambda s: play(s, value=1 - s["angle"] / 90),
        contradicts=lambda s: play(s, value=s["angle"] / 90),
    ),
}
