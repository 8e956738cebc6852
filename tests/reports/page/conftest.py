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
from tests.studies import in_process

LABELS = ("<b>dull</b>", 'good & $x$ "fun"')
TEXT = "<script>alert(1)</script>"
SETTINGS = {"epochs": 2, "batch_size": 8, "max_length": 16, "pooling": "mean"}


@dataclass(frozen=True)
class Studies:
    """A storage with the studies `scl` (2 configurations), `ce` and `lacon` (1 each)."""

    storage: Path
    file: Path

    def write(self, folder: Path, *studies: str) -> None:
        sclsearch.write_report(*studies, output=folder, storage=self.storage)


@pytest.fixture(scope="session")
def studies(tiny_bert: Path, space_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Studies:
    """Return the studies, trained in this process with two seeds."""
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
    task = CustomTask(file, text=("text",), label="label", split_column="split")
    options = RunOptions(storage=folder / "storage", seeds=2, configs=2, gpus_per_trial=0)
    search = StudySpec(
        method="scl", task=task, model=str(tiny_bert), space=space_file, settings={"epochs": 3}
    )
    settings = {**SETTINGS, "learning_rate": 1e-3}
    single = replace(search, space=None, searched=False, settings=settings)
    with in_process():
        for name, spec in (
            ("scl", search),
            ("ce", replace(single, method="ce")),
            ("lacon", replace(single, method="lacon", settings={**settings, "heads": 2})),
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
