"""Configurations that differ after a stage alone train it once, and no figure tells so."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from sclsearch.canonical import canonical
from sclsearch.methods import METHODS
from sclsearch.methods.base import Training
from sclsearch.methods.fields import resolved
from sclsearch.protocols.replicates import all_seeds, seated
from sclsearch.training.engine import _StageRun, train, train_block
from sclsearch.training.job import Work
from sclsearch.training.outcome import Outcome
from sclsearch.training.shared import StageEnd, end_identity
from sclsearch.training.watch import NonFiniteLossError

WorkFor = Callable[..., Work]

POST_TRAINED = ("cmlm", "tapt", "cssl")
SHORT: Mapping[str, object] = {"epochs": 2, "evaluate": "end"}
# What fine-tuning alone reads, and what post-training reads too.
AFTER: Mapping[str, object] = {
    "pooling": "cls_raw",
    "learning_rate": 3e-3,
    "batch_size": 4,
    "epochs": 3,
    "batch_sampling": "balanced",
}
PROBE: Mapping[str, object] = {"probe_learning_rate": 3e-2, "probe_epochs": 3}
# Of each method that shares a stage: fields that the stage does not read.
SHARING: Mapping[str, Mapping[str, object]] = {
    **dict.fromkeys(POST_TRAINED, AFTER),
    "supcl-seq": {**PROBE, "probe_encoder_mode": "train"},
    "simcse": PROBE,
}
BEFORE: Mapping[str, object] = {
    "post_learning_rate": 3e-3,
    "post_batch_size": 4,
    "post_epochs": 1,
    "weight_decay": 0.3,
    "dropout": 0.2,
    "warmup_ratio": 0.5,
    "max_grad_norm": 0.5,
    "max_length": 8,
    "drop_last": True,
}


class Memory:
    """A shelf in memory."""

    def __init__(self) -> None:
        self.ends: dict[str, StageEnd] = {}

    def take(self, identity: Mapping[str, object]) -> StageEnd | None:
        return self.ends.get(canonical(identity))

    def keep(self, identity: Mapping[str, object], end: StageEnd) -> None:
        weights = {name: tensor.clone() for name, tensor in end.weights.items()}
        self.ends[canonical(identity)] = replace(end, weights=weights)


@pytest.fixture
def stages_trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the names of the stages that are trained, in order."""
    names: list[str] = []
    run = _StageRun.run

    def noted(self: _StageRun) -> None:
        names.append(self.stage.name)
        run(self)

    monkeypatch.setattr(_StageRun, "run", noted)
    return names


def first_stage(work: Work) -> str:
    """Returns what names the end of the first stage."""
    job = work.job
    return canonical(end_identity(job, job.turns[0]))


def figures(outcome: Outcome) -> list[object]:
    return [outcome.notes, outcome.stages, outcome.evaluations, outcome.kept, outcome.test]


def same_weights(one: Outcome, other: Outcome) -> bool:
    assert one.weights.keys() == other.weights.keys()
    return all(torch.equal(tensor, other.weights[name]) for name, tensor in one.weights.items())


@pytest.mark.parametrize("method", SHARING)
def test_a_configuration_takes_what_another_left_and_has_the_same_figures_and_weights(
    work_for: WorkFor, stages_trained: list[str], method: str
) -> None:
    shelf = Memory()
    first, other = work_for(method, **SHORT), work_for(method, **{**SHORT, **SHARING[method]})
    train(first, shelf)
    taken = train(other, shelf)
    before, after = (stage.name for stage in first.job.method.stages(first.job.training))
    assert stages_trained == [before, after, after]
    assert len(shelf.ends) == 1
    alone = train(other)
    assert figures(taken) == figures(alone)
    assert taken.predictions == alone.predictions
    assert same_weights(taken, alone)


def test_a_seed_run_that_keeps_a_stage_is_the_one_that_does_not(work_for: WorkFor) -> None:
    work = work_for("tapt", **SHORT)
    keeping, alone = train(work, Memory()), train(work)
    assert figures(keeping) == figures(alone)
    assert same_weights(keeping, alone)


def test_a_stage_that_failed_is_not_kept(work_for: WorkFor) -> None:
    work, shelf = work_for("tapt", **SHORT), Memory()
    method: Any = work.job.method
    diverging = replace(work.job, method=replace(method, post_learning_rate=1e30))
    with pytest.raises(NonFiniteLossError, match=r"^post-training: "):
        train(replace(work, job=diverging), shelf)
    assert shelf.ends == {}


def test_seed_runs_in_lockstep_share_no_stage(work_for: WorkFor) -> None:
    work, shelf = work_for("tapt", **SHORT), Memory()
    works = [
        replace(work, job=replace(work.job, replicate=seated(all_seeds, number, 2)))
        for number in range(2)
    ]
    assert len([*train_block(works, shelf=shelf)]) == 2
    assert shelf.ends == {}


def test_a_stage_that_was_taken_counts_with_the_time_of_its_training(work_for: WorkFor) -> None:
    work, shelf = work_for("tapt", **SHORT), Memory()
    train(work, shelf)
    ((key, end),) = shelf.ends.items()
    assert end.seconds > 0
    shelf.ends[key] = replace(end, seconds=1e6)
    assert train(work, shelf).seconds > 1e6


@pytest.mark.parametrize(
    ("method", "name"), [(method, name) for method, after in SHARING.items() for name in after]
)
def test_what_later_stages_alone_read_leaves_the_stage_as_it_is(
    work_for: WorkFor, method: str, name: str
) -> None:
    first, other = work_for(method), work_for(method, **{name: SHARING[method][name]})
    assert first_stage(first) == first_stage(other)
    assert first.job.key != other.job.key


@pytest.mark.parametrize("method", POST_TRAINED)
@pytest.mark.parametrize("name", BEFORE)
def test_what_post_training_reads_makes_another_stage(
    work_for: WorkFor, method: str, name: str
) -> None:
    assert first_stage(work_for(method)) != first_stage(work_for(method, **{name: BEFORE[name]}))


def test_another_replicate_and_other_rows_make_another_stage(work_for: WorkFor) -> None:
    work = work_for("tapt")
    parts = work.job.parts
    fewer = replace(parts, test=replace(parts.test, index=parts.test.index[1:]))
    found = {first_stage(w) for w in (work, work_for("tapt", 1), work_for("tapt", parts=fewer))}
    assert len(found) == 3


@pytest.mark.parametrize("method", METHODS)
def test_what_a_stage_is_shared_across_are_fields_of_its_method(
    work_for: WorkFor, method: str
) -> None:
    job = work_for(method).job
    *before, last = job.method.stages(job.training)
    assert last.shared_across is None
    for stage in before:
        assert {*(stage.shared_across or ())} <= {*resolved(job.method, job.training)}
        assert (stage.shared_across is not None) == (method in SHARING)


def test_post_training_reads_no_settings_but_its_own(work_for: WorkFor) -> None:
    for method in POST_TRAINED:
        job = work_for(method).job
        one, other = (
            job.method.stages(training)[0]
            for training in (job.training, replace(job.training, **_after_of_training()))
        )
        assert one.training == other.training
        assert one.rates_at(0) == other.rates_at(0)


def _after_of_training() -> dict[str, Any]:
    names = {field.name for field in fields(Training)}
    return {name: value for name, value in AFTER.items() if name in names}


def test_nothing_is_asked_of_a_shelf_for_a_method_of_one_stage(work_for: WorkFor) -> None:
    shelf = Memory()
    train(work_for("ce", **SHORT), shelf)
    assert shelf.ends == {}
