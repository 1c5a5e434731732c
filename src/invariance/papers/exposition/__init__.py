"""Claims of the exposition of InfoNCE and SimCLR."""

from . import any_critic

CLAIMS = (any_critic.CLAIM,)
