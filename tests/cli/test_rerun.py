"""Tests of `rerun`: identical results, differences and errors."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sclsearch.canonical import digest
from sclsearch.ray_backend.worker import attempt
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import worker_context
from sclsearch.store.runs import Failure, RunStore, SeedRun
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.training.spec import GPU_ENGINE_VERSION
from tests.conftest import Call, Result

Rerun = Callable[..., Result]
HANG = Failure("hang", "1 h")


@pytest.fixture(scope="module")
def trained(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> SeedRun:
    """Return a seed run of a study's second replicate, which is not stored."""
    fields: dict[str, object] = {"epochs": 1, "max_length": 16}
    spec = StudySpec(method="ce", task="demo", model=str(tiny_bert), train_size=8, settings=fields)
    options = RunOptions(storage=tmp_path_factory.mktemp("trained"), seeds=3, gpus_per_trial=0)
    prepared = prepare_study(replace(spec, searched=False), options).begin()
    seed_run_spec = prepared.study.seed_run_spec({}, 1, prepared.splits[1])
    run, _ = attempt(seed_run_spec, worker_context(prepared), 0)
    return run


@pytest.fixture
def rerun(sclsearch: Call, storage: Path) -> Rerun:
    """Return a function that stores a seed run and repeats it."""

    def rerun(run: SeedRun, *options: str) -> Result:
        (storage / "runs" / f"{run.key}.json").unlink(missing_ok=True)
        RunStore(storage).put(run)
        return sclsearch("rerun", run.key[:8], *options)

    return rerun


def test_a_repeated_seed_run_is_identical_and_a_difference_is_named_with_exit_code_1(
    rerun: Rerun, trained: SeedRun
) -> None:
    same = rerun(trained)
    assert (same.returncode, same.stderr) == (0, "")
    assert f"{trained.key[:12]} is identical in every number; " in same.stdout
    [first, *rest] = trained.predictions["test"]
    predictions = {**trained.predictions, "test": [1 - first, *rest]}
    hanging = SeedRun(trained.key, trained.identity, trained.origin, failure=HANG)
    for run, difference in (
        (replace(trained, predictions=predictions), " differs in predictions.\n"),
        (hanging, " had failed (hang: 1 h); this time it finished.\n"),
    ):
        result = rerun(run)
        assert (result.returncode, result.stdout) == (1, f"{trained.key[:12]}{difference}")


def test_what_this_machine_cannot_repeat_is_refused(
    rerun: Rerun, sclsearch: Call, trained: SeedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    gpu = {**trained.identity, "numerics": "cuda-bf16", "engine": GPU_ENGINE_VERSION}
    rerun(replace(trained, key=digest(gpu), identity=gpu)).assert_refused("torch finds no GPU")
    changed = replace(trained, origin={**trained.origin, "model": "./encoder"})
    rerun(changed).assert_refused("weights changed since the seed run was trained.")
    for key in ("abcdef", "xyz"):
        sclsearch("rerun", key).assert_refused(f"'{key}': must be 4 or more characters")
