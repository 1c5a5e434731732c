"""Encoders: pictures in, features out; heads and the predictor that sit on them.

>>> import torch
>>> from invariance.encoders import build_encoder, build_head
>>> encoder = build_encoder("tiny", image_size=32)
>>> head = build_head("mlp2", encoder.width, 512, 128)
>>> head(encoder(torch.zeros(4, 3, 32, 32))).shape
torch.Size([4, 128])
"""

from ._build import ENCODERS, build_encoder
from ._encoder import Encoder
from ._head import HEADS, Head, build_head
from ._momentum_twin import MomentumTwin
from ._predictor import Predictor
from ._shuffle import shuffled
from ._standardised import Standardise, standardised
from ._stem import fit_stem
from ._tiny import Tiny

__all__ = [
    "ENCODERS",
    "HEADS",
    "Encoder",
    "Head",
    "MomentumTwin",
    "Predictor",
    "Standardise",
    "Tiny",
    "build_encoder",
    "build_head",
    "fit_stem",
    "shuffled",
    "standardised",
]
