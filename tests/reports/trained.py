"""Studies that are trained in this process on a tiny encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
import torch
from rich.console import Console
from torch import Tensor

import sclsearch
from sclsearch.reports.predictor import ExportRecord
from sclsearch.reports.report import finished_winner, report
from sclsearch.search.run import run
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks.custom import CustomTask
from tests.studies import in_process


@dataclass(frozen=True)
class Trained:
    """Storage folder of a trained study, and its initial encoder."""

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
) -> Trained:
    """Train one configuration of `scl`, or run the search that `changes` describe."""
    given: dict[str, Any] = {"protocol": "gunel-fewshot", "train_size": 8} if task == "demo" else {}
    given |= {"method": "scl", "searched": False, **changes}
    settings = {"epochs": 1, "max_length": 16, **settings}
    spec = StudySpec(task=task, model=str(encoder), settings=settings, **given)
    options = RunOptions(study=study, storage=storage, seeds=seeds, configs=configs, rule="mean")
    with in_process():
        run(spec, replace(options, gpus_per_trial=0, tracking="none"), Console(quiet=True))
    return Trained(storage, encoder)


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
