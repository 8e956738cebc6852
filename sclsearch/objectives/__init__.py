"""Losses of the papers as pure functions of tensors, one module per loss.

A loss is a scalar, float32 or float64; a temperature τ is above 0. Letters in shapes: B texts, V
views, N = B * V rows, T tokens, d width, C classes.
"""

from sclsearch.objectives.contrastive import nt_xent, pair_loss, sim_clr, sim_siam, sup_con
from sclsearch.objectives.lacon import (
    instance_centered,
    label_centered,
    label_embedding_regularizer,
)
from sclsearch.objectives.prediction import masked_lm, prediction_loss

__all__ = [
    "instance_centered",
    "label_centered",
    "label_embedding_regularizer",
    "masked_lm",
    "nt_xent",
    "pair_loss",
    "prediction_loss",
    "sim_clr",
    "sim_siam",
    "sup_con",
]
