"""What a benchmark needs, asked before it measures anything."""

import re
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path


def require_cuda(parser: ArgumentParser) -> None:
    """End in words where there is no CUDA device."""
    import torch  # late: who times imports must not have it yet

    if not torch.cuda.is_available():
        parser.error("There is no CUDA device.")


def source_tree(text: str) -> Path:
    """A folder with the package in it.

    Python passes over a path that does not exist, so that the installed package would
    be measured in the place of another one.
    """
    path = Path(text)
    if not (path / "invariance" / "__init__.py").is_file():
        raise ArgumentTypeError(f"{text!r} has no package 'invariance': name its src.")
    return path


def piece_job(text: str) -> str:
    """BATCH, BATCH:PIECE or BATCH:PIECE:called.

    >>> piece_job("4096:512:called")
    '4096:512:called'
    """
    if not re.fullmatch(r"[0-9]+(:[0-9]+(:called)?)?", text):
        raise ArgumentTypeError(
            f"{text!r} is not BATCH, BATCH:PIECE or BATCH:PIECE:called."
        )
    return text
