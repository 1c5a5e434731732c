r"""The linear protocol of the papers: SGD on features of augmented images.

$$\min_{W,b}\ \mathrm E_{x\sim\text{data}}\,\mathrm E_{a}\;
  -\log\operatorname{softmax}(W^\top f(a(x)) + b)_{y}$$

with f frozen and random augmentations a. Unlike ``linear_probe`` it does not converge
to one answer: it has a learning rate and a schedule, and sees other crops at every
epoch. It is here because published numbers are mostly made this way. Features are
standardized by the training images as they are; the last step is scored.
"""

import torch
from jaxtyping import Integer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ..checked_rows import above_zero, as_labels
from ..errors import SettingError
from ._encode import encode_images
from ._fine_tune import zero_layer
from ._images import Augment, Images, as_images, unit
from ._labeled import number_classes
from ._linear_probe import Scaler
from ._score import Score, Setting


def linear_sgd(
    encoder: nn.Module,
    train_images: Images | Tensor,
    train_labels: Integer[Tensor, " n"],
    test_images: Images | Tensor,
    test_labels: Integer[Tensor, " m"],
    *,
    rows: Integer[Tensor, " k"] | None = None,
    augment: Augment | None = None,
    epochs: int = 20,
    batch_size: int = 256,
    lr: float | int = 0.3,
    momentum: float | int = 0.9,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Score:
    """Test accuracy of a linear layer trained by SGD on the frozen encoder.

    Args:
        encoder: images in [0, 1] in, features out; stays as it is.
        train_images: a tensor, or what ``invariance.data.load`` gives.
        train_labels: one class an image, any integers.
        test_images: of the same kind.
        test_labels: their classes.
        rows: the training images that may be seen; None is all.
        augment: applied to training images, see ``Augment``.
        epochs: passes over the rows.
        batch_size: at most all rows.
        lr: for 256 images, scaled with the batch; falls to 0 along a cosine.
        momentum: of SGD (Nesterov's).
        seed: of the order of the images.
        device: where it is done.
    """
    above_zero(lr, "lr")
    if min(epochs, batch_size) < 1:
        raise SettingError(
            f"epochs and batch_size need to be 1 or more: got {epochs}, {batch_size}."
        )
    images = as_images(train_images)
    tests = as_images(test_images)
    labels = as_labels(train_labels, len(images), "train_labels").cpu()
    asked = as_labels(test_labels, len(tests), "test_labels").cpu()
    rows = torch.arange(len(images)) if rows is None else rows.cpu()
    seen, truth, n_classes, notes = number_classes(labels[rows], asked)
    y = torch.zeros_like(labels)
    y[rows] = seen
    plain = encode_images(encoder, images, rows, device=device)
    scale = Scaler.of(plain)
    size = min(batch_size, len(rows))
    per_epoch = max(len(rows) // size, 1)
    generator = torch.Generator().manual_seed(seed)
    layer = zero_layer(plain.shape[1], n_classes).double()
    optimizer = torch.optim.SGD(
        layer.parameters(),
        lr=lr * size / 256,
        momentum=momentum,
        nesterov=momentum > 0,
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * per_epoch)
    for epoch in range(epochs):
        order = rows[torch.randperm(len(rows), generator=generator)]
        parts = order[: per_epoch * size].split(size)
        batches = images.batches(parts, device=device)
        for part, batch in zip(parts, batches, strict=True):
            with torch.no_grad():
                views = unit(batch) if augment is None else augment(batch, part, epoch)
                x = scale(encoder(views).float().cpu()).double()
            with torch.enable_grad():
                loss = cross_entropy(layer(x), y[part])
                optimizer.zero_grad()
                loss.backward()
            optimizer.step()
            schedule.step()
    h = encode_images(encoder, tests, torch.arange(len(tests)), device=device)
    with torch.no_grad():
        correct = layer(scale(h).double()).argmax(1) == truth
    settings: dict[str, Setting] = {
        "epochs": epochs,
        "batch_size": batch_size,
        "lr": float(lr),
        "momentum": float(momentum),
        "augmented": augment is not None,
        "n_train": len(rows),
        "seed": seed,
    }
    return Score.of("linear_sgd", correct, settings, notes)
