"""Views in a torchvision data set: a transform, a DataLoader, nothing else changes.

    python examples/torchvision_views.py                        # generated images
    python examples/torchvision_views.py --folder photos        # a folder per class
    python examples/torchvision_views.py --cifar10 data         # downloaded into data/

``inv.views.transform`` takes one image and gives a list of its views; the DataLoader
makes a batch per view. Its workers do not repeat one another's draws, and the same seed
repeats a run. (Whole batches on the training device are faster: see plain_pytorch.py.)
"""

import tempfile
from pathlib import Path

import torch
import tyro
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets
from torchvision.transforms.functional import to_pil_image

import invariance as inv
from invariance.evaluation import knn


def write_images(folder: Path, n: int) -> Path:
    """Generated shapes as image files, a folder per class."""
    for number, (image, label) in enumerate(zip(*inv.data.shapes(n), strict=True)):
        home = folder / inv.data.SHAPE_CLASSES[label]
        home.mkdir(exist_ok=True)
        to_pil_image(image).save(home / f"{number}.png")
    return folder


def score(encoder: nn.Module, data: Dataset) -> float:
    """kNN: a tenth of the images is asked for its class, the others vote."""
    known, asked = (inv.embed(encoder, data, split=part) for part in ("train", "test"))
    return knn(known.features, known.labels, asked.features, asked.labels).accuracy


def main(
    folder: Path | None = None,
    cifar10: Path | None = None,
    n: int = 2000,
    size: int = 32,
    epochs: int = 10,
    batch_size: int = 128,
    workers: int = 2,
) -> tuple[float, float, float]:
    """Train; give the last loss, and the score before and after."""
    torch.manual_seed(0)
    if folder is None:
        folder = write_images(Path(tempfile.mkdtemp()), n)
    two_views = inv.views.transform("simclr", size=size)
    data = datasets.ImageFolder(folder, transform=two_views)
    plain = datasets.ImageFolder(folder)
    if cifar10 is not None:
        data = datasets.CIFAR10(cifar10, transform=two_views, download=True)
        plain = datasets.CIFAR10(cifar10)
    loader = DataLoader(
        data, batch_size, shuffle=True, drop_last=True, num_workers=workers
    )
    encoder = inv.encoders.build_encoder("tiny", image_size=size)
    network = nn.Sequential(encoder, nn.Linear(encoder.width, 128))
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    before = score(encoder, plain)
    for epoch in range(epochs):
        for (u, v), _ in loader:  # labels are not used
            loss = inv.nt_xent(network(u), network(v), temperature=0.5)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss:.3f}")
    after = score(encoder, plain)
    print(f"kNN before: {before:.1%}, after: {after:.1%}")
    return loss.item(), before, after


if __name__ == "__main__":
    tyro.cli(main)
