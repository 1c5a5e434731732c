r"""Clustering: whether groups found without labels are the classes.

$$\mathrm{NMI} = \frac{2\,I(Y;C)}{H(Y)+H(C)},\qquad
  \mathrm{ARI} =
  \frac{\mathrm{RI} - \mathrm E\,\mathrm{RI}}{1 - \mathrm E\,\mathrm{RI}}$$

with C the clusters of k-means on rows of unit length, as many as there are classes
unless said. Both are 1 when clusters and classes agree; ARI is 0 in expectation for
random clusters, NMI a little above. The labels only score: they choose nothing.
"""

from jaxtyping import Float, Integer
from torch import Tensor

from ..checked_rows import as_labels, as_unit_rows
from ..errors import SettingError
from ._labeled import one_class_each
from ._score import Score, Setting

STARTS = 10


def clustering(
    h: Float[Tensor, "n e"],
    labels: Integer[Tensor, " n"],
    *,
    n_clusters: int | None = None,
    starts: int = STARTS,
    seed: int = 0,
) -> list[Score]:
    """NMI and ARI of k-means clusters against the labels.

    Args:
        h: embeddings, normalized here.
        labels: their classes, any integers.
        n_clusters: None takes the number of classes.
        starts: k-means runs from other centres, of which the tightest counts.
        seed: of the centres.

    >>> import torch
    >>> h, labels = torch.eye(3).repeat(5, 1), torch.arange(3).repeat(5)
    >>> [(s.metric, round(s.value, 6)) for s in clustering(h, labels)]
    [('nmi', 1.0), ('ari', 1.0)]
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    one_class_each(labels, "Clustering")
    rows = as_unit_rows(h, "h").cpu()
    truth = as_labels(labels, len(rows)).cpu()
    k = len(truth.unique()) if n_clusters is None else n_clusters
    if not 1 <= k <= len(rows) or starts < 1:
        raise SettingError(
            f"n_clusters lies between 1 and the {len(rows)} rows, starts is at least "
            f"1: got {k} and {starts}."
        )
    means = KMeans(k, n_init=starts, random_state=seed).fit(rows.double().numpy())
    clusters, y = means.labels_, truth.numpy()
    settings: dict[str, Setting] = {"k": k, "starts": starts, "seed": seed}
    values = {
        "nmi": float(normalized_mutual_info_score(y, clusters)),
        "ari": float(adjusted_rand_score(y, clusters)),
    }
    why = "all rows are of one class" if k == 1 else "every row is its own cluster"
    notes = (f"NMI and ARI say nothing: {why}.",) * (k in (1, len(rows)))
    return [
        Score("clustering", value, len(rows), None, dict(settings), notes, metric)
        for metric, value in values.items()
    ]
