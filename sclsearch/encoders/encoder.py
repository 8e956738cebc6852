"""Wrapper of a Hugging Face encoder: token ids to one embedding per row and dropout view."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from sclsearch.encoders.savings import SubsetEmbedding, in_chunks, is_large, layers_of
from sclsearch.errors import SclsearchError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FORWARD_ERRORS = (AssertionError, AttributeError, IndexError, RuntimeError, TypeError, ValueError)
"""Errors of a forward pass whose inputs an architecture does not support."""
ROUNDING = 1e-3
"""Largest relative difference of two states that counts as rounding error."""


class Encoder(nn.Module):
    """Pretrained encoder with per-row dropout; d is its `width`.

    Its capabilities are detected by test forward passes, so that any architecture can be used.
    """

    def __init__(
        self,
        name: str,
        model: "PreTrainedModel",
        mask_token: int | None,
        masked_lm: Mapping[str, Tensor],
        masked_lm_activation: str = "gelu",
        *,
        pooler: bool = False,
    ) -> None:
        # Imports transformers, which the methods' settings and finished studies do not need.
        from sclsearch.encoders.row_dropout import install

        super().__init__()
        self.name = name  # for errors
        self.model = model
        self.width: int = model.config.hidden_size
        self.max_tokens = _max_tokens(model)
        self.chunk_tokens = 0  # as in `Training`
        # In Longformer, which its authors fine-tuned with global attention of position 0.
        self.has_global_attention = "global_attention_mask" in signature(model.forward).parameters
        self.mask_token = mask_token
        self.masked_lm = masked_lm  # not parameters: a stage that needs the head copies them
        self.masked_lm_activation = masked_lm_activation
        self.pretrained_pooler = pooler  # the checkpoint has its weights
        self._views = install(model)
        layers = layers_of(model)
        if layers is not None:
            self._views.packing.install(layers)
        training = model.training
        try:
            self._detect_capabilities(layered=layers is not None)
        finally:
            model.train(training)

    @torch.no_grad()
    def _detect_capabilities(self, *, layered: bool) -> None:
        ids, mask = _test_texts()
        forward = partial(self.hidden, ids, mask, torch.zeros_like(ids), (0.0,))
        self.can_pack = self.can_trim = self.accepts_4d_masks = False
        self.model.train(False)  # it may have dropout that `install` did not replace
        padded = forward()  # [4, 4, d]
        # Otherwise each view needs a separate forward pass.
        self.per_row_dropout = self._views.attention_seen
        self.causal = torch.allclose(padded[0, 0], padded[1, 0])
        # Test whether padding or other texts change the states of a text.
        alone = self.hidden(ids[1:2, :2], mask[1:2, :2], torch.zeros_like(ids[1:2, :2]), (0.0,))[0]
        difference = (alone - padded[1, :2]).abs().mean()
        self.batch_invariant = bool(difference <= ROUNDING * alone.abs().mean())
        # With sliding windows the model needs two masks, but a prepared mask would replace both.
        windows = "sliding_attention" in (getattr(self.model.config, "layer_types", None) or ())
        if not windows:
            given = {"input_ids": ids, "attention_mask": self._attention_mask(mask)}
            own = partial(self.model, **given)
            self.accepts_4d_masks = _same_states(lambda: own().last_hidden_state, padded, mask)
        self.model.train()
        # Test whether the model is free of noise at dropout 0.
        self.noise_free = torch.allclose(forward()[mask], padded[mask])
        self.model.train(False)
        if layered and self.per_row_dropout:
            # Test whether the layers work without padding, and the last one on position 0 alone.
            self.can_pack = True
            self.can_pack = _same_states(forward, padded, mask)
            self.can_trim = True
            self.can_trim = _same_states(
                partial(forward, first_only=True), padded[:, :1], mask[:, :1]
            )

    @property
    def notes(self) -> tuple[str, ...]:
        if self.batch_invariant:
            return ()
        kind = self.model.config.model_type
        return (f"encoder {kind}: scores of a text change with the padding of its batch",)

    @property
    def embeddings(self) -> Tensor:
        """Input embeddings of all tokens, `[vocabulary, e]`, in a stage with `full_vocabulary`."""
        words: nn.Embedding = self.model.get_input_embeddings()  # type: ignore[assignment]
        if type(words) is SubsetEmbedding:
            message = "the embedding matrix has only the tokens of the texts: set full_vocabulary"
            raise RuntimeError(message)
        return words.weight

    def hidden(
        self,
        ids: Tensor,
        mask: Tensor,
        types: Tensor,
        dropout_rates: tuple[float, ...],
        *,
        first_only: bool = False,
    ) -> Tensor:
        """Return the last hidden states, `[V * B, T, d]`, of one view per dropout probability.

        Ids, mask (True at tokens) and types (segments) are `[B, T]`. A caller that reads only
        position 0, where every text must have a token, passes `first_only`. An encoder with
        `can_trim` then returns only that position, `[V * B, 1, d]`.
        """
        forward = partial(self._hidden, first_only=first_only and self.can_trim)
        trains = torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters())
        if trains and is_large(ids, dropout_rates, self.chunk_tokens):
            return in_chunks(forward, ids, mask, types, dropout_rates, self.chunk_tokens)
        return forward(ids, mask, types, dropout_rates)

    def _hidden(
        self,
        ids: Tensor,
        mask: Tensor,
        types: Tensor,
        dropout_rates: tuple[float, ...],
        *,
        first_only: bool,
    ) -> Tensor:
        if len(set(dropout_rates)) > 1 and not self.per_row_dropout:
            forward = partial(self._hidden, ids, mask, types, first_only=first_only)
            return torch.cat([forward((rate,)) for rate in dropout_rates])
        self._views.dropout_rates = dropout_rates
        views = len(dropout_rates)
        mask = mask.repeat(views, 1)
        inputs = {"input_ids": ids.repeat(views, 1), "attention_mask": mask}
        if ids.is_cuda and self.accepts_4d_masks:
            # transformers checks a token mask for padding, which makes the host wait for the GPU.
            inputs["attention_mask"] = self._attention_mask(mask)
        if getattr(self.model.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = types.repeat(views, 1)
        if self.has_global_attention:
            inputs["global_attention_mask"] = (
                (torch.arange(mask.shape[1], device=ids.device) < 1).expand(mask.shape).long()
            )
        # Not on a GPU: counting tokens blocks the host, and padding of short rows costs little.
        packed = self.can_pack and not ids.is_cuda
        with (
            self._views.packing.packed(mask) if packed else nullcontext(),
            self._views.packing.first_position() if first_only else nullcontext(),
        ):
            states: Tensor = self.model(**inputs).last_hidden_state
        return states

    def _attention_mask(self, mask: Tensor) -> Tensor:
        """Return the attention mask, `[rows, 1, T, T]`, for a token mask, `[rows, T]`."""
        wide = mask[:, None, None].expand(-1, 1, mask.shape[1], -1)
        if self.per_row_dropout:
            return wide
        # The model's own attention adds the mask to its scores.
        lowest = torch.finfo(torch.float32).min
        return torch.zeros(wide.shape, device=mask.device).masked_fill_(~wide, lowest)

    def pool(self, states: Tensor, mask: Tensor, pooling: str) -> Tensor:
        """Return the pooled embedding of each row, `[V * B, d]`, from the states of all views.

        `cls_raw` is the state at position 0, `cls_pooled` that state after the pretrained
        dense+tanh layer, and `mean` the mean over tokens without padding.
        """
        if pooling == "mean":
            weights = mask.repeat(len(states) // len(mask), 1)[..., None].to(states.dtype)
            return (states * weights).sum(1) / weights.sum(1).clamp(min=1)
        if pooling == "cls_pooled":
            pooler: nn.Module = self.model.pooler  # type: ignore[assignment]  # check_pooling saw it
            pooled: Tensor = pooler(states)
            return pooled
        if pooling != "cls_raw":
            raise ValueError(f"pooling: must be cls_raw, cls_pooled or mean, got {pooling!r}")
        return states[:, 0]

    def check_pooling(self, pooling: str, where: str) -> None:
        """Raise SclsearchError if the pooling is `cls_pooled` but the checkpoint has no pooler."""
        if pooling == "cls_pooled" and not self.pretrained_pooler:
            raise SclsearchError(
                f"{where}: 'cls_pooled' needs a pretrained pooler like BERT's, and {self._title} "
                "has none. Use 'cls_raw' or 'mean'."
            )

    def check_length(self, tokens: int, where: str) -> None:
        """Raise SclsearchError if a text length exceeds the encoder's number of positions."""
        if self.max_tokens is not None and tokens > self.max_tokens:
            raise SclsearchError(
                f"{where}: must be at most {self.max_tokens}, the positions of {self._title}, got "
                f"{tokens}. Reduce it, or choose another --model."
            )

    def check_mask_token(self, where: str) -> None:
        """Raise SclsearchError if the tokenizer has no mask token."""
        if self.mask_token is None:
            raise SclsearchError(
                f"{where}: the tokenizer of {self._title} has no mask token. Choose a model that "
                "was pretrained with masks, such as BERT or RoBERTa."
            )

    @property
    def _title(self) -> str:
        return f"model {self.name!r} ({self.model.config.model_type})"


def _same_states(forward: Callable[[], Tensor], padded: Tensor, mask: Tensor) -> bool:
    """Return whether the states at tokens equal those that were computed with padding."""
    try:
        states = forward()
    except FORWARD_ERRORS:
        # It fails if every layer gets position embeddings in the padded shape, as rotary ones, or
        # if the modules for keys and values have unknown names.
        return False
    same_shape = states.shape == padded.shape
    return same_shape and torch.allclose(states[mask], padded[mask], atol=1e-4)


def _max_tokens(model: nn.Module) -> int | None:
    for name, module in model.named_modules():
        if name.endswith(".position_embeddings") and isinstance(module, nn.Embedding):
            # If padding has a separate row, as in RoBERTa, positions begin after it.
            before = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - before
    return None


def _test_texts() -> tuple[Tensor, Tensor]:
    ids = torch.tensor([[0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    return ids, torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]).bool()
