"""Savings of memory and time: gradient caching, cut embeddings, and positions that layers skip.

GradCache: Gao et al., 2021, https://arxiv.org/abs/2101.06983. A contrastive loss needs the last
states of all rows at once, but not their activations. So the rows go forward in chunks that keep
only the last states. When the gradients of these states are known, each chunk goes forward again,
with the same dropout, and backward. The gradients equal those of the whole batch; the summed
gradients of smaller batches do not.

Most weights of a small encoder are embeddings of tokens that never occur in a task. They have no
gradient, so AdamW only decays them. They are left out while a stage trains, and get their decay as
one factor at its end.

Linear layers and norms process each token separately, and they are nearly all of the work. Only
attention needs the rows. So the output of the embeddings is packed before the first layer: all
tokens of a batch form one row. Attention unpacks its queries, keys and values, and the output of
the last layer is unpacked. Masks, positions and the composition of the batch do not change.

An embedding that reads only the state at position 0 needs only the last layer's keys and values of
the other tokens. Their queries, output projection and feed-forward part do not affect it. With six
layers this saves an eighth of the work.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

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


class SubsetEmbedding(nn.Embedding):
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

    def get_extra_state(self) -> dict[str, Any]:
        """Return what a state dict would lack: the whole embeddings and their decay."""
        return {"whole": self._whole[0].weight.detach(), "decay": self.decay}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self._whole[0].weight.data.copy_(state["whole"])
        self.decay = state["decay"]

    def restore(self, model: "PreTrainedModel") -> None:
        """Restore the model's input embeddings of all tokens, with the trained weights."""
        (whole,) = self._whole
        whole.weight.data = self.whole_weight()
        model.set_input_embeddings(whole)


WORTH = 0.95
"""Share of tokens among the positions above which packing is not worth its cost."""
PROJECTIONS = (("key", "value"), ("k_lin", "v_lin"))
"""Names of the key and value projections in the model families."""

HookInput = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass
class Packing:
    """Positions of the current batch, shared by all modules of one encoder."""

    places: Tensor | None = None  # of the tokens in the flattened rows; None keeps the padding
    rows: int = 0  # V * B
    length: int = 0  # T
    active: bool = False  # the states are packed: between the first and the last layer
    first_only: bool = False  # this forward pass needs only position 0 of the last states
    before_last: Tensor | None = None  # states of all tokens, while the last layer runs at 0 only

    def install(self, layers: nn.ModuleList) -> None:
        """Install the hooks of the first and the last layer."""
        # Methods instead of closures: a copy of the encoder must get hooks with separate state.
        layers[0].register_forward_pre_hook(self.enter_layers, with_kwargs=True)
        layers[-1].register_forward_pre_hook(self.enter_last_layer, with_kwargs=True)
        layers[-1].register_forward_hook(self.leave_layers)

    @contextmanager
    def packed(self, mask: Tensor) -> Iterator[None]:
        """Pack a batch with the token mask `[V * B, T]`, inside the with block."""
        self.rows, self.length = mask.shape
        places = mask.flatten().nonzero()[:, 0]
        if len(places) <= WORTH * mask.numel():
            self.places = places
        try:
            yield
        finally:
            self.places, self.active = None, False

    @contextmanager
    def first_position(self) -> Iterator[None]:
        """Compute only position 0 in the last layer, inside the with block."""
        self.first_only = True
        try:
            yield
        finally:
            self.first_only, self.before_last = False, None

    @property
    def token_places(self) -> Tensor:
        if self.places is None:
            raise ValueError("no batch is packed")
        return self.places

    def pack(self, x: Tensor) -> Tensor:
        """Return the packed states, `[1, tokens, ...]`, from padded ones, `[V * B, T, ...]`."""
        return x.flatten(0, 1).index_select(0, self.token_places)[None]

    def unpack(self, x: Tensor) -> Tensor:
        """Return the padded states, `[V * B, T, ...]`, from `[1, tokens, ...]`; padding is zero."""
        padded = x.new_zeros(self.rows * self.length, *x.shape[2:])
        padded = padded.index_copy(0, self.token_places, x[0])
        return padded.view(self.rows, self.length, *x.shape[2:])

    def enter_layers(
        self, _layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
    ) -> HookInput | None:
        if self.places is None:
            return None
        self.active = True
        return (self.pack(given[0]), *given[1:]), named

    def enter_last_layer(
        self, _layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
    ) -> HookInput | None:
        """Replace the input of the last layer by its first positions, `[V * B, 1, d]`.

        Every row must have a token at position 0. The states are no longer packed.
        """
        if not self.first_only:
            return None
        self.before_last = states = given[0]
        first = states[:, :1]
        if self.active:
            self.active = False
            starts = (self.token_places % self.length == 0).nonzero()[:, 0]
            first = states[0].index_select(0, starts)[:, None]
        return (first, *given[1:]), named

    def leave_layers(self, _layer: nn.Module, _given: tuple[Any, ...], output: Any) -> Any:
        if not self.active:
            return None
        self.active = False
        if isinstance(output, tuple):
            return (self.unpack(output[0]), *output[1:])
        return self.unpack(output)

    def keys_and_values(self, attention: nn.Module, width: int) -> tuple[Tensor, Tensor]:
        """Return the last layer's keys and values of all positions, `[V * B, heads, T, width]`."""
        names = next((n for n in PROJECTIONS if hasattr(attention, n[0])), PROJECTIONS[0])
        found = [getattr(attention, name)(self.before_last) for name in names]
        found = [projected.unflatten(-1, (-1, width)) for projected in found]
        if self.places is not None:
            found = [self.unpack(projected) for projected in found]
        return found[0].transpose(1, 2), found[1].transpose(1, 2)


def layers_of(model: "PreTrainedModel") -> nn.ModuleList | None:
    """Return an encoder's layers in order; None if they cannot be identified."""
    count = getattr(model.config, "num_hidden_layers", None)
    lists = [m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == count]
    return lists[0] if len(lists) == 1 else None
