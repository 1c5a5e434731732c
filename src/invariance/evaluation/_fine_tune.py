r"""Fine-tuning: the encoder continues to learn, with labels.

$$\min_{\theta, W, b}\ \frac1n\sum_i -\log\operatorname{softmax}
  (W^\top f_\theta(x_i) + b)_{y_i}$$

from the encoder's weights and W = 0, with AdamW and a cosine schedule unless said, and
a fixed number of steps: the last step is scored, so nothing is chosen on test images.
Where an image may show several classes the softmax is a sigmoid per class. From
untrained weights the same is plain supervised training.
"""

import copy
import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Integer, Shaped
from torch import Tensor, nn

from ..errors import SettingError
from ._encode import encode_images
from ._images import Augment, Images, as_images
from ._labeled import as_targets, number_classes, number_rows
from ._optimization import Training, default_settings, other_than_usual
from ._predictions import judge
from ._score import Score, Setting


@dataclass(frozen=True)
class Classifier:
    """An encoder with a linear layer on top."""

    encoder: nn.Module
    layer: nn.Linear

    @torch.no_grad()
    def predict(
        self, images: Images | Tensor, *, device: torch.device | str = "cpu"
    ) -> Integer[Tensor, " n"]:
        """Class numbers, in the order of the classes seen in training."""
        return self.guess(images, device=device).argmax(1)

    @torch.no_grad()
    def guess(
        self, images: Images | Tensor, *, device: torch.device | str = "cpu"
    ) -> Float[Tensor, "n c"]:
        """A number per image and class, the higher the likelier."""
        h = encode_images(self.encoder, images, device=device)
        return self.layer.cpu()(h)


def fine_tune(
    encoder: nn.Module,
    train_images: Images | Tensor,
    train_labels: Shaped[Tensor, "n *c"],
    test_images: Images | Tensor,
    test_labels: Shaped[Tensor, "m *c"],
    *,
    rows: Integer[Tensor, " k"] | None = None,
    device: torch.device | str = "cpu",
    **training: Any,
) -> Score:
    """Test accuracy of the encoder trained further with labels; it is not changed.

    Args:
        encoder: images in [0, 1] in, features out; a copy of it is trained.
        train_images: a tensor, or what ``invariance.data.load`` gives.
        train_labels: one class per image, any integers; or a 0 or 1 per image and
            class, which gives the mean average precision.
        test_images: of the same kind.
        test_labels: their classes.
        rows: the training images that may be seen; None is all.
        device: where it is done.
        **training: as ``fit_classifier`` takes it, such as epochs=100.
    """
    classifier = fit_classifier(
        encoder, train_images, train_labels, rows=rows, device=device, **training
    )
    seen = train_labels if rows is None else train_labels[rows.to(train_labels.device)]
    _, truth, _, notes = number_classes(seen.cpu().long(), test_labels.cpu().long())
    guesses = classifier.guess(test_images, device=device)
    how = default_settings(fit_classifier) | training
    settings: dict[str, Setting] = {
        "epochs": how["epochs"],
        "min_steps": how["min_steps"],
        "batch_size": how["batch_size"],
        "lr": float(how["lr"]),
        "weight_decay": float(how["weight_decay"]),
        "augmented": how["augment"] is not None,
        "n_train": len(seen),
        "seed": how["seed"],
    }
    chosen = {name: how[name] for name in ("optimizer", "momentum", "schedule")}
    settings |= other_than_usual(fit_classifier, **chosen)
    return judge("fine_tune", [guesses], truth, settings, notes)


def fit_classifier(
    encoder: nn.Module,
    images: Images | Tensor,
    labels: Shaped[Tensor, "n *c"],
    *,
    rows: Integer[Tensor, " k"] | None = None,
    augment: Augment | None = None,
    epochs: int = 20,
    min_steps: int = 200,
    batch_size: int = 128,
    lr: float | int = 1e-3,
    weight_decay: float | int = 1e-4,
    optimizer: str = "adamw",
    momentum: float | int = 0.9,
    schedule: str = "cosine",
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Classifier:
    """A copy of the encoder and a linear layer, trained together on labeled rows.

    Args:
        encoder: images in [0, 1] in, features out; stays as it is.
        images: a tensor, or what ``invariance.data.load`` gives.
        labels: one class per image, or a 0 or 1 per image and class.
        rows: the images that may be seen; None is all.
        augment: applied to the images, see ``Augment``.
        epochs: passes over the rows, more if that makes fewer than ``min_steps``.
        min_steps: so that a handful of labels is learned, too.
        batch_size: at most all rows.
        lr: the peak, where it begins; it is not scaled with the batch.
        weight_decay: of all weights.
        optimizer: "adamw", "adam", "nadam" or "sgd" (with Nesterov's momentum).
        momentum: of SGD, or the first beta of the others.
        schedule: how the rate falls: "cosine" and "linear" to 0, "step" to a tenth at
            60 and at 80 % of the steps, "constant" not at all.
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
        optimizer=optimizer,
        seed=seed,
        augment=augment,
        device=device,
    )
    if min_steps < 0:
        raise SettingError(f"min_steps needs to be 0 or more: got {min_steps}.")
    images = as_images(images)
    labels = as_targets(labels, len(images)).cpu()
    rows = torch.arange(len(images)) if rows is None else rows.cpu()
    y, _, n_classes, _ = number_rows(labels, rows, labels[:0])
    per_epoch = len(rows) // min(batch_size, len(rows))
    epochs = max(epochs, math.ceil(min_steps / per_epoch))
    # what the network itself draws (dropout) is keyed as well, and leaves no trace
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = copy.deepcopy(encoder).to(device).train()
        width = encode_images(network, images, rows[:1], device=device).shape[1]
        network.train().requires_grad_(True)
        layer = zero_layer(width, n_classes).to(device)
        classifier = nn.Sequential(network, layer)
        training = dataclasses.replace(training, epochs=epochs)
        training.learn(classifier, [*classifier.parameters()], images, rows, y)
    return Classifier(network.eval(), layer)


def zero_layer(width: int, n_classes: int) -> nn.Linear:
    """A linear layer that starts with no opinion."""
    layer = nn.Linear(width, n_classes)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
