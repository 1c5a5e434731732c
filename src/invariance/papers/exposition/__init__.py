"""Claims of the exposition of InfoNCE and SimCLR."""

from . import any_critic, bias_in_k, printed_proof, tight_in_k

CLAIMS = (
    any_critic.CLAIM,
    printed_proof.CLAIM,
    tight_in_k.CLAIM,
    bias_in_k.CLAIM,
)
