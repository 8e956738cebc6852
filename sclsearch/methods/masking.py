"""Token masking for masked language modeling: sections 3.1 and 3.2 of CMLM.

Luo et al., 2021, https://arxiv.org/abs/2106.02327. Random numbers come from torch's global
generator, as for dropout. Each token gets one number, whatever the masks are. Thus one batched
program can draw several replicates.
"""

from typing import Literal

import torch
from torch import Tensor

Corruption = Literal["80_10_10", "all_mask"]

MASKED = 0.8
RANDOM = 0.1


def draw_selection(maskable: Tensor, p: float) -> Tensor:
    """Return a dynamic random mask (DRM), Eq. (1): each token is selected with probability p.

    Args:
        maskable: True at tokens that are neither padding nor special, `[B, T]`; other tokens are
            never selected.
        p: Probability, from 0 to 1.

    Returns:
        True at selected tokens, `[B, T]`.
    """
    return maskable & (torch.rand(maskable.shape, device=maskable.device) < p)


def draw_complement(maskable: Tensor, selected: Tensor, p_c: float) -> Tensor:
    """Return a complementary random mask (CRM), Eq. (2): select unselected tokens with p_c.

    Tokens of the first mask have probability 0, whether they were masked, replaced or kept.

    Args:
        maskable: True at tokens that are neither padding nor special, `[B, T]`.
        selected: True at tokens that the first mask selected, `[B, T]`.
        p_c: Probability, from 0 to 1; on average the share p_c (1 - p_m) of all maskable tokens is
            selected.

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
    """Return the token ids with the selected ones corrupted, `[B, T]`.

    Args:
        ids: Token ids, `[B, T]`.
        selected: True at tokens to corrupt, `[B, T]`.
        mask_token: Id of the mask token.
        vocabulary: Size of the vocabulary.
        how: `80_10_10` is BERT's recipe. It masks 80 % of the selected tokens and keeps 10 %. It
            replaces 10 % by a uniform draw from the whole vocabulary, including special tokens as
            in transformers. `all_mask` masks all of them.
    """
    if how == "all_mask":
        return ids.masked_fill(selected, mask_token)
    share = torch.rand(ids.shape, device=ids.device)
    drawn = torch.randint(vocabulary, ids.shape, device=ids.device)
    masked = ids.masked_fill(selected & (share < MASKED), mask_token)
    replaced = selected & (share >= MASKED) & (share < MASKED + RANDOM)
    return torch.where(replaced, drawn, masked)
