"""Fixtures: a trained study, a regression, and studies of made-up records."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from sclsearch.store.runs import Failure, RunStore, SeedRun
from sclsearch.store.studies import (
    ConfigurationRecord,
    ReplicateRecord,
    StudyRecord,
    StudyStore,
    seed_run_identity,
    seed_run_key,
)
from tests.reports.trained import Trained, search_on, study_on
from tests.studies import FIELDS, ORIGIN, SEED_RUN_ORIGIN, TRAINING

# A seed run: validation and test, each as percent correct or as confusion matrix; test None if it
# is untested. Or the message of its failure; or None for a missing seed run.
Matrix = Sequence[Sequence[int]]
Scores = tuple[int | Matrix, int | Matrix | None]
Configuration = Sequence[Scores | str | None]
WriteStudy = Callable[..., Path]


@pytest.fixture(scope="session")
def trained(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Return a study that was trained on its own copy of the encoder."""
    folder = shutil.copytree(tiny_bert, tmp_path_factory.mktemp("encoder") / "bert")
    return study_on(folder, tmp_path_factory.mktemp("storage"))


@pytest.fixture(scope="session")
def regression(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the storage of the study `mine`, a regression of two seeds."""
    lines = [
        f"it was {word},{number / 60 + bonus},{split}"
        for number, split in enumerate(["train", "validation", "test"] * 10)
        for word, bonus in (("good", 2), ("bad", 0))
    ]
    return search_on(
        tiny_bert,
        tmp_path_factory.mktemp("regression"),
        ["text,label,split", *lines],
        method="ce",
        task={"split_column": "split", "regression": True},
        settings={"batch_size": 8},
    )


@pytest.fixture
def exported(trained: Trained, tmp_path: Path) -> Path:
    """Return the folder of the exported winner."""
    trained.export(tmp_path / "winner")
    return tmp_path / "winner"


@pytest.fixture
def write_study(tmp_path: Path) -> WriteStudy:
    """Return a function that writes a study of made-up records and returns its storage.

    Further keywords are fields of the record's origin, such as `settings` and `labels`.
    """

    def write(
        *configurations: Configuration,
        name: str = "made-up",
        values: Sequence[Mapping[str, Any]] | None = None,
        parameters: Sequence[Mapping[str, Any]] | None = None,
        fixed: Mapping[str, Any] = MappingProxyType({}),
        method: str = "scl",
        model: str = "minilm",
        metric: str = "accuracy",
        protocol: str = "gunel-fewshot",
        size: str | None = "100",
        data: str = "d",
        rows: Mapping[str, str] = MappingProxyType({"train": "aaaaaaaaaaaa", "test": "t"}),
        notes: tuple[str, ...] = (),
        study_notes: Sequence[str] = (),
        fresh: int = 0,
        confirms: str | None = None,
        gpus: Sequence[str] = (),
        losses: Sequence[float] = (),
        updates: int = 20,
        seconds: float = 90.0,
        baselines: Mapping[str, int | Matrix] = MappingProxyType({}),
        **origin: Any,
    ) -> Path:
        store, runs = StudyStore(tmp_path, name), RunStore(tmp_path)
        searched = dict.fromkeys(name for one in values or [{"tau": 0}] for name in one)
        choices = [{"name": name, "type": "choice", "values": [0]} for name in searched]
        known = choices if parameters is None else parameters
        identity = {
            "task": "cola",
            "model": model,
            "protocol": protocol + ", fresh replicates" * bool(fresh),
            "size": size,
            "space": {"parameters": known, "fixed": dict(fixed)},
        }
        training: dict[str, Any] = {**TRAINING, "method": method, "metric": metric, "data": data}
        training |= {"weights": model, "study": confirms or name, "engine": 6}
        training |= {"numerics": "cuda-bf16", "engine": 7} if gpus else {}
        named = {"method": method, "model": model, "fresh": fresh, "notes": list(study_notes)}
        given = {**ORIGIN, **named, **origin}
        record = StudyRecord(name, identity, training, given, 2, 0.0)
        store.create(record)
        replicates = [
            ReplicateRecord(number, {**rows, "train": train}, {"order": fresh + number}, notes)
            for number, train in enumerate(rows["train"][: len(configurations[0])])
        ]
        for replicate in replicates:
            store.add(replicate)
        for number, seed_runs in enumerate(configurations):
            chosen = values[number] if values else {"tau": round(0.1 * (number + 1), 1)}
            origin_of = "sampled" if number else "published"
            configuration = ConfigurationRecord(number, chosen, {**FIELDS, **chosen}, origin_of)
            store.add(configuration)
            for replicate, scores in zip(replicates, seed_runs, strict=True):
                if scores is not None:
                    key = seed_run_key(record, configuration, replicate)
                    identity_of = seed_run_identity(record, configuration, replicate)
                    loss = losses[number] if losses else None
                    run = _seed_run(key, identity_of, scores, loss, updates)
                    gpu = gpus[replicate.number] if gpus else None
                    runs.put(replace(run, environment={"gpu": gpu}, seconds=seconds))
        if baselines:
            found = {
                name: dict.fromkeys(("validation", "test"), _counts(correct))
                for name, correct in baselines.items()
            }
            store.save_baselines(dict.fromkeys(range(len(replicates)), found))
        return tmp_path

    return write


def _seed_run(
    key: str, identity: Mapping[str, Any], scores: Scores | str, loss: float | None, updates: int
) -> SeedRun:
    if isinstance(scores, str):
        return SeedRun(key, identity, SEED_RUN_ORIGIN, failure=Failure("raised", scores))
    validation = _counts(scores[0]) | ({} if loss is None else {"log_loss": loss})
    test = {} if scores[1] is None else _counts(scores[1])
    first = {"epoch": 1, "update": 10, "loss": {}, "validation": _counts(1)}
    kept = {"epoch": 2, "update": updates, "loss": {}, "validation": validation}
    return SeedRun(key, identity, SEED_RUN_ORIGIN, evaluations=(first, kept), kept=1, test=test)


def _counts(correct: int | Matrix) -> dict[str, Any]:
    matrix = [[correct, 100 - correct], [0, 0]] if isinstance(correct, int) else correct
    return {"confusion": matrix}
