"""Which of MoCo's encoders learns by gradient: that of the queries, not the keys."""

from typing import Any

import torch
from torch import nn

from ... import InfoNCE, Queue, data, effective_rank, uniformity, views
from ...encoders import MomentumTwin, build_encoder, build_head
from ...evaluation import encode_images, linear_probe
from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_bars
from .._spread import compare

SIZE, WIDTH, BATCH, QUEUE = 16, 64, 32, 256
LITTLE = 0.1  # a difference of uniformity that counts as none
QUERY, KEY = "query learns", "key learns (printed)"


def load_shapes(split: str, n: int) -> Any:
    """Small images with their classes."""
    return data.load("shapes", split=split, image_size=SIZE, n=n)


def measure(cell: Cell) -> Values:
    """MoCo in a plain loop; only the roles of the two encoders differ."""
    images = load_shapes("train", cell["samples"])
    encoder = build_encoder("tiny", image_size=SIZE)
    learned = nn.Sequential(encoder, build_head("mlp2", encoder.width, 128, WIDTH))
    twin = MomentumTwin(learned, momentum=0.99, rising=False)
    queue, objective = Queue(QUEUE, WIDTH), InfoNCE(temperature=0.2)
    two_views = views.ViewSet(views.RECIPES["shapes"](SIZE))
    optimizer = torch.optim.AdamW(learned.parameters(), lr=2e-3)
    for epoch in range(cell["epochs"]):
        order = torch.randperm(len(images), generator=cell.generator(epoch))
        for ids, batch in zip(
            order.split(BATCH), images.batches(order.split(BATCH)), strict=True
        ):
            u, v = two_views(batch, samples=ids, seed=cell.seed, epoch=epoch)
            query, key = (
                (learned(u), twin(v))
                if cell["roles"] == QUERY
                else (twin(u), learned(v))
            )
            if len(queue):
                optimizer.zero_grad()
                objective.against(query, key, queue, ids).backward()
                optimizer.step()
                twin.follow(learned)
            queue.remember(key.detach(), ids)
    test = load_shapes("test", min(500, cell["samples"]))
    z = encode_images(learned.eval(), test)
    features = [encode_images(encoder, source) for source in (images, test)]
    probe = linear_probe(features[0], images.labels, features[1], test.labels)
    return {
        "uniformity": uniformity(z),
        "rank": effective_rank(z),
        "accuracy": 100 * probe.value,
    }


def judge(rows: Rows) -> Verdict:
    """Projections must spread as well when the key encoder learns as when not."""
    right, printed = rows.where(roles=QUERY), rows.where(roles=KEY)
    fallen = compare(printed["uniformity"], right["uniformity"])
    worse = compare(right["accuracy"], printed["accuracy"])
    numbers = (
        f"When the key encoder learns, uniformity (0 is one point) ends {fallen} "
        f"higher than when the query encoder learns, and accuracy {worse} points lower "
        f"(95 % interval {worse.low:.1f} to {worse.high:.1f})."
    )
    if fallen.is_above_zero and fallen.mean > LITTLE:
        return Verdict("formula is wrong", numbers)
    return Verdict("holds" if fallen.high < LITTLE else "not decided", numbers)


def draw(rows: Rows, figure: Figure) -> None:
    """Uniformity and accuracy for both roles."""
    left, right = figure.subplots(1, 2)
    plot_bars(left, rows, x="roles", y="uniformity")
    plot_bars(right, rows, x="roles", y="accuracy")
    left.set(ylabel="uniformity of projections (0: one point)")
    right.set(ylabel="linear accuracy of features, %")


ABOUT = About(
    where="key architectures, MoCo",
    says="In MoCo, the key encoder is updated by gradient descent and the momentum "
    "encoder follows it.",
    run="MoCo on generated shapes of 16 pixels, once with the gradient through the "
    "queries and keys from the momentum encoder, and once the other way round, as "
    "printed.",
    refuted_if="Projections draw together when it is the key encoder that learns.",
    sizes=plan(
        roles=(QUERY, KEY),
        tiny={"samples": 64, "epochs": 2, "seeds": 1},
        quick={"samples": 640, "epochs": 6, "seeds": 3},
        full={"samples": 6000, "epochs": 20, "seeds": 5},
    ),
    toy=EVERY_SIZE,
    columns={
        "roles": "roles",
        "uniformity": "uniformity",
        "rank of z": "rank",
        "linear accuracy, %": "accuracy",
    },
    correction=r"""
    The query encoder learns by gradient; the key encoder is the momentum encoder,
    $\theta_k \leftarrow m\theta_k + (1-m)\theta_q$. The other way round there is
    nothing to push: with $\ell = -q\cdot k_+/\tau + \log(e^{q\cdot k_+/\tau} + \sum_j
    e^{q\cdot k_j/\tau})$ and queue rows $k_j$ without gradient,
    $\partial\ell/\partial k_+ = -(1-p_+)\,q/\tau$. A key is only ever pulled toward its
    query, never away from the negatives, which enter through the weight $1-p_+$ alone.
    In the query's gradient, $\frac1\tau(\sum_j p_j k_j - (1-p_+)k_+)$, the first part
    is the push.
    """,
)
