"""What can be set of which protocols, and what it may be; known without torch.

A setting is a field: its text is its help on the command line, and what refuses a value
that cannot work stands beside its type. Where there is none, the protocol itself looks
the value up. None is the usual, which the function of the protocol has as its default.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, get_type_hints

from ..errors import SettingError, choose, unknown
from ..plain_numbers import check_least, check_number, check_positive_number

Settings = Mapping[str, Mapping[str, Any]]
"""By group, such as {"fine_tune": {"epochs": 100}}."""

Check = Callable[[str, Any], None]
AT_LEAST_0, AT_LEAST_1 = (partial(check_least, least=number) for number in (0, 1))
Schedule = Literal["cosine", "linear", "step", "constant"]


def check_strength(name: str, value: Any) -> None:
    """Zero is nothing at all."""
    check_number(name, value)
    check_least(name, value, 0)


def check_momentum(name: str, value: Any) -> None:
    """A share that is kept, short of all."""
    if not 0 <= value < 1:
        raise SettingError(f"{name} is 0 or more and below 1: got {value}.")


def check_shares(name: str, value: Any) -> None:
    """One share of the labels or several."""
    shares = [value] if isinstance(value, int | float) else list(value)
    if not shares or not all(0 < share <= 1 for share in shares):
        raise SettingError(
            f"{name} are parts of the labels, each above 0 and up to 1, and at least "
            f"one: got {shares}."
        )


def check_templates(name: str, value: Any) -> None:
    """Sentences, each with a place for the name of a class."""
    several = [value] if isinstance(value, str) else list(value)
    wrong = next((one for one in several if "{}" not in one), None)
    if not several or wrong is not None:
        raise SettingError(
            f"{name} are sentences with {{}} where the name of a class belongs, at "
            f"least one: got {several if wrong is None else wrong!r}."
        )


@dataclass(frozen=True, kw_only=True)
class Knn:
    """The vote of nearest neighbors (knn, knn_regression)."""

    k: Annotated[int | None, AT_LEAST_1] = None
    """Neighbors that vote. Default: 20."""
    temperature: Annotated[float | None, check_positive_number] = None
    """How fast a vote fades with its cosine. Default: 0.1."""


@dataclass(frozen=True, kw_only=True)
class Linear:
    """The linear probe (linear, few_labels_linear, ridge)."""

    l2: Annotated[float | None, check_strength] = None
    """Strength of its penalty, 0 for none. Default: chosen on training images."""


@dataclass(frozen=True, kw_only=True)
class LinearSgd:
    """The linear layer trained on augmented images (linear_sgd)."""

    epochs: Annotated[int | None, AT_LEAST_1] = None
    """Passes over the training images. Default: 20."""
    batch_size: Annotated[int | None, AT_LEAST_1] = None
    """Images per step. Default: 256."""
    lr: Annotated[float | None, check_positive_number] = None
    """Peak learning rate for 256 images, scaled with the batch. Default: 0.3."""
    momentum: Annotated[float | None, check_momentum] = None
    """Nesterov momentum. Default: 0.9."""
    weight_decay: Annotated[float | None, check_strength] = None
    """Weight decay of the layer. Default: 0.0."""
    schedule: Schedule | None = None
    """How the rate falls; step: to a tenth at 60 and 80 %. Default: cosine."""
    standardize: bool | None = None
    """Whether features are standardized first. Default: True."""
    augment: bool | None = None
    """Whether it sees crops and flips, or the images as they are. Default: True."""


@dataclass(frozen=True, kw_only=True)
class FineTune:
    """The encoder trained on with labels (fine_tune, few_labels_fine_tune)."""

    epochs: Annotated[int | None, AT_LEAST_1] = None
    """Passes over the training images. Default: 20."""
    min_steps: Annotated[int | None, AT_LEAST_0] = None
    """Least number of steps, so that a handful of labels is learned too. Default:
    200."""
    batch_size: Annotated[int | None, AT_LEAST_1] = None
    """Images per step. Default: 128."""
    lr: Annotated[float | None, check_positive_number] = None
    """Peak learning rate, not scaled with the batch. Default: 0.001."""
    weight_decay: Annotated[float | None, check_strength] = None
    """Weight decay of all weights. Default: 0.0001."""
    optimizer: Literal["adamw", "adam", "nadam", "sgd"] | None = None
    """What moves the weights. Default: adamw."""
    momentum: Annotated[float | None, check_momentum] = None
    """Momentum of sgd, or the first beta of the others. Default: 0.9."""
    schedule: Schedule | None = None
    """How the rate falls; step: to a tenth at 60 and 80 %. Default: cosine."""
    augment: bool | None = None
    """Whether it sees crops and flips, or the images as they are. Default: True."""


@dataclass(frozen=True, kw_only=True)
class FewLabels:
    """A share of the labels (few_labels_linear, few_labels_fine_tune)."""

    shares: Annotated[tuple[float, ...] | None, check_shares] = None
    """Shares of the training labels, above 0 and up to 1. Default: 0.01 0.1."""
    draws: Annotated[int | None, AT_LEAST_1] = None
    """How often each share is drawn. Default: 3."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """PGD against the linear probe on the frozen encoder (attacked)."""

    epsilon: Annotated[float | None, check_positive_number] = None
    """How far images may be changed, with pixels from 0 to 1. Default: 8/255, or
    128/255 for l2."""
    steps: Annotated[int | None, AT_LEAST_1] = None
    """Steps from each start; try more to see whether these are enough. Default: 20."""
    step_size: Annotated[float | None, check_positive_number] = None
    """Length of a step. Default: a quarter of epsilon."""
    norm: Literal["linf", "l2"] | None = None
    """What epsilon bounds: every pixel, or the whole change's length. Default: linf."""
    restarts: Annotated[int | None, AT_LEAST_1] = None
    """Random starts; an image must stay right from all of them. Default: 1."""
    images: Annotated[int | None, AT_LEAST_1] = None
    """Most test images to attack, evenly spread. Default: 1000."""


@dataclass(frozen=True, kw_only=True)
class StepsAhead:
    """How far ahead an encoder of sequences predicts (steps_ahead)."""

    steps: Annotated[int | None, AT_LEAST_1] = None
    """Patches ahead. Default: half of a window, at most 12."""


@dataclass(frozen=True, kw_only=True)
class ZeroShot:
    """Images named by the nearest caption (zero_shot), of runs on pairs."""

    templates: Annotated[tuple[str, ...] | None, check_templates] = None
    """Sentences with {} for the name of a class, whose rows are averaged. Default: 'a
    {}', '{}', 'a picture of a {}', 'there is a {}'."""


@dataclass(frozen=True, kw_only=True)
class ProtocolSettings:
    """What can be set of all protocols; a group serves those that its text names."""

    knn: Knn = field(default_factory=Knn)
    linear: Linear = field(default_factory=Linear)
    linear_sgd: LinearSgd = field(default_factory=LinearSgd)
    fine_tune: FineTune = field(default_factory=FineTune)
    few_labels: FewLabels = field(default_factory=FewLabels)
    attack: Attack = field(default_factory=Attack)
    steps_ahead: StepsAhead = field(default_factory=StepsAhead)
    zero_shot: ZeroShot = field(default_factory=ZeroShot)

    def list_given(self) -> dict[str, dict[str, Any]]:
        """What is not left at its usual value, by group."""
        return {
            group: {
                k: v for k, v in asdict(getattr(self, group)).items() if v is not None
            }
            for group in GROUPS
        }


def list_checks(group: type) -> dict[str, Check | None]:
    """The settings of a group, each with what refuses a value that cannot work."""
    hints = get_type_hints(group, include_extras=True)
    return {
        name: next(iter(getattr(hint, "__metadata__", ())), None)
        for name, hint in hints.items()
    }


GROUPS = {name: list_checks(g) for name, g in get_type_hints(ProtocolSettings).items()}
"""What can be set of what, each with what refuses a value that cannot work, if any."""


def check_settings(settings: Settings) -> None:
    """Refuse settings that nobody knows, and values that cannot work.

    >>> check_settings({"linear": {"l2": -1}})
    Traceback (most recent call last):
    invariance.errors.SettingError: linear.l2 is 0 or more: got -1.
    """
    for group, values in settings.items():
        known = choose(GROUPS, group, "group of settings")
        for key, value in values.items():
            if key not in known:
                raise SettingError(unknown(f"setting of {group}", key, known))
            if value is not None and (check := known[key]) is not None:
                check(f"{group}.{key}", value)
