"""Interface between methods and the engine: settings, batches, models, stages and scores."""

from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from annotated_types import Ge, Gt, Interval, Lt
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import Head
from sclsearch.errors import SclsearchError
from sclsearch.objectives import prediction_loss

Terms = Mapping[str, Tensor]
"""Terms of a loss by name: weighted scalars. Their sum is minimized; each is logged."""
Rate = Annotated[float, Ge(0), Lt(1)]
Labels = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]
Batches = Callable[[Labels, int, np.random.Generator], Iterator[Positions]]
"""Endless stream of batches, as positions among the training rows, given the labels of the rows,
`[rows]`, the batch size, and a random generator."""
LORA_LR = 10.0
"""Multiplier of the encoder's learning rate with LoRA."""
Pooling = Literal["head_hidden", "cls_raw", "cls_pooled", "mean"]
"""Input of the head's linear layer: its own dense+tanh layer on the first token's state, that state
itself, the output of BERT's pretrained pooler, or the mean over tokens."""


@dataclass(frozen=True, slots=True)
class Training:
    """Training settings that all methods share. Defaults: fairseq's GLUE recipe for RoBERTa.

    Gunel et al. use fairseq and state only learning rate, batch size and dropout. The settings
    depart from the recipe in three points. AdamW has torch's betas (0.9, 0.999) and eps 1e-8, where
    fairseq has (0.9, 0.98) and 1e-6. Biases and norms have no weight decay. The head has the
    encoder's dropout, where fairseq's is 0.

    Attributes:
        learning_rate: Peak learning rate of AdamW; Gunel et al.: 1e-5.
        batch_size: Texts per batch; Gunel et al.: 16.
        epochs: Passes over the training rows; fairseq: 10.
        warmup_ratio: Share of updates with linear learning-rate warm-up; fairseq: 0.06.
        weight_decay: Decoupled weight decay, not on biases and norms; fairseq: 0.1.
        dropout: Probability of hidden and attention dropout in training; 0.1 in Gunel et al., CMLM
            and BERT; LaCon states none.
        max_grad_norm: Norm to which gradients are clipped, 0 for no clipping; fairseq: 0.
        max_length: Most tokens of a text or pair, which is truncated there; 128 in BERT's GLUE
            recipe.
        class_weights: `balanced` weights the cross-entropy of class c by n / (C n_c), with n
            training rows of which n_c have class c, by `Model.class_weights`.
        head_lr_mult: Multiplier of the learning rate for a module named `head` that is trained
            together with the encoder; 1 in the papers. A head that starts from random weights may
            need more than the encoder.
        chunk_tokens: Most tokens (views × texts × length) that the encoder trains on at once.
            Larger batches go through it in chunks by gradient caching, which takes less memory and
            more time and draws other random numbers. At 0, batches of more than 32,768 tokens go
            in chunks of 8,192.
        patience: Evaluations in a row without a better one after which the training ends; 0 for
            never. The learning rate falls as if it did not end.
        lora_rank: Rank of the updates of the encoder's linear layers, by LoRA; 0 trains all
            weights. The updates learn at 10 times `learning_rate`. For large encoders, which then
            take less memory and disk.
    """

    learning_rate: Annotated[float, Gt(0), Lt(1)] = 1e-5
    batch_size: Annotated[int, Ge(1)] = 16
    epochs: Annotated[int, Ge(1)] = 10
    warmup_ratio: Annotated[float, Interval(ge=0, le=1)] = 0.06
    weight_decay: Annotated[float, Ge(0)] = 0.1
    dropout: Rate = 0.1
    max_grad_norm: Annotated[float, Ge(0)] = 0.0
    max_length: Annotated[int, Interval(ge=4, le=8192)] = 128
    class_weights: Literal["none", "balanced"] = "none"
    head_lr_mult: Annotated[float, Gt(0)] = 1.0
    chunk_tokens: Annotated[int, Ge(0)] = 0
    patience: Annotated[int, Ge(0)] = 0
    lora_rank: Annotated[int, Interval(ge=0, le=1024)] = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Batch of rows that the engine passes to a method.

    Attributes:
        ids: Token ids, `[B, T]`; B texts, or all first paraphrases and then all second ones.
        mask: True at tokens, False at padding, `[B, T]`.
        types: Segment of each token, `[B, T]`.
        content: True at tokens that are neither padding nor special, `[B, T]`.
        y: Class, `[B]` int64, or score, `[B]` float32.
        dropout_rates: Dropout probability of each of the V views, which the encoder reads as one
            batch of V * B rows.
        features: Embeddings of the frozen encoder, `[B, d]`, in a stage that caches them.
    """

    ids: Tensor
    mask: Tensor
    types: Tensor
    content: Tensor
    y: Tensor
    dropout_rates: tuple[float, ...]
    features: Tensor | None = None

    @property
    def view_y(self) -> Tensor:
        """Label of each row of all views, `[V * B]`."""
        return self.y.repeat(len(self.dropout_rates))


class Model(nn.Module):
    """Pretrained `encoder` with the `new_modules` that a method trains beside it, by name."""

    def __init__(
        self, encoder: Encoder, new_modules: nn.ModuleDict, class_weights: Tensor | None = None
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.new_modules = new_modules
        self._class_weights = class_weights
        self.class_weights_read = False

    @property
    def class_weights(self) -> Tensor | None:
        """Weight of each class in the cross-entropy, `[C]`; None for equal weights.

        Pass it to the loss as `weight`. If class weights are set and the last stage never reads
        this property, the seed run fails, because they would have no effect.
        """
        self.class_weights_read = True
        return self._class_weights

    def hidden(self, batch: Batch, *, first_only: bool = False) -> Tensor:
        """Return the last hidden states of all views, `[V * B, T, d]`; see `Encoder.hidden`."""
        inputs = (batch.ids, batch.mask, batch.types, batch.dropout_rates)
        return self.encoder.hidden(*inputs, first_only=first_only)

    def embeddings(self, batch: Batch, *poolings: str) -> tuple[Tensor, ...]:
        """Return the embeddings of all views, `[V * B, d]`, for each pooling, in one forward pass.

        A pooling is `cls_raw`, `cls_pooled` or `mean`; `encoder_pooling` converts that of a head.
        """
        states = self.hidden(batch, first_only="mean" not in poolings)
        return tuple(self.encoder.pool(states, batch.mask, pooling) for pooling in poolings)

    def embed(self, batch: Batch, pooling: str) -> Tensor:
        """Return the embeddings of all views, `[V * B, d]`, or the batch's cached features.

        Each call is a forward pass of the encoder, unless the stage caches features.
        """
        if batch.features is not None:
            return batch.features
        (z,) = self.embeddings(batch, pooling)
        return z


@dataclass(frozen=True, slots=True)
class Stage:
    """Training stage of a method.

    Attributes:
        name: Name for logs and errors.
        training: Training settings of this stage.
        terms: Returns the terms of the loss by name, weighted scalars.
        new_modules: Returns the modules that the stage trains beside the encoder; see
            `Method.new_modules`. None by default. The next stage gets only the encoder, and the
            modules that it `takes`.
        dropout_rates: Returns the dropout probability of each view at an update, counted from 0;
            None for one view at `training.dropout`. A stage with cached features ignores it.
        reads: Input: the texts, or two paraphrases of each, `[2 * B, T]`.
        labeled: True if the loss reads labels. If false, the stage also trains on the unlabeled
            texts of a study. It must not read their `y`.
        monitored: Names of terms that are recorded but not added to the loss.
        lr_scales: Multiplier of the stage's learning rate, by name of a new module; 1 by default,
            and `training.head_lr_mult` for `head`.
        no_weight_decay: Names of new modules without weight decay. In the others, as in the
            encoder, it applies to parameters with two or more dimensions.
        frozen_pooling: Pooling of the features of a frozen encoder, which are computed once; None
            if the encoder trains.
        full_vocabulary: True if the stage needs tokens that the texts do not contain, because it
            predicts or samples tokens.
        batches: Batches of the training rows; None for all rows in random order in each epoch. An
            epoch always has as many updates as batches of `batch_size` hold all rows.
            `balanced_batches` has the same number of rows of each class.
        takes: Names of modules of the stage before that this stage trains on, beside new ones.
        max_steps: Updates of the stage, however many epochs they are; None for those of
            `training.epochs`.
        solved: True if scikit-learn fits the module `head` to the features of `frozen_pooling`,
            see `sclsearch.methods.solve`. The stage has no updates, and `terms` is not called.
    """

    name: str
    training: Training
    terms: Callable[[Model, Batch], Terms]
    new_modules: Callable[[Encoder, int], nn.ModuleDict] = lambda _encoder, _c: nn.ModuleDict()
    dropout_rates: Callable[[int], tuple[float, ...]] | None = None
    reads: Literal["texts", "paraphrases"] = "texts"
    labeled: bool = True
    monitored: tuple[str, ...] = ()
    lr_scales: Mapping[str, float] = field(default_factory=dict)
    no_weight_decay: tuple[str, ...] = ()
    frozen_pooling: str | None = None
    full_vocabulary: bool = False
    batches: Batches | None = None
    takes: tuple[str, ...] = ()
    max_steps: int | None = None
    solved: bool = False

    def __post_init__(self) -> None:
        if self.solved and self.frozen_pooling is None:
            raise ValueError(f"{self.name}: a solved head needs a frozen_pooling")
        if self.frozen_pooling is not None and self.reads == "paraphrases":
            raise ValueError(f"{self.name}: a stage that reads paraphrases cannot cache features")

    def with_taken(self, new: nn.ModuleDict, before: nn.ModuleDict) -> nn.ModuleDict:
        """Return new modules with those that the stage takes from the stage before."""
        for name in self.takes:
            if name not in before:
                raise SclsearchError(
                    f"{self.name}: takes: the stage before has no module {name!r}; it has "
                    f"{', '.join(before) or 'none'}."
                )
            new[name] = before[name]
        return new

    def lr_multiplier_of(self, module: str) -> float:
        if not module:  # the encoder
            return LORA_LR if self.training.lora_rank else 1.0
        with_encoder = module == "head" and self.frozen_pooling is None
        return self.lr_scales.get(module, self.training.head_lr_mult if with_encoder else 1.0)

    @property
    def views(self) -> int:
        return len(self.dropout_rates_at(0)) * (2 if self.reads == "paraphrases" else 1)

    def dropout_rates_at(self, update: int) -> tuple[float, ...]:
        own = self.dropout_rates
        return (self.training.dropout,) if own is None else own(update)

    def loss(self, terms: Terms) -> Tensor:
        """Return the sum of the terms that are not monitored; raise SclsearchError for a vector."""
        for name, term in terms.items():
            if term.ndim:
                raise SclsearchError(
                    f"{self.name}: loss term {name!r}: must be a scalar, such as a mean, got the "
                    f"shape {list(term.shape)}."
                )
        return torch.stack([t for name, t in terms.items() if name not in self.monitored]).sum()


class Method(ABC):  # noqa: B024 - only some subclasses add abstract methods
    """Base class of training methods: frozen dataclasses whose fields are hyperparameters.

    The defaults implement cross-entropy fine-tuning of the encoder and a head, in one stage.

    Attributes:
        protocol: Name of the paper's protocol on full data.
        few_shot: Name of the paper's protocol for a given number of training texts.
        regression: True if the method supports regression tasks; False by default. Subclasses
            inherit it.
        cross_entropy: True, the default, if the last stage has a cross-entropy, so that
            `class_weights` applies.
        cuda_graphs: Set it to True in a class of your own if an update depends on nothing but the
            batch, the weights and random numbers, not on Python values that change between updates.
            Updates on a GPU are then replayed as CUDA graphs. A subclass must set it again.
            Methods of sclsearch always have graphs, so their updates must meet the condition.
        training: Default training settings of the method, if they differ from those of `Training`.
        pooling: Embedding that the head classifies, `mean` by default. Here it is a constant. To
            make it a hyperparameter, declare it as a field of the method: `pooling: Pooling =
            "mean"`.
    """

    protocol: ClassVar[str] = "gunel-full"
    few_shot: ClassVar[str] = "gunel-fewshot"
    regression: ClassVar[bool] = False
    cross_entropy: ClassVar[bool] = True
    cuda_graphs: ClassVar[bool] = False
    training: ClassVar[Mapping[str, object]] = {}
    pooling: Pooling = "mean"

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Return notes for reports on this method with this encoder.

        Raises:
            SclsearchError: The encoder lacks a capability that the method needs.
        """
        for name, value in {"pooling": self.pooling, **vars(self)}.items():
            encoder.check_pooling(value, name)
        return ()

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Return the training stages in order; the engine evaluates only the last one."""
        return (Stage("fine-tuning", training, self.terms, self.new_modules),)

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        """Return the new modules of the last stage: a `Head` named `head`.

        `encoder.width` is d, the size of an embedding; regression has 0 classes. The random seed of
        initialization is set before the call, and is the same for all methods. Modules that are
        created after the head leave the head's initial weights unchanged, so call
        `super().new_modules(encoder, classes)` first. The values of a ModuleDict must be modules: a
        single tensor is the `weight` of an `nn.Embedding`, for example.
        """
        hidden = self.pooling == "head_hidden"
        return nn.ModuleDict({"head": Head(encoder.width, classes, hidden=hidden)})

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Return the loss terms of the last stage: cross-entropy, or squared error, as `ce`."""
        return {"ce": prediction_loss(self.scores(model, batch), batch.y, model.class_weights)}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Return the class scores `[B, C]`, or the predicted scores `[B]` in regression.

        The class with the highest score is the prediction. The engine calls it in evaluation mode
        with one view; the default `terms` calls it in training mode with all views of the stage.
        """
        z = model.embed(batch, encoder_pooling(self.pooling))  # [B, d]
        scores: Tensor = model.new_modules["head"](z, batch.dropout_rates[0])
        return scores

    def probabilities(self, scores: Tensor) -> Tensor:
        """Return the probability of each class, `[B, C]`, from the class scores `[B, C]`."""
        return scores.softmax(-1)


def new_modules(stages: Sequence[Stage], encoder: Encoder, classes: int) -> nn.ModuleDict:
    """Return the untrained modules of the last of some stages, with those that it takes."""
    *earlier, last = stages
    modules = last.new_modules(encoder, classes)
    before = new_modules(earlier, encoder, classes) if last.takes and earlier else nn.ModuleDict()
    return last.with_taken(modules, before)


def balanced_batches(rows_per_class: int) -> Batches | None:
    """Return batches of `rows_per_class` rows of each of batch_size / rows_per_class classes.

    With fewer classes each has more rows, and a class with too few repeats them. The order of the
    classes and of the rows of a class is random; none comes again before all others have come.
    For 1 it is None: all rows in random order.
    """
    if rows_per_class == 1:
        return None

    def batches(y: Labels, size: int, rng: np.random.Generator) -> Iterator[Positions]:
        rows = [np.flatnonzero(y == value) for value in np.unique(y)]
        count = min(max(size // rows_per_class, 1), len(rows))
        members, drawn = [_endless(own, rng) for own in rows], np.zeros(len(rows), np.int64)
        while True:
            chosen = np.lexsort((rng.random(len(rows)), drawn))[:count]
            drawn[chosen] += 1
            yield np.array([next(members[one]) for one in chosen for _ in range(size // count)])

    return batches


def share_alone(y: Labels, size: int) -> float:
    """Return the expected share of the rows of a random batch without another row of their class.

    A contrast of labels leaves these rows out. `y` are the labels of all rows, `[rows]`.
    """
    _, counts = np.unique(y, return_counts=True)
    shares = counts / len(y)
    return float((shares * (1 - shares) ** (size - 1)).sum())


def _endless(values: Positions, rng: np.random.Generator) -> Iterator[int]:
    while True:
        yield from rng.permutation(values).tolist()


def encoder_pooling(pooling: Pooling) -> str:
    """Return the encoder's pooling for a head; the dense+tanh layer reads the first state."""
    return "cls_raw" if pooling == "head_hidden" else pooling


def reads_paraphrases(method: Method, training: Training) -> bool:
    """Return whether a stage of a method reads paraphrases."""
    return any(stage.reads == "paraphrases" for stage in method.stages(training))


def reads_unlabeled(method: Method, training: Training) -> bool:
    """Return whether a method has a stage that needs no labels, and so reads unlabeled texts."""
    return not all(stage.labeled for stage in method.stages(training))
