r"""Predictions beside the truth: one class per sample, or several.

Guesses are a number per sample and class, the higher the likelier. With one class per
sample they are judged by the place r of the true class: accuracy is the share of r = 0,
top-5 that of r < 5. With several classes per sample (a matrix of 0 and 1) each class
ranks all samples, and its precision P is averaged over its recall R:

$$\mathrm{AP} = \sum_t (R_t - R_{t-1})\,P_t,\qquad
  \mathrm{AP}_{11} = \frac1{11}\sum_{r\in\{0, 0.1, \dots, 1\}}
  \max_{t\,:\,R_t\ge r} P_t$$

over the distinct guesses t. ``map`` is the mean over classes of the first, which is
scikit-learn's, and ``map11`` that of the second, which VOC2007 defines. A matrix may
hold -1 where it is not known whether the class is there: left out of AP and of the
loss. (VOC calls such objects difficult.) The interval of ``map`` holds 95 % of the
values that draws of the test samples with replacement give; ``map11`` has none, for its
maxima make it larger the fewer the samples are.
"""

from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from ..errors import DataError
from ..words import count
from ._score import Interval, Score, Setting

RESAMPLES = 200
CHUNK_ELEMENTS = 2**21  # of drawn test samples, held at one time: 16 MiB
Targets = Integer[Tensor, "n *classes"]


def prediction_loss(logits: Float[Tensor, "n c"], y: Targets) -> Float[Tensor, ""]:
    """Cross-entropy with one class per row; with several, a binary one per class.

    The binary ones are added up over the classes, so that each class has the problem
    that it would have alone.
    """
    if y.ndim == 1:
        return cross_entropy(logits, y)
    each = binary_cross_entropy_with_logits(
        logits, y.clamp_min(0).to(logits.dtype), reduction="none"
    )
    return (each * (y >= 0)).sum() / len(y)


def judge(
    name: str,
    guesses: Iterable[Float[Tensor, "b c"]],
    truth: Targets,
    settings: Mapping[str, Setting],
    notes: tuple[str, ...] = (),
) -> Score:
    """The score of guesses, which come a few test samples at a time, in their order."""
    if truth.ndim == 2:
        return judge_matrix(name, torch.cat(list(guesses)), truth, settings, notes)
    ranks: list[Tensor] = []
    start = n_classes = 0
    for block in guesses:
        ranks.append(rank_truth(block, truth[start : start + len(block)]))
        start, n_classes = start + len(block), block.shape[1]
    return Score.of_ranks(name, torch.cat(ranks), n_classes, settings, notes)


def rank_truth(
    guesses: Float[Tensor, "b c"], truth: Integer[Tensor, " b"]
) -> Integer[Tensor, " b"]:
    """How many classes are guessed before the true one; of equals the first goes first.

    A guess of -inf or NaN is none, nor is there one for a truth of -1: the rank is then
    the number of classes.

    >>> guesses = torch.tensor([[0.2, 0.5, 0.5], [0.1, 0.9, 0.0]])
    >>> rank_truth(guesses, torch.tensor([2, 1]))
    tensor([1, 0])
    """
    n_classes = guesses.shape[1]
    truth = truth.to(guesses.device)
    score = guesses.gather(1, truth.clamp_min(0)[:, None])
    later = torch.arange(n_classes, device=guesses.device) >= truth[:, None]
    # "not less" instead of "more": a NaN elsewhere never helps
    before = ~(guesses < score) & ~((guesses == score) & later)
    guessed = (score[:, 0] > -torch.inf) & (truth >= 0)
    return before.sum(1).masked_fill(~guessed, n_classes)


def judge_matrix(
    name: str,
    guesses: Float[Tensor, "m c"],
    truth: Integer[Tensor, "m c"],
    settings: Mapping[str, Setting],
    notes: tuple[str, ...] = (),
) -> Score:
    """Mean average precision by both definitions.

    A class that no test image shows has no precision: it is left out, and a note says
    so.
    """
    truth = truth.to(guesses.device)
    shown = (truth == 1).any(0)
    if not shown.any():
        raise DataError(
            "No test image shows any of the classes, so there is nothing to rank: "
            "check the labels of the test part."
        )
    if n_left := int((~shown).sum()):
        which = count(n_left, "class", "classes")
        are = "is" if n_left == 1 else "are"
        text = f"{which} that no test image shows {are} left out of the mean average"
        notes += (f"{text} precision.",)
    draws = torch.cat([torch.ones(1, len(truth)), _resample(len(truth))])
    values = torch.stack(
        [
            _precisions(guesses[known, k], truth[known, k] == 1, draws[:, known.cpu()])
            for k in shown.nonzero()[:, 0].tolist()
            for known in [truth[:, k] >= 0]
        ]
    )
    means = values.nanmean(0)  # a draw may miss a class, or all of them
    whole, eleven = means[0].tolist()
    low, high = (means[1:, 0].nanquantile(end).item() for end in (0.025, 0.975))
    also: dict[str, tuple[float, Interval | None]] = {"map11": (eleven, None)}
    given = dict(settings)
    return Score(name, whole, len(truth), (low, high), given, notes, "map", also)


def average_precisions(
    guesses: Float[Tensor, " m"], hits: Bool[Tensor, " m"]
) -> tuple[float, float]:
    """AP at every distinct guess, and at eleven levels of recall.

    >>> guesses, hits = torch.tensor([3.0, 2, 1]), torch.tensor([True, False, True])
    >>> [round(value, 4) for value in average_precisions(guesses, hits)]
    [0.8333, 0.8485]
    """
    whole, eleven = _precisions(guesses, hits, torch.ones(1, len(hits)))[0].tolist()
    return whole, eleven


def _precisions(
    guesses: Float[Tensor, " m"], hits: Bool[Tensor, " m"], counts: Float[Tensor, "b m"]
) -> Float[Tensor, "b 2"]:
    """Both, for samples that count so many times; NaN where none of them is a hit."""
    guesses, order = guesses.nan_to_num(nan=-torch.inf).sort(descending=True)
    last = torch.ones_like(hits)
    last[:-1] = guesses[1:] != guesses[:-1]  # equal guesses are accepted together
    rows = []
    for part in counts.split(max(1, CHUNK_ELEMENTS // len(hits))):
        weights = part.to(hits.device).double()[:, order]
        n_hits = (weights * hits[order]).cumsum(1)[:, last]
        precision = n_hits / weights.cumsum(1)[:, last].clamp_min(1)
        total = n_hits[:, -1:]
        gained = n_hits.diff(dim=1, prepend=torch.zeros_like(total))
        whole = (gained * precision).sum(1) / total[:, 0]
        levels = [
            torch.where(10 * n_hits >= k * total, precision, 0.0).amax(1)
            for k in range(11)
        ]
        eleven = torch.stack(levels).mean(0).where(total[:, 0] > 0, torch.nan)
        rows.append(torch.stack([whole, eleven], 1))
    return torch.cat(rows)


def _resample(n: int) -> Float[Tensor, "b n"]:
    """How often each test sample is drawn, in draws as large as the test part."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(n, (RESAMPLES, n), generator=generator)
    return torch.zeros(RESAMPLES, n).scatter_add_(1, drawn, torch.ones(RESAMPLES, n))
