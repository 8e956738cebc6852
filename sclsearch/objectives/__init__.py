"""Losses as pure functions of tensors, one file each, named after the paper's loss.

Shape letters used everywhere: B texts, V views, N = B * V rows, T tokens, d width, C classes.
"""

from sclsearch.objectives.prediction import prediction_loss
from sclsearch.objectives.sup_con import sup_con

__all__ = ["prediction_loss", "sup_con"]
