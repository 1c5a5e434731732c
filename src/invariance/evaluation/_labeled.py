"""Training and test rows with their labels, checked, and their classes numbered alike.

Labels may be any integers: they are numbered 0..C-1 in ascending order of the classes
seen in training. A test label that training never saw gets -1, which no prediction
equals: it counts as wrong, and a note says so.

Where a sample may be of several classes, its labels are a row of 0 and 1 (-1: not
known), a column per class; they stay as they are.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Integer, Shaped
from torch import Tensor

from ..checked_rows import as_labels, as_rows
from ..errors import DataError, ShapeError
from ._predictions import Targets


@dataclass(frozen=True)
class Labeled:
    """What an evaluation works on, all on the device of the training rows."""

    train_h: Float[Tensor, "n e"]
    train_y: Integer[Tensor, "n *c"]
    test_h: Float[Tensor, "m e"]
    test_y: Integer[Tensor, "m *c"]
    n_classes: int
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, train_h: Tensor, train_labels: Tensor, test_h: Tensor, test_labels: Tensor
    ) -> "Labeled":
        """Check the four tensors and number their classes."""
        train, test = as_rows(train_h, "train_h"), as_rows(test_h, "test_h")
        if train.shape[1] != test.shape[1]:
            raise ShapeError(
                "train_h and test_h need the same width: got "
                f"{tuple(train_h.shape)} and {tuple(test_h.shape)}. "
                "Embed both with the same encoder."
            )
        dtype, device = torch.promote_types(train.dtype, test.dtype), train.device
        given = as_targets(train_labels, len(train), "train_labels").to(device)
        asked = as_targets(test_labels, len(test), "test_labels").to(device)
        train_y, test_y, n_classes, notes = number_classes(given, asked)
        test = test.to(device, dtype)
        return cls(train.to(dtype), train_y, test, test_y, n_classes, notes)


def as_targets(labels: Tensor, n: int, name: str = "labels") -> Targets:
    """One integer per row, or one 0 or 1 per row and class, checked."""
    if not isinstance(labels, Tensor) or labels.ndim != 2:
        return as_labels(labels, n, name)
    if len(labels) != n or not labels.shape[1]:
        raise ShapeError(
            f"{name} needs one row per sample, ({n}, classes): got "
            f"{tuple(labels.shape)}."
        )
    if not ((labels >= -1) & (labels <= 1) & (labels == labels.round())).all():
        raise DataError(
            f"{name} has a column per class, which holds 1 where the sample is of it, "
            f"0 where not, -1 where that is not known: got {labels.min().item()} to "
            f"{labels.max().item()}."
        )
    return labels.detach().long()


def one_class_each(labels: Tensor, what: str) -> None:
    """Refuse rows of several classes where only one makes sense."""
    if isinstance(labels, Tensor) and labels.ndim == 2:
        raise DataError(
            f"{what} needs one class per sample, and labels of shape "
            f"{tuple(labels.shape)} may name several: use knn, linear_probe, "
            "linear_sgd or fine_tune."
        )


def number_classes(
    given: Shaped[Tensor, "n *c"], asked: Shaped[Tensor, "m *d"]
) -> tuple[Tensor, Tensor, int, tuple[str, ...]]:
    """Training and test labels as 0..C-1 (test: -1 if unseen), C, and notes.

    >>> number_classes(torch.tensor([7, 3]), torch.tensor([3, 5]))[:3]
    (tensor([1, 0]), tensor([ 0, -1]), 2)
    """
    if given.shape[1:] != asked.shape[1:]:
        raise ShapeError(
            "Training and test labels need the same classes, one label or one column "
            f"per class: got {tuple(given.shape)} and {tuple(asked.shape)}."
        )
    if given.ndim == 2:
        return given, asked, given.shape[1], ()
    classes, train_y = given.unique(return_inverse=True)
    test_y = torch.searchsorted(classes, asked).clamp(max=len(classes) - 1)
    unseen = classes[test_y] != asked
    notes = _unseen_note(asked[unseen])
    return train_y, test_y.masked_fill(unseen, -1), len(classes), notes


def number_rows(
    labels: Shaped[Tensor, "n *c"],
    rows: Integer[Tensor, " k"],
    asked: Shaped[Tensor, "m *d"],
) -> tuple[Tensor, Tensor, int, tuple[str, ...]]:
    """The same where training sees only some rows; the others have no number."""
    y = torch.zeros_like(labels)
    y[rows], test_y, n_classes, notes = number_classes(labels[rows], asked)
    return y, test_y, n_classes, notes


def _unseen_note(labels: Integer[Tensor, " k"]) -> tuple[str, ...]:
    if len(labels) == 0:
        return ()
    names = labels.unique().tolist()
    shown = ", ".join(map(str, names[:5])) + (", ..." if len(names) > 5 else "")
    which = f"class {shown} is" if len(names) == 1 else f"classes {shown} are"
    return (
        f"Test {which} not among the training labels: {len(labels)} of the "
        "test samples count as wrong.",
    )
