"""Wrapper of a Hugging Face encoder: token ids to one embedding per row and dropout view."""

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from sclsearch.encoders.capabilities import by_keys, max_tokens, probe
from sclsearch.encoders.first_position import install_first_position
from sclsearch.encoders.gradient_cache import in_chunks, is_large
from sclsearch.encoders.packing import install_packing, layers_of
from sclsearch.encoders.row_dropout import install
from sclsearch.encoders.vocabulary import CutEmbedding
from sclsearch.errors import SclsearchError


class Encoder(nn.Module):
    """Pretrained encoder with per-row dropout.

    Attributes:
        name: Name of the model, for errors.
        model: Hugging Face model.
        width: d, the size of an embedding.
        pretrained_pooler: True if the checkpoint has the dense+tanh pooler as a separate module.
            ALBERT's pooler is only a linear layer.
        per_row_dropout: True if views of one batch can have different dropout probabilities.
        causal: True if a token does not attend to later tokens, as in a decoder.
        governed: True if the model has no noise at dropout 0.
        packs: True if the layers work without padding.
        takes_masks: True if the attention is transformers' and accepts a prepared mask.
        max_tokens: Number of learned positions, thus most tokens of a text; None for no limit.
        trims: True if the last layer works without the positions that are not read.
        mask_token: Id of the mask token; None if the tokenizer has none.
        masked_lm: Weights of the checkpoint's masked-LM head; empty if it has none. They are not
            parameters: a stage that needs the head copies them.
    """

    pretrained_pooler: bool
    per_row_dropout: bool
    causal: bool
    governed: bool
    packs: bool
    takes_masks: bool
    trims: bool

    def __init__(
        self,
        name: str,
        model: PreTrainedModel,
        *,
        mask_token: int | None,
        masked_lm: Mapping[str, Tensor],
    ) -> None:
        super().__init__()
        self.name = name
        self.model = model
        self.width: int = model.config.hidden_size
        self.max_tokens = max_tokens(model)
        self.mask_token = mask_token
        self.masked_lm = masked_lm
        self._views = install(model)
        layers = layers_of(model)
        if layers is not None:
            install_packing(layers, self._views.packing)
            install_first_position(layers, self._views.first)
        probe(self, self._views, layered=layers is not None)

    @property
    def embeddings(self) -> Tensor:
        """Input embeddings of all tokens, `[vocabulary, e]`.

        Raises:
            RuntimeError: The embeddings are cut. A stage that reads them must set
                `whole_vocabulary`.
        """
        words: nn.Embedding = self.model.get_input_embeddings()  # type: ignore[assignment]
        if type(words) is CutEmbedding:
            message = "the embeddings are cut to the tokens of the texts: set whole_vocabulary"
            raise RuntimeError(message)
        return words.weight

    def cut(self, tokens: Tensor) -> CutEmbedding | None:
        """Cut the input embeddings to some tokens, until `CutEmbedding.restore`.

        Args:
            tokens: Ids of all tokens that the stage reads, `[U]`.
        """
        return CutEmbedding.install(self.model, tokens)

    def hidden(
        self,
        ids: Tensor,
        mask: Tensor,
        types: Tensor,
        rates: tuple[float, ...],
        *,
        first_only: bool = False,
    ) -> Tensor:
        """Return the last hidden states of all views, `[V * B, T, d]`.

        Args:
            ids: Token ids, `[B, T]`.
            mask: True at tokens, `[B, T]`.
            types: Segments, `[B, T]`; ignored if the encoder has only one segment.
            rates: Dropout probability of each of the V views; no effect in evaluation mode.
            first_only: True if the caller reads only position 0, where every text must have a
                token. An encoder with `trims` then returns only that position, `[V * B, 1, d]`.
        """
        forward = partial(self._hidden, first_only=first_only and self.trims)
        if is_large(ids, rates) and torch.is_grad_enabled() and self._trains:
            return in_chunks(forward, ids, mask, types, rates)
        return forward(ids, mask, types, rates)

    @property
    def _trains(self) -> bool:
        return any(parameter.requires_grad for parameter in self.parameters())

    def _hidden(
        self,
        ids: Tensor,
        mask: Tensor,
        types: Tensor,
        rates: tuple[float, ...],
        *,
        first_only: bool,
    ) -> Tensor:
        self._views.rates = rates
        views = len(rates)
        mask = mask.repeat(views, 1)
        inputs = {"input_ids": ids.repeat(views, 1), "attention_mask": mask}
        if ids.is_cuda and self.takes_masks:
            # transformers checks a token mask for padding, which makes the host wait for the GPU.
            inputs["attention_mask"] = by_keys(mask)
        if getattr(self.model.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = types.repeat(views, 1)
        # On a GPU, counting the tokens would block the host, and short rows do not fill the GPU.
        packed = self.packs and not ids.is_cuda
        with (
            self._views.packing.of(mask) if packed else nullcontext(),
            self._views.first.alone() if first_only else nullcontext(),
        ):
            states: Tensor = self.model(**inputs).last_hidden_state
        return states

    def pool(self, states: Tensor, mask: Tensor, pooling: str) -> Tensor:
        """Return the pooled embedding of each row, `[V * B, d]`.

        Args:
            states: Last hidden states of all views, `[V * B, T, d]`, or those at position 0,
                `[V * B, 1, d]`, which do not support `mean`.
            mask: True at tokens, `[B, T]`.
            pooling: `cls_raw`, the state at position 0; `cls_pooled`, that state after the
                pretrained dense+tanh layer; `mean`, the mean over tokens without padding.
        """
        if pooling == "mean":
            weights = mask.repeat(len(states) // len(mask), 1)[..., None].to(states.dtype)
            return (states * weights).sum(1) / weights.sum(1).clamp(min=1)
        if pooling == "cls_pooled":
            pooler: nn.Module = self.model.pooler  # type: ignore[assignment]  # check_pooling saw it
            pooled: Tensor = pooler(states)
            return pooled
        if pooling != "cls_raw":
            message = f"pooling must be cls_raw, cls_pooled or mean, but it is {pooling!r}"
            raise ValueError(message)
        return states[:, 0]

    def check_pooling(self, pooling: str, where: str) -> None:
        """Raise SclsearchError if the pooling is `cls_pooled` but the checkpoint has no pooler."""
        if pooling == "cls_pooled" and not self.pretrained_pooler:
            raise SclsearchError(
                f"{where}: 'cls_pooled' must be backed by a pooler as BERT's in the checkpoint, "
                f"but model {self.name!r} ({self.model.config.model_type}) has none that was "
                "pretrained. Take 'cls_raw' or 'mean'."
            )

    def check_length(self, tokens: int, where: str) -> None:
        """Raise SclsearchError if a text length exceeds the encoder's number of positions."""
        if self.max_tokens is not None and tokens > self.max_tokens:
            raise SclsearchError(
                f"{where}: it must be at most {self.max_tokens}, the positions that model "
                f"{self.name!r} has, but it is {tokens}. Give less, or another --model."
            )

    def check_per_row_dropout(self, where: str) -> None:
        """Raise SclsearchError if views of one batch cannot differ in dropout probability."""
        if not self.per_row_dropout:
            raise SclsearchError(
                f"{where}: attention dropout must be settable for each view, but model "
                f"{self.name!r} ({self.model.config.model_type}) does not use transformers' "
                "attention interface. BERT, RoBERTa, DistilBERT, ELECTRA and ModernBERT do."
            )

    def check_mask_token(self, where: str) -> None:
        """Raise SclsearchError if the tokenizer has no mask token."""
        if self.mask_token is None:
            raise SclsearchError(
                f"{where}: the tokenizer must have a mask token, but that of model {self.name!r} "
                f"({self.model.config.model_type}) has none. Take a model that was pretrained with "
                "masks, such as BERT or RoBERTa."
            )
