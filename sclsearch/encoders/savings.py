"""Savings of memory and time: gradient caching, and embeddings of only the tokens that occur.

GradCache: Gao et al., 2021, https://arxiv.org/abs/2101.06983. A contrastive loss needs the last
states of all rows at once, but not their activations. So the rows go forward in chunks that keep
only the last states. When the gradients of these states are known, each chunk goes forward again,
with the same dropout, and backward. The gradients equal those of the whole batch; the summed
gradients of smaller batches do not.

Most weights of a small encoder are embeddings of tokens that never occur in a task. They have no
gradient, so AdamW only decays them. They are left out while a stage trains, and get their decay as
one factor at its end.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LIMIT = 2**15
"""Most positions (views * texts * tokens) of one undivided forward pass, by default.

BERT base keeps 0.8 MB per position in float32. Chunks draw other random numbers than the whole
batch, so the limit must not depend on the machine. A change of it or of `CHUNK` needs a new
`ENGINE_VERSION`.
"""
CHUNK = 2**13
"""Most positions per chunk by default, unless a single text has more."""

Forward = Callable[[Tensor, Tensor, Tensor, tuple[float, ...]], Tensor]


def is_large(ids: Tensor, dropout_rates: tuple[float, ...], chunk_tokens: int) -> bool:
    """Return whether a batch, `[B, T]`, with one view per rate needs `in_chunks`.

    `chunk_tokens` is the most positions of an undivided forward pass, or 0 for the default.
    """
    return ids.numel() * len(dropout_rates) > (chunk_tokens or LIMIT)


def in_chunks(
    forward: Forward,
    ids: Tensor,
    mask: Tensor,
    types: Tensor,
    dropout_rates: tuple[float, ...],
    chunk_tokens: int,
) -> Tensor:
    """Return the states of all V views, `[V * B, T, d]`, without keeping their activations.

    Chunks have at most `chunk_tokens` positions, or the default if it is 0. The backward pass calls
    `forward` again and restores only the random state. It must therefore set other state that it
    reads, such as the rates of dropout modules.
    """
    positions = ids.shape[1] * len(dropout_rates)  # of one text
    if chunk_tokens:
        chunks = -(-len(ids) // max(chunk_tokens // positions, 1))
    else:
        chunks = min(-(-len(ids) * positions // CHUNK), len(ids))
    texts = zip(*(tensor.tensor_split(chunks) for tensor in (ids, mask, types)), strict=True)
    states = [checkpoint(forward, *some, dropout_rates, use_reentrant=False) for some in texts]
    by_view = [chunk.unflatten(0, (len(dropout_rates), -1)) for chunk in states]  # [V, b, T, d]
    return torch.cat(by_view, dim=1).flatten(0, 1)


class CutEmbedding(nn.Embedding):
    """Embeddings of a subset of the tokens, `[U]`, indexed by the original token ids."""

    def __init__(self, whole: nn.Embedding, tokens: Tensor) -> None:
        super().__init__(len(tokens), whole.embedding_dim, _weight=whole.weight.detach()[tokens])
        self.tokens = tokens
        self.decay = 1.0  # accumulated weight-decay factor of the other tokens
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
