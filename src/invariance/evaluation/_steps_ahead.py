r"""How far ahead a sequence encoder predicts, in nats, without any label.

$$I(c_t; z_{t+k}) \ge \log m - \frac1m\sum_i \log\frac{\sum_j e^{s_{ij}}}{e^{s_{ii}}},
\qquad s_{ij} = (W_k \tilde c_i)\cdot \tilde z_{j}$$

c is the last context of a window that has K patches after it, z the code of the k-th of
them, both standardized; a tilde adds a 1 to c. As a linear probe is fitted to labels, a
matrix W_k is fitted to the future, on training windows, until it no longer helps on a
tenth of them. The bound is read on test windows, m of them at a time, and cannot pass
log m, which stands beside it.

On average over test windows that are independent of each other the value is a lower
bound, whatever the encoder and however well W_k was fitted. Windows of one recording
are not independent: where there are enough recordings, each gives one window; where
not, all windows are used and the score says that nothing is certified.

0 says that a context tells nothing about that patch. An untrained network is scored the
same way, with matrices of its own.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softplus

from ..data import recording_of
from ..encoders import Encoder, Unrolled
from ..errors import SettingError, ShapeError
from ..partition import log_partition
from ._score import Z95, Score, Setting

MOST_STEPS = 12  # where nobody asks for another number
CANDIDATES = 1024  # test windows that are told apart at a time
ENOUGH = 32  # recordings of which one window each says enough
UPDATES, BATCH, RATE = 600, 256, 0.05
PATIENCE = 5  # looks without a gain, 20 updates apart
Pairs = tuple[Float[Tensor, "_ _"], Float[Tensor, "_ k e"]]


class Ahead(nn.Module):
    """The last context with ``steps`` patches after it, and the codes of these.

    Args:
        encoder: Of sequences, one that has a code for every patch of time.
        steps: How many patches ahead; None: half of a window, at most 12.
    """

    def __init__(self, encoder: Encoder, steps: int | None = None) -> None:
        super().__init__()
        self.unrolled = Unrolled(encoder)
        n_patches, self.latent = self.unrolled.measure(encoder.input_shape)
        self.steps = steps or max(min(n_patches // 2, MOST_STEPS), 1)
        if self.steps >= n_patches:
            raise SettingError(
                f"Predicting {self.steps} patches ahead needs windows of "
                f"{self.steps + 1} or more: these have {n_patches}. Use fewer steps, "
                "or longer windows."
            )

    def forward(self, windows: Float[Tensor, "n c t"]) -> Float[Tensor, "n f"]:
        """Both in one row."""
        codes, contexts = self.unrolled.split(windows)
        now = codes.shape[1] - self.steps - 1
        return torch.cat([contexts[:, now], codes[:, now + 1 :].flatten(1)], 1)

    def part(self, rows: Float[Tensor, "n f"]) -> Pairs:
        """Contexts and codes of such rows."""
        n_codes = self.steps * self.latent
        contexts, codes = rows.split([rows.shape[1] - n_codes, n_codes], 1)
        return contexts, codes.unflatten(1, (self.steps, self.latent))


def steps_ahead(
    train: Pairs,
    test: Pairs,
    *,
    recordings: Sequence[str] | None = None,
    seed: int = 0,
) -> list[Score]:
    """A score for every step: nats of information, a lower bound.

    Args:
        train: Contexts, and the codes that followed them, to fit with.
        test: Others to be scored on.
        recordings: Which recording each test window is from; None: one of its own.
        seed: Of the matrices' first values and of the order of training.

    >>> generator = torch.Generator().manual_seed(0)
    >>> c = torch.randn(1200, 4, generator=generator)
    >>> z = torch.stack([c + 0.5 * torch.randn(c.shape, generator=generator),
    ...                  torch.randn(c.shape, generator=generator)], 1)
    >>> near, far = steps_ahead((c[:800], z[:800]), (c[800:], z[800:]))
    >>> near.value > 1, abs(far.value) < 0.1, round(near.settings["ceiling"], 2)
    (True, True, 5.99)
    """
    rows, certified = choose_windows(len(test[0]), recordings)
    if min(len(train[0]), len(rows)) < 2:
        raise ShapeError(
            "Predictions are told apart from those of other windows: there are "
            f"{len(train[0])} to fit with and {len(rows)} to test."
        )
    contexts, codes = standardize(train, train)
    matrices = fit_matrices(contexts, codes, seed)
    contexts, codes = standardize((test[0][rows], test[1][rows]), train)
    n = len(rows)
    parts = torch.arange(n).tensor_split(-(-n // CANDIDATES))
    ceiling = math.log(min(map(len, parts)))
    settings: dict[str, Setting] = {"ceiling": ceiling, "certified": certified}
    notes = (
        ()
        if certified
        else (
            "Windows of one recording are not independent: the nats ahead are an "
            f"estimate, not a bound (fewer than {ENOUGH} recordings to test).",
        )
    )
    scores = []
    for k in range(codes.shape[1]):
        guesses = contexts @ matrices[k].T
        gains = torch.cat([gain(guesses[p], codes[p, k]) for p in parts])
        value, half = gains.mean().item(), Z95 * gains.std().item() / math.sqrt(n)
        scores.append(
            Score(
                "steps_ahead",
                value,
                n,
                (value - half, value + half),
                {"ahead": k + 1, "steps": codes.shape[1], **settings},
                notes,
                metric="nats",
            )
        )
    return scores


def choose_windows(n: int, recordings: Sequence[str] | None) -> tuple[Tensor, bool]:
    """The test windows to use, and whether they are independent of each other."""
    if recordings is None:
        return torch.arange(n), True
    first = {name: i for i, name in reversed([*enumerate(recordings)])}
    if len(first) < ENOUGH:
        return torch.arange(n), False
    return torch.tensor(sorted(first.values())), True


def standardize(pairs: Pairs, by: Pairs) -> Pairs:
    """Columns of mean 0 and one common spread, as in ``by``; contexts with a 1 besides.

    What an encoder made small stays small: it has mostly learned that it is noise.
    """

    def scale(x: Tensor, like: Tensor) -> Tensor:
        like = like.double()
        spread = like.var(0).mean().sqrt().clamp_min(1e-6)
        return ((x.double() - like.mean(0)) / spread).float()

    contexts = scale(pairs[0], by[0])
    one = contexts.new_ones(len(contexts), 1)
    return torch.cat([contexts, one], 1), scale(pairs[1], by[1])


def fit_matrices(
    contexts: Float[Tensor, "n w"], codes: Float[Tensor, "n k e"], seed: int
) -> Float[Tensor, "k e w"]:
    """A matrix per step by InfoNCE, each as it was when it helped the held-out most."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(contexts), generator=generator).to(contexts.device)
    look, fit = order.tensor_split([max(len(order) // 10, 2)])
    fit = fit if len(fit) > 1 else order
    _, steps, latent = codes.shape
    width = contexts.shape[1]
    start = torch.randn(steps, latent, width, generator=generator)
    size = math.sqrt(width * latent)
    matrices = (0.1 / size * start).to(contexts.device).requires_grad_()
    optimizer = torch.optim.AdamW([matrices], lr=RATE / size, weight_decay=1e-3)
    best = matrices.detach().clone()
    least = look_at(matrices, contexts[look], codes[look])
    idle = 0
    with torch.enable_grad():
        for update in range(1, UPDATES + 1):
            rows = torch.randint(len(fit), (min(BATCH, len(fit)),), generator=generator)
            rows = fit[rows.unique().to(fit.device)]
            loss = compare(matrices, contexts[rows], codes[rows]).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if update % 20:
                continue
            losses = look_at(matrices, contexts[look], codes[look])
            better = losses < least
            best[better] = matrices.detach()[better]
            least = torch.minimum(losses, least)
            idle = 0 if bool(better.any()) else idle + 1
            if idle == PATIENCE:
                break
    return best


def compare(
    matrices: Float[Tensor, "k e w"],
    contexts: Float[Tensor, "n w"],
    codes: Float[Tensor, "n k e"],
) -> Float[Tensor, " k"]:
    """InfoNCE of every step among these rows."""
    guesses = torch.einsum("kew,nw->kne", matrices, contexts)
    logits = guesses @ codes.permute(1, 2, 0)
    targets = torch.arange(len(contexts), device=contexts.device)
    each = [cross_entropy(scores, targets) for scores in logits]
    return torch.stack(each)


@torch.no_grad()
def look_at(matrices: Tensor, contexts: Tensor, codes: Tensor) -> Tensor:
    """InfoNCE of every step, at most a batch of rows at a time."""
    parts = torch.arange(len(contexts)).tensor_split(-(-len(contexts) // CANDIDATES))
    each = [compare(matrices, contexts[p], codes[p]) for p in parts]
    return torch.stack(each).mean(0)


def gain(guesses: Float[Tensor, "n e"], codes: Float[Tensor, "n e"]) -> Tensor:
    """Nats of each row: the log of the number of candidates, less its loss."""
    ids = torch.arange(len(codes), device=codes.device)
    others = log_partition(guesses, codes, scale=1.0, row_ids=ids, column_ids=ids)
    return math.log(len(codes)) - softplus(others - (guesses * codes).sum(1))


def recordings_of(paths: Sequence[str] | None) -> list[str] | None:
    """The recordings that windows of these names are from."""
    return None if paths is None else [recording_of(path) for path in paths]
