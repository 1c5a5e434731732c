"""Paraphrases: sentences of a small grammar, whose meaning is known.

    at dawn, the medic helps the robber in the garden
    the burglar is aided by the doctor in the yard in the morning

A meaning is five choices: who does what to whom, where and when. Each has a few words
that mean the same, and a sentence takes one of several forms, active or passive, in
this order or that. Who and whom come from the same nouns, so the words alone do not say
who helped: a bag of words knows what a sentence is about, but neither synonyms nor
roles.

The training part is pairs of sentences that mean the same. The test part is pairs that
agree in 0 to 5 of the choices, which is their score; half of those that agree neither
in who nor in whom have exchanged the two. One time in six is kept from training for
every choice of the other four, so no meaning of the test's first sentences is ever
trained on. The label of a pair is who does it, in its first sentence.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float

from ._drawing import uniform

NOUNS = (
    ("doctor", "physician", "medic"),
    ("child", "kid", "youngster"),
    ("thief", "burglar", "robber"),
    ("teacher", "instructor", "tutor"),
    ("soldier", "trooper", "fighter"),
    ("king", "monarch", "ruler"),
    ("guest", "visitor", "caller"),
    ("sailor", "seaman", "mariner"),
    ("lawyer", "attorney", "advocate"),
    ("farmer", "grower", "planter"),
)
VERBS = (
    (("helps", "helped"), ("aids", "aided"), ("assists", "assisted")),
    (("chases", "chased"), ("pursues", "pursued"), ("hunts", "hunted")),
    (("praises", "praised"), ("lauds", "lauded"), ("applauds", "applauded")),
    (("blames", "blamed"), ("accuses", "accused"), ("faults", "faulted")),
    (("watches", "watched"), ("observes", "observed"), ("eyes", "eyed")),
    (("tricks", "tricked"), ("deceives", "deceived"), ("fools", "fooled")),
    (("scolds", "scolded"), ("rebukes", "rebuked"), ("chides", "chided")),
    (("hires", "hired"), ("employs", "employed"), ("engages", "engaged")),
)
PLACES = (
    ("in the garden", "in the yard", "on the lawn"),
    ("in the street", "on the road", "in the lane"),
    ("in the woods", "in the forest", "among the trees"),
    ("on the boat", "on the ship", "aboard the vessel"),
    ("at the market", "in the shop", "in the store"),
    ("by the sea", "on the coast", "at the shore"),
)
TIMES = (
    ("in the morning", "at dawn", "at sunrise"),
    ("at night", "after dark", "at midnight"),
    ("at noon", "at midday", "around twelve"),
    ("every day", "daily", "day after day"),
    ("in winter", "when it snows", "in the cold months"),
    ("at last", "finally", "in the end"),
)
FORMS = (
    "the {who} {does} the {whom} {where} {when}",
    "{when}, the {who} {does} the {whom} {where}",
    "{where} the {who} {does} the {whom} {when}",
    "the {whom} is {done} by the {who} {where} {when}",
    "{when}, the {whom} is {done} {where} by the {who}",
    "{where} the {whom} is {done} by the {who} {when}",
    "it is the {who} that {does} the {whom} {when} {where}",
    "it is the {whom} that the {who} {does} {where} {when}",
)
SIZES = (len(NOUNS), len(VERBS), len(NOUNS), len(PLACES), len(TIMES))
WHO, DOES, WHOM, WHERE, WHEN = range(5)
PARTS = {"train": 4, "test": 5}  # 0 to 3 are those of generated images
WHO_NAMES = tuple(words[0] for words in NOUNS)

T = TypeVar("T")
Meaning = tuple[int, ...]
Dice = Float[np.ndarray, " d"]


class Paraphrase(NamedTuple):
    """Two sentences, and what is known of them."""

    first: str
    second: str
    who: int
    """Who does it in the first, by number."""
    score: float
    """The share of the five choices in which they agree."""


def paraphrases(n: int, *, split: str = "train", seed: int = 0) -> list[Paraphrase]:
    """Pairs of sentences; the first of a longer list are those of a shorter one.

    >>> [pair] = paraphrases(1)
    >>> pair.first
    'at noon, the advocate is helped among the trees by the burglar'
    >>> pair.second
    'it is the robber that helps the advocate around twelve in the forest'
    """
    numbers, part = np.arange(n), np.full(n, PARTS[split])
    rows = uniform(numbers, part, 40, seed=seed)
    make = make_pair if split == "train" else make_scored_pair
    return [make(dice) for dice in rows]


def make_pair(dice: Dice) -> Paraphrase:
    """Two sentences of one meaning that is trained on."""
    meaning = draw_meaning(dice[:5])
    when = meaning[WHEN]
    if is_kept(meaning):
        meaning = (*meaning[:WHEN], (when + 1) % len(TIMES))
    first, second = say(meaning, dice[5:11]), say(meaning, dice[11:17])
    return Paraphrase(first, second, meaning[WHO], 1.0)


def make_scored_pair(dice: Dice) -> Paraphrase:
    """A sentence of a kept meaning, and one that agrees with it to some degree."""
    meaning = draw_meaning(dice[:5])
    meaning = (*meaning[:WHEN], sum(meaning[:WHEN]) % len(TIMES))
    changed = np.argsort(dice[17:22], kind="stable")[: int(6 * dice[22])]
    other = change(meaning, set(changed.tolist()), dice[23:29])
    agree = sum(a == b for a, b in zip(meaning, other, strict=True))
    first, second = say(meaning, dice[5:11]), say(other, dice[11:17])
    return Paraphrase(first, second, meaning[WHO], agree / len(SIZES))


def draw_meaning(dice: Dice) -> Meaning:
    """Five choices; who and whom differ."""
    who, does, whom, where, when = (
        int(size * die) for size, die in zip(SIZES, dice, strict=True)
    )
    whom = (who + 1 + int((len(NOUNS) - 1) * dice[WHOM])) % len(NOUNS)
    return who, does, whom, where, when


def is_kept(meaning: Meaning) -> bool:
    """Whether no sentence of this meaning is trained on."""
    return sum(meaning[:WHEN]) % len(TIMES) == meaning[WHEN]


def change(meaning: Meaning, which: set[int], dice: Dice) -> Meaning:
    """Another meaning that differs in these choices, and in no others."""
    other = list(meaning)
    if {WHO, WHOM} <= which and dice[5] < 0.5:
        other[WHO], other[WHOM] = other[WHOM], other[WHO]
        which = which - {WHO, WHOM}
    for k in which:
        taken = {meaning[k]}
        if k in (WHO, WHOM):
            taken |= {meaning[WHO], meaning[WHOM], other[WHO], other[WHOM]}
        free = [value for value in range(SIZES[k]) if value not in taken]
        other[k] = free[int(len(free) * dice[k])]
    return tuple(other)


def pick(words: Sequence[T], die: float) -> T:
    """One of the words, by a number in [0, 1)."""
    return words[int(len(words) * die)]


def say(meaning: Meaning, dice: Dice) -> str:
    """A sentence of this meaning."""
    who, does, whom, where, when = meaning
    active, passive = pick(VERBS[does], dice[1])
    return pick(FORMS, dice[5]).format(
        who=pick(NOUNS[who], dice[0]),
        does=active,
        done=passive,
        whom=pick(NOUNS[whom], dice[2]),
        where=pick(PLACES[where], dice[3]),
        when=pick(TIMES[when], dice[4]),
    )
