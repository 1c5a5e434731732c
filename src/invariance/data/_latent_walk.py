r"""A hidden state that walks on a ring, and sequences that show it only by their shape.

$$s_{t+1} = s_t + \{0, 1, -1\}\ \text{with probability}\ \{0.94, 0.05, 0.01\}
\pmod 8,\qquad x_t = \pm\,2\,d_{s_t} + \varepsilon_t$$

A sequence has 4 channels. In state s its values spread along a direction d_s of its
own, to either side with equal chance, in noise of unit variance: their mean is zero
whatever the state, so no linear function of the values tells one state from another.
The label of a sequence is the state at its end.

The chain is known, so everything about it can be computed. ``filter_states`` gives the
distribution of the state after every value, the best guess of all, and
``information_ahead`` the information between a sequence so far and the next patches:

$$I_k = \mathbb E\,\log\frac{p(\text{patch}_{l+k}\mid x_{1\dots sl})}
{p(\text{patch}_{l+k})}$$

with both densities exact, by the forward recursion, and the mean over sequences that
are drawn: an estimate without bias, whose standard error comes with it. No code of a
patch and no context of earlier ones can share more.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import DataError
from ._kind import Sequence
from ._load_request import Request
from ._sources import Read, Stored
from ._split import draw_parts

N_STATES, CHANNELS, LENGTH = 8, 4, 128
STAY, ONWARD, BACK = 0.94, 0.05, 0.01
GAIN = 2.0
Windows = Float[Tensor, "n c t"]
Beliefs = Float[Tensor, "n s"]


def directions() -> Float[Tensor, "s c"]:
    """A unit vector per state; neighbors on the ring are at right angles."""
    angles = torch.arange(N_STATES, dtype=torch.float64) * (math.pi / N_STATES)
    pairs = [(3 * angles).cos(), (3 * angles).sin(), (5 * angles).cos()]
    rows = torch.stack([*pairs, (5 * angles).sin()], 1)
    return rows / rows.norm(dim=1, keepdim=True)


def transitions() -> Float[Tensor, "s s"]:
    """How likely each state is followed by each other."""
    eye = torch.eye(N_STATES, dtype=torch.float64)
    return STAY * eye + ONWARD * eye.roll(1, 1) + BACK * eye.roll(-1, 1)


def latent_walk(
    n: int, *, length: int = LENGTH, seed: int = 0
) -> tuple[Windows, Int[Tensor, "n t"]]:
    """Sequences, and the state at every time.

    >>> windows, states = latent_walk(5)
    >>> windows.shape, windows.dtype, states.shape
    (torch.Size([5, 4, 128]), torch.float32, torch.Size([5, 128]))
    """
    generator = torch.Generator().manual_seed(seed)
    moves = torch.tensor([0, 1, -1])[
        torch.multinomial(
            torch.tensor([STAY, ONWARD, BACK]),
            n * length,
            replacement=True,
            generator=generator,
        )
    ].view(n, length)
    moves[:, 0] = torch.randint(N_STATES, (n,), generator=generator)
    states = moves.cumsum(1) % N_STATES
    signs = torch.randint(2, (n, length, 1), generator=generator) * 2 - 1
    means = GAIN * signs * directions()[states].float()
    noise = torch.randn(n, length, CHANNELS, generator=generator)
    return (means + noise).transpose(1, 2).contiguous(), states


def read_latent_walk(request: Request) -> Read:
    """The sequences of one part; "all" is four fifths train, then a fifth test."""
    if request.stride is not None:
        raise DataError(
            "Every sequence of latent_walk is one window: leave --stride out."
        )
    known = request.known_kind
    length = (request.window or LENGTH) if known is None else known.shape[1]
    parts = draw_parts(request, 4000, 1000, one_in=5)
    drawn = [latent_walk(n, length=length, seed=seed) for n, seed in parts]
    spread = (1 + GAIN**2 / CHANNELS) ** 0.5
    kind = Sequence((CHANNELS, length), spread=[spread] * CHANNELS)
    items = Stored(torch.cat([windows for windows, _ in drawn]), kind)
    items.labels = torch.cat([states[:, -1] for _, states in drawn])
    items.class_names = tuple(f"state {k}" for k in range(N_STATES))
    return Read("latent_walk", items)


def filter_states(windows: Windows) -> Float[Tensor, "n t s"]:
    """The distribution of the state at every time, given the values up to it.

    >>> windows, states = latent_walk(200)
    >>> guesses = filter_states(windows)[:, -1].argmax(1)
    >>> bool((guesses == states[:, -1]).float().mean() > 0.6)  # chance is 0.125
    True
    """
    likelihoods = _log_likelihoods(windows)
    beliefs, steps = _even(len(windows)), []
    for t in range(windows.shape[2]):
        beliefs, _ = _see(_move(beliefs) if t else beliefs, likelihoods[:, t])
        steps.append(beliefs)
    return torch.stack(steps, 1)


def information_ahead(
    n_steps: int, *, patch: int = 8, n: int = 4000, length: int = LENGTH, seed: int = 1
) -> list[tuple[float, float]]:
    """Nats between sequences and their next patches, and standard errors.

    Args:
        n_steps: Patches ahead, as many as numbers come out.
        patch: Values of time in a patch.
        n: Sequences that are drawn.
        length: Of a sequence, the predicted patches among it.
        seed: Of the draws.
    """
    windows, _ = latent_walk(n, length=length, seed=seed)
    start = length - n_steps * patch
    beliefs = filter_states(windows[..., :start])[:, -1]
    likelihoods, results = _log_likelihoods(windows), []
    for k in range(n_steps):
        seen = likelihoods[:, start + k * patch :][:, :patch]
        gain = _log_density(beliefs, seen) - _log_density(_even(n), seen)
        results.append((float(gain.mean()), float(gain.std() / math.sqrt(n))))
        for _ in range(patch):
            beliefs = _move(beliefs)
    return results


def _log_likelihoods(windows: Windows) -> Float[Tensor, "n t s"]:
    """Of every value in every state, up to what all states have in common."""
    scores = GAIN * windows.double().transpose(1, 2) @ directions().T
    return scores.abs() + torch.log1p(torch.exp(-2 * scores.abs()))  # 2 cosh, safely


def _even(n: int) -> Beliefs:
    """Every state alike, as the chain has it in the long run."""
    return torch.full((n, N_STATES), 1 / N_STATES, dtype=torch.float64)


def _move(beliefs: Beliefs) -> Beliefs:
    return beliefs @ transitions()


def _see(
    beliefs: Beliefs, likelihoods: Float[Tensor, "n s"]
) -> tuple[Beliefs, Float[Tensor, " n"]]:
    """What is believed after a value, and the logarithm of its density."""
    joint = beliefs.log() + likelihoods
    total = joint.logsumexp(1)
    return (joint - total[:, None]).exp(), total


def _log_density(
    beliefs: Beliefs, likelihoods: Float[Tensor, "n t s"]
) -> Float[Tensor, " n"]:
    """Of values that follow, given what is believed of the state before them."""
    total = torch.zeros(len(beliefs), dtype=torch.float64)
    for t in range(likelihoods.shape[1]):
        beliefs, density = _see(_move(beliefs), likelihoods[:, t])
        total += density
    return total
