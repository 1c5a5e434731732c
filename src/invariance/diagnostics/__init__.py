"""How good embeddings are, read from the embeddings alone.

Every function takes plain tensors, one row per sample, and returns a float (or a small
value with a sentence): no gradient, at least float32, memory linear in the rows.

| reading | asks | healthy |
|---|---|---|
| ``alignment(u, v)`` | do two views of a sample agree? | well below 2 |
| ``uniformity(z)`` | do rows cover the sphere? | near ``uniform_sphere_uniformity(d)`` |
| ``wasserstein_to_uniform(z)`` | the same, by all cosines | near 0 |
| ``mmd_to_uniform(z)``, ``energy_distance_to_uniform(z)`` | the same, by a kernel, by distances | near 0 |
| ``effective_rank(z)``, ``singular_spectrum(z)`` | how many directions are used? | a good part of min(n, d) |
| ``collapse(z)`` | do rows differ at all? | a ratio near 1 |
| ``tolerance(z, labels)`` | do classes stay together? | above 0, below 1 |
| ``contrastive_accuracy(u, v)`` | does an anchor find its partner? | above 1/n, below 1 |
| ``effective_sample_size(u, v)`` | how many negatives count? | 0.05 to 0.8 |
| ``split_info_nce(u, v)`` | which part of InfoNCE is left? | near -1/tau, near that of an even cover |
| ``mutual_information_bound(u, v)`` | what do the views share? | below what it can reach |
| ``information_by_pool(u, v)`` | what does a batch not see of it? | little |
| ``dimensions(z)`` | do rows lie on a few directions? | a good part of the width |
| ``gradient_signal_to_noise(u, v, f)`` | do batches agree which way to go? | above 0.1 |
| ``weigh_batch_sizes(seconds)`` | which batch takes least time? | near its noise batch |
| ``linear_r2(x, y)`` | is this number kept in the rows? | depends on the number |

``diagnosis(h, z)`` takes most of them at once, as ``Reading``s with a sentence each.
What counts as collapsed or saturated is decided by ``is_collapsed`` and
``is_saturated``, here and everywhere else; ``reachable_information`` is the most that a
temperature lets the information bound show.
"""  # noqa: E501

from ..checked_rows import (
    above_zero,
    as_labels,
    as_rows,
    as_unit_rows,
    score_chunks,
    unit_pair,
)
from ..readings import Diagnosis, Reading
from ..thresholds import (
    is_collapsed,
    is_saturated,
    reachable_information,
    uses_few_directions,
)
from ._batch_size import BatchProposal, weigh_batch_sizes
from ._diagnosis import diagnosis
from ._probes import gradient_signal_to_noise, linear_r2
from ._spectrum import (
    Collapse,
    Dimensions,
    collapse,
    dimensions,
    effective_rank,
    singular_spectrum,
)
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
    InfoNCEParts,
    InformationBound,
    PooledInformation,
    contrastive_accuracy,
    effective_sample_size,
    find_partners,
    information_by_pool,
    mutual_information_bound,
    sharpest_temperature,
    similarity_histograms,
    split_info_nce,
)

__all__ = [
    "BatchProposal",
    "Collapse",
    "Diagnosis",
    "Dimensions",
    "InfoNCEParts",
    "InformationBound",
    "PooledInformation",
    "Reading",
    "above_zero",
    "alignment",
    "as_labels",
    "as_rows",
    "as_unit_rows",
    "collapse",
    "contrastive_accuracy",
    "diagnosis",
    "dimensions",
    "effective_rank",
    "effective_sample_size",
    "energy_distance_to_uniform",
    "find_partners",
    "gradient_signal_to_noise",
    "information_by_pool",
    "is_collapsed",
    "is_saturated",
    "linear_r2",
    "mmd_to_uniform",
    "mutual_information_bound",
    "reachable_information",
    "score_chunks",
    "sharpest_temperature",
    "similarity_histograms",
    "singular_spectrum",
    "split_info_nce",
    "tolerance",
    "uniform_sphere_distance",
    "uniform_sphere_uniformity",
    "uniformity",
    "unit_pair",
    "uses_few_directions",
    "wasserstein_to_uniform",
    "weigh_batch_sizes",
]
