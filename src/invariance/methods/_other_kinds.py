"""Methods for samples other than images: captions, sentences, sequences, rows, graphs.

Defaults are told as in ``_catalogue.py``.
"""

from dataclasses import replace

from ._method import Method

PLAIN_SCORES = {"temperature": 1.0, "normalize": False}  # the critic has a scale

CPC = Method(
    objective="info_nce",
    settings=PLAIN_SCORES,
    samples="sequence",
    views="same",
    n_views=1,
    negatives="samples_and_times",
    positives="future",
    head="linear",
    use="sequences: audio, and values in time",
    source="van den Oord et al. 2018 (CPC): a bilinear critic per step ahead, scores "
    "as they are, negatives from all windows and times of the batch; 6 steps instead "
    "of 12, every context predicts, and codes that share no values with one another",
    released="the paper, for speech: 12 steps of 10 ms, Adam at 2e-4, batches of 8 "
    "windows of 20480 samples on 8 GPUs, codes of 512, a GRU of 256",
)

OTHER_KINDS: dict[str, Method] = {
    "clip": Method(
        objective="info_nce",
        settings={
            "temperature": "learned",
            "temperature_start": 0.07,
            "temperature_minimum": 0.01,
        },
        views="identity",
        n_views=1,
        samples="pair",
        encoder="two",
        dropout=0.0,
        head="linear",
        use="images with captions, or other pairs of two kinds",
        source="Radford et al. 2021 (CLIP): a tower per side, linear heads, both "
        "directions, temperature learned from 0.07 and never below 0.01; images as "
        "they are, since captions may say where things are and in what color: --views "
        "weak adds crops and flips; projections of 128 instead of 512 and more",
        released="openai/CLIP has the networks, not the training; the paper: AdamW "
        "with decay 0.2, 2,000 steps of warm-up, cosine, batch 32,768, 32 epochs of "
        "400 million pairs, one random crop per image; mlfoundations/open_clip trains "
        "so",
    ),
    "siglip": Method(
        objective="sig_lip",
        settings={"learnable": True},
        views="identity",
        n_views=1,
        samples="pair",
        encoder="two",
        dropout=0.0,
        head="linear",
        use="as clip, at large batches",
        source="Zhai et al. 2023 (SigLIP): as clip, with a yes-or-no question per "
        "pair; scale from 10 and bias from -10, both learned",
        released="google-research/big_vision: as sig_lip, batches of 16,384 and more",
    ),
    "simcse": Method(
        objective="info_nce",
        settings={"temperature": 0.05, "symmetric": False},
        samples="text",
        views="same",
        use="sentences",
        source="Gao et al. 2021: the same sentence twice under dropout, or both "
        "sentences of a pair; temperature 0.05, one direction; the tower is trained "
        "from its first weights unless it is pretrained, and the head has two layers",
        released="princeton-nlp/SimCSE: AdamW at 3e-5, batch 64, one epoch of a "
        "million sentences of Wikipedia (with pairs 5e-5, batch 512, 3 epochs), "
        "sentences of 32 tokens, BERT and RoBERTa as pretrained, dropout 0.1, a linear "
        "map and tanh on the first token as the head",
    ),
    "masked_token": Method(
        objective="info_nce",
        settings={"temperature": 1.0, "normalize": False},
        samples="text",
        views="masked",
        negatives="vocabulary",
        positives="tokens",
        head="none",
        use="sentences: find hidden words",
        source="Wu et al. 2020 (the views paper, 5.1), of Devlin et al. 2019 (BERT): "
        "15 % of the tokens hidden, the other tokens of the vocabulary as negatives, "
        "scores with the table of tokens as they are, without BERT's last layer and "
        "biases",
        released="google-research/bert: Adam at 1e-4, decay 0.01, 10000 steps of "
        "warm-up, 1000000 steps of 256 sequences of 512 tokens, a vocabulary of 30000",
    ),
    "cpc": CPC,
    "cpc_samples": replace(
        CPC,
        negatives="other_samples",
        use="as cpc; only other windows are negatives",
        source="cpc with the other windows at the same time as negatives",
        released="as cpc",
    ),
    "cpc_times": replace(
        CPC,
        negatives="other_times",
        use="as cpc; what a whole window shares is no help",
        source="cpc with the other times of the same window as negatives: what does "
        "not change within a window, such as its speaker, is then no help",
        released="as cpc; one of the choices that the paper compares",
    ),
    "scarf": Method(
        objective="info_nce",
        settings={"temperature": 1.0, "symmetric": False},
        samples="row",
        views="scarf",
        hidden=256,
        width=256,
        use="tables of numbers and categories",
        source="Bahri et al. 2022 (SCARF): the row against itself with six in ten of "
        "its columns redrawn from the training rows; temperature 1, one direction, a "
        "head of 2 layers of 256; the encoder has 3 layers with batch norm instead of "
        "4 without",
        released="none; the paper: Adam at 0.001, batch 128, encoder of 4 layers of "
        "256, stopped early by the loss on held-out rows, 1,000 epochs at most",
    ),
    "graphcl": Method(
        objective="dcl",
        settings={"temperature": 0.2, "negatives": "cross"},
        samples="graph",
        views="graphcl",
        use="graphs",
        source="You et al. 2020 (GraphCL): two views of a graph under a change each, "
        "drawn among four; temperature 0.2; the other graphs' other views as "
        "negatives, the positive not among them, as in its equation 3",
        released="Shen-Lab/GraphCL: Adam at 0.01, batch 128, 20 epochs of the TU sets, "
        "3 layers of 32 with batch norm, a head of 2 layers, a fifth of nodes or edges",
    ),
}
