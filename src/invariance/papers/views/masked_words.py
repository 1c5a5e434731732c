"""A masked language model over all words is no bound on information by log |V|.

In a corpus whose words are drawn one by one there is nothing that a sentence says of a
hidden word. The paper's reading of the loss still finds nats in it.
"""

import math

import torch

from .._cell_training import train_in
from .._claim import About, Cell, Figure, Rows, Values, Verdict, grid
from .._spread import Spread

N_WORDS, LENGTH = 40, 8
CONSONANTS, VOWELS = "bcdfghklmprt", "aeiou"
LAWS = {
    "even": torch.ones(N_WORDS, dtype=torch.float64),
    "by rank": 1 / torch.arange(1, N_WORDS + 1, dtype=torch.float64),
}


def name_word(k: int) -> str:
    """Words of four letters, each of which becomes one token."""
    return (
        CONSONANTS[k % 12]
        + VOWELS[k // 12 % 5]
        + CONSONANTS[7 * k % 12]
        + VOWELS[k % 5]
    )


def measure(cell: Cell) -> Values:
    """Train on sentences of independent words; the loss of the last epoch, read."""
    law = LAWS[cell["law"]] / LAWS[cell["law"]].sum()
    n = cell["sentences"]
    drawn = torch.multinomial(
        law, n * LENGTH, replacement=True, generator=cell.generator()
    )
    lines = [" ".join(map(name_word, row)) for row in drawn.view(n, LENGTH).tolist()]
    corpus = cell.folder / "corpus.txt"
    corpus.write_text("\n".join(lines), encoding="utf-8")
    run = train_in(
        cell,
        data=str(corpus),
        method="masked_token",
        epochs=cell["epochs"],
        batch_size=64,
        protocols=(),
    )
    losses = run.curve("loss")
    last = losses[-max(len(losses) // cell["epochs"], 1) :]
    loss = sum(last) / len(last)
    entropy = float(-(law * law.log()).sum())
    return {
        "loss": loss,
        "entropy": entropy,
        "printed": math.log(N_WORDS) - loss,
        "right": entropy - loss,
    }


def judge(rows: Rows) -> Verdict:
    """The truth is 0 nats; a lower bound is not above it."""
    part = rows.where(law="by rank")
    printed, right = Spread.of(part["printed"]), Spread.of(part["right"])
    text = (
        f"In a corpus without any information between words, log |V| minus the loss "
        f"reads {printed} nats when words are unequally frequent; the entropy of the "
        f"words minus the loss reads {right}"
    )
    if printed.is_above_zero and printed.mean > 2 * abs(right.mean):
        return Verdict("formula is wrong", f"{text}, and the truth is 0.")
    if printed.n < 2:
        return Verdict("not decided", f"{text} (one seed).")
    if printed.is_above_zero:
        return Verdict("not decided", f"{text}: neither is the 0 that there is.")
    return Verdict("holds", f"{text}: no more than chance explains.")


def draw(rows: Rows, figure: Figure) -> None:
    """Both readings of both corpora."""
    axes = figure.subplots()
    laws = list(dict.fromkeys(rows["law"]))
    readings = {"printed": "log |V| - loss", "right": "entropy of words - loss"}
    for k, (value, label) in enumerate(readings.items()):
        places = [i + 0.36 * k - 0.18 for i in range(len(laws))]
        means = [rows.spreads("law", value)[law].mean for law in laws]
        axes.bar(places, means, width=0.34, alpha=0.55, color=("C3", "C2")[k])
        dots = [places[laws.index(law)] for law in rows["law"]]
        axes.plot(dots, rows[value], "k.", markersize=5)
        axes.bar(0, 0, color=("C3", "C2")[k], alpha=0.55, label=label)
    axes.axhline(0, color="black", linewidth=1)
    axes.annotate("the truth: 0", ((len(laws) - 1) / 2, 0.02), ha="center")
    names = {"even": "words equally often", "by rank": "frequency 1 / rank"}
    axes.set_xticks(range(len(laws)), [names[law] for law in laws])
    axes.set(ylabel="information between word and sentence, nats")
    axes.legend(frameon=False, loc="upper left")


ABOUT = About(
    where="section 5.1",
    says="A masked language model maximizes a lower bound on the information between a "
    "sentence and its hidden word: the log of the size of the vocabulary minus its "
    "loss.",
    run=f"Sentences of {LENGTH} words drawn one by one from {N_WORDS}, so that they "
    "share no information, either equally often or with a frequency proportional to 1 "
    "/ rank; a small tower trained by masked_token. The vocabulary is the words that "
    "occur.",
    refuted_if="A value above 0, beyond chance.",
    sizes={
        "tiny": grid(law=("by rank",), sentences=(128,), epochs=(1,), seed=[0]),
        "quick": grid(law=tuple(LAWS), sentences=(1500,), epochs=(6,), seed=range(3)),
        "full": grid(law=tuple(LAWS), sentences=(20_000,), epochs=(4,), seed=range(5)),
    },
    columns={
        "words": "law",
        "loss, nats": "loss",
        "entropy of words": "entropy",
        "log of their number - loss": "printed",
        "entropy - loss": "right",
    },
    correction=r"""
    Summing over every word once is no sample of negatives at all: it makes the softmax
    a model $p_\theta(w\mid s)$, and the loss is its cross-entropy,
    $L \ge H(W\mid S)$. So $I(W;S) = H(W) - H(W\mid S) \ge H(W) - L$ (the bound of
    Barber and Agakov). The paper's value has $\log|V|$ in place of $H(W)$, which is
    larger unless all words are equally frequent: by $\log|V| - H(W)$ nats, in any
    corpus and for any model. Its way around, to call the sum a sample from the uniform
    law and drop the weights (example 3), drops what would have corrected this. The
    gradient is not touched: both constants vanish in training.
    """,
)
