"""An encoder as methods see it: token ids in, one embedding a row and view out."""

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
    """A pretrained encoder with dropout by row.

    Attributes:
        name: The model's name, for errors.
        model: The Hugging Face model.
        width: d, the size of an embedding.
        pretrained_pooler: Whether the checkpoint holds the dense+tanh pooler, as a module of its
            own: ALBERT's is a bare linear layer.
        per_row_dropout: Whether views of one batch can have different dropout rates.
        causal: Whether a token does not see those after it, as in a decoder.
        governed: Whether no noise is left at rate 0.
        packs: Whether its layers can do without padding.
        takes_masks: Whether its attention is transformers' and takes a mask that is ready for it.
        max_tokens: Positions that it has learnt, so tokens of a text at most; None for no limit.
        trims: Whether its last layer can do without positions that are not read.
        mask_token: Id of the token that stands for a hidden one; None if there is none.
        masked_lm: Weights of the checkpoint's own masked-language-model head; empty if it has
            none. They are no parameters: a stage that needs the head copies them.
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
        """The input embeddings of all tokens, `[vocabulary, e]`.

        Raises:
            RuntimeError: They are cut; a stage that reads them says `whole_vocabulary`.
        """
        words: nn.Embedding = self.model.get_input_embeddings()  # type: ignore[assignment]
        if type(words) is CutEmbedding:
            message = "the embeddings are cut to the tokens of the texts: set whole_vocabulary"
            raise RuntimeError(message)
        return words.weight

    def cut(self, tokens: Tensor) -> CutEmbedding | None:
        """Leaves the embeddings of other tokens out, until they are restored.

        Args:
            tokens: Numbers of all tokens that will be seen, `[U]`.
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
        """Returns the last hidden states of all views, `[V * B, T, d]`.

        Args:
            ids: Token ids, `[B, T]`.
            mask: True at tokens, `[B, T]`.
            types: Segments, `[B, T]`; left out where the encoder has one segment only.
            rates: Dropout rate of each of the V views; no effect in evaluation mode.
            first_only: Whether only those at position 0 are read, where every text must have a
                token: an encoder that can leaves the others out, `[V * B, 1, d]`.
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
            # Of a mask by tokens transformers asks whether there is padding; a GPU's host waits.
            inputs["attention_mask"] = by_keys(mask)
        if getattr(self.model.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = types.repeat(views, 1)
        # A GPU would wait for the tokens to be counted, and short rows do not fill it anyway.
        packed = self.packs and not ids.is_cuda
        with (
            self._views.packing.of(mask) if packed else nullcontext(),
            self._views.first.alone() if first_only else nullcontext(),
        ):
            states: Tensor = self.model(**inputs).last_hidden_state
        return states

    def pool(self, states: Tensor, mask: Tensor, pooling: str) -> Tensor:
        """Returns one embedding a row, `[V * B, d]`.

        Args:
            states: Last hidden states of all views, `[V * B, T, d]`, or those at position 0,
                `[V * B, 1, d]`, of which there is no `mean`.
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
        """Raises SclsearchError if the checkpoint has no pooler and `cls_pooled` is asked for."""
        if pooling == "cls_pooled" and not self.pretrained_pooler:
            raise SclsearchError(
                f"{where}: 'cls_pooled' must be backed by a pooler as BERT's in the checkpoint, "
                f"but model {self.name!r} ({self.model.config.model_type}) has none that was "
                "pretrained. Take 'cls_raw' or 'mean'."
            )

    def check_length(self, tokens: int, where: str) -> None:
        """Raises SclsearchError if texts of so many tokens are longer than it can read."""
        if self.max_tokens is not None and tokens > self.max_tokens:
            raise SclsearchError(
                f"{where}: it must be at most {self.max_tokens}, the positions that model "
                f"{self.name!r} has, but it is {tokens}. Give less, or another --model."
            )

    def check_per_row_dropout(self, where: str) -> None:
        """Raises SclsearchError if views of one batch cannot have different dropout rates."""
        if not self.per_row_dropout:
            raise SclsearchError(
                f"{where}: attention dropout must be settable for each view, but model "
                f"{self.name!r} ({self.model.config.model_type}) does not use transformers' "
                "attention interface. BERT, RoBERTa, DistilBERT, ELECTRA and ModernBERT do."
            )

    def check_mask_token(self, where: str) -> None:
        """Raises SclsearchError if the tokenizer has no mask token."""
        if self.mask_token is None:
            raise SclsearchError(
                f"{where}: the tokenizer must have a mask token, but that of model {self.name!r} "
                f"({self.model.config.model_type}) has none. Take a model that was pretrained with "
                "masks, such as BERT or RoBERTa."
            )
