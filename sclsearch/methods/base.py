"""What a method is to the engine: parts, stages, terms and scores."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, Protocol

import torch
from annotated_types import Ge, Gt, Interval, Lt
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder

Terms = Mapping[str, Tensor]
Rate = Annotated[float, Ge(0), Lt(1)]


@dataclass(frozen=True, slots=True)
class Training:
    """What every method shares. Defaults: fairseq's GLUE recipe for RoBERTa.

    Gunel et al. use fairseq and state learning rate, batch size and dropout alone. It departs from
    the recipe in torch's betas (0.9, 0.999) and eps 1e-8, where that has (0.9, 0.98) and 1e-6, in
    the decay, which spares biases and norms, and in the head's dropout, which is the encoder's,
    where fairseq's is 0.

    Attributes:
        learning_rate: Peak learning rate of AdamW; Gunel et al.: 1e-5.
        batch_size: Texts in a batch; Gunel et al.: 16.
        epochs: Passes over the training rows; fairseq: 10.
        warmup_ratio: Share of updates in which the rate rises linearly; fairseq: 0.06.
        weight_decay: Decoupled weight decay, not on biases and norms; fairseq: 0.1.
        dropout: Rate of hidden and attention dropout while training; 0.1 in Gunel et al. and CMLM
            as in BERT itself, LaCon states none.
        max_grad_norm: Norm to which gradients are clipped, 0 for no clipping; fairseq: 0.
        max_length: Tokens after which a text, or a pair, is cut; 128 in BERT's GLUE recipe.
        batch_sampling: `shuffle` every epoch, or `balanced`: classes equally often in each batch.
        drop_last: Whether a last batch of fewer rows is left out.
        class_weights: `balanced` weighs the cross-entropy of a class with n / (C n_c), n of the
            training rows and n_c of those of class c; it enters identities only where it is set.
    """

    learning_rate: Annotated[float, Gt(0), Lt(1)] = 1e-5
    batch_size: Annotated[int, Ge(1)] = 16
    epochs: Annotated[int, Ge(1)] = 10
    warmup_ratio: Annotated[float, Interval(ge=0, le=1)] = 0.06
    weight_decay: Annotated[float, Ge(0)] = 0.1
    dropout: Rate = 0.1
    max_grad_norm: Annotated[float, Ge(0)] = 0.0
    max_length: Annotated[int, Interval(ge=4, le=8192)] = 128
    batch_sampling: Literal["shuffle", "balanced"] = "shuffle"
    drop_last: bool = False
    class_weights: Literal["none", "balanced"] = "none"


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows as the engine hands them to a method.

    Attributes:
        ids: Token ids, `[B, T]`; B texts.
        mask: True at tokens, False at padding, `[B, T]`.
        types: Segment of each token, `[B, T]`.
        content: True at tokens that are neither padding nor special, `[B, T]`.
        y: Class, `[B]` int64, or score, `[B]` float32.
        rates: Dropout rate of each view; a batch with V rates is seen V times. In a stage that
            reads paraphrases the first half of the rows are the first paraphrases.
        features: The frozen encoder's embeddings, `[B, d]`, in a stage that caches them.
    """

    ids: Tensor
    mask: Tensor
    types: Tensor
    content: Tensor
    y: Tensor
    rates: tuple[float, ...]
    features: Tensor | None = None

    @property
    def view_y(self) -> Tensor:
        """Label of each row of all views, `[V * B]`."""
        return self.y.repeat(len(self.rates))


class Model(nn.Module):
    """An encoder and what a method trains beyond it.

    Attributes:
        encoder: The pretrained encoder.
        new_modules: The method's own modules by name.
        class_weights: Weight of each class in a cross-entropy, `[C]`; None weighs all alike.
    """

    def __init__(
        self, encoder: Encoder, new_modules: nn.ModuleDict, class_weights: Tensor | None = None
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.new_modules = new_modules
        self.class_weights = class_weights

    def hidden(self, batch: Batch, *, first_only: bool = False) -> Tensor:
        """Returns the last hidden states of all views, `[V * B, T, d]`, as the encoder does."""
        inputs = (batch.ids, batch.mask, batch.types, batch.rates)
        return self.encoder.hidden(*inputs, first_only=first_only)

    def embeddings(self, batch: Batch, *poolings: str) -> tuple[Tensor, ...]:
        """Returns one embedding a row and view for each pooling, `[V * B, d]`, of one forward."""
        states = self.hidden(batch, first_only="mean" not in poolings)
        return tuple(self.encoder.pool(states, batch.mask, pooling) for pooling in poolings)

    def embed(self, batch: Batch, pooling: str) -> Tensor:
        """Returns one embedding a row and view, `[V * B, d]`; cached features where there are."""
        if batch.features is not None:
            return batch.features
        (z,) = self.embeddings(batch, pooling)
        return z


@dataclass(frozen=True, slots=True)
class Stage:
    """One training stage of a method.

    Attributes:
        name: For logs and errors.
        training: The settings of this stage.
        terms: The loss by named parts, each a scalar, already weighted.
        new_modules: Returns the modules that the stage trains beside the encoder, given the encoder
            and C, which is 0 in regression. The next stage gets the encoder, not these modules.
        rates: Dropout rates of the views at an update, counted from 0; None is one view at the
            ordinary rate. Not read where features are cached: one view without dropout.
        reads: The texts, or two paraphrases of each, `[2 * B, T]`.
        labeled: Whether the loss reads labels. Without, the stage trains on further texts too
            where a study has some, whose `y` must not be looked at.
        monitored: Names among the terms that are watched and not added to the loss.
        lr_scales: Learning rate of a part as a multiple of the stage's, by the part's name.
        no_weight_decay: Parts without weight decay.
        frozen_pooling: Set where the encoder does not train: how the features are pooled that
            the stage reads.
        encoder_train_mode: Whether dropout is active in a frozen encoder; if not, its features
            are computed once.
        whole_vocabulary: Whether it needs tokens beyond those of the texts: it predicts or draws
            some.
    """

    name: str
    training: Training
    terms: Callable[[Model, Batch], Terms]
    new_modules: Callable[[Encoder, int], nn.ModuleDict]
    rates: Callable[[int], tuple[float, ...]] | None = None
    reads: Literal["texts", "paraphrases"] = "texts"
    labeled: bool = True
    monitored: tuple[str, ...] = ()
    lr_scales: Mapping[str, float] = field(default_factory=dict)
    no_weight_decay: tuple[str, ...] = ()
    frozen_pooling: str | None = None
    encoder_train_mode: bool = False
    whole_vocabulary: bool = False

    def __post_init__(self) -> None:
        if self.cached and self.reads == "paraphrases":
            raise ValueError(f"{self.name}: features are cached of texts, not of paraphrases")

    @property
    def cached(self) -> bool:
        """Whether the encoder's features are computed once for all epochs."""
        return self.frozen_pooling is not None and not self.encoder_train_mode

    @property
    def reads_labels(self) -> bool:
        """Whether it needs labelled rows, for its loss or to balance the classes of a batch."""
        return self.labeled or self.training.batch_sampling == "balanced"

    @property
    def views(self) -> int:
        """How often a text of a batch is seen."""
        return len(self.rates_at(0)) * (2 if self.reads == "paraphrases" else 1)

    def rates_at(self, update: int) -> tuple[float, ...]:
        """Returns the dropout rate of each view at an update, counted from 0."""
        return (self.training.dropout,) if self.rates is None else self.rates(update)

    def loss(self, terms: Terms) -> Tensor:
        """Returns the sum of the terms that are no gauges, a scalar."""
        return torch.stack([t for name, t in terms.items() if name not in self.monitored]).sum()


class Method(Protocol):
    """What the engine asks of a method: a frozen dataclass whose fields can be searched.

    Attributes:
        protocol: Name of the paper's protocol on full data.
        few_shot: Name of the paper's protocol when a training size is given.
        regression: Whether it can learn scores.
        training: The paper's settings where they differ from `Training`'s defaults.
        cross_entropy: Whether its last stage has a cross-entropy, which classes can be weighed in;
            a method that says nothing has one.
    """

    protocol: ClassVar[str]
    few_shot: ClassVar[str]
    regression: ClassVar[bool]
    training: ClassVar[Mapping[str, object]]

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Returns what a reader of the figures must know of method and encoder together.

        Raises:
            SclsearchError: The encoder cannot do what the method needs.
        """

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Returns the stages in order; only the last is evaluated."""

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Returns `[B, C]`, or `[B]` in regression."""


def reads_paraphrases(method: Method, training: Training) -> bool:
    """Returns whether a stage of a method reads paraphrases."""
    return any(stage.reads == "paraphrases" for stage in method.stages(training))


def reads_unlabeled(method: Method, training: Training) -> bool:
    """Returns whether a stage of a method reads no labels."""
    return not all(stage.reads_labels for stage in method.stages(training))


def no_new_modules(_encoder: Encoder, _classes: int) -> nn.ModuleDict:
    """Returns no modules: for a stage that trains the encoder alone."""
    return nn.ModuleDict()
