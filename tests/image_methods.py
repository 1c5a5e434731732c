"""The methods that learn from images, which the walks over the catalogue try.

Those of sentences, sequences and pairs are tried where their learners are.
"""

from invariance.methods import METHODS

IMAGE_METHODS = {k: m for k, m in METHODS.items() if m.samples in ("any", "image")}
