"""What cannot go in one program is trained one by one, and says why."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from sclsearch.encoders.load import load_encoder
from sclsearch.protocols.base import Rows
from sclsearch.training.engine import train_block
from sclsearch.training.job import Work
from sclsearch.training.lockstep import NotInLockstepError, check_lockstep
from tests.training.blocks import Found, alone, identical, seats

WorkFor = Callable[..., Work]


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
