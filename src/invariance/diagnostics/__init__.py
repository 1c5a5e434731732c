"""How good embeddings are, read from the embeddings alone.

Every function takes plain tensors, one row a sample, and returns a float (or a small
value with a sentence): no gradient, at least float32, memory linear in the rows.

| reading | asks | healthy |
|---|---|---|
| ``alignment(u, v)`` | do two views of a sample agree? | well below 2 |
| ``uniformity(z)`` | do rows cover the sphere? | near ``uniform_sphere_uniformity(d)`` |
| ``wasserstein_to_uniform(z)`` | the same, by all cosines | near 0 |
| ``effective_rank(z)``, ``singular_spectrum(z)`` | how many directions are used? | a good part of min(n, d) |
| ``collapse(z)`` | do rows differ at all? | a ratio near 1 |
| ``tolerance(z, labels)`` | do classes stay together? | above 0, below 1 |
| ``contrastive_accuracy(u, v)`` | does an anchor find its partner? | above 1/n, below 1 |
| ``effective_sample_size(u, v)`` | how many negatives count? | 0.15 to 0.4 |
| ``mutual_information_bound(u, v)`` | what do the views share? | below its ceiling |
"""  # noqa: E501

from ._alignment import alignment
from ._collapse import Collapse, collapse
from ._contrastive_accuracy import contrastive_accuracy
from ._effective_rank import effective_rank, singular_spectrum
from ._effective_sample_size import effective_sample_size
from ._mutual_information import (
    InformationBound,
    mutual_information_bound,
)
from ._tolerance import tolerance
from ._uniformity import uniform_sphere_uniformity, uniformity
from ._wasserstein import wasserstein_to_uniform

__all__ = [
    "Collapse",
    "InformationBound",
    "alignment",
    "collapse",
    "contrastive_accuracy",
    "effective_rank",
    "effective_sample_size",
    "mutual_information_bound",
    "singular_spectrum",
    "tolerance",
    "uniform_sphere_uniformity",
    "uniformity",
    "wasserstein_to_uniform",
]
