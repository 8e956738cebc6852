"""Blocks that do not fit, and replicates that fail."""

import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.base import Batch, Model, Stage, Terms, Training
from sclsearch.methods.ce import CE
from sclsearch.training.engine import train, train_block
from sclsearch.training.job import Work
from sclsearch.training.lockstep import Lockstep
from sclsearch.training.outcome import Outcome
from sclsearch.training.watch import NonFiniteLossError
from tests.training.blocks import Found, alone, assert_alike, identical, seats, still

WorkFor = Callable[..., Work]


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("ce", {}),
        ("ce", {"pooling": "cls_raw"}),
        ("supcl-seq", {}),
        ("supcl-seq", {"pooling": "cls_pooled"}),
        ("dropout-aug", {}),
        ("leam", {}),
        ("tapt", {}),
    ],
)
def test_a_block_that_runs_out_of_memory_is_trained_in_parts_with_the_same_noise(
    work_for: WorkFor,
    method: str,
    options: dict[str, object],
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    works = seats(work_for(method, epochs=1, learning_rate=1e-3, **options), 3)
    whole: Found = [*train_block(works)]
    trained: list[int] = []
    update = Lockstep.update

    def limited(self: Lockstep, *given: Any) -> Any:
        if len(self.learners) > most:
            raise torch.OutOfMemoryError("a test has no more")
        trained.append(len(self.learners))
        return update(self, *given)

    monkeypatch.setattr(Lockstep, "update", limited)
    parts: Found = [*train_block(works)]
    assert set(trained) == {*range(1, most + 1)}
    assert [outcome.notes for outcome in parts] == [outcome.notes for outcome in whole]
    for one, other in zip(parts, whole, strict=True):
        assert_alike(one, other)


def test_a_block_that_is_not_whole_is_refused(work_for: WorkFor) -> None:
    with pytest.raises(ValueError, match=r"^a block must be whole"):
        train(seats(work_for("ce"), 2)[1])


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("a test has no more"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: a test has no more"),
    ],
    ids=["gpu", "cpu"],
)
def test_a_seed_run_that_alone_runs_out_of_memory_leaves_the_error_and_the_others_go_on(
    work_for: WorkFor, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = Lockstep.update

    def limited(self: Lockstep, *given: Any) -> Any:
        if 1 in self.seats.taken:
            raise error
        return update(self, *given)

    monkeypatch.setattr(Lockstep, "update", limited)
    first, second, third = train_block(seats(work_for("ce", epochs=1), 3))
    assert isinstance(first, Outcome)
    assert second is error
    assert isinstance(third, Outcome)


def test_what_a_part_of_a_block_leaves_is_there_before_the_next_part_is_trained(
    work_for: WorkFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, ...]] = []
    update = Lockstep.update

    def limited(self: Lockstep, *given: Any) -> Any:
        if len(self.learners) > 1:
            raise torch.OutOfMemoryError("a test has no more")
        made.append(self.seats.taken)
        return update(self, *given)

    monkeypatch.setattr(Lockstep, "update", limited)
    each = train_block(seats(work_for("ce", epochs=1), 2))
    assert isinstance(next(each), Outcome)
    assert {*made} == {(0,)}
    assert len([*each]) == 1


@dataclass(frozen=True, slots=True)
class Lit:
    """Cross-entropy with a term that is no number in about every second initialisation."""

    protocol: ClassVar[str] = "plain"
    few_shot: ClassVar[str] = "plain"
    regression: ClassVar[bool] = False
    training: ClassVar[Mapping[str, object]] = {}

    ce: CE = field(default_factory=CE)

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        return self.ce.check(encoder)

    def parts(self, encoder: Encoder, classes: int) -> torch.nn.ModuleDict:
        fuse = torch.nn.Linear(1, 1, bias=False)
        return torch.nn.ModuleDict({**self.ce.parts(encoder, classes), "fuse": fuse})

    def stages(self, training: Training) -> tuple[Stage, ...]:
        return (Stage("burning", training, self.terms, self.parts),)

    def terms(self, model: Model, batch: Batch) -> Terms:
        fuse: torch.nn.Linear = model.parts["fuse"]  # type: ignore[assignment]
        return {**self.ce.terms(model, batch), "bomb": fuse.weight.log().sum()}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        return self.ce.scores(model, batch)


class Blind(Lit):
    """Cross-entropy that looks at values, which one program of several seed runs cannot."""

    def terms(self, model: Model, batch: Batch) -> Terms:
        ce = self.ce.terms(model, batch)["ce"]
        return {"ce": ce if ce.item() > 0 else 2 * ce}


def test_a_replicate_whose_loss_is_no_number_fails_and_its_siblings_do_not(
    work_for: WorkFor,
) -> None:
    work = work_for("ce", **still("ce"))
    works = seats(replace(work, job=replace(work.job, method=Lit())), 6)
    found: Found = [*train_block(works)]
    failed = [isinstance(one, NonFiniteLossError) for one in found]
    assert set(failed) == {True, False}
    for own, one, fails in zip(works, found, failed, strict=True):
        if fails:
            with pytest.raises(NonFiniteLossError, match=f"^{re.escape(str(one))}$"):
                alone([own])
        else:
            (by_itself,) = alone([own])
            assert_alike(one, by_itself)


def test_when_all_that_are_trained_have_failed_it_ends(work_for: WorkFor) -> None:
    work = work_for("ce", evaluate=1, **still("ce"))
    works = seats(replace(work, job=replace(work.job, method=Lit())), 6)
    found: Found = [*train_block(works)]
    failing = [seat for seat, one in enumerate(found) if isinstance(one, NonFiniteLossError)]
    again: Found = [*train_block(works, failing)]
    assert [str(one) for one in again] == [str(found[seat]) for seat in failing]


def test_a_method_that_looks_at_values_trains_one_by_one_and_says_so(work_for: WorkFor) -> None:
    work = work_for("ce", epochs=1)
    works = seats(replace(work, job=replace(work.job, method=Blind())), 2)
    found: Found = [*train_block(works)]
    for one, other in zip(found, alone(works), strict=True):
        assert identical(one, other)
        (note,) = one.notes
        assert note.startswith("lockstep: trained one by one, as RuntimeError: vmap:")


class Fussy(Blind):
    """A method that looks at values and raises for about every second initialisation."""

    def terms(self, model: Model, batch: Batch) -> Terms:
        fuse: torch.nn.Linear = model.parts["fuse"]  # type: ignore[assignment]
        if fuse.weight.item() < 0:
            raise KeyError("fuse")
        return self.ce.terms(model, batch)


def test_one_by_one_a_seed_run_that_raises_leaves_the_error_and_the_others_their_figures(
    work_for: WorkFor,
) -> None:
    work = work_for("ce", epochs=1)
    works = seats(replace(work, job=replace(work.job, method=Fussy())), 6)
    found: Found = [*train_block(works)]
    failed = [isinstance(one, KeyError) for one in found]
    assert {*failed} == {True, False}
    for own, one, fails in zip(works, found, failed, strict=True):
        if not fails:
            assert identical(one, alone([own])[0])
            continue
        # Where it was raised is known, and the model is not held.
        *_, last = traceback.walk_tb(one.__traceback__)
        assert last[0].f_code.co_name == "terms"
        assert last[0].f_locals == {}
