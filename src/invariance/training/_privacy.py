r"""The privacy budget of noised rounds, by opacus' accountant, or none is claimed.

Neighbors differ in one whole client: with it and without it, its update being zero.
Updates of norm C at most and noise of deviation z C make a round that a client takes
part in one Gaussian mechanism with multiplier z. Who takes part is taken as known to
everyone, so nothing is gained by the draw: T rounds are T mechanisms, T being those of
the client that took part most often.
"""

import importlib.util
import math
from collections import Counter

from ..words import count
from ._clients import Rounds
from ._settings import Federated


def describe_privacy(
    settings: Federated,
    budget: tuple[float, float] | None,
    *,
    n_numbers: int,
    per_round: int,
) -> str:
    """What clipping and noise come to, in a sentence; nothing without them.

    Noise of deviation z C on each of d numbers has the length z C sqrt(d), about.
    """
    if settings.clip is None:
        return ""
    clipped = f"privacy: updates longer than {settings.clip:g} are scaled down"
    if settings.noise is None:
        return f"{clipped}; there is no noise (--federated.noise), so no privacy budget"
    times = float(f"{settings.noise * math.sqrt(n_numbers) / per_round:.2g}")
    noised = (
        f"{clipped}, and noise of {settings.noise:g} x {settings.clip:g} is added to "
        f"their sum (on the mean of {count(per_round, 'client')}, about {times:,g} "
        "times as long as the longest update)"
    )
    if budget is None:
        return (
            f"{noised}; the privacy budget is not stated, since opacus, which "
            "computes it, is not installed: pip install 'invariance[privacy]'"
        )
    epsilon, delta = budget
    return (
        f"{noised}: epsilon {epsilon:.3g} at delta {delta:.3g} for each whole client, "
        "by opacus' RDP accountant, for what the server sends out; this log and its "
        "readings are not covered"
    )


def privacy_budget(rounds: Rounds) -> tuple[float, float] | None:
    """Epsilon and the delta it holds at; None where opacus is not there to say it.

    Delta is a tenth of one over the number of clients.
    """
    noise = rounds.settings.noise
    if noise is None or importlib.util.find_spec("opacus") is None:
        return None
    from opacus.accountants import RDPAccountant

    n_rounds = max(Counter(visit.client for visit in rounds.visits).values())
    delta = 0.1 / len(rounds.active)
    accountant = RDPAccountant()
    accountant.history = [(noise, 1.0, n_rounds)]
    return float(accountant.get_epsilon(delta)), delta
