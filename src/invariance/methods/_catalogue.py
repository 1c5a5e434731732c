"""The methods by name.

Temperatures and weights are those of the source named, unless it says otherwise; head
widths are scaled to small encoders (512 hidden, 128 out) where the source's were made
for a ResNet-50. ``released`` says how the authors trained. Here every method begins
with the optimizer and the batch of ``Train``, AdamW and 128: they train on small
machines, in short runs, without tuning.
"""

from ._method import Method
from ._other_kinds import OTHER_KINDS

METHODS: dict[str, Method] = {
    "simclr": Method(
        objective="nt_xent",
        settings={"temperature": 0.5},
        use="the first to try, on any data",
        source="Chen et al. 2020; temperature 0.5 is its CIFAR-10 setting",
        released="google-research/simclr: LARS at 0.3 x batch / 256, decay 1e-6, 10 "
        "epochs of warm-up, cosine, head of 2 layers to 128; temperature 0.1 and batch "
        "4096 for ImageNet, temperature 0.5, batch 512 and rate 1.0 for CIFAR-10",
    ),
    "info_nce": Method(
        objective="info_nce",
        settings={"temperature": 0.1},
        use="simclr with negatives from the other view only",
        source="van den Oord et al. 2018, with the other samples of the other view as "
        "negatives, in both directions as in CLIP; temperature 0.1",
        released="none: the paper trains CPC, another architecture; the temperature is "
        "FlatCLR's",
    ),
    "flatclr": Method(
        objective="flat_nce",
        settings={"temperature": 0.1},
        use="small batches: keeps learning where InfoNCE saturates",
        source="Chen et al. 2021, FlatNCE; temperature 0.1 of the released code",
        released="Junya-Chen/FlatCLR: LARS at 0.6 for batch 512, decay 1e-6, 10 epochs "
        "of warm-up, cosine, 100 epochs of ImageNet, ResNet-50, projections of 128 "
        "(256 in the paper's appendix on self-supervised learning)",
    ),
    "dcl": Method(
        objective="dcl",
        settings={"temperature": 0.1},
        use="small batches: the positive is not among the candidates",
        source="Yeh et al. 2022; temperature 0.1",
        released="the paper: SimCLR with ResNet-50, batch 256, 200 epochs of ImageNet; "
        "further settings not found in code of the authors",
    ),
    "dclw": Method(
        objective="dcl",
        settings={"temperature": 0.1, "weight_sigma": 0.5},
        use="as dcl; hard positives count more",
        source="Yeh et al. 2022; sigma 0.5",
        released="as dcl",
    ),
    "dhel": Method(
        objective="dhel",
        settings={"temperature": 0.3},
        use="small batches: negatives from the same view only",
        source="Koromilas et al. 2024; temperature 0.3, both directions averaged",
        released='pakoromilas/DHEL-KCL: temperature 0.3 and views="sum", twice '
        "the weight on spreading; its README names "
        "AndrewAtanov/simclr-pytorch as the code that trained, the "
        "settings are not there; the same authors' Multi-View-CL has "
        "SGD at 1.0, decay 1e-6, batch 256, 200 epochs of CIFAR",
    ),
    "kcl": Method(
        objective="kcl",
        settings={"kernel": "gaussian", "gamma": 4.0, "t": 2.0},
        use="small batches: its goal does not depend on their size",
        source="Koromilas et al. 2024; t 2, but gamma 4: at the released code's 16 a "
        "short run only spreads its rows and never aligns them",
        released="pakoromilas/DHEL-KCL: gamma 16, t 2; optimizer as dhel",
    ),
    "debiased": Method(
        objective="debiased",
        settings={"temperature": 0.5, "prior": 0.1},
        use="few classes: corrects for negatives of the same class",
        source="Chuang et al. 2020; temperature 0.5, prior 0.1",
        released="chingyaoc/DCL: Adam at 0.001, decay 1e-6, batch 256, 500 epochs of "
        "STL-10 (the paper: 400), ResNet-50, projections of 128",
    ),
    "hcl": Method(
        objective="debiased",
        settings={"temperature": 0.5, "prior": 0.1, "hardness": 1.0},
        use="as debiased; hard negatives count more",
        source="Robinson et al. 2021; beta 1, the rest as debiased",
        released="joshr17/HCL: as debiased, beta 1",
    ),
    "multi_view": Method(
        objective="multi_view",
        settings={"temperature": 0.5, "aggregate": "poly"},
        n_views=4,
        use="views are cheap: more than two, more positives per step",
        source="Shidani et al. 2024 (poly-view); four views, SimCLR's temperature",
        released="not found",
    ),
    "supcon": Method(
        objective="sup_con",
        settings={"temperature": 0.1},
        use="labels for everything",
        source="Khosla et al. 2020; temperature 0.1 of the CIFAR runs",
        released="HobbitLong/SupContrast: SGD at 0.5, decay 1e-4, batch 1024, 1000 "
        "epochs of CIFAR, cosine, ResNet-50, temperature 0.1; its loss is multiplied "
        "by temperature / 0.07",
    ),
    "moco": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        encoder="momentum twin",
        negatives="queue",
        source_settings={"size": 4096},
        momentum=0.99,
        rising=False,
        use="a very small batch and many steps: a queue of negatives",
        source="Chen et al. 2020 (MoCo v2): temperature 0.2, two-layer head; queue "
        "4096 instead of 65536 and momentum 0.99 instead of 0.999, for small data sets "
        "and runs of a few thousand steps",
        released="facebookresearch/moco: SGD at 0.03, decay 1e-4, batch 256, cosine, "
        "200 epochs of ImageNet, queue 65536, momentum 0.999",
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
        use="to compare with the first MoCo; otherwise take moco",
        source="He et al. 2020: temperature 0.07, linear head; queue and momentum as "
        "moco",
        released="facebookresearch/moco: as moco, with steps at 120 and 160 of 200 "
        "epochs",
    ),
    "ir": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        negatives="bank",
        source_settings={"bank_momentum": 0.5},
        use="up to about 100,000 samples: a memory bank of all",
        source="Wu et al. 2018 (Instance Discrimination), full softmax over the bank; "
        "bank momentum 0.5; temperature 0.2 instead of 0.07 and a two-layer head, "
        "which small data sets need",
        released="zhirongw/lemniscate: SGD at 0.03, decay 1e-4, batch 256, temperature "
        "0.07, bank momentum 0.5, linear head to 128, binary NCE with 4096 noise rows "
        "(ir_nce here)",
    ),
    "ir_sampled": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        negatives="bank",
        source_settings={"bank_momentum": 0.5, "n_draws": 4096},
        use="as ir for more samples: 4,096 rows of the bank per step",
        source="ir with a softmax over the positive and 4096 drawn rows",
        released="as ir; softmax over draws as in mhw32/contrastive-ring-public",
    ),
    "ir_stratified": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        negatives="stratified",
        source_settings={"bank_momentum": 0.5, "n_draws": 1024},
        use="as ir for more samples: 1,024 stratified draws per step",
        source="ir, its partition estimated from 1024 stratified draws of the bank",
        released="none",
    ),
    "ir_control_variate": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        negatives="control_variate",
        source_settings={"bank_momentum": 0.5, "n_draws": 1024},
        use="as ir for more samples: 1,024 draws and a correction",
        source="ir, its partition estimated from 1024 draws and a control variate",
        released="none",
    ),
    "ir_nce": Method(
        objective="binary_nce",
        settings={"temperature": 0.2},
        negatives="bank",
        source_settings={"bank_momentum": 0.5, "n_draws": 4096},
        use="to compare with the released code of ir",
        source="ir with the loss of its released code: binary NCE with 4096 noise rows "
        "and the partition constant of the first batch",
        released="as ir",
    ),
    "ball": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        negatives="ball",
        source_settings={"bank_momentum": 0.5, "share": 0.1},
        use="few samples: only the nearest bank rows are negatives",
        source="Wu et al. 2020 (the views paper): the nearest tenth of the bank; the "
        "rest as ir",
        released="the views paper, appendix D: SGD at 0.03, decay 1e-4, batch 256, "
        "temperature 0.07, bank rate 0.5, the nearest 4096 rows, ResNet-18 to 128",
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
        use="as ball, without the very nearest, which may be alike",
        source="Wu et al. 2020: the nearest tenth without its innermost tenth, the "
        "outer end closing in from the whole bank over training",
        released="mhw32/contrastive-ring-public: 4096 draws from the nearest tenth of "
        "the bank less its innermost tenth, temperature 0.07, bank momentum 0, SGD at "
        "0.03, decay 1e-4, batch 256, 200 epochs",
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
        use="near duplicates among the samples: pulled together",
        source="Zhuang et al. 2019 (Local Aggregation): 3 clusterings of 20 images per "
        "cluster instead of 10 of 43; half of a short training as ir instead of 5 %, "
        "since clusters of an untrained bank lead nowhere; the rest as ir",
        released="the authors' code and the views paper, appendix D: the nearest 4096 "
        "rows, 10 clusterings of 30000, 10 epochs of IR first, SGD at 0.03, decay "
        "1e-4, batch 128, temperature 0.07",
    ),
    "vince": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        negatives="accepted",
        source_settings={"bank_momentum": 0.5, "n_proposals": 1024},
        use="to study hard negatives that are drawn at random",
        source="Wu et al. 2020 (VINCE, eq. 4): the nearest quarter of 1024 draws and "
        "one in 20 of the others, as they are",
        released="none; the views paper's appendix D has the settings of ball",
    ),
    "vince_plus": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        negatives="learned",
        source_settings={"bank_momentum": 0.5, "n_proposals": 1024},
        use="as vince, but learns which draws to keep",
        source="Wu et al. 2020 (VINCE+): acceptance learned by the score function; its "
        "objective is ours, since the paper's has none to learn from",
        released="none; as vince",
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
        use="clusters matter: prototypes beside a queue",
        source="Li et al. 2021 (PCL v2): temperature 0.2, warm-up of a tenth; clusters "
        "the keys as they came, 3 clusterings of 100 images per cluster",
        released="salesforce/PCL: SGD at 0.03, decay 1e-4, batch 256, 200 epochs of "
        "ImageNet, queue 16384, momentum 0.999, 25000, 50000 and 100000 clusters, 20 "
        "epochs of warm-up",
    ),
    "nnclr": Method(
        objective="info_nce",
        settings={"temperature": 0.1, "symmetric": False},
        encoder="predictor",
        positives="neighbors",
        source_settings={"size": 4096},
        use="weak views: a neighbor stands in for the other one",
        source="Dwibedi et al. 2021: temperature 0.1; support of 4096 instead of 98304",
        released="none; the paper: LARS, batch 4096, support of 98304, head of 3 "
        "layers to 256",
    ),
    "sig_lip": Method(
        objective="sig_lip",
        settings={"learnable": True},
        use="views compared by yes or no, without a softmax",
        source="Zhai et al. 2023 (SigLIP) on two views; scale from 10 and bias from "
        "-10, both learned",
        released="google-research/big_vision: images and texts, logarithm of the scale "
        "and bias learned from log 10 and -10; batches of thousands of pairs",
    ),
    "flo": Method(
        objective="flo",
        settings={"learnable": True},
        use="to bound information: two views and a learned dual",
        source="Guo et al. 2022 (FLO): the dual is a learned line in the pair's own "
        "score instead of a network; temperature 0.5 as simclr",
        released="qingguo666/FLO estimates information; as an objective: not found",
    ),
    "unified": Method(
        objective="unified",
        use="to study a family of losses made of two functions",
        source="Lee et al. 2025: the family of psi(c1 x + c2 y); as it is, nt_xent",
        released="leechungpa/embedding-similarity-cl has the family",
    ),
    "align_uniform": Method(
        objective="align_uniform",
        settings={"alpha": 2.0, "t": 2.0},
        use="to weigh alignment against spread by hand",
        source="Wang and Isola 2020; equal weights, alpha 2, t 2",
        released="ssnl/align_uniform: SGD at 0.12 x batch / 256, decay 1e-4, batch "
        "768, 200 epochs of STL-10 with steps at 155, 170 and 185, a small AlexNet to "
        "128",
    ),
    "byol": Method(
        objective="byol",
        encoder="momentum twin",
        negatives="none",
        last_batch_norm=True,
        momentum=0.95,
        use="no negatives, in long runs",
        source="Grill et al. 2020; momentum 0.95 rising to 1 and a head that ends in a "
        "plain batch norm, for runs of a few thousand steps",
        released="google-deepmind BYOL: LARS at 0.2 x batch / 256, decay 1.5e-6 and "
        "momentum 0.996 rising to 1 for 1000 epochs of ImageNet (0.45 and 0.99 for "
        "100), batch 4096, 10 epochs of warm-up, cosine, layers of 4096, projections "
        "of 256, two unlike views (--views byol)",
    ),
    "simsiam": Method(
        objective="sim_siam",
        encoder="predictor",
        negatives="none",
        head="mlp3",
        last_batch_norm=True,
        width=512,
        use="no negatives and no second encoder, in long runs",
        source="Chen and He 2021; three-layer head ending in a plain batch norm, "
        "predictor a quarter as wide",
        released="facebookresearch/simsiam: SGD at 0.05 x batch / 256, decay 1e-4, "
        "batch 512, cosine, 100 epochs of ImageNet, layers of 2048, predictor 512; its "
        "option of a constant rate for the predictor is not offered here",
    ),
    "barlow_twins": Method(
        objective="barlow_twins",
        negatives="none",
        head="mlp3",
        width=512,
        use="no good negatives: features are decorrelated",
        source="Zbontar et al. 2021; weight 0.0051, head scaled down from 8192",
        released="facebookresearch/barlowtwins: LARS at 0.2 x batch / 256 (0.0048 for "
        "biases and norms), decay 1e-6, batch 2048, 10 epochs of warm-up, 1000 epochs, "
        "layers of 8192, two unlike views (--views byol)",
    ),
    "vicreg": Method(
        objective="vicreg",
        negatives="none",
        head="mlp3",
        width=512,
        use="no good negatives: features keep their spread",
        source="Bardes et al. 2022; weights 25, 25, 1, head scaled down from 8192",
        released="facebookresearch/vicreg: LARS at 0.2 x batch / 256, decay 1e-6, "
        "batch 2048, 10 epochs of warm-up, 100 epochs, layers of 8192, two unlike "
        "views (--views byol)",
    ),
    "swav": Method(
        objective="swav",
        settings={"n_prototypes": 100},
        negatives="none",
        use="no pairs of samples: views share a cluster, in long runs",
        source="Caron et al. 2020; temperature 0.1, epsilon 0.05, 3 iterations; 100 "
        "prototypes instead of 3000, since a batch must fill them",
        released="facebookresearch/swav: SGD with LARC at 4.8 for batch 4096, decay "
        "1e-6, 10 epochs of warm-up, 800 epochs, 2 crops of 224 and 6 of 96 pixels, "
        "3000 prototypes, which stay fixed at first (not here)",
    ),
    "dim": Method(
        objective="info_nce",
        settings={"temperature": 0.2},
        samples="image",
        positives="places",
        use="images: every place should recognize its whole image",
        source="Hjelm et al. 2019 (Deep InfoMax), its local form as the views paper "
        "(5.2) writes it: every place finds its image's summary among those of the "
        "batch; between two views, as in AMDIM (Bachman et al. 2019), since within one "
        "(--n-views 1 --views weak, the paper's) it does worse on shapes; cosines at "
        "temperature 0.2, since plain inner products start too large for a short run; "
        "prior matching weighs 0.1; the features under the head are kept",
        released="rdevon/DIM: Adam at 1e-4, batch 64, crops and flips, maps of 8 x 8 "
        "places, rows of 2048, weights of global, local and prior 1, 0 and 1 for the "
        "global form and 0, 1 and 0.1 for the local one, Jensen-Shannon by default",
    ),
    "dim_jsd": Method(
        objective="jsd",
        settings={"temperature": 0.2},
        samples="image",
        positives="places",
        use="as dim, with the loss of its released code",
        source="dim with the Jensen-Shannon loss, the released code's choice; its "
        "value is no information in nats",
        released="as dim",
    ),
    "dim_dv": Method(
        objective="dv",
        settings={"temperature": 0.2},
        samples="image",
        positives="places",
        use="as dim, with Donsker and Varadhan's loss",
        source="dim with Donsker and Varadhan's loss, at every place over all pairs of "
        "the batch; on a batch its value leans upwards and is no bound",
        released="as dim; one of the losses that the paper compares",
    ),
    **OTHER_KINDS,
}
