"""``invariance export``: the encoder for other programs."""

import shlex
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from tyro import conf


@dataclass(frozen=True)
class Export:
    """Write the encoder of a run for other programs, checked against the original."""

    run_folder: Annotated[str, conf.Positional, conf.arg(metavar="RUN")]
    """A run folder, an encoder.safetensors file, or hf://USER/NAME on the hub."""
    to: Literal["safetensors", "timm", "pt2", "onnx"]
    """safetensors is for invariance.load; timm for timm.create_model; pt2 (for
    torch.export.load) and onnx take the encoder's input, images as floats in [0, 1],
    and do not need this package."""
    out: Annotated[str | None, conf.arg(aliases=["-o"])] = None
    """File to write. Default: named after the run, in the current folder."""
    overwrite: bool = False
    """Replace an existing file."""
    quiet: bool = False
    """Print only the result."""

    def run(self) -> int:
        """Export, then say how far the file is from the original and how to use it."""
        from ..folder import require_encoder
        from ..progress import tell_loading

        require_encoder(self.run_folder)
        tell_loading(quiet=self.quiet)
        from ..runs import export

        done = export(
            self.run_folder,
            self.to,
            self.out,
            overwrite=self.overwrite,
            quiet=self.quiet,
        )
        for note in done.notes:
            print(note, file=sys.stderr)
        sizes = ", ".join(map(str, done.batch_sizes))
        print(f"exported: {shlex.quote(str(done.path))} ({done.to})")
        print(
            f"checked:  random inputs in batches of {sizes}; largest difference "
            f"{done.difference:.3g} where features are up to {done.largest:.3g}"
        )
        print("use it:   " + done.usage.replace("\n", "\n          "))
        return 0
