"""A finished run, put to work: scores and diagnoses of what it learned.

>>> from invariance.runs import evaluate
>>> evaluate("runs/demo")                                      # doctest: +SKIP
"""

from ._diagnose import diagnose
from ._evaluate import Evaluation, evaluate

__all__ = ["Evaluation", "diagnose", "evaluate"]
