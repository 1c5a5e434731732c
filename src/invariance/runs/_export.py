"""Export: the encoder for other programs, checked against the original.

Random samples go through the encoder and through what was read back from the file; a
file that does not give the same features is not kept.
"""

import contextlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..encoders import BATCHES, Encoder, compare_features
from ..errors import DataError, SettingError, choose
from ..folder import refuse_file, require_place
from ..progress import tell
from ._export_formats import FORMATS, Format
from ._inputs import open_encoder


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
        overwrite: replace an existing file.
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
    refuse_file(path, overwrite=overwrite)
    for note in notes:
        tell(note, quiet=quiet)
    part = path.with_name(f".part.{path.name}")
    try:
        kind.write(encoder, part)
        difference, largest = compare_features(encoder, kind.read(encoder, part), to)
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
    require_place(path)
    ending = "." + kind.suffix.rpartition(".")[2]
    if path.suffix != ending:
        raise SettingError(
            f"{str(path)!r} does not end in {ending}, as files of this format do."
        )
    return path
