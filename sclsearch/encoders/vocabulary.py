"""Input embeddings restricted to the tokens that occur in a task's texts.

Most weights of a small encoder are embeddings of tokens that never occur in a task. They have no
gradient, so AdamW only decays them. They are left out while a stage trains, and get their decay as
one factor at its end.
"""

from typing import TYPE_CHECKING, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class CutEmbedding(nn.Embedding):
    """Embeddings of a subset of the tokens, indexed by the original token ids.

    Attributes:
        tokens: Ids of the tokens that are kept, `[U]`.
        decay: Accumulated weight-decay factor of the other tokens.
    """

    def __init__(self, whole: nn.Embedding, tokens: Tensor) -> None:
        super().__init__(len(tokens), whole.embedding_dim, _weight=whole.weight.detach()[tokens])
        self.tokens = tokens
        self.decay = 1.0
        # In a tuple, so that it is not registered as a submodule: it is neither trained nor saved.
        self._whole = (whole,)
        self._numbers = torch.full((whole.num_embeddings,), -1, device=tokens.device)
        self._numbers[tokens] = torch.arange(len(tokens), device=tokens.device)
        pad = -1 if whole.padding_idx is None else int(self._numbers[whole.padding_idx])
        self._padding = None if pad < 0 else pad

    @classmethod
    def install(cls, model: "PreTrainedModel", tokens: Tensor) -> Self | None:
        """Replace a model's input embeddings until `restore`; return None for unsupported types."""
        whole = model.get_input_embeddings()
        if type(whole) is not nn.Embedding or whole.max_norm or whole.scale_grad_by_freq:
            return None
        cut = cls(whole, tokens)
        model.set_input_embeddings(cut)
        return cut

    def forward(self, ids: Tensor) -> Tensor:
        """Return the embeddings, `[..., e]`, of original token ids, `[...]`."""
        return F.embedding(self._numbers[ids], self.weight, self._padding)

    @torch.no_grad()
    def whole_weight(self) -> Tensor:
        """Return the embeddings of all tokens: trained for kept tokens, decayed for the others."""
        (whole,) = self._whole
        weight = whole.weight * self.decay
        weight[self.tokens] = self.weight
        return weight

    def restore(self, model: "PreTrainedModel") -> None:
        """Restore the model's input embeddings of all tokens, with the trained weights."""
        (whole,) = self._whole
        whole.weight.data = self.whole_weight()
        model.set_input_embeddings(whole)
