"""Numbers that cannot work, refused before time is spent on them."""

import math

from ..errors import SettingError
from ._settings import Train
from ._trackers import check_installed

LARGEST_SEED = 2**40  # times 100,003, for the order of an epoch, it fits 64 bits


def check(settings: Train, processes: int) -> None:
    """Refuse numbers that cannot work before time is spent on them."""
    for name, value, least in (
        ("epochs", settings.epochs, 1),
        ("batch_size", settings.batch_size, 2),
        ("optim.accumulate", settings.optim.accumulate, 1),
        ("n_views", 2 if settings.n_views is None else settings.n_views, 1),
        ("log_every", settings.log_every, 0),
        ("checkpoint_seconds", settings.checkpoint_seconds, 0),
        ("knn_every", settings.knn_every, 0),
        ("limit", 1 if settings.limit is None else settings.limit, 1),
        ("workers", 0 if settings.workers is None else settings.workers, 0),
        ("optim.weight_decay", settings.optim.weight_decay, 0),
    ):
        if not value >= least:
            raise SettingError(f"{name} must be at least {least}: got {value}.")
    for name, number in (
        ("optim.lr", settings.optim.lr),
        ("optim.clip_norm", settings.optim.clip_norm),
    ):
        if number is not None and not 0 < number < math.inf:
            raise SettingError(f"{name} must be positive and finite: got {number}.")
    if not 0 <= settings.optim.warmup < 1:
        raise SettingError(
            f"optim.warmup is a share of training, 0 to 1: got {settings.optim.warmup}."
        )
    if not 0 <= settings.optim.momentum < 1:
        raise SettingError(
            f"optim.momentum lies between 0 and 1: got {settings.optim.momentum}."
        )
    if abs(settings.seed) > LARGEST_SEED:
        raise SettingError(
            f"seed lies between -{LARGEST_SEED} and {LARGEST_SEED}: got "
            f"{settings.seed}."
        )
    check_installed(settings.trackers)
    if settings.batch_size % processes:
        raise SettingError(
            f"batch_size {settings.batch_size} is shared by {processes} processes: "
            f"choose a multiple of {processes}."
        )
