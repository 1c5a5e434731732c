r"""Two sides in one space: naming images without a classifier, and finding partners.

$$\hat y_i = \arg\max_c\ \langle u_i, w_c\rangle,\qquad
w_c = \mathrm{unit}\Big(\frac1T\sum_t v(\text{template}_t(c))\Big)$$

Zero-shot: an image's class is the one whose name, put into a few sentences, lies
nearest; nothing is fitted. recall@k: the share of samples whose partner is among the k
nearest rows of the other side, each way. Of several partners any will do: captions of
one image, or images of one caption. Chance is 1/c, and k/n with one partner each.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import starmap
from typing import Any

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor
from torch.nn.functional import normalize

from ..checked_rows import score_chunks
from ..errors import SettingError
from ._groups import check_templates
from ._retrieval import KS
from ._score import Score, Setting
from ._task import Subject, Task, list_partnered

TEMPLATES = ("a {}", "{}", "a picture of a {}", "there is a {}")
Encode = Callable[[Sequence[str]], Float[Tensor, "n d"]]


def score_zero_shot(
    subject: Subject, templates: str | Sequence[str] = TEMPLATES
) -> list[Score]:
    """The protocol: test images named by the classes that the data have."""
    test_classes = find_classes(subject.task)
    if test_classes is None:
        return []
    labels, names = test_classes
    classes = name_classes(names, subject.towers.encode_other, templates)
    images = subject.towers.project(subject.test_features)
    score = zero_shot(images, labels, classes)
    return [replace(score, settings=score.settings | mark_templates(templates))]


def chance_of_zero_shot(
    task: Task, templates: str | Sequence[str] = TEMPLATES
) -> list[Score]:
    """One in as many as there are classes."""
    test_classes = find_classes(task)
    if test_classes is None:
        return []
    labels, names = test_classes
    n, settings = len(names), {"n_classes": len(names), **mark_templates(templates)}
    score = Score("zero_shot", 1 / n, len(labels), None, settings)
    if n > 5:
        score.also["top5"] = 5 / n, None
    return [score]


def mark_templates(templates: str | Sequence[str]) -> dict[str, Setting]:
    """What a score says about sentences that are not the usual ones."""
    several = list_templates(templates)
    return {} if several == [*TEMPLATES] else {"templates": " | ".join(several)}


def list_templates(templates: str | Sequence[str]) -> list[str]:
    """One sentence or several, as several."""
    return [templates] if isinstance(templates, str) else list(templates)


def find_classes(task: Task) -> tuple[Integer[Tensor, " n"], tuple[str, ...]] | None:
    """What the test images show, and what the classes are called.

    The captions may know classes of their own, such as combinations of what the images'
    labels tell apart. Nothing where there are no names, or several per image.
    """
    sides: tuple[Any, ...] = (task.other, task.test)
    for source in sides:
        labels, names = source.labels, source.class_names
        worded = any(not name.isdigit() for name in names)
        if labels is not None and worded and len(names) > 1:
            return labels.cpu(), names
    return None


def score_pairs(subject: Subject) -> list[Score]:
    """The protocol: partners of test samples, looked for on the other side."""
    task = subject.task
    samples, pairs = find_partners(task)
    first = subject.towers.project(subject.test_features)
    other = subject.towers.encode_tokens(samples)
    return pair_retrieval(first, other, pairs, words=words_of(task))


def chance_of_partners(task: Task) -> list[Score]:
    """What looking at random finds."""
    samples, pairs = find_partners(task)
    n, m = len(task.test), len(samples)
    return chance_of_pairs(n, m, pairs, words=words_of(task))


def words_of(task: Task) -> tuple[str, str]:
    """What the sides are called."""
    return task.test.kind.word, task.other.kind.word


def score_partner(subject: Subject) -> list[Score]:
    """The protocol: the partner of a sample among all second ones, by one encoder.

    Of scored pairs those with the highest score are partners; all second samples are
    looked through.
    """
    task = subject.task
    different, pairs = find_partners(task)
    place = pairs[:, 1]
    one_of_each = torch.zeros(len(different), dtype=torch.long)
    one_of_each[place] = torch.arange(len(place))
    chosen = list_partnered(task.test)
    queries = normalize(subject.test_features[chosen], dim=1)
    gallery = normalize(subject.other_features[one_of_each], dim=1)
    mine = torch.stack([torch.arange(len(chosen)), place[chosen]], 1)
    ranks = rank_partners(queries, gallery, mine)
    settings: dict[str, Setting] = {"n_first": len(queries), "n_other": len(gallery)}
    return [Score.of("partner", ranks < k, settings, metric=f"recall@{k}") for k in KS]


def find_partners(task: Task) -> tuple[Tensor, Int[Tensor, "p 2"]]:
    """The different samples of the other side, and which of the first have them.

    Where a sample has several, such as captions, each counts; equal ones are one.
    """
    other = task.other
    rows = torch.arange(len(other))
    batch = torch.cat([part.cpu() for part in other.batches(rows.split(1000))])
    first = rows
    if other.kind.seen is not other.kind:  # several of what the encoder takes
        first = rows.repeat_interleave(batch.shape[1])
        batch = batch.flatten(0, 1)
        kept = batch.flatten(1)[:, 0] >= 0  # those that a sample has not are negative
        batch, first = batch[kept], first[kept]
    different, place = batch.unique(dim=0, return_inverse=True)
    return different, torch.stack([first, place], 1).unique(dim=0)


def zero_shot(
    images: Float[Tensor, "n d"],
    labels: Integer[Tensor, " n"],
    classes: Float[Tensor, "c d"],
) -> Score:
    """Accuracy of the nearest class, and top-5 where there are more than five.

    >>> score = zero_shot(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
    >>> score.accuracy
    1.0
    """
    unit, names = normalize(images.float(), dim=1), normalize(classes.float(), dim=1)
    ranks = rank_partners(
        unit, names, torch.stack([torch.arange(len(unit)), labels], 1)
    )
    settings: dict[str, Setting] = {"n_classes": len(classes)}
    return Score.of_ranks("zero_shot", ranks, len(classes), settings)


def name_classes(
    class_names: Sequence[str],
    encode: Encode,
    templates: str | Sequence[str] = TEMPLATES,
) -> Float[Tensor, "c d"]:
    """One row per class: the mean direction of its name in several sentences."""
    check_templates("templates", templates)
    rows = [
        normalize(encode([fill(template, name) for name in class_names]).float(), dim=1)
        for template in list_templates(templates)
    ]
    return normalize(torch.stack(rows).mean(0), dim=1)


def fill(template: str, name: str) -> str:
    """A class's name in a sentence.

    >>> fill("a picture of a {}", "orange_bar"), fill("{}", "red bar")
    ('a picture of an orange bar', 'red bar')
    """
    name = name.replace("_", " ").strip()
    if name[:1].lower() in {*"aeiou"}:
        head, braces, tail = template.partition("{}")
        words = head.split(" ")
        if words[-2:-1] in (["a"], ["A"]):
            template = " ".join([*words[:-2], words[-2] + "n", ""]) + braces + tail
    return template.replace("{}", name)


def pair_retrieval(
    first: Float[Tensor, "n d"],
    other: Float[Tensor, "m d"],
    pairs: Int[Tensor, "p 2"] | None = None,
    *,
    words: tuple[str, str] = ("image", "caption"),
    ks: Sequence[int] = KS,
) -> list[Score]:
    """recall@k both ways, for each k.

    Equally near rows are ranked in their order, so rows that are all the same score
    as chance does.

    Args:
        first: Rows of the first side.
        other: Rows of the other side.
        pairs: Which row of the first side goes with which of the other; None: they are
            in the same order.
        words: What the sides are called.
        ks: How many of the nearest count.

    >>> u = torch.tensor([[1.0, 0], [0, 1], [1, 1]])
    >>> [(s.metric, s.value) for s in pair_retrieval(u, u, ks=[1])]
    [('image to caption recall@1', 1.0), ('caption to image recall@1', 1.0)]
    """
    if not ks or min(ks) < 1:
        raise SettingError(f"ks are numbers of neighbors, at least 1: got {ks}.")
    u, v = normalize(first.float(), dim=1), normalize(other.float(), dim=1)
    pairs = both_in_order(len(u)) if pairs is None else pairs
    ways = (u, v, pairs), (v, u, pairs.flip(1))
    settings: dict[str, Setting] = {"n_first": len(u), "n_other": len(v)}
    return [
        Score.of("pairs", ranks < k, settings, metric=f"{way} recall@{k}")
        for way, ranks in zip(
            name_ways(words), starmap(rank_partners, ways), strict=True
        )
        for k in ks
    ]


def chance_of_pairs(
    n: int,
    m: int,
    pairs: Int[Tensor, "p 2"] | None = None,
    *,
    words: tuple[str, str] = ("image", "caption"),
    ks: Sequence[int] = KS,
) -> list[Score]:
    """What ``pair_retrieval`` gives on average for rows in a random order.

    >>> [round(s.value, 2) for s in chance_of_pairs(4, 4, ks=[1, 2])]
    [0.25, 0.5, 0.25, 0.5]
    """
    pairs = both_in_order(n) if pairs is None else pairs
    settings: dict[str, Setting] = {"n_first": n, "n_other": m}
    scores = []
    for way, column, (n_from, n_to) in zip(
        name_ways(words), (0, 1), ((n, m), (m, n)), strict=True
    ):
        partners = pairs[:, column].bincount(minlength=n_from).double()
        for k in ks:
            draws = torch.arange(min(k, n_to)).double()
            misses = (n_to - partners[:, None] - draws).clamp_min(0) / (n_to - draws)
            value = float((1 - misses.prod(1)).mean())
            metric = f"{way} recall@{k}"
            scores.append(Score("pairs", value, n_from, None, settings, (), metric))
    return scores


def rank_partners(
    queries: Float[Tensor, "n d"],
    gallery: Float[Tensor, "m d"],
    pairs: Int[Tensor, "p 2"],
) -> Int[Tensor, " n"]:
    """How many rows of a gallery come before the first partner of each query.

    >>> rank_partners(torch.ones(2, 1), torch.ones(2, 1), both_in_order(2))
    tensor([0, 1])
    """
    order = pairs[:, 0].argsort(stable=True)
    pairs = pairs[order].to(queries.device)
    ranks = []
    for rows, scores in score_chunks(queries, gallery):
        low, high = torch.searchsorted(
            pairs[:, 0].contiguous(),
            torch.tensor([rows.start, rows.stop], device=pairs.device),
        ).tolist()
        mine = torch.zeros_like(scores, dtype=torch.bool)
        here = pairs[low:high]
        mine[here[:, 0] - rows.start, here[:, 1]] = True
        best, place = scores.masked_fill(~mine, -torch.inf).max(1, keepdim=True)
        earlier = torch.arange(len(gallery), device=scores.device) < place
        before = (scores > best) | ((scores == best) & earlier)
        ranks.append((before & ~mine).sum(1).cpu())
    return torch.cat(ranks)


def both_in_order(n: int) -> Int[Tensor, "n 2"]:
    """Each row with the one of the same number."""
    return torch.arange(n)[:, None].expand(n, 2)


def name_ways(words: tuple[str, str]) -> tuple[str, str]:
    """What the two directions are called."""
    return f"{words[0]} to {words[1]}", f"{words[1]} to {words[0]}"
