"""What masked_token learns of words: rows of its table, before and after.

    invariance train paraphrases --method masked_token --name masked
    python examples/masked_tokens.py runs/masked masked_tokens.png

Nothing says which words are nouns, verbs, places or times. A hidden word must be found
from the words around it, so words that can replace one another come to lie together;
words of other kinds do not.
"""

import sys

import torch
from torch.nn.functional import normalize

import invariance as inv

WORDS = {
    "who": "doctor medic child kid thief robber teacher soldier king guest lawyer",
    "does": "helps aids chases praises blames watches tricks scolds hires",
    "where": "garden yard street road woods forest boat ship market sea",
    "when": "morning dawn night noon midday",
}


def read_rows(encoder, words: list[str]) -> dict[str, torch.Tensor]:
    """Unit rows of the words that are one token, by word."""
    tokens = {word: encoder.kind.read(word) for word in words}
    signs = torch.tensor(encoder.kind.special)
    whole = {word: t[~torch.isin(t, signs)] for word, t in tokens.items()}
    table = normalize(encoder.network.table.weight.detach(), dim=1)
    return {word: table[t[0]] for word, t in whole.items() if len(t) == 1}


def compare(rows: dict[str, torch.Tensor]) -> tuple[float, float]:
    """Mean cosine of two words of one kind, and of two kinds."""
    kinds = [k for k, text in WORDS.items() for w in text.split() if w in rows]
    cosines = torch.stack(list(rows.values())) @ torch.stack(list(rows.values())).T
    alike = torch.tensor([[a == b for b in kinds] for a in kinds])
    other = ~torch.eye(len(kinds), dtype=torch.bool)
    return cosines[alike & other].mean().item(), cosines[~alike].mean().item()


def draw(rows: dict[str, torch.Tensor], path: str) -> None:
    """Cosines of every two words."""
    import matplotlib.pyplot as plt

    matrix = torch.stack(list(rows.values()))
    figure, axes = plt.subplots(figsize=(6, 5.4), layout="constrained")
    image = axes.imshow(matrix @ matrix.T, vmin=-1, vmax=1, cmap="RdBu_r")
    axes.set_xticks(range(len(rows)), rows, rotation=90, fontsize=7)
    axes.set_yticks(range(len(rows)), rows, fontsize=7)
    figure.colorbar(image, label="cosine")
    plt.savefig(path, dpi=120)


if __name__ == "__main__":
    words = [word for text in WORDS.values() for word in text.split()]
    rows = read_rows(inv.load(sys.argv[1]), words)
    alike, unlike = compare(rows)
    print(f"cosine of two words of one kind {alike:.2f}, of two kinds {unlike:.2f}")
    draw(rows, sys.argv[2])
