"""Which tokens are hidden from a masked language model: sections 3.1 and 3.2 of CMLM.

Luo et al., 2021, https://arxiv.org/abs/2106.02327. The draws come from torch's global generator,
like dropout's: one for each token whatever the masks are, so that several replicates can be drawn
in one batched program.
"""

from typing import Literal

import torch
from torch import Tensor

Corruption = Literal["80_10_10", "all_mask"]

MASKED = 0.8
RANDOM = 0.1


def draw_selection(maskable: Tensor, p: float) -> Tensor:
    """Returns a dynamic random mask (DRM), Eq. (1): each token is selected with probability p.

    Args:
        maskable: True at tokens that are neither padding nor special, `[B, T]`; the rest is never
            selected.
        p: Probability, from 0 to 1.

    Returns:
        True at selected tokens, `[B, T]`.
    """
    return maskable & (torch.rand(maskable.shape, device=maskable.device) < p)


def draw_complement(maskable: Tensor, selected: Tensor, p_c: float) -> Tensor:
    """Returns a complementary random mask (CRM), Eq. (2): p_c where not selected before, else 0.

    A token counts as selected whether it was masked, replaced or kept.

    Args:
        maskable: True at tokens that are neither padding nor special, `[B, T]`.
        selected: True at those that the first mask selected, `[B, T]`.
        p_c: Probability, from 0 to 1; of all maskable tokens p_c (1 - p_m) are selected on average.

    Returns:
        True at selected tokens, `[B, T]`, none of which is in `selected`.
    """
    return draw_selection(maskable & ~selected, p_c)


def corrupt(
    ids: Tensor,
    selected: Tensor,
    *,
    mask_token: int,
    vocabulary: int,
    how: Corruption = "80_10_10",
) -> Tensor:
    """Returns the tokens as the encoder sees them, `[B, T]`.

    Args:
        ids: Tokens, `[B, T]`.
        selected: True at those to corrupt, `[B, T]`.
        mask_token: Number of the mask token.
        vocabulary: Number of tokens that there are.
        how: BERT's recipe: of the selected 80 % are masked, 10 % become a token drawn evenly from
            the whole vocabulary, special ones included as in transformers, and 10 % are kept. Or
            all are masked.
    """
    if how == "all_mask":
        return ids.masked_fill(selected, mask_token)
    share = torch.rand(ids.shape, device=ids.device)
    drawn = torch.randint(vocabulary, ids.shape, device=ids.device)
    masked = ids.masked_fill(selected & (share < MASKED), mask_token)
    replaced = selected & (share >= MASKED) & (share < MASKED + RANDOM)
    return torch.where(replaced, drawn, masked)
