"""How a seed run is trained by itself: its model, as it is, one update after the other."""

from collections.abc import Sequence

from sclsearch.methods.base import Batch, Terms
from sclsearch.tasks.base import Index
from sclsearch.training.batches import collate
from sclsearch.training.evaluation import Predictions, predict
from sclsearch.training.learner import Learner
from sclsearch.training.optimiser import adamw, clip, set_rate
from sclsearch.training.precision import autocast
from sclsearch.training.watch import NonFiniteLossError


class Alone:
    """The updates and predictions of one seed run in one stage.

    Args:
        learner: The seed run.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.optimiser = adamw(learner.model, learner.stage)

    def update(self, rows: Sequence[Index], rates: tuple[float, ...], factor: float) -> Terms:
        """Does one update; returns the terms of its loss.

        Args:
            rows: Rows of the batch, of the one seed run.
            rates: Dropout rate of each view.
            factor: Share of the peak learning rate.
        """
        model, stage = self.learner.model, self.learner.stage
        (index,) = rows
        batch = self._batch(index, rates)
        set_rate(self.optimiser, factor)
        model.train()
        with autocast(self.learner.device):
            terms = stage.terms(model, batch)
            loss = stage.loss(terms)
        loss.backward()  # type: ignore[no-untyped-call]
        clip(model, stage.training.max_grad_norm)
        self.optimiser.step()
        self.optimiser.zero_grad()  # they would lie beside the next forward and the evaluations
        return terms

    def predict(self, which: str) -> list[Predictions | NonFiniteLossError]:
        """Returns the predictions on `validation` or `test` rows, or why there are none."""
        one = self.learner
        rows, tokens = one.evaluated(which), one.work.tokens
        try:
            found = predict(one.model, one.job.method, tokens, rows, one.features, one.device)
        except NonFiniteLossError as error:
            return [error.with_traceback(None)]  # it would hold the model
        return [found]

    def release(self) -> None:
        """Does nothing: the weights are the model's own."""

    def _batch(self, index: Index, rates: tuple[float, ...]) -> Batch:
        one = self.learner
        if one.features is not None:
            return one.features.batch(one.labelled, one.rows.split, index)
        read, rows = one.work.read(one.stage, index)
        return collate(read, rows, one.work.tokens.pad, rates, one.device)
