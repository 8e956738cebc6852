"""`rerun` trains a stored seed run again and says whether every figure is the same."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from sclsearch.encoders.load import load_tokenizer
from sclsearch.search.options import How, What
from sclsearch.search.prepare import prepare_study
from sclsearch.search.trial import Bench, attempt
from sclsearch.store.runs import Failure, RunStore, SeedRun
from sclsearch.training.tokens import tokenise

Call = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def trained(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> SeedRun:
    """Returns a seed run of a tiny encoder, trained here and stored nowhere yet."""
    fields = {"epochs": 1, "max_length": 16}
    what = What(method="ce", task="demo", model=str(tiny_bert), train_size=8, settings=fields)
    prepared = prepare_study(what, How(storage=tmp_path_factory.mktemp("storage"), seeds=3))
    study = prepared.study
    bench = Bench(
        study=study,
        name="mine",
        storage=prepared.storage,
        tokens={16: tokenise(study.data, load_tokenizer(study.model), 16)},
        parts=prepared.parts,
        threads=1,
        origin=prepared.record.origin,
    )
    ((run, _),) = attempt([study.job({}, 1, prepared.parts[1])], bench, 0)
    assert run.failure is None
    return run


@pytest.mark.slow
def test_a_seed_run_that_is_trained_again_is_identical_and_leaves_its_weights(
    sclsearch: Call, place: Path, trained: SeedRun
) -> None:
    RunStore(place / "sclsearch-storage").put(trained)
    done = sclsearch("rerun", trained.key[:8], "--weights", "best.safetensors")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{trained.key[:12]} is identical, every figure of it; " in done.stdout
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


def test_a_seed_run_whose_model_has_changed_is_refused(
    sclsearch: Call, place: Path, trained: SeedRun
) -> None:
    origin = {**trained.origin, "model": "./encoder"}
    RunStore(place / "sclsearch-storage").put(replace(trained, origin=origin))
    done = sclsearch("rerun", trained.key)
    assert done.returncode == 2
    assert "weights must be what the seed run was made from, but changed since." in done.stderr


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("abcdef", "'abcdef': one seed run in "),
        ("xyz", "'xyz': a key must be at least 4 of the digits 0-9 and a-f."),
    ],
)
def test_a_key_that_is_in_no_store_is_refused(sclsearch: Call, key: str, message: str) -> None:
    done = sclsearch("rerun", key)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
