"""Tests of prepared studies: record, concurrency, advice, precision and baselines."""

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.search.prepare import check_new
from sclsearch.search.run import complete_baselines
from tests.workspace import MakeSpec, Prepare, Workers


def test_the_record_of_a_faster_driver_is_kept(prepare: Prepare) -> None:
    late = prepare(study="mine", concurrency=2)
    prepare(study="mine", concurrency=8).begin()
    assert late.record.open_configurations == 2
    assert late.begin().record.open_configurations == 5


def test_another_study_stored_meanwhile_under_the_same_name_is_an_error(
    prepare: Prepare, make_spec: MakeSpec
) -> None:
    late = prepare(study="mine")
    prepare(make_spec(search_seed=1), study="mine").begin()
    with pytest.raises(SclsearchError, match=r"^--study mine: search_seed must stay 1, got 0"):
        late.begin()


def test_the_configuration_of_a_faster_driver_is_kept(prepare: Prepare, workers: Workers) -> None:
    prepared = prepare()
    scheduler = replace(prepared)
    study = prepared.study
    faster = study.configuration(0, {"tau": 0.5, "lam": 0.5, "learning_rate": 0.002}, "sampled")
    prepared.store.add(faster)
    (first, *_) = workers.running(scheduler)
    assert first.configuration.values == faster.values
    assert prepared.store.configurations()[0] == first.configuration


def test_the_record_has_a_users_model_folder_or_the_default_models_name(
    prepare: Prepare, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch, tiny_bert: Path
) -> None:
    assert prepare().record.origin["model"] == str(tiny_bert.resolve())
    monkeypatch.setattr("sclsearch.study.resolve.model_folder", lambda _: tiny_bert)
    prepared = prepare(make_spec(model=None))
    assert prepared.record.origin["model"] == prepared.study.protocol.model


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores",
)
def test_only_cores_available_to_the_process_count(prepare: Prepare) -> None:
    whole = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(whole)})
    try:
        assert prepare(concurrency=None).at_once == 1
    finally:
        os.sched_setaffinity(0, whole)


def test_mps_is_advised_on_this_machine_and_not_recorded(
    prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sclsearch.ray_backend.start.mps_advice", lambda *_: ["start it"])
    prepared = prepare()
    assert prepared.advice == ["start it"]
    assert "start it" in prepared.notes
    assert "start it" not in prepared.begin().record.origin["notes"]
    assert not prepare(address="auto").advice


def test_replicates_with_equal_rows_share_them(prepare: Prepare, make_spec: MakeSpec) -> None:
    whole = prepare(seeds=1000)
    assert len(whole.replicates) == 1000
    assert len({id(splits) for splits in whole.splits.values()}) == 1
    assert whole.splits[7].digests == whole.study.splits(7).digests
    drawn = prepare(make_spec(train_size=10), seeds=3)
    assert len({splits.train.digest for splits in drawn.splits.values()}) == 3


@pytest.mark.parametrize("fast", [False, True])
def test_bfloat16_needs_a_cpu_with_instructions_for_it(
    make_spec: MakeSpec, prepare: Prepare, monkeypatch: pytest.MonkeyPatch, *, fast: bool
) -> None:
    monkeypatch.setattr("sclsearch.search.prepare.fast_bf16", lambda _: fast)
    prepared = prepare(make_spec(precision="bf16"))
    if fast:
        check_new(prepared)
    else:
        with pytest.raises(
            SclsearchError, match=r"^--precision bf16: must be on a CPU with AVX512"
        ):
            check_new(prepared)
    prepared.begin()
    check_new(prepared)


def test_a_search_without_memory_for_its_baselines_ends_normally(
    prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("sclsearch.search.run.baselines", exhausted)
    printed = io.StringIO()
    complete_baselines(prepare(study="mine").begin(), Console(file=printed))
    assert printed.getvalue() == "Baselines not evaluated: CUDA out of memory\n"
