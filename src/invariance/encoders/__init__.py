"""Encoders: samples in, features out; and the heads that sit on them.

| | |
|---|---|
| `build_encoder` | by name ("tiny", any timm or torchvision network), or your module |
| `Encoder` | any network plus the width of its features |
| `standardize` | an encoder that takes images in [0, 1] and standardizes them itself |
| `build_head`, `Predictor` | from features to the rows that are trained |
| `MomentumTwin`, `shuffle_batches` | a slow copy of a network, and MoCo's shuffling |
| `synchronize_norms` | batch norms with the statistics of all processes |
| `keep_norms` | while they are, and afterwards as they were |
| `GradCache` | a network that encodes in pieces a batch that does not fit |
| `build_text_tower`, `TextTower` | tokens in, features out: ours, or of transformers |
| `Mapped` | an encoder that gives a feature map, too, in the same pass |
| `Predictive`, `Unrolled` | encoders of sequences, and their codes and contexts |
| `GIN`, `Geometric` | encoders of graphs: ours, and those of torch-geometric |
| `Towers`, `load_towers` | both sides of pairs, in the space in which they meet |
| `fit_stem` | the small-image stem of a ResNet |
| `write_encoder`, `load_encoder` | to a file that says how to rebuild it, and back |

>>> import torch
>>> import invariance as inv
>>> encoder = inv.encoders.build_encoder("tiny", image_size=32)
>>> head = inv.encoders.build_head("mlp2", encoder.width, 512, 128)
>>> head(encoder(torch.zeros(4, 3, 32, 32))).shape
torch.Size([4, 128])
"""

from ._by_name import ENCODERS, OTHERS, build_encoder, check_encoder_name, is_ours
from ._encoder import Encoder, Standardize, split_encoder, standardize
from ._encoder_file import (
    copy_weights,
    describe_encoder,
    load_encoder,
    part_of,
    read_encoder,
    rebuild_encoder,
    stem_of,
    write_encoder,
)
from ._feature_map import Mapped
from ._gin import GIN, GRAPH_ENCODERS, Geometric
from ._grad_cache import GradCache, keep_values
from ._heads import HEADS, Head, Predictor, build_head
from ._mlp import MLP
from ._momentum_twin import MomentumTwin, shuffle_batches
from ._network import hub_without_retries
from ._same_features import BATCHES, compare_features
from ._sequence import SEQUENCE_ENCODERS, Predictive, Unrolled, can_unroll
from ._stem import fit_stem
from ._synced_norm import keep_norms, synchronize_norms
from ._text_tower import (
    TEXT_TOWERS,
    TextTower,
    build_text_tower,
    load_tokenizer,
)
from ._timm_network import (
    has_known_name,
    require_timm,
    standardize_first,
    timm_name,
    timm_settings,
)
from ._tiny import Tiny
from ._towers import Towers, load_towers, write_heads

__all__ = [
    "BATCHES",
    "ENCODERS",
    "GIN",
    "GRAPH_ENCODERS",
    "HEADS",
    "MLP",
    "OTHERS",
    "SEQUENCE_ENCODERS",
    "TEXT_TOWERS",
    "Encoder",
    "Geometric",
    "GradCache",
    "Head",
    "Mapped",
    "MomentumTwin",
    "Predictive",
    "Predictor",
    "Standardize",
    "TextTower",
    "Tiny",
    "Towers",
    "Unrolled",
    "build_encoder",
    "build_head",
    "build_text_tower",
    "can_unroll",
    "check_encoder_name",
    "compare_features",
    "copy_weights",
    "describe_encoder",
    "fit_stem",
    "has_known_name",
    "hub_without_retries",
    "is_ours",
    "keep_norms",
    "keep_values",
    "load_encoder",
    "load_tokenizer",
    "load_towers",
    "part_of",
    "read_encoder",
    "rebuild_encoder",
    "require_timm",
    "shuffle_batches",
    "split_encoder",
    "standardize",
    "standardize_first",
    "stem_of",
    "synchronize_norms",
    "timm_name",
    "timm_settings",
    "write_encoder",
    "write_heads",
]
