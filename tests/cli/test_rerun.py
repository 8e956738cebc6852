"""Tests of `rerun`: identical results, differences and errors."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sclsearch.canonical import digest
from sclsearch.encoders.load import load_tokenizer
from sclsearch.errors import SclsearchError
from sclsearch.ray_backend import worker
from sclsearch.ray_backend.worker import WorkerContext, attempt
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import rerun
from sclsearch.store.runs import Failure, RunStore, SeedRun
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.training.data import tokenize_task
from sclsearch.training.spec import GPU_ENGINE_VERSION
from tests.workspace import Call


@pytest.fixture(scope="module")
def trained(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> SeedRun:
    """Return a trained seed run of a tiny encoder that is not stored."""
    fields = {"epochs": 1, "max_length": 16}
    spec = StudySpec(method="ce", task="demo", model=str(tiny_bert), train_size=8, settings=fields)
    run = seed_run(spec, tmp_path_factory.mktemp("storage"))
    assert run.failure is None
    return run


def seed_run(spec: StudySpec, storage: Path) -> SeedRun:
    """Train and return the seed run of a search's second replicate."""
    prepared = prepare_study(spec, RunOptions(storage=storage, seeds=3))
    study = prepared.study
    context = WorkerContext(
        study=study,
        name="mine",
        storage=prepared.storage,
        tokens={16: tokenize_task(study.data, load_tokenizer(study.model), 16)},
        splits=prepared.splits,
        threads=1,
        origin=prepared.record.origin,
    )
    run, _ = attempt(study.seed_run_spec({}, 1, prepared.splits[1]), context, 0)
    return run


@pytest.mark.slow
def test_a_repeated_seed_run_is_identical(sclsearch: Call, workdir: Path, trained: SeedRun) -> None:
    RunStore(workdir / "sclsearch-storage").put(trained)
    result = sclsearch("rerun", trained.key[:8])
    assert (result.returncode, result.stderr) == (0, "")
    assert f"{trained.key[:12]} is identical in every number; " in result.stdout


def test_a_difference_is_named_and_gives_exit_code_1(
    sclsearch: Call, workdir: Path, trained: SeedRun
) -> None:
    [first, *rest] = trained.predictions["test"]
    predictions = {**trained.predictions, "test": [1 - first, *rest]}
    RunStore(workdir / "sclsearch-storage").put(replace(trained, predictions=predictions))
    result = sclsearch("rerun", trained.key)
    assert result.returncode == 1
    assert result.stdout == f"{trained.key[:12]} differs in predictions.\n"


def test_a_failure_that_does_not_recur_is_reported(
    sclsearch: Call, workdir: Path, trained: SeedRun
) -> None:
    failed = SeedRun(trained.key, trained.identity, trained.origin, failure=Failure("hang", "1 h"))
    RunStore(workdir / "sclsearch-storage").put(failed)
    result = sclsearch("rerun", trained.key)
    message = f"{trained.key[:12]} had failed (hang: 1 h); this time it finished.\n"
    assert (result.returncode, result.stdout) == (1, message)


def test_a_gpu_seed_run_is_refused_on_a_machine_without_gpu(
    sclsearch: Call, workdir: Path, trained: SeedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    gpu = {"numerics": "cuda-bf16", "engine": GPU_ENGINE_VERSION}
    identity = {**trained.identity, **gpu}
    run = replace(trained, key=digest(identity), identity=identity)
    RunStore(workdir / "sclsearch-storage").put(run)
    result = sclsearch("rerun", run.key)
    assert (result.returncode, result.stdout) == (2, "")
    assert "torch finds no GPU" in result.stderr


def test_out_of_memory_is_an_error(
    tmp_path: Path, trained: SeedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(worker, "attempt", lambda *_, **__: map(fail, [0]))
    RunStore(tmp_path).put(trained)
    with pytest.raises(SclsearchError, match=r": out of memory: CUDA out of memory"):
        rerun(tmp_path, trained.key)


@pytest.fixture
def raising(
    custom_method: str, tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory
) -> SeedRun:
    """Return a failed seed run whose method always raises an error."""
    folder = tmp_path_factory.mktemp("raising")
    calm = "        scores = self.scores(model, batch)\n"
    raised = "        raise RuntimeError('no scores today')\n"
    (folder / "mine.py").write_text(custom_method.replace(calm, raised), encoding="utf-8")
    spec = StudySpec(
        method=f"{folder}/mine.py:Smoothed", task="demo", model=str(tiny_bert), searched=False
    )
    return seed_run(replace(spec, train_size=8, settings={"max_length": 16}), folder)


def test_a_failure_that_recurs_is_no_difference(
    sclsearch: Call, workdir: Path, raising: SeedRun
) -> None:
    RunStore(workdir / "sclsearch-storage").put(raising)
    method = raising.origin["method"]
    result = sclsearch("rerun", raising.key, "--method", method)
    assert (result.returncode, result.stderr) == (0, "")
    message = "failed again in the same way (raised: RuntimeError: no scores today (mine.py:"
    assert result.stdout.startswith(f"{raising.key[:12]} {message}")


def test_a_custom_method_is_imported_only_with_consent_and_a_matching_hash(
    sclsearch: Call, workdir: Path, raising: SeedRun
) -> None:
    file = Path(raising.origin["method"].rpartition(":")[0])
    source, mark = file.read_text(encoding="utf-8"), workdir / "imported"
    RunStore(workdir / "sclsearch-storage").put(raising)
    file.write_text(f"open({str(mark)!r}, 'w')\n{source}", encoding="utf-8")
    try:
        unnamed = sclsearch("rerun", raising.key)
        other = sclsearch("rerun", raising.key, "--method", raising.origin["method"])
    finally:
        file.write_text(source, encoding="utf-8")
    assert (unnamed.returncode, other.returncode) == (2, 2)
    assert "Read the file, then pass --method FILE.py:CLASS" in unnamed.stderr
    assert "the method of the training, with an unchanged file" in other.stderr
    assert not mark.exists()


def test_a_different_or_new_failure_gives_exit_code_1(
    sclsearch: Call, workdir: Path, raising: SeedRun
) -> None:
    different = replace(raising, failure=Failure("hang", "1 h"))
    evaluation = {"epoch": 1.0, "update": 1, "loss": {}, "validation": {"confusion": [[1]]}}
    finished = replace(raising, failure=None, evaluations=(evaluation,), test={"confusion": [[1]]})
    for before, outcome in ((different, "failed otherwise (hang: 1 h)"), (finished, "finished")):
        path = workdir / "sclsearch-storage" / "runs" / f"{raising.key}.json"
        path.unlink(missing_ok=True)
        RunStore(workdir / "sclsearch-storage").put(before)
        result = sclsearch("rerun", raising.key, "--method", raising.origin["method"])
        assert result.returncode == 1
        assert f" had {outcome}; this time it failed (raised: RuntimeError: no " in result.stdout


def test_a_seed_run_whose_model_has_changed_is_refused(
    sclsearch: Call, workdir: Path, trained: SeedRun
) -> None:
    origin = {**trained.origin, "model": "./encoder"}
    RunStore(workdir / "sclsearch-storage").put(replace(trained, origin=origin))
    sclsearch("rerun", trained.key).assert_refused(
        "weights changed since the seed run was trained."
    )


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("abcdef", "'abcdef': must be 4 or more characters that begin one key"),
        ("xyz", "'xyz': must be 4 or more characters that begin one key"),
    ],
)
def test_an_unknown_or_malformed_key_is_refused(sclsearch: Call, key: str, message: str) -> None:
    result = sclsearch("rerun", key)
    assert result.returncode == 2
    assert result.stderr.startswith(message)
