"""A method of your own: four choices, trained and scored beside the known ones.

    python examples/own_method.py                     # generated images, a few minutes
    python examples/own_method.py --data photos       # any folder of images

A method is a set of views, an encoder, a source of negatives and an objective. Whatever
fits together can be combined without writing a class; what does not is refused with a
message. This one is new: DCL, an objective for small batches, against MoCo's queue.
``invariance list methods NAME`` shows the choices of the others.
"""

import tyro

import invariance as inv

MINE = inv.Method(
    objective="dcl",  # a name in inv.OBJECTIVES
    settings={"temperature": 0.2},
    n_views=2,
    views="auto",  # as the samples ask for
    encoder="momentum twin",  # a slow copy answers for the second view
    momentum=0.99,
    rising=False,
    negatives="queue",  # a name in inv.NEGATIVES, or "batch"
    source_settings={"size": 1024},
    head="mlp2",
    width=128,
)


def main(
    data: str = "shapes",
    epochs: int = 10,
    batch_size: int = 64,
    limit: int | None = None,
    out: str = "runs",
) -> dict[str, inv.Run]:
    """Train it, MoCo and SimCLR in the same way, and show their scores."""
    runs = {}
    for name, method in {"mine": MINE, "moco": None, "simclr": None}.items():
        settings = inv.Train(
            data=data,
            method="simclr" if method else name,  # an object goes before a name
            epochs=epochs,
            batch_size=batch_size,
            limit=limit,
            evaluate=False,
            name=f"own-method-{name}",
            out=out,
            quiet=True,
        )
        runs[name] = inv.train(settings, method=method)
    for name, run in runs.items():
        scores = inv.evaluate(run, protocols="knn")
        (before,), (after,) = (
            scores.values("knn", f"{kind} encoder") for kind in ("untrained", "trained")
        )
        print(f"{name}: kNN {before:.1%} untrained, {after:.1%} trained")
    return runs


if __name__ == "__main__":
    tyro.cli(main)
