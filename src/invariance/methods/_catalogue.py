"""A method is four choices: views, encoder, negatives, objective. The methods by name.

Temperatures and weights are those of the source named; head widths are scaled to small
encoders (512 hidden, 128 out) where the source's were made for a ResNet-50.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Method:
    """What tells one algorithm from another, and where its defaults come from."""

    objective: str
    """A name in ``OBJECTIVES``."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the objective that differ from its own defaults."""
    views: str = "auto"
    """A recipe of ``invariance.views``; "auto" fits the images."""
    n_views: int = 2
    encoder: str = "one"
    """"one" for all views, "predictor" on top of it (the other view is a target), or
    "momentum twin" (the target comes from a slowly moving copy)."""
    negatives: str = "batch"
    """"batch", "none", or a name in ``invariance.negatives.NEGATIVES``."""
    source_settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the negatives' source; "bank_momentum" is that of its memory bank."""
    positives: str = "views"
    """"views", "prototypes" besides (PCL), or "neighbors" instead (NNCLR)."""
    head: str = "mlp2"
    hidden: int = 512
    width: int = 128
    last_batch_norm: bool = False
    momentum: float = 0.996
    """Of the momentum twin."""
    rising: bool = True
    """Whether the twin's momentum rises to 1 by the end."""
    source: str = ""
    """Where the defaults come from."""

    @property
    def labeled(self) -> bool:
        """Whether it learns from labels."""
        from ..objectives import OBJECTIVES  # with torch, which names can do without

        return OBJECTIVES[self.objective].takes == "labels"

    def __post_init__(self) -> None:
        for name in ("negatives", "positives"):  # as they were spelled before 0.1.0
            if getattr(self, name) == "neighbours":
                object.__setattr__(self, name, "neighbors")


METHODS: dict[str, Method] = {
    "simclr": Method(
        objective="nt_xent",
        settings={"temperature": 0.5},
        source="Chen et al. 2020; temperature 0.5 is its CIFAR-10 setting",
    ),
    "info_nce": Method(
        objective="info_nce",
        settings={"temperature": 0.1},
        source="van den Oord et al. 2018, with the other samples of the other view as "
        "negatives, in both directions as in CLIP; temperature 0.1",
    ),
    "flatclr": Method(
        objective="flat_nce",
        settings={"temperature": 0.1},
        source="Chen et al. 2021, FlatNCE; temperature 0.1 of the released code",
    ),
    "dcl": Method(
        objective="dcl",
        settings={"temperature": 0.1},
        source="Yeh et al. 2022; temperature 0.1",
    ),
    "dclw": Method(
        objective="dcl",
        settings={"temperature": 0.1, "weight_sigma": 0.5},
        source="Yeh et al. 2022; sigma 0.5",
    ),
    "dhel": Method(
        objective="dhel",
        settings={"temperature": 0.3},
        source="Koromilas et al. 2024; temperature 0.3, both directions averaged",
    ),
    "kcl": Method(
        objective="kcl",
        settings={"kernel": "gaussian", "gamma": 4.0, "t": 2.0},
        source="Koromilas et al. 2024; t 2, but gamma 4: at the released code's 16 a "
        "short run only spreads its rows and never aligns them",
    ),
    "debiased": Method(
        objective="debiased",
        settings={"temperature": 0.5, "prior": 0.1},
        source="Chuang et al. 2020; temperature 0.5, prior 0.1",
    ),
    "hcl": Method(
        objective="debiased",
        settings={"temperature": 0.5, "prior": 0.1, "hardness": 1.0},
        source="Robinson et al. 2021; beta 1, the rest as debiased",
    ),
    "multi_view": Method(
        objective="multi_view",
        settings={"temperature": 0.5, "aggregate": "poly"},
        n_views=4,
        source="Shidani et al. 2024 (poly-view); four views, SimCLR's temperature",
    ),
    "supcon": Method(
        objective="sup_con",
        settings={"temperature": 0.1},
        source="Khosla et al. 2020; temperature 0.1 of the CIFAR runs",
    ),
    "moco": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        encoder="momentum twin",
        negatives="queue",
        source_settings={"size": 4096},
        momentum=0.99,
        rising=False,
        source="Chen et al. 2020 (MoCo v2): temperature 0.2, two-layer head; queue "
        "4096 instead of 65536 and momentum 0.99 instead of 0.999, for small data sets "
        "and runs of a few thousand steps",
    ),
    "moco_v1": Method(
        objective="info_nce",
        settings={"temperature": 0.07},
        encoder="momentum twin",
        negatives="queue",
        source_settings={"size": 4096},
        head="linear",
        momentum=0.99,
        rising=False,
        source="He et al. 2020: temperature 0.07, linear head; queue and momentum as "
        "moco",
    ),
    "ir": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        negatives="bank",
        source_settings={"bank_momentum": 0.5},
        source="Wu et al. 2018 (Instance Discrimination), full softmax over the bank; "
        "bank momentum 0.5; temperature 0.2 instead of 0.07 and a two-layer head, "
        "which small data sets need",
    ),
    "ir_sampled": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        negatives="bank",
        source_settings={"bank_momentum": 0.5, "n_draws": 4096},
        source="ir with a softmax over the positive and 4096 drawn rows",
    ),
    "ir_nce": Method(
        objective="binary_nce",
        settings={"temperature": 0.2},
        negatives="bank",
        source_settings={"bank_momentum": 0.5, "n_draws": 4096},
        source="ir with the loss of its released code: binary NCE with 4096 noise rows "
        "and the partition constant of the first batch",
    ),
    "ball": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        negatives="ball",
        source_settings={"bank_momentum": 0.5, "share": 0.1},
        source="Wu et al. 2020 (the views paper): the nearest tenth of the bank; the "
        "rest as ir",
    ),
    "annulus": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        negatives="annulus",
        source_settings={
            "bank_momentum": 0.5,
            "inner_share": 0.01,
            "outer_share": 0.1,
            "outer_start_share": 1.0,
        },
        source="Wu et al. 2020: the nearest tenth without its innermost tenth, the "
        "outer end closing in from the whole bank over training",
    ),
    "la": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        negatives="neighbors",
        source_settings={
            "bank_momentum": 0.5,
            "share": 0.5,
            "n_clusters": None,
            "n_clusterings": 3,
            "warmup": 0.5,
        },
        source="Zhuang et al. 2019 (Local Aggregation): 3 clusterings of 20 images per "
        "cluster instead of 10 of 43; half of a short training as ir instead of 5 %, "
        "since clusters of an untrained bank lead nowhere; the rest as ir",
    ),
    "vince": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        negatives="accepted",
        source_settings={"bank_momentum": 0.5, "n_proposals": 1024},
        source="Wu et al. 2020 (VINCE, eq. 4): the nearest quarter of 1024 draws and "
        "one in 20 of the others, as they are",
    ),
    "vince_plus": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        negatives="learned",
        source_settings={"bank_momentum": 0.5, "n_proposals": 1024},
        source="Wu et al. 2020 (VINCE+): acceptance learned by the score function; "
        "its objective is ours, since the paper's has none to learn from",
    ),
    "pcl": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        encoder="momentum twin",
        negatives="queue",
        positives="prototypes",
        source_settings={
            "size": 4096,
            "bank_momentum": 0.0,
            "n_clusters": None,
            "n_clusterings": 3,
            "warmup": 0.1,
        },
        momentum=0.99,
        rising=False,
        source="Li et al. 2021 (PCL v2): temperature 0.2, warm-up of a tenth; clusters "
        "the keys as they came, 3 clusterings of 100 images per cluster",
    ),
    "nnclr": Method(
        objective="info_nce",
        settings={"temperature": 0.1, "symmetric": False},
        encoder="predictor",
        positives="neighbors",
        source_settings={"size": 4096},
        source="Dwibedi et al. 2021: temperature 0.1; support of 4096 instead of 98304",
    ),
    "sig_lip": Method(
        objective="sig_lip",
        settings={"learnable": True},
        source="Zhai et al. 2023 (SigLIP) on two views; scale from 10 and bias from "
        "-10, both learned",
    ),
    "align_uniform": Method(
        objective="align_uniform",
        settings={"alpha": 2.0, "t": 2.0},
        source="Wang and Isola 2020; equal weights, alpha 2, t 2",
    ),
    "byol": Method(
        objective="byol",
        encoder="momentum twin",
        negatives="none",
        last_batch_norm=True,
        momentum=0.95,
        source="Grill et al. 2020; momentum 0.95 rising to 1 and a head that ends in a "
        "plain batch norm, for runs of a few thousand steps",
    ),
    "simsiam": Method(
        objective="sim_siam",
        encoder="predictor",
        negatives="none",
        head="mlp3",
        last_batch_norm=True,
        width=512,
        source="Chen and He 2021; three-layer head ending in a plain batch norm, "
        "predictor a quarter as wide",
    ),
    "barlow_twins": Method(
        objective="barlow_twins",
        negatives="none",
        head="mlp3",
        width=512,
        source="Zbontar et al. 2021; weight 0.0051, head scaled down from 8192",
    ),
    "vicreg": Method(
        objective="vicreg",
        negatives="none",
        head="mlp3",
        width=512,
        source="Bardes et al. 2022; weights 25, 25, 1, head scaled down from 8192",
    ),
    "swav": Method(
        objective="swav",
        settings={"n_prototypes": 100},
        negatives="none",
        source="Caron et al. 2020; temperature 0.1, epsilon 0.05, 3 iterations; 100 "
        "prototypes instead of 3000, since a batch must fill them",
    ),
}
