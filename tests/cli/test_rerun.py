"""`rerun` trains a stored seed run again and says whether every figure is the same."""

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
from sclsearch.search.rerun import rerun
from sclsearch.store.runs import Failure, RunStore, SeedRun
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.training.data import tokenize_task
from sclsearch.training.spec import GPU_ENGINE_VERSION
from tests.cli.conftest import Call


@pytest.fixture(scope="module")
def trained(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> SeedRun:
    """Returns a seed run of a tiny encoder, trained here and stored nowhere yet."""
    fields = {"epochs": 1, "max_length": 16}
    spec = StudySpec(method="ce", task="demo", model=str(tiny_bert), train_size=8, settings=fields)
    run = seed_run(spec, tmp_path_factory.mktemp("storage"))
    assert run.failure is None
    return run


def seed_run(spec: StudySpec, storage: Path) -> SeedRun:
    """Returns the seed run of a search's second replicate, trained here."""
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
def test_a_seed_run_that_is_trained_again_is_identical_and_leaves_its_weights(
    sclsearch: Call, place: Path, trained: SeedRun
) -> None:
    RunStore(place / "sclsearch-storage").put(trained)
    done = sclsearch("rerun", trained.key[:8], "--weights", "best.safetensors")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{trained.key[:12]} is identical in every number; " in done.stdout
    assert done.stdout.endswith("weights best.safetensors\n")
    assert (place / "best.safetensors").stat().st_size > 10_000


def test_a_figure_that_differs_is_named_with_exit_code_1(
    sclsearch: Call, place: Path, trained: SeedRun
) -> None:
    [first, *rest] = trained.predictions["test"]
    predictions = {**trained.predictions, "test": [1 - first, *rest]}
    RunStore(place / "sclsearch-storage").put(replace(trained, predictions=predictions))
    done = sclsearch("rerun", trained.key)
    assert done.returncode == 1
    assert done.stdout == f"{trained.key[:12]} differs in predictions.\n"


def test_a_failure_that_does_not_come_again_is_told(
    sclsearch: Call, place: Path, trained: SeedRun
) -> None:
    failed = SeedRun(trained.key, trained.identity, trained.origin, failure=Failure("hang", "1 h"))
    RunStore(place / "sclsearch-storage").put(failed)
    done = sclsearch("rerun", trained.key)
    told = f"{trained.key[:12]} had failed (hang: 1 h); this time it finished.\n"
    assert (done.returncode, done.stdout) == (1, told)


def test_a_seed_run_of_a_gpu_is_not_said_to_fail_where_there_is_none(
    sclsearch: Call, place: Path, trained: SeedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    gpu = {"numerics": "cuda-bf16", "engine": GPU_ENGINE_VERSION}
    identity = {**trained.identity, **gpu}
    run = replace(trained, key=digest(identity), identity=identity)
    RunStore(place / "sclsearch-storage").put(run)
    done = sclsearch("rerun", run.key)
    assert (done.returncode, done.stdout) == (2, "")
    assert "torch finds no GPU" in done.stderr


def test_a_memory_that_is_too_small_is_told(
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
    """Returns a seed run that failed by what its method raises, and fails as often as it is run."""
    folder = tmp_path_factory.mktemp("raising")
    calm = "        scores = self.scores(model, batch)\n"
    raised = "        raise RuntimeError('no scores today')\n"
    (folder / "mine.py").write_text(custom_method.replace(calm, raised), encoding="utf-8")
    spec = StudySpec(
        method=f"{folder}/mine.py:Smoothed", task="demo", model=str(tiny_bert), searched=False
    )
    return seed_run(replace(spec, train_size=8, settings={"max_length": 16}), folder)


def test_a_failure_that_comes_again_is_no_difference_and_leaves_no_weights(
    sclsearch: Call, place: Path, raising: SeedRun
) -> None:
    RunStore(place / "sclsearch-storage").put(raising)
    method = raising.origin["method"]
    done = sclsearch("rerun", raising.key, "--weights", "none.safetensors", "--method", method)
    assert (done.returncode, done.stderr) == (0, "")
    told = "failed again in the same way (raised: RuntimeError: no scores today (mine.py:"
    assert done.stdout.startswith(f"{raising.key[:12]} {told}")
    assert not (place / "none.safetensors").exists()


def test_code_that_a_storage_names_runs_only_if_its_user_names_it_and_it_is_unchanged(
    sclsearch: Call, place: Path, raising: SeedRun
) -> None:
    file = Path(raising.origin["method"].rpartition(":")[0])
    source, mark = file.read_text(encoding="utf-8"), place / "imported"
    RunStore(place / "sclsearch-storage").put(raising)
    file.write_text(f"open({str(mark)!r}, 'w')\n{source}", encoding="utf-8")
    try:
        unnamed = sclsearch("rerun", raising.key)
        other = sclsearch("rerun", raising.key, "--method", raising.origin["method"])
    finally:
        file.write_text(source, encoding="utf-8")
    assert (unnamed.returncode, other.returncode) == (2, 2)
    assert "Read the file, then pass --method FILE.py:CLASS" in unnamed.stderr
    assert "is not the file of the training: its hash differs" in other.stderr
    assert not mark.exists()


def test_a_seed_run_that_fails_otherwise_or_only_now_is_exit_code_1(
    sclsearch: Call, place: Path, raising: SeedRun
) -> None:
    otherwise = replace(raising, failure=Failure("hang", "1 h"))
    evaluation = {"epoch": 1.0, "update": 1, "loss": {}, "validation": {"confusion": [[1]]}}
    finished = replace(raising, failure=None, evaluations=(evaluation,), test={"confusion": [[1]]})
    for before, told in ((otherwise, "failed otherwise (hang: 1 h)"), (finished, "finished")):
        path = place / "sclsearch-storage" / "runs" / f"{raising.key}.json"
        path.unlink(missing_ok=True)
        RunStore(place / "sclsearch-storage").put(before)
        done = sclsearch("rerun", raising.key, "--method", raising.origin["method"])
        assert done.returncode == 1
        assert f" had {told}; this time it failed (raised: RuntimeError: no " in done.stdout


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("w.pt", "--weights w.pt: must end in .safetensors"),
        ("folder.safetensors", ": must be a file, got a folder."),
        ("taken/x/w.safetensors", ": is not writable"),
    ],
)
def test_a_file_for_weights_that_cannot_be_written_is_refused_before_anything_is_read(
    sclsearch: Call, place: Path, trained: SeedRun, file: str, message: str
) -> None:
    (place / "taken").touch()
    (place / "folder.safetensors").mkdir(exist_ok=True)
    gone = replace(trained, origin={**trained.origin, "model": "./gone"})
    RunStore(place / "sclsearch-storage").put(gone)
    done = sclsearch("rerun", trained.key, "--weights", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_seed_run_whose_model_has_changed_is_refused(
    sclsearch: Call, place: Path, trained: SeedRun
) -> None:
    origin = {**trained.origin, "model": "./encoder"}
    RunStore(place / "sclsearch-storage").put(replace(trained, origin=origin))
    done = sclsearch("rerun", trained.key)
    assert done.returncode == 2
    assert "weights changed since the seed run was trained." in done.stderr


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("abcdef", "'abcdef': must be the beginning of one key"),
        ("xyz", "'xyz': must be at least 4 of the digits 0-9 and a-f."),
    ],
)
def test_a_key_that_is_in_no_store_is_refused(sclsearch: Call, key: str, message: str) -> None:
    done = sclsearch("rerun", key)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
