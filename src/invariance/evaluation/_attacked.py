r"""Accuracy under attack: test images changed a little, so that a probe goes wrong.

$$\frac1m\sum_i \big[\, m_i(x_i + \delta) < 0\ \text{ for every } \delta \text{ tried},\
\lVert\delta\rVert\le\epsilon \,\big],\qquad
m_i(x) = \max_{c\ne y_i} z_c(x) - z_{y_i}(x)$$

z are the logits of the linear probe on the frozen encoder. PGD raises the margin m and
not the cross-entropy, whose gradient vanishes where the probe is sure of itself: that
would look like robustness. An image counts as right only if it is right before the
attack and at every step of every start. So this is an upper bound of the accuracy in
the worst case, and for a linear network of two classes the worst case itself. Whether
more steps would lower it is asked with --attack.steps and --attack.restarts.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Integer, Shaped
from torch import Tensor, nn

from ..plain_numbers import check_least
from ..views import PGD, Draws
from ._images import Images, as_images
from ._labeled import Labeled, one_class_each
from ._linear_probe import fit_probe
from ._predictions import rank_truth
from ._score import Score, Setting
from ._task import spread_rows

AT_ONCE = 250  # images, whose activations a gradient needs


def attack_probe(
    encoder: nn.Module | None,
    train_h: Float[Tensor, "n e"],
    train_labels: Shaped[Tensor, "n *c"],
    test_h: Float[Tensor, "m e"],
    test_labels: Shaped[Tensor, "m *c"],
    test_images: Images | Tensor,
    *,
    epsilon: float | int | None = None,
    steps: int = 20,
    step_size: float | int | None = None,
    norm: str = "linf",
    restarts: int = 1,
    images: int = 1000,
    l2: float | int | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Score:
    """Accuracy of the linear probe on attacked images, and "clean" on the same ones.

    Args:
        encoder: images in [0, 1] in, features out, on ``device`` already; None stands
            for the pixels themselves.
        train_h: its features of the training images; only these fit the probe.
        train_labels: their classes, any integers.
        test_h: its features of the test images.
        test_labels: their classes.
        test_images: a tensor, or what ``invariance.data.load`` gives.
        epsilon: how far an image may be changed, in pixels from 0 to 1; None is 8/255,
            and 128/255 of l2.
        steps: of projected gradient ascent from each start.
        step_size: length of a step; None is a quarter of epsilon.
        norm: "linf" or "l2".
        restarts: starts, each drawn from the ball around the image.
        images: test images that are attacked at most, evenly spread.
        l2: as in ``linear_probe``.
        seed: of the probe's split and of the starts.
        device: where it is done.
    """
    one_class_each(train_labels, "attack_probe")
    check_least("restarts", restarts, 1)
    check_least("images", images, 1)
    attack = PGD(epsilon=epsilon, steps=steps, step_size=step_size, norm=norm)
    source = as_images(test_images)
    rows = spread_rows(len(source), images)
    data = Labeled.of(train_h, train_labels, test_h[rows], test_labels[rows])
    probe, settings, notes = fit_probe(data, seed=seed, l2=l2)
    network = nn.Flatten() if encoder is None else encoder.eval()
    first = next(network.parameters(), torch.empty(0))

    def guess(x: Tensor) -> Tensor:
        return probe.logits(network(x).float().to(data.train_h.device))

    parts = rows.split(AT_ONCE)
    batches = source.batches(parts, device=device)
    right = []
    for part, y, batch in zip(parts, data.test_y.split(AT_ONCE), batches, strict=True):
        x = source.kind.prepare(batch, first.dtype)
        starts = [Draws(seed, k, part.to(x.device), 0) for k in range(restarts)]
        right.append(withstand(guess, x, y, attack, starts))
    clean = rank_truth(probe.logits(data.test_h), data.test_y) == 0
    how: dict[str, Setting] = {
        "epsilon": attack.radius,
        "steps": steps,
        "step_size": attack.length,
        "norm": norm,
        "restarts": restarts,
        "images": images,
    }
    all_notes = data.notes + notes
    score = Score.of("attacked", torch.cat(right), settings | how, all_notes)
    before = Score.of("attacked", clean, {})
    score.also["clean"] = before.value, before.interval
    return score


def withstand(
    guess: Callable[[Tensor], Float[Tensor, "b c"]],
    x: Float[Tensor, "b ..."],
    y: Integer[Tensor, " b"],
    attack: PGD,
    starts: Sequence[Draws],
) -> Bool[Tensor, " b"]:
    """Which images are right as they are and wherever the attack takes them."""
    with torch.no_grad():
        right = rank_truth(guess(x), y) == 0
    for draws in starts:
        left = right.nonzero()[:, 0]
        if not len(left):
            break
        clean, classes = x[left.to(x.device)], y[left]
        wrong = torch.zeros_like(right[left])

        def rise(changed: list[Tensor], wrong=wrong, classes=classes) -> Tensor:
            logits = guess(changed[0])
            wrong |= rank_truth(logits.detach(), classes) > 0
            return margins(logits, classes).sum()

        start = attack.start(clean, draws.rows(left.to(x.device)))
        end = attack(rise, [clean], [start])
        with torch.no_grad():
            rise(end)
        right[left] = ~wrong
    return right


def margins(
    logits: Float[Tensor, "b c"], y: Integer[Tensor, " b"]
) -> Float[Tensor, " b"]:
    """How far the best other class is ahead of the true one.

    >>> margins(torch.tensor([[3.0, 1.0, 2.5]]), torch.tensor([0]))
    tensor([-0.5000])
    """
    true = logits.gather(1, y[:, None])
    others = logits.scatter(1, y[:, None], -torch.inf)
    return others.amax(1) - true[:, 0]
