"""One seed run while it is trained: its model in the present stage, and what it has found."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from sclsearch.encoders.load import load_encoder
from sclsearch.methods.base import Model
from sclsearch.protocols.base import Rows
from sclsearch.randomness import seed_for
from sclsearch.tasks.base import Index
from sclsearch.tasks.metrics import value
from sclsearch.training.evaluation import Features, Predictions, judge
from sclsearch.training.features import features_of
from sclsearch.training.job import Work
from sclsearch.training.outcome import Outcome
from sclsearch.training.precision import device_for
from sclsearch.training.tokens import Tokens
from sclsearch.training.turn import Turn

if TYPE_CHECKING:
    from sclsearch.encoders.vocabulary import CutEmbedding
    from sclsearch.training.watch import NonFiniteLossError


class Learner:
    """A seed run from stage to stage; between them the encoder passes on.

    Args:
        work: The seed run.
        occurring: Numbers of all tokens that will be seen, ascending.

    Attributes:
        work: The seed run.
        device: Where it is computed.
        outcome: What it has found so far.
        failure: Why it has no figures; None while it may get some.
        turn: The present stage and its place.
        stage: The present stage.
        model: The encoder and the stage's parts.
        rows: What the stage trains on.
        features: The frozen encoder's embeddings, in a stage that caches them.
        cut: The embeddings without those of tokens that do not occur, where they are left out.

    Raises:
        SclsearchError: The encoder cannot do what the method needs.
    """

    def __init__(self, work: Work, occurring: Index) -> None:
        self.work, self.job, self.occurring = work, work.job, occurring
        self.device = device_for(self.job.numerics)
        self.encoder = load_encoder(self.job.model, self.job.model_name).to(self.device)
        self.outcome = Outcome(notes=(*self.job.method.check(self.encoder), *work.notes))
        self.failure: NonFiniteLossError | None = None

    def enter(self, turn: Turn) -> None:
        """Makes the model of a stage."""
        self.turn, self.stage = turn, (stage := turn.stage)
        torch.manual_seed(seed_for(self.job.replicate.initialisation, turn.purpose("parts")))
        parts = stage.parts(self.encoder, self.work.tokens.classes)
        self.model = Model(self.encoder, parts).to(self.device)
        self.rows = self.work.rows_of(stage)
        self.features: Features | None = None
        self.cut: CutEmbedding | None = None
        self.best: dict[str, Tensor] = {}
        self.best_decay = 1.0
        self.best_value = -np.inf
        frozen = stage.frozen_pooling is not None
        self.encoder.requires_grad_(not frozen)
        if stage.cached:
            self._cache(str(stage.frozen_pooling))
        if not frozen and not stage.whole_vocabulary:
            self.cut = self.encoder.cut(torch.from_numpy(self.occurring).to(self.device))

    @property
    def labelled(self) -> Tokens:
        """The split that the stage trains on."""
        return self.work.tokens.splits[self.rows.split]

    def note(self, epoch: float, update: int, losses: Mapping[str, float]) -> None:
        """Notes the losses of a stage that is not evaluated."""
        self.outcome.stages.append(
            {"stage": self.stage.name, "epoch": epoch, "update": update, "loss": dict(losses)}
        )

    def evaluate(
        self,
        epoch: float,
        update: int,
        losses: Mapping[str, float],
        predictions: Predictions,
        *,
        final: bool,
    ) -> None:
        """Notes an evaluation, and keeps the weights if it is the best so far.

        Args:
            epoch: When it is.
            update: When it is.
            losses: Mean losses since the one before.
            predictions: On the validation rows.
            final: Whether no update follows, so that the weights stay as they are.
        """
        evaluation = judge(self.job, self.work.tokens, self.job.parts.validation, predictions)
        score = value(self.job.metric, evaluation)
        self.outcome.evaluations.append(
            {"epoch": epoch, "update": update, "loss": dict(losses), "validation": evaluation}
        )
        if self.job.keep == "last" or score > self.best_value:
            self.best_value = score
            self.outcome.kept = len(self.outcome.evaluations) - 1
            self.outcome.predictions["validation"] = predictions.tolist()
            self.best_decay = 1.0 if self.cut is None else self.cut.decay
            final = final or self.job.keep == "last"
            self.best = {} if final else {k: v.detach().clone() for k, v in self._trained().items()}

    def go_back(self) -> None:
        """Takes the weights of the evaluation that counts."""
        self.model.load_state_dict(self.best, strict=False)
        if self.cut is not None:
            self.cut.decay = self.best_decay

    def leave(self) -> None:
        """Ends the stage: the encoder has the embeddings of all tokens again."""
        if self.cut is not None:
            self.cut.restore(self.encoder.model)

    def finish(self, predictions: Predictions) -> None:
        """Notes what it predicts on the test rows, and its weights.

        Args:
            predictions: With the weights of the evaluation that counts.
        """
        self.outcome.predictions["test"] = predictions.tolist()
        self.outcome.test = judge(self.job, self.work.tokens, self.job.parts.test, predictions)
        self.outcome.weights = {
            name: tensor.detach().cpu() for name, tensor in self.model.state_dict().items()
        }

    def evaluated(self, which: str) -> Rows:
        """Returns the rows of `validation` or `test`."""
        rows: Rows = getattr(self.job.parts, which)
        return rows

    def _cache(self, pooling: str) -> None:
        parts = self.job.parts
        rows = (self.rows, parts.validation, parts.test) if self.turn.last else (self.rows,)
        self.features = features_of(
            self.work, self.model, rows, pooling, self.device, pretrained=self.turn.first
        )

    def _trained(self) -> dict[str, Tensor]:
        """Returns what updates change: weights, and the parts' other state."""
        trained = {
            name: parameter
            for name, parameter in self.model.named_parameters()
            if parameter.requires_grad
        }
        return {**trained, **dict(self.model.parts.named_buffers(prefix="parts"))}
