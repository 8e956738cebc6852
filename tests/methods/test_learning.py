"""What every method must do: finite terms, learning, one score a row whatever its batch."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sclsearch.canonical import digest
from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.methods.base import Batch, Method, Model, Stage, Training


def losses(model: Model, stage: Stage, batch: Batch, steps: int) -> Iterator[Tensor]:
    """Yields the loss before each step of a plain training loop."""
    model.train()
    model.encoder.requires_grad_(stage.frozen_pooling is None)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(steps):
        loss = stage.loss(stage.terms(model, replace(batch, rates=stage.rates_at(step))))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        yield loss.detach()


def weights_after_three_steps(
    method: Method, encoder: Encoder, batch: Batch, seed: int
) -> list[Tensor]:
    torch.manual_seed(seed)
    stage = method.stages(Training())[0]
    model = Model(encoder, stage.new_modules(encoder, 2))
    list(losses(model, stage, batch, 3))
    return [parameter.detach().clone() for parameter in model.parameters()]


def columns(batch: Batch, rows: slice, length: int) -> Batch:
    """Returns some rows, cut or padded to a length."""
    width = batch.ids.shape[1]
    cut: dict[str, Any] = {
        name: F.pad(getattr(batch, name)[rows], (0, max(length - width, 0)))[:, :length]
        for name in ("ids", "mask", "types", "content")
    }
    return replace(batch, y=batch.y[rows], **cut)


def weights_digest(module: nn.Module) -> str:
    return digest([[name, tensor.tolist()] for name, tensor in module.state_dict().items()])


def test_terms_are_finite_scalars_that_reach_what_the_stage_trains(
    method: Method, bert: Encoder, batch: Batch
) -> None:
    for stage in method.stages(Training()):
        model = Model(bert, stage.new_modules(bert, 2)).train()
        model.encoder.requires_grad_(stage.frozen_pooling is None)
        terms = stage.terms(model, replace(batch, rates=stage.rates_at(0)))
        assert all(term.shape == () and term.isfinite() for term in terms.values())
        stage.loss(terms).backward()  # type: ignore[no-untyped-call]
        reached = [p.grad is not None and bool(p.grad.any()) for p in model.parameters()]
        assert any(reached)


def test_ten_steps_on_separable_texts_lower_the_loss_of_each_stage(
    method: Method, bert: Encoder, batch: Batch
) -> None:
    torch.manual_seed(0)
    for stage in method.stages(Training(dropout=0.0)):
        model = Model(bert, stage.new_modules(bert, 2))
        first, *_, last = losses(model, stage, batch, 10)
        assert first - last > 0.05 * first.abs()


def test_scores_have_a_column_a_class_and_none_in_regression(
    method: Method, bert: Encoder, batch: Batch
) -> None:
    for classes in (0, 2, 5) if method.regression else (2, 5):
        model = Model(bert, method.stages(Training())[-1].new_modules(bert, classes)).eval()
        scores = method.scores(model, batch)
        assert scores.shape == ((8, classes) if classes else (8,))
        assert torch.equal(method.scores(model, replace(batch, rates=(0.5,))), scores)


def test_a_row_has_the_scores_that_it_has_in_a_padded_batch(
    method: Method, bert: Encoder, batch: Batch
) -> None:
    torch.manual_seed(0)
    model = Model(bert, method.stages(Training())[-1].new_modules(bert, 3)).eval()
    together = method.scores(model, columns(batch, slice(None), 11))
    for row, length in enumerate(batch.mask.sum(1).tolist()):
        alone = method.scores(model, columns(batch, slice(row, row + 1), length))
        torch.testing.assert_close(alone[0], together[row])


def test_steps_change_the_encoder_unless_it_is_frozen(
    method: Method, bert: Encoder, batch: Batch
) -> None:
    for stage in method.stages(Training()):
        model = Model(bert, stage.new_modules(bert, 2))
        before, new_modules = weights_digest(bert), weights_digest(model.new_modules)
        list(losses(model, stage, batch, 3))
        assert (weights_digest(bert) == before) == (stage.frozen_pooling is not None)
        assert (weights_digest(model.new_modules) != new_modules) == bool(
            list(model.new_modules.parameters())
        )


def test_rates_and_decay_are_set_for_parts_that_exist(method: Method, bert: Encoder) -> None:
    for stage in method.stages(Training()):
        assert {*stage.lr_scales, *stage.no_weight_decay} <= set(stage.new_modules(bert, 2))
        assert all(factor > 0 for factor in stage.lr_scales.values())


def test_three_steps_are_a_function_of_the_seed(
    method: Method, tiny_bert: Path, batch: Batch
) -> None:
    first, again, other = (
        weights_after_three_steps(method, load_encoder(tiny_bert, "tiny"), batch, seed)
        for seed in (1, 1, 2)
    )
    assert all(map(torch.equal, first, again))
    assert not all(map(torch.equal, first, other))
