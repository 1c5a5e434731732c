r"""Retrieval: whether the nearest images are of the same class.

$$\mathrm{recall@}k = \frac1m\sum_q \mathbb 1[\text{one of the } k
  \text{ nearest has } q\text{'s class}],\qquad
  \mathrm{AP}_q = \frac1{R_q}\sum_{r\,:\,\text{hit at rank } r}
  \frac{\text{hits up to } r}{r}$$

Queries are compared by cosine with all rows of a gallery, of which R_q have the query's
class; MAP is the mean of AP over the queries. Cosines are computed and ranked a few
queries at a time, so memory is bounded whatever the sizes. Chance is, for MAP, about
the share of the class; for recall@k, 1 - (1 - share)^k.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor
from torch.nn.functional import normalize

from ..checked_rows import score_chunks
from ..errors import SettingError
from ._labeled import Labeled, one_class_each
from ._score import Score, Setting

KS = (1, 5, 10)


def retrieval(
    gallery_h: Float[Tensor, "n e"],
    gallery_labels: Integer[Tensor, " n"],
    query_h: Float[Tensor, "m e"],
    query_labels: Integer[Tensor, " m"],
    *,
    ks: Sequence[int] = KS,
) -> list[Score]:
    """recall@k for each k, then MAP, of queries against a gallery of other images.

    Equally near rows are ranked in the order of the gallery. A query whose class the
    gallery does not have scores 0, and a note says so.

    >>> import torch
    >>> h, labels = torch.eye(3), torch.tensor([0, 1, 1])
    >>> [(s.metric, s.value) for s in retrieval(h, labels, h[:2], labels[:2], ks=[1])]
    [('recall@1', 1.0), ('map', 0.9166666666666666)]
    """
    if not ks or min(ks) < 1:
        raise SettingError(f"ks are numbers of neighbors, at least 1: got {ks}.")
    one_class_each(gallery_labels, "Retrieval")
    data = Labeled.of(gallery_h, gallery_labels, query_h, query_labels)
    gallery, queries = normalize(data.train_h, dim=1), normalize(data.test_h, dim=1)
    within: list[Bool[Tensor, "c k"]] = []
    precision: list[Float[Tensor, " c"]] = []
    for rows, scores in score_chunks(queries, gallery):
        order = scores.sort(dim=1, descending=True, stable=True).indices
        hits = data.train_y[order] == data.test_y[rows, None]
        within.append(torch.stack([hits[:, :k].any(1) for k in ks], 1))
        precision.append(average_precision(hits))
    right = torch.cat(within)
    settings: dict[str, Setting] = {"n_train": len(gallery)}
    recalls = [
        Score.of("retrieval", right[:, i], settings, data.notes, f"recall@{k}")
        for i, k in enumerate(ks)
    ]
    whole = Score.of_mean("retrieval", torch.cat(precision), settings, data.notes)
    return [*recalls, whole]


def average_precision(hits: Bool[Tensor, "c n"]) -> Float[Tensor, " c"]:
    """AP of rankings, best first; 0 where nothing relevant exists.

    >>> average_precision(torch.tensor([[True, False, True]]))  # (1 + 2/3) / 2
    tensor([0.8333], dtype=torch.float64)
    """
    ranks = torch.arange(1, hits.shape[1] + 1, device=hits.device)
    so_far = hits.cumsum(1)
    # float64 is only asked of the sum: a gallery of millions would lose digits
    precision = torch.where(hits, so_far.double() / ranks, 0.0)
    return precision.sum(1) / so_far[:, -1].clamp_min(1)
