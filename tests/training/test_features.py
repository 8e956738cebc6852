"""Features of the pretrained encoder are computed once for all seed runs that read them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from sclsearch.methods.base import Method, Stage, Training
from sclsearch.training import evaluation
from sclsearch.training.engine import train
from sclsearch.training.evaluation import Features, compute_features
from sclsearch.training.spec import TrainingData

WorkFor = Callable[..., TrainingData]


@dataclass(frozen=True)
class Probe(Method):
    """A linear probe on the pretrained encoder, with another stage before it or alone."""

    tuned: bool = False

    def stages(self, training: Training) -> tuple[Stage, ...]:
        tuning = super().stages(training) if self.tuned else ()
        probe = Stage("probe", training, self.terms, self.new_modules, frozen_pooling="mean")
        return (*tuning, probe)


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    evaluation._CACHE.clear()
    yield
    evaluation._CACHE.clear()


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that receives the number of rows of each computation."""
    seen: list[int] = []

    def noted(*given: Any) -> Features:
        found = compute_features(*given)
        seen.append(len(found.values))
        return found

    monkeypatch.setattr(evaluation, "compute_features", noted)
    return seen


@pytest.fixture
def probing(work_for: WorkFor) -> Callable[..., TrainingData]:
    """Return a function that makes the training data of a probe."""

    def probing(number: int = 0, *, tuned: bool = False, **fields: object) -> TrainingData:
        work = work_for("ce", number, **{"epochs": 2, **fields})
        return replace(work, spec=replace(work.spec, method=Probe(tuned), method_name="Probe"))

    return probing


def test_seed_runs_on_the_same_rows_share_features_without_another_result(
    probing: Callable[..., TrainingData], computed: list[int]
) -> None:
    works = [probing(), probing(learning_rate=0.1), probing(1)]
    shared = [train(work) for work in works]
    assert computed == [44 + 30 + 30]
    for work, found in zip(works, shared, strict=True):
        evaluation._CACHE.clear()
        alone = train(work)
        assert found.evaluations == alone.evaluations
        assert found.test == alone.test
        assert all(torch.equal(t, alone.weights[name]) for name, t in found.weights.items())


def test_other_rows_lengths_or_threads_need_other_features(
    probing: Callable[..., TrainingData], computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    train(probing())
    work = probing()
    splits = work.spec.splits
    fewer = replace(splits, test=replace(splits.test, index=splits.test.index[1:]))
    train(replace(work, spec=replace(work.spec, splits=fewer)))
    train(probing(max_length=8))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    train(probing())
    assert computed == [104, 103, 104, 104]


def test_features_of_a_trained_encoder_are_not_shared(
    probing: Callable[..., TrainingData], computed: list[int]
) -> None:
    train(probing(tuned=True))
    train(probing(tuned=True))
    assert len(computed) == 2
    assert not evaluation._CACHE


def test_the_least_recently_used_features_are_removed_first(
    probing: Callable[..., TrainingData], computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "CACHE_BYTES", 2 * 104 * 16 * 4)
    for length in (16, 12, 16, 8, 16, 12):
        train(probing(max_length=length))
    assert len(evaluation._CACHE) == 2
    assert len(computed) == 4
