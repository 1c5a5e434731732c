"""Every reading of two views' embeddings at once, each with a sentence.

h is what the encoder gives and what is kept; z what the head makes of it and what is
trained on. Rows of the two views belong together; labels, where there are any, only
serve the tolerance.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from ..readings import Diagnosis, Reading
from ._spectrum import collapse, dimensions, effective_rank, singular_spectrum
from ._sphere import (
    alignment,
    energy_distance_to_uniform,
    mmd_to_uniform,
    tolerance,
    uniform_sphere_distance,
    uniform_sphere_uniformity,
    uniformity,
    wasserstein_to_uniform,
)
from ._view_pairs import (
    NEGATIVES,
    contrastive_accuracy,
    effective_sample_size,
    mutual_information_bound,
    similarity_histograms,
    split_info_nce,
)

KINDS = {"h": "features", "z": "projections"}


def diagnosis(
    h: Float[Tensor, "_ n e"],
    z: Float[Tensor, "_ n d"] | None = None,
    *,
    labels: Integer[Tensor, " n"] | None = None,
    temperature: float | int = 0.1,
    negatives: str = "cross",
    held_out: bool = True,
) -> Diagnosis:
    """What the embeddings of two views of n samples say about their encoder.

    Args:
        h: Features of both views, or of one where the other's come from an encoder of
            its own or are the same.
        z: Projections of both views, or of one where they are the same; None if there
            is no head to make them.
        labels: Classes, if there are any.
        temperature: Of the softmax that ESS and information are read with.
        negatives: Those of the ESS, as in ``effective_sample_size``.
        held_out: Whether the encoder was fitted to other samples; only then is the
            information certified.

    >>> import torch
    >>> rows = torch.randn(100, 16, generator=torch.Generator().manual_seed(0))
    >>> diagnosis(torch.stack([rows, rows]))["alignment", "h"].value
    0.0
    """
    kinds = {"h": h} if z is None else {"h": h, "z": z}
    readings: list[Reading] = []
    for of, rows in kinds.items():
        readings += _read_spread(of, rows, labels)
    of, rows = next(reversed(kinds.items()))
    u, v = rows[0], rows[-1]
    if len(rows) > 1:
        readings += _read_contrast(of, u, v, temperature, negatives, held_out)
    spectra = {of: singular_spectrum(rows[0]) for of, rows in kinds.items()}
    return Diagnosis(
        tuple(readings),
        {
            of: (s / s[:1].clamp_min(torch.finfo(s.dtype).tiny)).tolist()
            for of, s in spectra.items()
        },
        similarity_histograms(u, v) if len(rows) > 1 else {},
    )


def _read_spread(of: str, rows: Tensor, labels: Tensor | None) -> Iterator[Reading]:
    """Where the rows lie: near their partners, far from others, how many ways."""
    u = rows[0]
    kind, (n, d) = KINDS[of], u.shape
    if len(rows) > 1:
        value = alignment(u, rows[1])
        meaning = (
            f"The {kind} of two views of one sample lie {value:.2f} apart (squared; "
            "unrelated ones 2, identical ones 0)."
        )
        yield Reading("alignment", of, value, meaning, ideal=0.0, ceiling=4.0)
    value, ideal = uniformity(u), uniform_sphere_uniformity(d)
    meaning = (
        f"Rows spread evenly over the sphere of {d} dimensions read {ideal:.2f}, "
        f"identical rows 0: these {kind} are {_percent(value / ideal)} of the way "
        "there."
    )
    yield Reading("uniformity", of, value, meaning, ideal=ideal)
    if d > 1:
        value = wasserstein_to_uniform(u)
        word = "evenly" if value < 0.1 else "unevenly" if value < 0.3 else "narrowly"
        meaning = (
            f"The cosines of the {kind} are {value:.2f} from those of an even spread "
            f"(0; a collapse is 1): spread {word}."
        )
        yield Reading("wasserstein", of, value, meaning, ideal=0.0)
    value, most = mmd_to_uniform(u), 1 - math.exp(ideal)
    meaning = (
        f"By the kernel of the uniformity, the {kind} are {value:.3f} from an even "
        f"spread (0; a collapse is {most:.2f}; below 0, rows avoid each other)."
    )
    yield Reading("mmd", of, value, meaning, ideal=0.0, ceiling=most)
    value, most = energy_distance_to_uniform(u), uniform_sphere_distance(d)
    meaning = (
        f"Two {kind} lie {most - value:.2f} apart on average; spread evenly they "
        f"would lie {most:.2f} apart (energy distance 0), in a collapse 0."
    )
    yield Reading("energy distance", of, value, meaning, ideal=0.0, ceiling=most)
    value, most = effective_rank(u), min(n, d)
    meaning = (
        f"The {kind} use about {value:.0f} of {most} directions, weighted by their "
        "strength."
    )
    yield Reading("effective rank", of, value, meaning, ceiling=float(most))
    used, most = dimensions(u), min(n - 1, d)
    value = float(used.used)
    yield Reading("directions used", of, value, used.sentence, ceiling=float(most))
    alike = collapse(u)
    yield Reading("spread", of, alike.ratio, alike.sentence, ideal=1.0, ceiling=1.0)
    if labels is not None and len(labels.unique()) < len(labels):
        value = tolerance(u, labels)
        meaning = (
            f"Samples of one class have a mean cosine of {value:.2f} (unrelated rows "
            "0, a collapse 1)."
        )
        yield Reading("tolerance", of, value, meaning, ceiling=1.0)


def _read_contrast(
    of: str,
    u: Tensor,
    v: Tensor,
    temperature: float | int,
    negatives: str,
    held_out: bool,
) -> Iterator[Reading]:
    """What a contrast of these rows would see."""
    n = len(u)
    value = contrastive_accuracy(u, v)
    # digits where rounding to whole per cents would hide what is above chance
    meaning = (
        f"{_percent(value, 0 if value >= 0.1 else 2)} of the samples find their other "
        f"view among {n:,} (chance {_percent(1 / n, 2)})."
    )
    yield Reading("contrastive accuracy", of, value, meaning, ceiling=1.0)
    value = effective_sample_size(u, v, temperature=temperature, negatives=negatives)
    word = "a healthy part of the negatives teaches"
    if value < 0.05:
        word = "a few negatives do all the teaching"
    elif value > 0.8:
        word = "nearly all negatives weigh the same"
    meaning = (
        f"At temperature {temperature:.3g}, {_percent(value)} of the negatives "
        f"({NEGATIVES[negatives]}) carry the weight: {word}."
    )
    yield Reading("effective sample size", of, value, meaning, ceiling=1.0)
    parts = split_info_nce(u, v, temperature=temperature)
    meaning = (
        f"InfoNCE at temperature {temperature:.3g} is {parts.loss:.2f} nats: "
        f"{parts.alignment:.2f} for partners, {-1 / temperature:.2f} if they agreed,"
        f" and {parts.uniformity:.2f} for spreading rows."
    )
    how: Any = {"of": of, "unit": "nats"}
    yield Reading(
        "InfoNCE, alignment part",
        value=parts.alignment,
        meaning=meaning,
        ideal=-1 / temperature,
        **how,
    )
    meaning = (
        f"The mean log-partition over {n:,} candidates; {parts.even_uniformity:.2f} "
        "where partners agree and rows cover the sphere evenly."
    )
    yield Reading(
        "InfoNCE, uniformity part",
        value=parts.uniformity,
        meaning=meaning,
        ideal=parts.even_uniformity,
        **how,
    )
    bound = mutual_information_bound(u, v, temperature=temperature, held_out=held_out)
    yield Reading(
        "mutual information",
        of,
        bound.nats,
        bound.sentence,
        unit="nats",
        ceiling=bound.ceiling,
        reachable=bound.reachable,
    )


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"
