"""``--config file.yaml``: settings from a file, with flags on top."""

from ..errors import SettingError
from ..training import Train


def split_config_file(arguments: list[str]) -> tuple[list[str], Train]:
    """Take ``--config FILE`` out of the arguments and read it.

    >>> rest, start = split_config_file(["--epochs", "3"])
    >>> rest, start.epochs
    (['--epochs', '3'], 20)
    """
    rest: list[str] = []
    path = None
    words = iter(arguments)
    for word in words:
        if word == "--config":
            path = next(words, None)
            if path is None:
                raise SettingError("--config needs a file of settings.")
        elif word.startswith("--config="):
            path = word.removeprefix("--config=")
        else:
            rest.append(word)
    if path is None:
        return rest, Train()
    from ..folder import read_yaml

    return rest, read_yaml(Train, path)
