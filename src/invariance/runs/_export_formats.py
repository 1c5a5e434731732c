"""What an encoder can be exported to: how each is written, read back and used.

TorchScript and ONNX files take float images in [0, 1] and standardise them themselves,
as the encoder does; a timm file holds the network alone, see ``_export_timm``.
"""

import copy
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..encoders import ENCODERS, Encoder, standardize
from ..errors import InvarianceError, SettingError
from ..training import _encoder_file
from ._export_timm import code, inner, read_timm, write_timm

Network = Callable[[Tensor], Tensor]
ADVICE = "Make room or mend the disk, and export again."


class Format(ABC):
    """One format; subclasses are final."""

    suffixes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @property
    def endings(self) -> tuple[str, ...]:
        """What the name of a file may end in."""
        return tuple("." + suffix.rpartition(".")[2] for suffix in self.suffixes)

    def check_packages(self) -> None:
        """Raise when something needs to be installed first."""
        missing = [name for name in self.packages if find_spec(name) is None]
        if missing:
            raise SettingError(
                f"Exporting to ONNX needs {' and '.join(missing)}: "
                "pip install 'invariance[onnx]'."
            )

    @abstractmethod
    def write(self, encoder: Encoder, path: Path) -> None:
        """The file."""

    @abstractmethod
    def read(self, encoder: Encoder, path: Path) -> Network:
        """Images in [0, 1] in, features out, by what is in the file."""

    @abstractmethod
    def usage(self, encoder: Encoder, path: Path) -> str:
        """Code that does so."""


class Safetensors(Format):
    """Weights and how to rebuild the encoder, for ``inv.load``."""

    suffixes = (".safetensors",)

    def write(self, encoder: Encoder, path: Path) -> None:
        """As in a run folder, where every encoder standardises its images."""
        if inner(encoder)[0] is None:
            n = encoder.input_shape[0]
            encoder = standardize(encoder, [0.0] * n, [1.0] * n)
        _encoder_file.write(encoder, path, advice=ADVICE)

    def read(self, encoder: Encoder, path: Path) -> Network:
        """By name, or into a copy of the module where that has no name."""
        network = None if named(encoder) else copy.deepcopy(inner(encoder)[1])
        return _encoder_file.load(path, network=network)

    def usage(self, encoder: Encoder, path: Path) -> str:
        """One line."""
        own = "" if named(encoder) else ", network=module"
        return (
            f"encoder = invariance.load({str(path)!r}{own})\n"
            "features = encoder(images)  # float images in [0, 1]"
        )


class Timm(Format):
    """The network alone, for ``timm.create_model``."""

    suffixes = (".timm.safetensors",)
    notes = (
        "The file holds the network alone; standardising the images is left to you, "
        "with the mean and std above (also in the file's metadata).",
    )

    def write(self, encoder: Encoder, path: Path) -> None:
        """The state of the network under timm's own names; others are refused."""
        write_timm(encoder, path, ADVICE)

    def read(self, encoder: Encoder, path: Path) -> Network:
        """Into a fresh network of timm."""
        return read_timm(encoder, path)

    def usage(self, encoder: Encoder, path: Path) -> str:
        """With the settings timm needs to build the same network."""
        return code(encoder, path)


class TorchScript(Format):
    """A traced program, for torch in Python or C++ without this package."""

    suffixes = (".torchscript.pt", ".ts", ".torchscript")
    notes = ("torch calls TorchScript deprecated: prefer onnx for what must last.",)

    def write(self, encoder: Encoder, path: Path) -> None:
        """Trace it on two blank images."""
        blank = torch.zeros(2, *encoder.input_shape)
        with silence(), torch.no_grad(), in_words(encoder, "TorchScript"):
            traced = torch.jit.trace(encoder, blank, check_trace=False)
            traced = torch.jit.freeze(traced.eval())
        with silence(), path.open("wb") as file:
            torch.jit.save(traced, file)

    def read(self, encoder: Encoder, path: Path) -> Network:
        """With torch alone."""
        with silence():
            return torch.jit.load(str(path), map_location="cpu")

    def usage(self, encoder: Encoder, path: Path) -> str:
        """Two lines."""
        return (
            f"encoder = torch.jit.load({str(path)!r})\n"
            "features = encoder(images)  # float images in [0, 1], any batch size"
        )


class Onnx(Format):
    """A graph, for onnxruntime and many others."""

    suffixes = (".onnx",)
    packages = ("onnx", "onnxscript", "onnxruntime")

    def write(self, encoder: Encoder, path: Path) -> None:
        """One file, for any number of images at once."""
        blank = torch.zeros(2, *encoder.input_shape)
        with silence(), torch.no_grad(), in_words(encoder, "ONNX"):
            torch.onnx.export(
                encoder,
                (blank,),
                str(path),
                dynamo=True,
                input_names=["images"],
                output_names=["features"],
                dynamic_shapes=({0: torch.export.Dim("n")},),
                external_data=False,
                verbose=False,
            )

    def read(self, encoder: Encoder, path: Path) -> Network:
        """With onnxruntime on the CPU."""
        import onnxruntime

        providers = ["CPUExecutionProvider"]
        with in_words(encoder, "ONNX"):
            session = onnxruntime.InferenceSession(str(path), providers=providers)

        def run(images: Tensor) -> Tensor:
            (features,) = session.run(["features"], {"images": images.numpy()})
            return torch.from_numpy(features)

        return run

    def usage(self, encoder: Encoder, path: Path) -> str:
        """Two lines."""
        return (
            f"session = onnxruntime.InferenceSession({str(path)!r})\n"
            '(features,) = session.run(None, {"images": images})'
            "  # float32 in [0, 1], any batch size"
        )


FORMATS: dict[str, Format] = {
    "safetensors": Safetensors(),
    "timm": Timm(),
    "torchscript": TorchScript(),
    "onnx": Onnx(),
}


def named(encoder: Encoder) -> bool:
    """Whether the encoder can be built from its name."""
    if encoder.name in ENCODERS or encoder.name.startswith("torchvision/"):
        return True
    import timm

    return timm.is_model(encoder.name.removeprefix("timm/"))


@contextmanager
def silence() -> Iterator[None]:
    """No warnings of exporters: what they warn of is checked afterwards."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def in_words(encoder: Encoder, to: str) -> Iterator[None]:
    """Whatever an exporter raises, as one sentence."""
    try:
        yield
    except (InvarianceError, OSError):
        raise
    except Exception as cause:
        lines: list[Any] = [w for w in str(cause).splitlines() if w.strip()]
        why = lines[0].strip() if lines else type(cause).__name__
        raise SettingError(
            f"{encoder.name} cannot be exported to {to}: {why}"
        ) from cause
