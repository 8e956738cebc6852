"""Fixtures: trained studies, and studies of made-up records."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from sclsearch.search.run import run
from sclsearch.store.runs import Failure, RowResults, RunStore, SeedRun
from sclsearch.store.studies import (
    ConfigurationRecord,
    ReplicateRecord,
    StudyRecord,
    StudyStore,
    seed_run_identity,
    seed_run_key,
)
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks.custom import CustomTask
from tests.studies import FIELDS, ORIGIN, SEED_RUN_ORIGIN, TRAINING, in_process

# A seed run: validation and test, each as percent correct or as confusion matrix; test None if it
# is untested. Or the message of its failure; or None for a missing seed run.
Matrix = Sequence[Sequence[int]]
Scores = tuple[int | Matrix, int | Matrix | None]
Configuration = Sequence[Scores | str | None]
WriteStudy = Callable[..., Path]

IDENTITY = {"task": "cola", "protocol": "gunel-fewshot", "size": "100"}
TRAINED = {**TRAINING, "metric": "accuracy", "engine": 6}
ROWS = {"train": "aaaaaaaaaaaa", "test": "t"}


def own_task(folder: Path, rows: Sequence[tuple[object, ...]], **options: Any) -> CustomTask:
    """Write rows of text, label and, if given, split to a file; return their task."""
    folder.mkdir(exist_ok=True)
    frame = pd.DataFrame(rows, columns=["text", "label", "split"][: len(rows[0])])
    frame.to_csv(folder / "own.csv", index=False)
    usual = {"split_column": "split"} if "split" in frame else {"fractions": (0.5, 0.25, 0.25)}
    return CustomTask(folder / "own.csv", ("text",), "label", **{**usual, **options})


def study_on(
    encoder: Path,
    storage: Path,
    task: str | CustomTask = "demo",
    *,
    study: str = "mine",
    seeds: int = 2,
    configs: int | None = None,
    settings: Mapping[str, object] = MappingProxyType({}),
    **changes: Any,
) -> Path:
    """Train one configuration of `scl`, or run the search of `changes`; return the storage."""
    few = {"protocol": "gunel-fewshot", "train_size": 8} if task == "demo" else {}
    given: dict[str, Any] = {"method": "scl", "searched": False, **few, **changes}
    settings = {"epochs": 1, "max_length": 16, **settings}
    spec = StudySpec(task=task, model=str(encoder), settings=settings, **given)
    options = RunOptions(study=study, storage=storage, seeds=seeds, configs=configs, rule="mean")
    with in_process():
        run(spec, replace(options, gpus_per_trial=0, tracking="none"), Console(quiet=True))
    return storage


@pytest.fixture(scope="session")
def trained(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a study that was trained on its own copy of the encoder."""
    folder = shutil.copytree(tiny_bert, tmp_path_factory.mktemp("encoder") / "bert")
    return study_on(folder, tmp_path_factory.mktemp("storage"), settings={"tau": 0.5})


@pytest.fixture(scope="session")
def regression(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the storage of the study `mine`, a regression of two seeds."""
    rows = [
        (f"it was {word}", number / 60 + bonus, split)
        for number, split in enumerate(["train", "validation", "test"] * 10)
        for word, bonus in (("good", 2), ("bad", 0))
    ]
    folder = tmp_path_factory.mktemp("regression")
    task = own_task(folder, rows, regression=True)
    return study_on(tiny_bert, folder, task, method="ce", settings={"batch_size": 8})


@pytest.fixture
def write_study(tmp_path: Path) -> WriteStudy:
    """Return a function that writes a study of made-up records and returns its storage.

    Further keywords are fields of the record's identity, training or origin.
    """

    def write(
        *configurations: Configuration,
        name: str = "made-up",
        values: Sequence[Mapping[str, Any]] | None = None,
        parameters: Sequence[Mapping[str, Any]] | None = None,
        fixed: Mapping[str, Any] = MappingProxyType({}),
        method: str = "scl",
        model: str = "minilm",
        rows: Mapping[str, str] = MappingProxyType(ROWS),
        notes: tuple[str, ...] = (),
        study_notes: Sequence[str] = (),
        fresh: int = 0,
        confirms: str | None = None,
        gpus: Sequence[str] = (),
        losses: Sequence[float] = (),
        updates: int = 20,
        baselines: Mapping[str, int | Matrix] = MappingProxyType({}),
        with_rows: bool = False,
        **fields: Any,
    ) -> Path:
        store, runs = StudyStore(tmp_path, name), RunStore(tmp_path)
        values = values or [{"tau": round(0.1 * n, 1)} for n in range(1, len(configurations) + 1)]
        searched = dict.fromkeys(name for one in values for name in one)
        choices = [{"name": name, "type": "choice", "values": [0]} for name in searched]
        space = {
            "parameters": choices if parameters is None else parameters,
            "fixed": dict(fixed),
            "published": [],
        }
        identity = {key: fields.pop(key, usual) for key, usual in IDENTITY.items()}
        identity |= {"model": model, "space": space}
        identity["protocol"] += ", new replicates" * bool(fresh)
        training = {key: fields.pop(key, usual) for key, usual in TRAINED.items()}
        training |= {"method": method, "weights": model, "study": confirms or name}
        training |= {"numerics": "cuda-bf16", "engine": 7} if gpus else {}
        named = {"method": method, "model": model, "fresh": fresh, "notes": list(study_notes)}
        record = StudyRecord(name, identity, training, {**ORIGIN, **named, **fields}, 0.0)
        store.create(record)
        replicates = [
            ReplicateRecord(number, {**rows, "train": train}, {"order": fresh + number}, notes)
            for number, train in enumerate(rows["train"][: len(configurations[0])])
        ]
        for replicate in replicates:
            store.add(replicate)
        for number, seed_runs in enumerate(configurations):
            origin, settings = "sampled" if number else "published", {**FIELDS, **values[number]}
            configuration = ConfigurationRecord(number, values[number], settings, origin)
            store.add(configuration)
            loss = {"log_loss": losses[number]} if losses else {}
            for replicate, scores in zip(replicates, seed_runs, strict=True):
                if scores is not None:
                    run = SeedRun(
                        seed_run_key(record, configuration, replicate),
                        seed_run_identity(record, configuration, replicate),
                        SEED_RUN_ORIGIN,
                        seconds=90.0,
                        environment={"gpu": gpus[replicate.number] if gpus else None},
                        **_result(scores, loss, updates),
                    )
                    if with_rows and run.failure is None:
                        labels, run = _with_predictions(run)
                        # Probabilities 0 and 1 on folds, else none.
                        classes = len(fields.get("labels", ())) if "folds" in fields else 0
                        sure = np.eye(99, classes, dtype=np.float32)
                        found = {n: sure[np.array(p, int)] for n, p in run.predictions.items()}
                        runs.put(run, RowResults(labels, found))
                    else:
                        runs.put(run)
        if baselines:
            found = {
                name: {
                    **dict.fromkeys(("validation", "test"), _counts(correct)),
                    "predictions": dict.fromkeys(("validation", "test"), _predicted(correct)),
                }
                for name, correct in baselines.items()
            }
            store.save_baselines(dict.fromkeys(range(len(replicates)), found))
        return tmp_path

    return write


def _result(scores: Scores | str, loss: Mapping[str, float], updates: int) -> dict[str, Any]:
    """Return the fields of a seed run with scores, or of a failed one."""
    if isinstance(scores, str):
        return {"failure": Failure("raised", scores)}
    first = {"epoch": 1, "update": 10, "loss": {}, "validation": _counts(1)}
    kept = {**first, "epoch": 2, "update": updates, "validation": {**_counts(scores[0]), **loss}}
    test = {} if scores[1] is None else _counts(scores[1])
    return {"evaluations": (first, kept), "kept": 1, "test": test}


def _with_predictions(run: SeedRun) -> tuple[dict[str, Any], SeedRun]:
    """Return true classes by split, and the run with the predictions of its confusion matrices."""
    labels, predictions = {}, dict[str, list[float]]()
    for split, counts in run.counted.items():
        y, predicted = np.indices(np.shape(counts["confusion"]))
        repeats = np.ravel(counts["confusion"])
        labels[split] = y.ravel().repeat(repeats)
        predictions[split] = [float(one) for one in predicted.ravel().repeat(repeats)]
    return labels, replace(run, predictions=predictions)


def _predicted(correct: int | Matrix) -> list[int]:
    counts = np.array(_counts(correct)["confusion"])
    return np.indices(counts.shape)[1].ravel().repeat(counts.ravel()).tolist()  # type: ignore[no-any-return]


def _counts(correct: int | Matrix) -> dict[str, Any]:
    matrix = [[correct, 100 - correct], [0, 0]] if isinstance(correct, int) else correct
    return {"confusion": matrix}
