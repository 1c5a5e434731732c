"""The methods by name. Each line is one algorithm as four choices.

Temperatures and weights are those of the source named; head widths are scaled to small
encoders (512 hidden, 128 out) where the source's were made for a ResNet-50.
"""

from ._method import Method

METHODS: dict[str, Method] = {
    "simclr": Method(
        objective="nt_xent",
        settings={"temperature": 0.5},
        source="Chen et al. 2020; temperature 0.5 is its CIFAR-10 setting",
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
        labelled=True,
        source="Khosla et al. 2020; temperature 0.1 of the CIFAR runs",
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
