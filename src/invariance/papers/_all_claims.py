"""The papers and their claims, in the order in which they are read."""

from dataclasses import dataclass

from . import dhel_kcl, exposition, flatnce, page, views
from ._claim import Claim


@dataclass(frozen=True)
class Paper:
    """A source of claims."""

    short: str
    citation: str
    claims: tuple[Claim, ...]


PAPERS: dict[str, Paper] = {
    "exposition": Paper(
        "InfoNCE and SimCLR, an exposition",
        "S. Bandyopadhyay, *A Rigorous Mathematical Exposition of InfoNCE and Its "
        "Implementation in SimCLR*.",
        exposition.CLAIMS,
    ),
    "flatnce": Paper(
        "FlatNCE",
        "J. Chen, Z. Gan, X. Li, Q. Guo, L. Chen, S. Gao, T. Chung, Y. Xu, B. Zeng, "
        "W. Lu, F. Li, L. Carin, C. Tao, *Simpler, Faster, Stronger: Breaking The "
        "log-K Curse On Contrastive Learners With FlatNCE*, 2021.",
        flatnce.CLAIMS,
    ),
    "page": Paper(
        "A page on contrastive learning",
        "*Contrastive Learning*, a page of lecture notes on InfoNCE, alignment and "
        "uniformity, SimCLR, MoCo and CLIP.",
        page.CLAIMS,
    ),
    "dhel_kcl": Paper(
        "DHEL and KCL",
        "P. Koromilas, G. Bouritsas, T. Giannakopoulos, M. Nicolaou, Y. Panagakis, "
        "*Bridging Mini-Batch and Asymptotic Analysis in Contrastive Learning: From "
        "InfoNCE to Kernel-Based Losses*, ICML 2024, arXiv:2405.18045; as summarized.",
        dhel_kcl.CLAIMS,
    ),
    "views": Paper(
        "The importance of views",
        "M. Wu, C. Zhuang, D. Yamins, N. Goodman, *On the Importance of Views in "
        "Unsupervised Representation Learning*, 2020.",
        views.CLAIMS,
    ),
}

CLAIMS: dict[str, Claim] = {
    claim.name: claim for paper in PAPERS.values() for claim in paper.claims
}
