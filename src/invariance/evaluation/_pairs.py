r"""Two sides in one space: naming images without a classifier, and finding partners.

$$\hat y_i = \arg\max_c\ \langle u_i, w_c\rangle,\qquad
w_c = \mathrm{unit}\Big(\frac1T\sum_t v(\text{template}_t(c))\Big)$$

Zero-shot: an image's class is the one whose name, put into a few sentences, lies
nearest; nothing is fitted. recall@k: the share of samples whose partner is among the k
nearest rows of the other side, each way. Of several partners any will do: captions of
one image, or images of one caption. Chance is 1/c, and k/n with one partner each.
"""

from collections.abc import Callable, Sequence
from itertools import starmap

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor
from torch.nn.functional import normalize

from ..checked_rows import score_chunks
from ..errors import SettingError
from ._retrieval import KS
from ._score import Score, Setting

TEMPLATES = ("a {}", "{}", "a picture of a {}", "there is a {}")
Encode = Callable[[Sequence[str]], Float[Tensor, "n d"]]


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
    templates: Sequence[str] = TEMPLATES,
) -> Float[Tensor, "c d"]:
    """One row per class: the mean direction of its name in several sentences."""
    check_templates("templates", templates)
    rows = [
        normalize(encode([fill(template, name) for name in class_names]).float(), dim=1)
        for template in templates
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


def check_templates(name: str, templates: Sequence[str] | str) -> None:
    """Raise unless each is a sentence with a place for the class."""
    several = [templates] if isinstance(templates, str) else list(templates)
    wrong = next((t for t in several if "{}" not in t), None)
    if not several or wrong is not None:
        raise SettingError(
            f"{name} are sentences with {{}} where the class's name belongs, at least "
            f"one: got {several if wrong is None else wrong!r}."
        )


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
