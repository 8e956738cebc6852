"""Token masking and masked language modeling: sections 3.1 and 3.2 of CMLM.

Luo et al., 2021, https://arxiv.org/abs/2106.02327. Random numbers come from torch's global
generator, as for dropout. Each token gets one number, whatever the masks are.
"""

import torch
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.base import Batch, Model
from sclsearch.objectives import masked_lm

MASKED = 0.8
RANDOM = 0.1


def draw_selection(maskable: Tensor, p: float) -> Tensor:
    """Return a dynamic random mask (DRM), Eq. (1): each maskable token is selected with p."""
    return maskable & (torch.rand(maskable.shape, device=maskable.device) < p)


def corrupt(encoder: Encoder, ids: Tensor, selected: Tensor) -> Tensor:
    """Return the token ids with the selected ones corrupted by BERT's recipe, `[B, T]`.

    It masks 80 % of the selected tokens and keeps 10 %. It replaces 10 % by a uniform draw from the
    whole vocabulary, including special tokens as in transformers.
    """
    if encoder.mask_token is None:
        raise ValueError("check_mask_token has not been called")
    share = torch.rand(ids.shape, device=ids.device)
    drawn = torch.randint(len(encoder.embeddings), ids.shape, device=ids.device)
    masked = ids.masked_fill(selected & (share < MASKED), encoder.mask_token)
    replaced = selected & (share >= MASKED) & (share < MASKED + RANDOM)
    return torch.where(replaced, drawn, masked)


def masked_lm_of(model: Model, batch: Batch, states: Tensor, selected: Tensor) -> Tensor:
    """Return the masked-LM loss over the selected tokens, given the states of corrupted texts."""
    # `nonzero` waits for the device to count the tokens. One call serves all three index_selects.
    places = selected.flatten().nonzero()[:, 0]  # [S]
    hidden = states.flatten(0, 1).index_select(0, places)  # [S, d]
    return masked_lm(
        model.new_modules["mlm"](hidden, model.encoder.embeddings),  # [S, vocabulary]
        batch.ids.flatten().index_select(0, places),
    )
