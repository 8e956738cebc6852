"""Replicates in one batched program become what each becomes by itself."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Model
from sclsearch.protocols.base import Rows
from sclsearch.tasks.base import TaskData
from sclsearch.training.alone import Alone
from sclsearch.training.engine import train_block
from sclsearch.training.fastest import fastest_lockstep
from sclsearch.training.job import Work
from sclsearch.training.lockstep import Lockstep
from tests.training.blocks import Found, alone, assert_alike, identical, numbers, seats, still

WorkFor = Callable[..., Work]


@contextmanager
def batched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yields how many seed runs each batched program has that is made meanwhile."""
    made: list[int] = []
    original = Lockstep.__init__

    def noted(self: Lockstep, learners: Any, *rest: Any) -> None:
        made.append(len(learners))
        original(self, learners, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Lockstep, "__init__", noted)
        yield made


@pytest.fixture
def no_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes masks the same every time: each third token, and of the others each third."""

    def selection(maskable: Tensor, _share: float) -> Tensor:
        return maskable & (torch.arange(maskable.shape[-1]) % 3 == 1)

    def complement(maskable: Tensor, selected: Tensor, _share: float) -> Tensor:
        return maskable & ~selected & (torch.arange(maskable.shape[-1]) % 3 == 2)

    def corrupted(ids: Tensor, selected: Tensor, *, mask_token: int, **_: object) -> Tensor:
        return ids.masked_fill(selected, mask_token)

    for method in ("tapt", "cmlm"):
        monkeypatch.setattr(f"sclsearch.methods.{method}.draw_selection", selection)
    monkeypatch.setattr("sclsearch.methods.cmlm.draw_complement", complement)
    monkeypatch.setattr("sclsearch.methods.post_training.corrupt", corrupted)


@pytest.mark.usefixtures("no_draws")
def test_without_noise_each_becomes_what_it_becomes_by_itself(
    work_for: WorkFor, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = seats(work_for(method, **still(method)), 2)
    with batched(monkeypatch) as made:
        found: Found = [*train_block(works)]
    assert made == [2] * len(works[0].job.method.stages(works[0].job.training))
    for together, by_itself in zip(found, alone(works), strict=True):
        assert together.notes == by_itself.notes
        assert_alike(together, by_itself)


@pytest.mark.parametrize("pooling", ["mean", "cls_raw"])
@pytest.mark.parametrize("family", ["roberta", "distilbert", "electra"])
def test_encoders_of_other_families_go_in_lockstep_too(
    work_for: WorkFor,
    request: pytest.FixtureRequest,
    family: str,
    pooling: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = request.getfixturevalue(f"tiny_{family}")
    fields = {**still("scl"), "pooling": pooling, "scl_features": pooling}
    works = seats(work_for("scl", model=model, **fields), 2)
    with batched(monkeypatch) as made:
        found: Found = [*train_block(works)]
    assert made == [2]
    for together, by_itself in zip(found, alone(works), strict=True):
        assert_alike(together, by_itself)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("supcl-seq", {"probe_encoder_mode": "train"}),
        ("cmlm", {"predictor": "simsiam_bn", "mlm_reduction": "sequences"}),
        ("ce", {"batch_sampling": "balanced", "drop_last": True, "max_grad_norm": 0.0}),
        ("scl", {"pooling": "head_hidden", "scl_features": "cls_pooled"}),
        ("supcl-seq", {"pooling": "cls_pooled"}),
    ],
    ids=["frozen with dropout", "batch norm", "balanced", "first state", "first state of views"],
)
@pytest.mark.usefixtures("no_draws")
def test_what_a_field_changes_goes_in_lockstep_too(
    work_for: WorkFor, method: str, options: dict[str, object]
) -> None:
    works = seats(work_for(method, **{**still(method), **options}), 2)
    found: Found = [*train_block(works)]
    for together, by_itself in zip(found, alone(works), strict=True):
        assert together.notes == by_itself.notes
        assert_alike(together, by_itself)


def test_weights_that_a_method_does_not_read_are_left_alone(work_for: WorkFor) -> None:
    works = seats(work_for("ce", **still("ce"), pooling="mean"), 2)
    found: Found = [*train_block(works)]
    name = "encoder.model.pooler.dense.weight"
    untouched = Model(load_encoder(works[0].job.model, "tiny"), torch.nn.ModuleDict())
    for outcome in found:
        assert torch.equal(outcome.weights[name], untouched.state_dict()[name])


@pytest.mark.parametrize("method", ["ce", "supcl-seq", "dropout-aug", "leam", "cmlm"])
def test_with_noise_a_block_repeats_bit_for_bit_and_its_replicates_differ(
    work_for: WorkFor, method: str
) -> None:
    works = seats(work_for(method, epochs=1), 2)
    found: Found = [*train_block(works)]
    torch.manual_seed(4711)
    again: Found = [*train_block(works)]
    assert all(identical(one, other) for one, other in zip(found, again, strict=True))
    assert numbers(found[0]) != numbers(found[1])


def test_replicates_may_have_rows_of_their_own(work_for: WorkFor) -> None:
    first, second = seats(work_for("ce", **still("ce")), 2)
    rows = first.job.parts.train
    works = [
        replace(w, job=replace(w.job, parts=replace(w.job.parts, train=Rows(rows.split, index))))
        for w, index in ((first, rows.index[:30]), (second, rows.index[-30:]))
    ]
    found: Found = [*train_block(works)]
    for together, by_itself in zip(found, alone(works), strict=True):
        assert together.notes == ()
        assert_alike(together, by_itself)


def test_scores_are_learnt_in_lockstep_too(work_for: WorkFor, toy_scores: TaskData) -> None:
    works = seats(work_for("ce", data=toy_scores, **still("ce")), 2)
    found: Found = [*train_block(works)]
    for together, by_itself in zip(found, alone(works), strict=True):
        assert numbers(together) == pytest.approx(numbers(by_itself), rel=1e-3)
        for which in ("validation", "test"):
            predicted = by_itself.predictions[which]
            assert together.predictions[which] == pytest.approx(predicted, abs=1e-3)


def test_the_fastest_size_is_one_of_those_that_were_measured(work_for: WorkFor) -> None:
    assert fastest_lockstep(work_for("ce"), 3, (2, 3, 4)) in {1, 2, 3}


def test_nothing_is_measured_where_no_block_would_be_full(work_for: WorkFor) -> None:
    work = work_for("ce")
    elsewhere = replace(work, job=replace(work.job, model=Path("no encoder")))
    assert fastest_lockstep(elsewhere, 1) == 1
    with pytest.raises(SclsearchError, match=r"^--model tiny: "):
        fastest_lockstep(elsewhere, 2)


@pytest.mark.parametrize(("most", "fastest"), [(0, {1}), (1, {1}), (2, {1, 2})])
def test_a_size_that_runs_out_of_memory_is_not_the_fastest(
    work_for: WorkFor, monkeypatch: pytest.MonkeyPatch, most: int, fastest: set[int]
) -> None:
    for kind, size in ((Alone, lambda _one: 1), (Lockstep, lambda one: len(one.learners))):
        monkeypatch.setattr(kind, "update", limited(kind.update, size, most))
    assert fastest_lockstep(work_for("ce"), 4, (2, 4)) in fastest


def limited(update: Any, size: Callable[[Any], int], most: int) -> Callable[..., Any]:
    def limited(self: Any, *given: Any) -> Any:
        if size(self) > most:
            raise torch.OutOfMemoryError("a test has no more")
        return update(self, *given)

    return limited
