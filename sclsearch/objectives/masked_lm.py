"""Masked language modelling (Devlin et al., 2019, https://arxiv.org/abs/1810.04805)."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

MlmReduction = Literal["tokens", "sequences"]

IGNORED = -100


def masked_lm(
    logits: Tensor,
    targets: Tensor,
    rows: Tensor,
    *,
    texts: int,
    reduction: MlmReduction = "tokens",
) -> Tensor:
    """Returns the mean cross-entropy of the tokens that were selected for prediction.

    Without any of them the loss is 0, and so is its gradient.

    Args:
        logits: Scores over the vocabulary at S places, `[S, vocabulary]`.
        targets: The token that was there, `[S]`; `IGNORED` where none is to be predicted, so that
            batches can be filled up to one S.
        rows: Number of the text that each place is in, `[S]`; read with `sequences`.
        texts: B, how many texts there are, with selected tokens or without.
        reduction: Over all selected tokens of the batch, as Hugging Face does; or by text and then
            over the B texts, Eq. (6) of CMLM, where a text without a selected token costs 0.

    Returns:
        The loss, a scalar, float32 or float64.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    costs = F.cross_entropy(logits, targets, reduction="none", ignore_index=IGNORED)  # [S]
    selected = targets != IGNORED
    if reduction == "tokens":
        return costs.sum() / selected.sum().clamp(min=1)
    inside = (torch.arange(texts, device=rows.device)[:, None] == rows) & selected  # [B, S]
    return (torch.where(inside, costs, 0.0).sum(1) / inside.sum(1).clamp(min=1)).mean()
