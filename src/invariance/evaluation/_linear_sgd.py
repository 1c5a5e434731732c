r"""The linear protocol of the papers: SGD on features of augmented images.

$$\min_{W,b}\ \mathrm E_{x\sim\text{data}}\,\mathrm E_{a}\;
  -\log\operatorname{softmax}(W^\top f(a(x)) + b)_{y}$$

with f frozen and random augmentations a. Unlike ``linear_probe`` it does not converge
to one answer: it has a learning rate and a schedule, and sees other crops at every
epoch. It is here because published numbers are mostly made this way. Features are
standardized by the training images as they are unless said; the last step is scored.
Where an image may show several classes the softmax is a sigmoid per class.
"""

import dataclasses

import torch
from jaxtyping import Integer, Shaped
from torch import Tensor, nn

from ._encode import encode_images
from ._fine_tune import zero_layer
from ._images import Augment, Images, as_images
from ._labeled import as_targets, number_rows
from ._linear_probe import Scaler
from ._optimization import Training, other_than_usual
from ._predictions import judge
from ._score import Score, Setting


def linear_sgd(
    encoder: nn.Module,
    train_images: Images | Tensor,
    train_labels: Shaped[Tensor, "n *c"],
    test_images: Images | Tensor,
    test_labels: Shaped[Tensor, "m *c"],
    *,
    rows: Integer[Tensor, " k"] | None = None,
    augment: Augment | None = None,
    epochs: int = 20,
    batch_size: int = 256,
    lr: float | int = 0.3,
    momentum: float | int = 0.9,
    weight_decay: float | int = 0.0,
    schedule: str = "cosine",
    standardize: bool = True,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Score:
    """Test accuracy of a linear layer trained by SGD on the frozen encoder.

    Args:
        encoder: images in [0, 1] in, features out; stays as it is.
        train_images: a tensor, or what ``invariance.data.load`` gives.
        train_labels: one class per image, any integers; or a 0 or 1 per image and
            class, which gives the mean average precision.
        test_images: of the same kind.
        test_labels: their classes.
        rows: the training images that may be seen; None is all.
        augment: applied to training images, see ``Augment``.
        epochs: passes over the rows.
        batch_size: at most all rows.
        lr: for 256 images, scaled with the batch.
        momentum: of SGD (Nesterov's).
        weight_decay: of the layer.
        schedule: how the rate falls: "cosine" and "linear" to 0, "step" to a tenth at
            60 and at 80 % of the steps, "constant" not at all.
        standardize: features by the training images' mean and deviation; without, the
            learning rate depends on how large they are.
        seed: of the order of the images.
        device: where it is done.
    """
    training = Training(
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        weight_decay=weight_decay,
        momentum=momentum,
        schedule=schedule,
        seed=seed,
        augment=augment,
        device=device,
    )
    images = as_images(train_images)
    tests = as_images(test_images)
    labels = as_targets(train_labels, len(images), "train_labels").cpu()
    asked = as_targets(test_labels, len(tests), "test_labels").cpu()
    rows = torch.arange(len(images)) if rows is None else rows.cpu()
    y, truth, n_classes, notes = number_rows(labels, rows, asked)
    plain = encode_images(encoder, images, rows, device=device)
    scale = Scaler.of(plain) if standardize else Tensor.double
    layer = zero_layer(plain.shape[1], n_classes).double()

    def guess(views: Tensor) -> Tensor:
        with torch.no_grad():
            x = scale(encoder(views).float().cpu()).double()
        return layer(x)

    training = dataclasses.replace(training, lr=lr * min(batch_size, len(rows)) / 256)
    training.learn(guess, [*layer.parameters()], images, rows, y)
    h = encode_images(encoder, tests, device=device)
    with torch.no_grad():
        guesses = layer(scale(h).double())
    settings: dict[str, Setting] = {
        "epochs": epochs,
        "batch_size": batch_size,
        "lr": float(lr),
        "momentum": float(momentum),
        "augmented": augment is not None,
        "n_train": len(rows),
        "seed": seed,
    }
    settings |= other_than_usual(
        linear_sgd,
        weight_decay=weight_decay,
        schedule=schedule,
        standardize=standardize,
    )
    return judge("linear_sgd", [guesses], truth, settings, notes)
