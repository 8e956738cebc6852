"""Trained studies of one configuration: with the weights of both seeds, or by a whole search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

import sclsearch
from sclsearch.encoders.load import load_tokenizer
from sclsearch.ray_backend.worker import WorkerContext, attempt, row_results
from sclsearch.reports.predictor import ExportRecord
from sclsearch.reports.report import finished_winner, report
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import run
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks.custom import CustomTask
from sclsearch.training.data import tokenize_task
from sclsearch.training.evaluation import save_weights
from tests.studies import in_process


@dataclass(frozen=True)
class Trained:
    """Trained study of two seeds: its storage folder and its initial encoder."""

    storage: Path
    encoder: Path

    @property
    def best(self) -> Path:
        """Weights file of the better seed."""
        winner = finished_winner(report(self.storage, "mine"))
        key = winner.seeds[winner.reported[0]].key
        return self.storage / "studies" / "mine" / "weights" / f"{key}.safetensors"

    def export(self, folder: Path) -> ExportRecord:
        """Export the winner, which two updates of a random encoder leave useless."""
        return sclsearch.export("mine", folder, storage=self.storage, force=True)


def study_on(
    encoder: Path, storage: Path, task: str | CustomTask = "demo", **settings: object
) -> Trained:
    """Train two seed runs in this process and keep the weights of both."""
    spec = StudySpec(
        method="scl",
        task=task,
        model=str(encoder),
        protocol="gunel-fewshot" if task == "demo" else "plain",
        train_size=8 if task == "demo" else None,
        settings={"epochs": 1, "max_length": 16, "tau": 0.5, **settings},
        searched=False,
    )
    options = RunOptions(study="mine", storage=storage, seeds=2, rule="mean", gpus_per_trial=0)
    prepared = prepare_study(spec, options).begin()
    study = prepared.study
    tokens = {16: tokenize_task(study.data, load_tokenizer(study.model), 16)}
    context = WorkerContext(
        study, "mine", storage, tokens, prepared.splits, 1, prepared.record.origin
    )
    scheduler = replace(prepared)
    scheduler.refill()
    while (scheduled := scheduler.next()) is not None:
        number = scheduled.replicate.number
        seed_run_spec = study.seed_run_spec({}, number, prepared.splits[number])
        run_, result = attempt(seed_run_spec, context, 0)
        assert result is not None
        save = partial(save_weights, result=result, spec=seed_run_spec)
        prepared.store.weights(seed_run_spec.key).save_file(save)
        prepared.runs.put(run_, row_results(seed_run_spec, context, result))
        scheduler.finish(scheduled, run_)
    return Trained(storage, encoder)


def search_on(
    encoder: Path,
    folder: Path,
    lines: Sequence[str],
    *,
    method: str = "scl",
    seeds: int = 2,
    task: Mapping[str, Any] = MappingProxyType({"fractions": (0.5, 0.25, 0.25)}),
    settings: Mapping[str, Any] = MappingProxyType({}),
    **spec: Any,
) -> Path:
    """Search one configuration on a file with these lines; return the storage of study `mine`."""
    file = folder / "own.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    given = StudySpec(
        method=method,
        task=CustomTask(file, ("text",), "label", **task),
        model=str(encoder),
        settings={"epochs": 1, "max_length": 16, **settings},
        searched=False,
        **spec,
    )
    options = RunOptions(study="mine", storage=folder / "s", seeds=seeds, gpus_per_trial=0)
    with in_process():
        run(given, options, Console(quiet=True))
    return folder / "s"


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
