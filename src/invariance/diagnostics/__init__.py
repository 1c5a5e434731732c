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
| ``information_by_pool(u, v)`` | what does a batch not see of it? | little |
| ``dimensions(z)`` | do rows lie on a few directions? | a good part of the width |
| ``gradient_signal_to_noise(u, v, f)`` | do batches agree which way to go? | above 0.1 |
| ``linear_r2(x, y)`` | is this number kept in the rows? | depends on the number |

``diagnosis(h, z)`` takes most of them at once, as ``Reading``s with a sentence each.
"""  # noqa: E501

from ._alignment import alignment
from ._collapse import Collapse, collapse
from ._contrastive_accuracy import contrastive_accuracy
from ._dimensions import Dimensions, dimensions
from ._effective_rank import effective_rank, singular_spectrum
from ._effective_sample_size import effective_sample_size
from ._gradient_noise import gradient_signal_to_noise
from ._mutual_information import (
    InformationBound,
    mutual_information_bound,
)
from ._pool import PooledInformation, information_by_pool, sharpest_temperature
from ._reading import Diagnosis, Reading
from ._regression import linear_r2
from ._rows import above_zero, as_labels, as_rows, score_chunks, unit_rows
from ._similarities import similarity_histograms
from ._summary import diagnosis
from ._tolerance import tolerance
from ._uniformity import uniform_sphere_uniformity, uniformity
from ._wasserstein import wasserstein_to_uniform

__all__ = [
    "Collapse",
    "Diagnosis",
    "Dimensions",
    "InformationBound",
    "PooledInformation",
    "Reading",
    "above_zero",
    "alignment",
    "as_labels",
    "as_rows",
    "collapse",
    "contrastive_accuracy",
    "diagnosis",
    "dimensions",
    "effective_rank",
    "effective_sample_size",
    "gradient_signal_to_noise",
    "information_by_pool",
    "linear_r2",
    "mutual_information_bound",
    "score_chunks",
    "sharpest_temperature",
    "similarity_histograms",
    "singular_spectrum",
    "tolerance",
    "uniform_sphere_uniformity",
    "uniformity",
    "unit_rows",
    "wasserstein_to_uniform",
]
