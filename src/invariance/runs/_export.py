r"""Export: the encoder for other programs, checked against the original.

$$\max_{n}\max_{x \in [0,1]^{n\times c\times s\times s}} |f(x) - f'(x)|
\le 10^{-4}\max|f(x)|,\qquad n \in \{1, 2, 7\}$$

Random samples go through the encoder and through what was read back from the file; a
file that does not give the same features is not kept.
"""

import contextlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data import Image
from ..encoders import Encoder
from ..errors import (
    DataError,
    InvarianceError,
    NotFiniteError,
    SettingError,
    choose,
)
from ..progress import tell
from ._export_formats import FORMATS, Format, Network
from ._inputs import open_encoder

BATCHES = (1, 2, 7)
TOLERANCE = 1e-4  # of the largest feature


@dataclass(frozen=True)
class ExportedFile:
    """A file, and how far it is from the original.

    Attributes:
        path: of the file.
        to: its format.
        difference: the largest one, of any feature of any image tried.
        largest: the largest feature of the original on the same images.
        batch_sizes: how many images were tried at once.
        usage: code that reads the file.
        notes: what else a user should know.
    """

    path: Path
    to: str
    difference: float
    largest: float
    batch_sizes: tuple[int, ...]
    usage: str
    notes: tuple[str, ...] = ()


def export(
    run_or_encoder: Any,
    to: str,
    file: str | Path | None = None,
    *,
    overwrite: bool = False,
    quiet: bool = True,
) -> ExportedFile:
    """Write the encoder in another format, and check what was written.

    Args:
        run_or_encoder: a run, its folder, an encoder file, or an encoder.
        to: "safetensors" (for ``inv.load``), "timm", "pt2" (for ``torch.export.load``)
            or "onnx".
        file: where to; by default named after the run, in this folder.
        overwrite: replace a file that is there.
        quiet: say nothing while it works.

    >>> import tempfile
    >>> from invariance.encoders import build_encoder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "tiny.safetensors")
    ...     export(build_encoder("tiny"), "safetensors", file).difference
    0.0
    """
    if to == "torchscript":
        raise SettingError(
            "TorchScript is deprecated in torch: export to 'pt2' instead, which "
            "torch.export.load reads."
        )
    kind = choose(FORMATS, to, "format")
    if missing := [name for name in kind.packages if find_spec(name) is None]:
        raise SettingError(
            f"Exporting to {to} needs {' and '.join(missing)}: "
            f"pip install 'invariance[{to}]'."
        )
    encoder, notes = open_encoder(run_or_encoder)
    encoder = encoder.cpu()
    path = choose_path(run_or_encoder, encoder, kind, file)
    if path.exists() and not overwrite:
        raise DataError(
            f"{str(path)!r} exists already: choose another name, or use --overwrite "
            "(overwrite=True) to replace it."
        )
    if not path.parent.is_dir():
        raise SettingError(f"There is no folder {str(path.parent)!r} to write into.")
    for note in notes:
        tell(note, quiet=quiet)
    part = path.with_name(f".part.{path.name}")
    try:
        kind.write(encoder, part)
        difference, largest = compare(encoder, kind.read(encoder, part), to)
        part.replace(path)
    except OSError as cause:
        why = cause.strerror or str(cause)
        raise DataError(f"Could not write {str(path)!r}: {why}.") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    usage = kind.usage(encoder, path)
    return ExportedFile(path, to, difference, largest, BATCHES, usage, kind.notes)


def choose_path(
    run_or_encoder: Any, encoder: Encoder, kind: Format, file: str | Path | None
) -> Path:
    """Where the file goes; its ending has to be one of the format's."""
    if file is None:
        folder = getattr(run_or_encoder, "folder", run_or_encoder)
        named = isinstance(folder, str | Path)
        name = Path(folder).resolve().stem if named else encoder.name.replace("/", "-")
        return Path(name + kind.suffix)
    path = Path(file).expanduser()
    if path.is_dir():
        raise SettingError(f"{str(path)!r} is a folder: name a file.")
    ending = "." + kind.suffix.rpartition(".")[2]
    if path.suffix != ending:
        raise SettingError(
            f"{str(path)!r} does not end in {ending}, as files of this format do."
        )
    return path


def draw_samples(encoder: Encoder, n: int, generator: torch.Generator) -> Tensor:
    """Random samples, as the encoder takes them."""
    shape, kind = (n, *encoder.input_shape), encoder.kind
    if not encoder.blank().is_floating_point():
        most = getattr(kind, "vocabulary", 2)
        return torch.randint(0, most, shape, generator=generator)
    if kind is None or isinstance(kind, Image):
        return torch.rand(shape, generator=generator)
    return torch.randn(shape, generator=generator)


@torch.no_grad()
def compare(encoder: Encoder, network: Network, to: str) -> tuple[float, float]:
    """The largest difference of any feature, and the largest feature."""
    generator = torch.Generator().manual_seed(0)
    difference = largest = 0.0
    for n in BATCHES:
        samples = draw_samples(encoder, n, generator)
        ours = encoder(samples)
        try:
            theirs = network(samples)
        except Exception as cause:
            first_line = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
            raise InvarianceError(
                f"{encoder.name} as {to} fails on a batch of {n}: "
                f"{first_line.rstrip('.:')}. Nothing was written."
            ) from None
        if theirs.shape != ours.shape:
            raise InvarianceError(
                f"{encoder.name} as {to} gives features of shape "
                f"{tuple(theirs.shape)} where the original gives {tuple(ours.shape)}: "
                "nothing was written."
            )
        if not bool(ours.isfinite().all()):
            raise NotFiniteError(
                f"The features of {encoder.name} are not finite: it has diverged, and "
                "nothing was written."
            )
        apart = (ours - theirs).abs().nan_to_num(torch.inf)
        difference = max(difference, apart.max().item())
        largest = max(largest, ours.abs().max().item())
    if difference > TOLERANCE * largest:
        raise InvarianceError(
            f"{encoder.name} as {to} differs from the original by {difference:.3g}, "
            f"where features are up to {largest:.3g}: nothing was written."
        )
    return difference, largest
