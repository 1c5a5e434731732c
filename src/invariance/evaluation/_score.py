r"""A score: one number about embeddings, and how sure it is.

The interval of a share (so many right out of n) is Wilson's, which stays inside [0, 1]
and holds for few samples and for accuracies near the ends:

$$\frac{1}{1+z^2/n}\Big(p + \frac{z^2}{2n} \pm
  z\sqrt{\frac{p(1-p)}{n} + \frac{z^2}{4n^2}}\Big),\qquad z = 1.96$$

That of a mean of n other numbers is the normal one, mean ± z s/√n. Both cover the draw
of the test samples only; the spread over training seeds is another matter, and usually
the larger one.

Where there are more than five classes an accuracy has a companion, ``top5``: the share
of test samples whose class is among the five best guesses.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jaxtyping import Bool, Float, Integer
from torch import Tensor

from ..folder import NOT_SHARES
from ..markup import html_sentences, html_table

Setting = int | float | str | bool
Interval = tuple[float, float]

Z95 = 1.959963984540054  # normal quantile of 97.5 %


def wilson_interval(n_correct: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share, from a count out of ``n``.

    >>> low, high = wilson_interval(10, 10)
    >>> round(low, 3), high
    (0.722, 1.0)
    """
    p, shrink = n_correct / n, 1 + Z95**2 / n
    center = (p + Z95**2 / (2 * n)) / shrink
    half = Z95 / shrink * math.sqrt(p * (1 - p) / n + Z95**2 / (4 * n * n))
    low = 0.0 if n_correct == 0 else center - half
    return low, 1.0 if n_correct == n else center + half


@dataclass(frozen=True)
class Score:
    """The result of one evaluation, with what is needed to trust and repeat it."""

    name: str
    """How it was measured: the protocol, such as "knn"."""
    value: float
    """The number; a share from 0 to 1 unless its metric says otherwise."""
    n_test: int
    """Number of test samples."""
    interval: Interval | None
    """95 % interval over draws of the test samples; None where there is none."""
    settings: dict[str, Setting] = field(default_factory=dict)
    """Every setting, as it was used."""
    notes: tuple[str, ...] = ()
    """What a reader should know about this number, in sentences."""
    metric: str = "accuracy"
    """What the number is: "accuracy", "recall@5", "map", "nmi", "ari", "nats", and
    "spearman", a rank correlation."""
    also: dict[str, tuple[float, Interval | None]] = field(default_factory=dict)
    """Other metrics of the same predictions by name: value and interval."""

    @classmethod
    def of(
        cls,
        name: str,
        correct: Bool[Tensor, " n"],
        settings: Mapping[str, Setting],
        notes: tuple[str, ...] = (),
        metric: str = "accuracy",
    ) -> "Score":
        """The score of test samples that were each right or wrong."""
        n, n_correct = len(correct), int(correct.sum())
        interval = wilson_interval(n_correct, n)
        return cls(name, n_correct / n, n, interval, dict(settings), notes, metric)

    @classmethod
    def of_mean(
        cls,
        name: str,
        values: Float[Tensor, " n"],
        settings: Mapping[str, Setting],
        notes: tuple[str, ...] = (),
        metric: str = "map",
    ) -> "Score":
        """The mean of one number in [0, 1] per test sample."""
        values, n = values.double(), len(values)
        mean, interval = values.mean().item(), None
        if n > 1:
            half = Z95 * values.std().item() / math.sqrt(n)
            interval = max(mean - half, 0.0), min(mean + half, 1.0)
        return cls(name, mean, n, interval, dict(settings), notes, metric)

    @classmethod
    def of_ranks(
        cls,
        name: str,
        ranks: Integer[Tensor, " n"],
        n_classes: int,
        settings: Mapping[str, Setting],
        notes: tuple[str, ...] = (),
    ) -> "Score":
        """Accuracy and top-5, from where each sample's class is among the guesses.

        >>> import torch
        >>> score = Score.of_ranks("knn", torch.tensor([0, 4, 5, 0]), 10, {})
        >>> score.accuracy, score.top5
        (0.5, 0.75)
        """
        score = cls.of(name, ranks == 0, settings, notes)
        if n_classes > 5:
            n_near = int((ranks < 5).sum())
            near = n_near / len(ranks), wilson_interval(n_near, len(ranks))
            score.also["top5"] = near
        return score

    @property
    def accuracy(self) -> float:
        """The value, of scores that are accuracies."""
        if self.metric != "accuracy":
            raise AttributeError(f"This score is {self.metric}: read its value.")
        return self.value

    @property
    def top5(self) -> float | None:
        """The share whose class is among five guesses; None of five classes or less."""
        return self.also["top5"][0] if "top5" in self.also else None

    def split(self) -> list["Score"]:
        """A score for each metric, the main one first."""
        main = replace(self, also={})
        return [
            main,
            *(
                replace(main, metric=metric, value=value, interval=interval)
                for metric, (value, interval) in self.also.items()
            ),
        ]

    def show(self, value: float, digits: int = 1) -> str:
        """A value of this metric: nats and such as they are, shares in per cent."""
        if self.metric in NOT_SHARES:
            return f"{value:.2f}"
        return f"{100 * value:.{digits}f}"

    def _setting_words(self) -> str:
        return ", ".join(
            f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
            for key, value in self.settings.items()
        )

    def _repr_html_(self) -> str:
        rows = []
        for score in self.split():
            percent = "" if score.metric in NOT_SHARES else " %"
            ends = map(score.show, score.interval or ())
            value = f"{score.show(score.value, 2)}{percent}"
            rows.append((score.name, score.metric, value, " to ".join(ends)))
        head = ("protocol", "metric", "value", "95 % interval")
        about = ", ".join(
            filter(None, [f"{self.n_test:,} test samples", self._setting_words()])
        )
        return html_table(rows, head) + html_sentences([about, *self.notes])

    def __str__(self) -> str:
        settings = self._setting_words()
        what = "" if self.metric == "accuracy" else f" {self.metric}"
        inside = [f"{self.n_test:,} test samples"]
        if self.interval is not None:
            low, high = map(self.show, self.interval)
            inside.insert(0, f"95 % interval {low} to {high}")
        percent = "" if self.metric in NOT_SHARES else " %"
        values = [f"{self.show(self.value, 2)}{percent}"]
        for name, (value, _) in self.also.items():
            number = f"{value:.4g}" if name in NOT_SHARES else f"{100 * value:.2f} %"
            values.append(f"{name} {number}")
        shown = f"{self.name}{what}: {', '.join(values)} ({', '.join(inside)}"
        first = shown + (f"; {settings})" if settings else ")")
        return "\n".join([first, *(f"  note: {note}" for note in self.notes)])
