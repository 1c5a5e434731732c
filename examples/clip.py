"""CLIP: images and sentences in one space, where one names or finds the other.

    python examples/clip.py                           # generated, a few minutes
    python examples/clip.py --data photos             # with photos/captions.csv inside
    python examples/clip.py --data photos --sentences "a dog in the snow" "two cats"

A tower for images and one for text learn which sentence belongs to which image. Then a
sentence finds images, and an image gets the nearest of several names, without any
classifier. The generated test images show colors and shapes that were never trained on
together: finding "a red circle" takes understanding both words.
"""

from pathlib import Path

import torch
import tyro

import invariance as inv


def name_images(run: inv.Run, images: torch.Tensor, names: list[str]) -> list[str]:
    """The name whose sentence lies nearest to each image; images from 0 to 1."""
    towers = inv.encoders.load_towers(run.folder)
    sentences = towers.encode_other([f"a {name}" for name in names])
    rows = towers.project(towers.encoder(images))
    return [names[k] for k in (rows @ sentences.T).argmax(1)]


def main(
    data: str = "captioned_shapes",
    epochs: int = 20,
    batch_size: int = 128,
    limit: int | None = None,
    sentences: tuple[str, ...] = (
        "a red circle",
        "a large blue ring",
        "a yellow heart",
    ),
    sheet: Path = Path("clip_found.png"),
    out: str = "runs",
) -> inv.Run:
    """Train, score by names and by pairs, find images by sentences, name some."""
    run = inv.train(
        inv.Train(
            data=data,
            method="clip",
            epochs=epochs,
            batch_size=batch_size,
            limit=limit,
            evaluate=False,
            out=out,
            quiet=True,
        )
    )
    generated = data == "captioned_shapes"
    protocols = ["pairs", "zero_shot"] if generated else ["pairs"]
    print(inv.evaluate(run, protocols=protocols))
    print(inv.search(run, text=list(sentences), split="test", k=5, sheet=sheet))
    print(f"pictures: {sheet}")
    if generated:
        images = next(inv.data.load(data, split="test").batches([torch.arange(4)]))
        print(name_images(run, images / 255, ["red circle", "blue ring", "pink star"]))
    return run


if __name__ == "__main__":
    tyro.cli(main)
