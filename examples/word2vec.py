"""word2vec, the smallest contrast of two encoders: two tables and a dot product.

    python examples/word2vec.py figure.png

InfoNCE of the scores u[word] . v[context]: a batch's other contexts are draws of p(c),
so the best critic is PMI = log p(w, c) / (p(w) p(c)), the pointwise mutual information,
plus a constant per word that no softmax over contexts can see. Here it is known: two
words of a sentence are a pair, a sentence has one topic, a topic favors some words.
"""

import math
import sys

import torch
from torch import Tensor, nn

import invariance as inv


def make_corpus(n_words: int = 100, n_topics: int = 8) -> Tensor:
    """The joint distribution of two words of a sentence: (n_words, n_words)."""
    favor = torch.randn(n_topics, n_words, generator=torch.Generator().manual_seed(0))
    words = (2 * favor).softmax(1)  # p(word | topic)
    return words.T @ words / n_topics


def read_pmi(joint: Tensor) -> Tensor:
    """PMI of every two words."""
    return (joint / (joint.sum(1, keepdim=True) * joint.sum(0))).log()


def center(scores: Tensor, joint: Tensor) -> Tensor:
    """Scores without a constant per word: their mean over contexts is 0."""
    return scores - (scores * joint.sum(0)).sum(1, keepdim=True)


def correlate(a: Tensor, b: Tensor, joint: Tensor) -> float:
    """Correlation over words and contexts as often as each occurs."""
    chance = joint.sum(1, keepdim=True) * joint.sum(0)
    a, b = (chance.sqrt() * center(x, joint) for x in (a, b))
    return float((a * b).sum() / (a.norm() * b.norm()))


def learn(joint: Tensor, *, steps: int = 3000, batch: int = 512) -> Tensor:
    """Train the tables and give the scores of all pairs; ten lines on the way."""
    torch.manual_seed(0)
    u, v = nn.Embedding(len(joint), 32), nn.Embedding(len(joint), 32)
    objective = inv.InfoNCE(temperature=1.0, normalize=False, symmetric=False)
    optimizer = torch.optim.Adam([u.weight, v.weight], lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    pmi = read_pmi(joint)
    print(f"I(word; context) = {float((joint * pmi).sum()):.2f} nats")
    for step in range(1, steps + 1):
        pairs = torch.multinomial(joint.flatten(), batch, replacement=True)
        loss = objective(u(pairs // len(joint)), v(pairs % len(joint)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % max(steps // 10, 1) == 0:
            scores = (u.weight @ v.weight.T).detach()
            found, nats = correlate(scores, pmi, joint), math.log(batch) - loss.item()
            print(f"step {step:5}: {nats:.2f} nats, correlation with PMI {found:.3f}")
    return scores


def draw(scores: Tensor, joint: Tensor, path: str) -> None:
    """A point per word and context: what was learned against what is known."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(figsize=(4, 4), layout="constrained")
    known, learned = center(read_pmi(joint), joint), center(scores, joint)
    axes.scatter(known.flatten(), learned.flatten(), s=2, alpha=0.3)
    axes.axline((0, 0), slope=1, color="gray", lw=0.8)
    axes.set(xlabel="PMI, less its mean per word", ylabel="u . v, less its mean")
    plt.savefig(path, dpi=120)


if __name__ == "__main__":
    draw(learn(make_corpus()), make_corpus(), sys.argv[1])  # where the figure goes
