"""Input embeddings of those tokens alone that occur in a task's texts.

A small encoder has most of its weights in the embeddings of tokens that a task never shows. They
have no gradient, so AdamW does nothing to them but decay: they are left out while a stage trains
and get their decay, one factor, at its end.
"""

from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel


class CutEmbedding(nn.Embedding):
    """Embeddings of some tokens, called with the numbers that the tokens have among all.

    Attributes:
        tokens: Numbers of the tokens that are kept, `[U]`.
        decay: The factor that weight decay has made of the others so far.
    """

    def __init__(self, whole: nn.Embedding, tokens: Tensor) -> None:
        super().__init__(len(tokens), whole.embedding_dim, _weight=whole.weight.detach()[tokens])
        self.tokens = tokens
        self.decay = 1.0
        # In a tuple, as it is no part of this module: it is neither trained nor saved with it.
        self._whole = (whole,)
        self._numbers = torch.full((whole.num_embeddings,), -1, device=tokens.device)
        self._numbers[tokens] = torch.arange(len(tokens), device=tokens.device)
        pad = -1 if whole.padding_idx is None else int(self._numbers[whole.padding_idx])
        self._padding = None if pad < 0 else pad

    @classmethod
    def install(cls, model: PreTrainedModel, tokens: Tensor) -> Self | None:
        """Cuts a model's input embeddings; returns None where they are of a kind of their own."""
        whole = model.get_input_embeddings()
        if type(whole) is not nn.Embedding or whole.max_norm or whole.scale_grad_by_freq:
            return None
        cut = cls(whole, tokens)
        model.set_input_embeddings(cut)
        return cut

    def forward(self, ids: Tensor) -> Tensor:
        """Returns the embeddings, `[..., e]`, of tokens by their numbers among all, `[...]`."""
        return F.embedding(self._numbers[ids], self.weight, self._padding)

    @torch.no_grad()
    def whole_weight(self) -> Tensor:
        """Returns the embeddings of all tokens, those that were kept as they are now."""
        (whole,) = self._whole
        weight = whole.weight * self.decay
        weight[self.tokens] = self.weight
        return weight

    def restore(self, model: PreTrainedModel) -> None:
        """Puts the embeddings of all tokens back."""
        (whole,) = self._whole
        whole.weight.data = self.whole_weight()
        model.set_input_embeddings(whole)
