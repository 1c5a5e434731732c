"""What can be set of which protocols, and what it may be; known without torch."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..errors import SettingError, choose, unknown
from ..plain_numbers import check_least, check_number, check_positive_number

Settings = Mapping[str, Mapping[str, Any]]
"""By group, such as {"fine_tune": {"epochs": 100}}."""

Check = Callable[[str, Any], None]


def least(number: int) -> Check:
    """So much or more."""
    return partial(check_least, least=number)


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


def leave_to_protocol(name: str, value: Any) -> None:
    """Names are looked up, and truth values taken, where they are used."""


OPTIMIZATION: dict[str, Check] = {
    "epochs": least(1),
    "batch_size": least(1),
    "lr": check_positive_number,
    "momentum": check_momentum,
    "weight_decay": check_strength,
    "schedule": leave_to_protocol,
    "augment": leave_to_protocol,
}
GROUPS: dict[str, dict[str, Check]] = {
    "zero_shot": {"templates": check_templates},
    "knn": {"k": least(1), "temperature": check_positive_number},
    "linear": {"l2": check_strength},
    "linear_sgd": OPTIMIZATION | {"standardize": leave_to_protocol},
    "fine_tune": OPTIMIZATION | {"min_steps": least(0), "optimizer": leave_to_protocol},
    "few_labels": {"shares": check_shares, "draws": least(1)},
    "attack": {
        "epsilon": check_positive_number,
        "steps": least(1),
        "step_size": check_positive_number,
        "norm": leave_to_protocol,
        "restarts": least(1),
        "images": least(1),
    },
    "steps_ahead": {"steps": least(1)},
}
"""What can be set of what, each with what refuses a value that cannot work."""


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
            if value is not None:  # the usual
                known[key](f"{group}.{key}", value)
