"""Tests of prepared studies: record, concurrency, advice, precision and baselines."""

import io
import os

import pytest
import torch
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.search.prepare import check_new
from sclsearch.search.run import complete_baselines
from tests.workspace import MakeSpec, Prepare, Workers


def test_the_records_of_a_faster_driver_are_kept_unless_it_runs_another_study(
    prepare: Prepare, make_spec: MakeSpec, workers: Workers
) -> None:
    late, other = prepare(study="mine"), prepare(make_spec(search_seed=1), study="mine")
    faster = prepare(study="mine", concurrency=8).begin()
    values = {"tau": 0.5, "lam": 0.5, "learning_rate": 0.002}
    faster.store.add(faster.study.configuration(0, values, "sampled"))
    assert late.record.open_configurations == 2
    late = late.begin()
    assert late.record.open_configurations == 5
    assert workers.running(late)[0].configuration.values == values
    with pytest.raises(SclsearchError, match=r"^--study mine: search_seed must stay 0, got 1"):
        other.begin()


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
    assert "start it" in prepared.notes
    assert "start it" not in prepared.begin().record.origin["notes"]
    assert not prepare(address="auto").advice


def test_replicates_with_equal_rows_share_them(prepare: Prepare, make_spec: MakeSpec) -> None:
    whole = prepare(seeds=1000)
    assert len(whole.replicates) == 1000
    assert len({id(splits) for splits in whole.splits.values()}) == 1
    drawn = prepare(make_spec(train_size=10), seeds=3)
    assert len({splits.train.digest for splits in drawn.splits.values()}) == 3


def test_a_new_study_in_bfloat16_needs_a_cpu_with_instructions_for_it(
    make_spec: MakeSpec, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sclsearch.search.prepare.fast_bf16", lambda _: True)
    prepared = prepare(make_spec(precision="bf16"))
    check_new(prepared)
    monkeypatch.setattr("sclsearch.search.prepare.fast_bf16", lambda _: False)
    with pytest.raises(SclsearchError, match=r"^--precision bf16: must be on a CPU with AVX512"):
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
