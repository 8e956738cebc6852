"""One name leads to rows: made here, from published files, or from the hub; always the same."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.tasks import TASKS, load_task
from sclsearch.tasks.metrics import METRICS

NAMES = {
    *("demo", "cola", "sst2", "mrpc", "rte", "qnli", "qqp", "mnli", "mnli-mm", "stsb", "wnli"),
    *("yelp2", "amazon2", "dbpedia", "tnews", "ocnli", "afqmc", "iflytek", "eprstmt", "bustm"),
    "fewclue-tnews",
    "fewglue-rte",
}


def test_every_task_is_known_by_its_name() -> None:
    assert set(TASKS) == NAMES


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_measured_by_a_metric_that_fits_it(name: str) -> None:
    task = TASKS[name]
    METRICS[task.metric].check(len(task.labels), name)
    assert task.name == name
    assert task.summary


def test_the_demo_needs_no_files() -> None:
    assert load_task("demo").task == TASKS["demo"]


def test_the_folder_comes_from_the_option_before_the_environment(
    glue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCLSEARCH_DATA", str(tmp_path))
    assert len(load_task("wnli", glue).splits["train"]) == 635
    with pytest.raises(SclsearchError, match="WNLI"):
        load_task("wnli")
    monkeypatch.setenv("SCLSEARCH_DATA", str(glue))
    assert load_task("wnli").source == str(glue / "WNLI")


def test_an_unknown_name_brings_the_nearest() -> None:
    with pytest.raises(SclsearchError, match=r"Unknown task 'colla'. Did you mean 'cola'"):
        load_task("colla")


@pytest.mark.parametrize("name", ["reviews.csv", "./reviews", "data/reviews.jsonl"])
def test_a_file_as_a_name_must_be_there_and_is_told_to_bring_its_columns(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SclsearchError, match=rf"^--task {re.escape(name)}: a file must be there"):
        load_task(name)
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).touch()
    with pytest.raises(SclsearchError, match=r"Pass --text COLUMN .* and --label COLUMN"):
        load_task(name)


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_importing_the_tasks_is_light() -> None:
    heavy = {"torch", "transformers", "datasets", "pandas", "pyarrow", "sklearn", "scipy"}
    code = f"import sys, sclsearch.tasks; print(sorted(set(sys.modules) & {heavy}))"
    assert run(code) == "[]"


def test_digests_are_the_same_in_every_process(glue: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("text,label\n" + "".join(f"row {n},{n % 3}\n" for n in range(60)))
    code = (
        "from pathlib import Path\n"
        "from sclsearch.tasks import load_task\n"
        "from sclsearch.tasks.custom import CustomTask, load_custom_task\n"
        f"own = load_custom_task(CustomTask(Path({str(own)!r}), ('text',), 'label'))\n"
        f"print(load_task('rte', Path({str(glue)!r})).digest, own.digest)"
    )
    (printed,) = {run(code, PYTHONHASHSEED=seed) for seed in ("1", "2")}
    assert printed.startswith("30ef37c6")
