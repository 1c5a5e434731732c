"""An encoder for others: the folder that is uploaded, its model card, and the hub.

README.md            the model card: scores, data, settings, use and limits
encoder.safetensors  for ``inv.from_pretrained``, with what is needed to rebuild it
config.yaml          the settings, without a path of this machine
config.json          with model.safetensors, for ``timm.create_model``, where the
model.safetensors    encoder is a network that timm can build
"""

from typing import TYPE_CHECKING

from ..late_imports import import_late
from ._hub import download, split_name, upload

if TYPE_CHECKING:
    from ._shared_folder import write_shared

__all__ = ["download", "split_name", "upload", "write_shared"]

__getattr__, __dir__ = import_late(__name__, {"_shared_folder": "write_shared"})
