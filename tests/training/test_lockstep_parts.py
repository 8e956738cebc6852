"""Blocks that do not fit, replicates that fail, and what cannot go in one program."""

import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.methods.base import Batch, Model, Stage, Terms, Training
from sclsearch.methods.ce import CE
from sclsearch.protocols.base import Rows
from sclsearch.training.engine import train, train_block
from sclsearch.training.job import Work
from sclsearch.training.lockstep import Lockstep, NotInLockstepError, check_lockstep
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
    works = seats(replace(work, job=replace(work.job, method=Lit())), 4)
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
    works = seats(replace(work, job=replace(work.job, method=Lit())), 4)
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
    works = seats(replace(work, job=replace(work.job, method=Fussy())), 4)
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


def test_an_encoder_that_vmap_does_not_go_through_trains_one_by_one(
    work_for: WorkFor, tiny_mpnet: Path
) -> None:
    works = seats(work_for("ce", epochs=1, model=tiny_mpnet), 2)
    found: Found = [*train_block(works)]
    for one, other in zip(found, alone(works), strict=True):
        assert identical(one, other)
        assert one.notes == ("lockstep: trained one by one, as vmap does not go through tiny",)


def test_batches_that_go_in_chunks_train_one_by_one(
    work_for: WorkFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = seats(work_for("ce", epochs=1), 2)
    monkeypatch.setattr("sclsearch.training.lockstep.LIMIT", 1)
    found: Found = [*train_block(works)]
    for one, other in zip(found, alone(works), strict=True):
        assert identical(one, other)
        (note,) = one.notes
        assert note == (
            "lockstep: trained one by one, as a large batch goes through the encoder in chunks"
        )


@pytest.mark.parametrize("method", ["ce", "supcl-seq", "simcse", "cssl"])
def test_the_longest_texts_of_a_stage_say_whether_a_batch_could_go_in_chunks(
    work_for: WorkFor, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    works = seats(work_for(method, max_length=160, batch_size=1000), 2)
    encoder = load_encoder(works[0].job.model, "tiny")
    positions = 0
    stages = works[0].job.method.stages(works[0].job.training)
    for one, stage in product(works, (stage for stage in stages if not stage.cached)):
        rows = one.rows_of(stage).index
        tokens, read = one.read(stage, rows)
        longest = int(tokens.lengths_of(read).max())
        assert longest < 160
        texts = min(stage.training.batch_size, len(rows))
        positions = max(positions, stage.views * texts * longest)
    monkeypatch.setattr("sclsearch.training.lockstep.LIMIT", positions)
    check_lockstep(works, encoder)
    monkeypatch.setattr("sclsearch.training.lockstep.LIMIT", positions - 1)
    with pytest.raises(NotInLockstepError, match="in chunks"):
        check_lockstep(works, encoder)


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("a test"), RuntimeError("CUBLAS_STATUS_NOT_INITIALIZED")]
)
def test_what_only_the_machine_lacks_does_not_end_lockstep(
    work_for: WorkFor, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    works = seats(work_for("ce", epochs=1), 2)
    vmap, calls = torch.vmap, 0

    def failing(*given: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:  # the first looks whether the encoder goes in lockstep
            raise error
        return vmap(*given, **options)

    monkeypatch.setattr(torch, "vmap", failing)
    assert {type(one) for one in train_block(works)} == {type(error)}


def test_an_encoder_is_not_taken_for_another_kind_where_memory_is_short(
    work_for: WorkFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = load_encoder(work_for("ce").job.model, "tiny")

    def failing(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(torch, "vmap", failing)
    with pytest.raises(torch.OutOfMemoryError):
        encoder.goes_in_lockstep()


def test_replicates_of_different_sizes_train_one_by_one(work_for: WorkFor) -> None:
    first, second = seats(work_for("ce", epochs=1), 2)
    rows = first.job.parts.train
    fewer = replace(first.job.parts, train=Rows(rows.split, rows.index[:-3]))
    works = [first, replace(second, job=replace(second.job, parts=fewer))]
    found: Found = [*train_block(works)]
    for one, other in zip(found, alone(works), strict=True):
        assert identical(one, other)
        assert one.notes == ("lockstep: trained one by one, as their numbers of rows differ",)
