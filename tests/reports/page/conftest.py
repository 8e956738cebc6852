"""Fixtures: three trained studies of one task whose texts and labels need escaping."""

import random
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from rich.console import Console

import sclsearch
from sclsearch.search.run import run
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks.custom import CustomTask
from tests.in_process import in_process

SPACE = """
method: scl
source: a test
published:
  - {tau: 0.3, lam: 0.9, learning_rate: 1e-2}
fixed: {epochs: 3, batch_size: 8, max_length: 16, pooling: mean}
space:
  tau: {type: choice, values: [0.1, 0.3, 0.5]}
  lam: {type: choice, values: [0.5, 0.9]}
  learning_rate: {type: log, low: 1e-3, high: 3e-2}
"""
LABELS = ("<b>dull</b>", 'good & $x$ "fun"')
TEXT = "<script>alert(1)</script>"
SEEDS = 3


@dataclass(frozen=True)
class Studies:
    """A storage with the studies `scl` (3 configurations), `ce` and `lacon` (1 each)."""

    storage: Path
    file: Path

    def write(self, folder: Path, *studies: str, **options: object) -> str:
        page = sclsearch.write_report(
            *studies,
            output=folder,
            storage=self.storage,
            **options,  # type: ignore[arg-type]
        )
        return page.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def studies(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Studies:
    """Return the studies, trained in this process."""
    folder = tmp_path_factory.mktemp("page")
    draw = random.Random(0)
    rows = ["text\tlabel\tsplit"]
    for number in range(90):
        good = number % 2
        positive = good if draw.random() < 0.8 else 1 - good
        word = draw.choice(("good", "great", "fine") if positive else ("bad", "awful", "poor"))
        split = ("train", "validation", "test")[number // 2 % 3]
        rows.append(f"the film was {word} {number} {TEXT}\t{LABELS[good]}\t{split}")
    file = folder / "mine.tsv"
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    space = folder / "scl.yaml"
    space.write_text(SPACE, encoding="utf-8")
    task = CustomTask(file, text=("text",), label="label", split_column="split")
    options = RunOptions(storage=folder / "storage", seeds=SEEDS, configs=3, gpus_per_trial=0)
    settings = {"epochs": 2, "batch_size": 8, "max_length": 16, "learning_rate": 1e-3}
    lacon = {**settings, "heads": 2, "pooling": "mean"}
    search = StudySpec(method="scl", task=task, model=str(tiny_bert), space=space)
    single = replace(search, space=None, searched=False, settings=settings)
    with in_process():
        for name, spec in (
            ("scl", search),
            ("ce", replace(single, method="ce")),
            ("lacon", replace(single, method="lacon", settings=lacon)),
        ):
            changed = replace(options, study=name, rule="mean")
            run(replace(spec, protocol="plain"), changed, Console(quiet=True))
    return Studies(folder / "storage", file)


@pytest.fixture(scope="session")
def page(studies: Studies, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the report of all three studies."""
    folder = tmp_path_factory.mktemp("report") / "all"
    studies.write(folder, "scl", "ce", "lacon")
    return folder
