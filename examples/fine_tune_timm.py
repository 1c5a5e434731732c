"""A pretrained timm network, taught your own images without labels.

    python examples/fine_tune_timm.py --data photos                    # your folder
    python examples/fine_tune_timm.py --encoder convnext_tiny
    python examples/fine_tune_timm.py --no-pretrained                  # works offline

timm downloads the weights on first use, which needs a connection once. A pretrained
network knows photographs; contrast makes it tell *your* photographs apart. The learning
rate is a tenth of the usual one, so that it refines the weights instead of starting
over. The score at the end compares the network before and after, by the labels of class
folders if there are any. Labels are never trained on.
"""

import tyro

import invariance as inv


def main(
    data: str = "shapes",
    encoder: str = "resnet18",
    pretrained: bool = True,
    image_size: int = 64,
    epochs: int = 5,
    batch_size: int = 64,
    limit: int | None = 2000,
    out: str = "runs",
) -> tuple[inv.Run, inv.Embeddings]:
    """Train on, show both scores, and write the features of all images.

    Args:
        data: A folder of images, or a name such as shapes or cifar10.
        encoder: Any name of timm.list_models().
        pretrained: Begin with timm's weights.
        image_size: Side of the images in pixels; 224 is what most networks know best.
        epochs: Passes over the images.
        batch_size: Images in one contrast.
        limit: At most so many images; None is all.
        out: Where run folders go.
    """
    settings = inv.Train(
        data=data,
        encoder=encoder,
        pretrained=pretrained,
        image_size=image_size,
        method="dcl",  # made for small batches
        epochs=epochs,
        batch_size=batch_size,
        limit=limit,
        optim=inv.Optim(lr=0.0004, warmup=0.1),
        out=out,
    )
    run = inv.train(settings)
    if run.evaluation is not None:
        (before,) = run.evaluation.values("knn", "untrained encoder")
        (after,) = run.evaluation.values("knn")
        came = "as pretrained" if pretrained else "as drawn at random"
        print(f"kNN of {encoder} {came}: {before:.1%}; trained on: {after:.1%}")

    embeddings = inv.embed(run, data, limit=limit)
    file = embeddings.save(run.folder / "features.parquet")
    print(f"{embeddings}, written to {file}")
    return run, embeddings


if __name__ == "__main__":
    tyro.cli(main)
