"""The hub's rows become what the files hold; without hub and cache the ways to rows are told."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from datasets import ClassLabel, Dataset, Features, Value, config
from datasets.exceptions import DatasetGenerationError

from sclsearch.errors import SclsearchError
from sclsearch.tasks import load_task
from sclsearch.tasks.base import TaskData
from sclsearch.tasks.glue import GLUE
from sclsearch.tasks.hub import convert, fetch

MNLI = {"validation": "validation_matched", "test": "validation_mismatched"}


def as_on_the_hub(loaded: TaskData) -> dict[str, Dataset]:
    hub = GLUE[loaded.task.name].hub
    assert hub is not None
    names = list(loaded.task.labels)
    label = ClassLabel(names=names) if names else Value("float32")
    features = Features({**dict.fromkeys(hub.columns, Value("string")), "label": label})
    found = {}
    for split, rows in loaded.splits.items():
        columns = dict(zip(hub.columns, zip(*rows.texts, strict=True), strict=True))
        texts = {name: [f"{text} " for text in column] for name, column in columns.items()}
        name = MNLI.get(split, split) if hub.config == "mnli" else split
        found[name] = Dataset.from_dict({**texts, "label": rows.y.tolist()}, features=features)
    return found


@pytest.mark.parametrize("name", ["cola", "rte", "mnli", "mnli-mm", "stsb"])
def test_the_hub_and_the_files_give_the_same_rows(glue: Path, name: str) -> None:
    loaded = load_task(name, glue)
    assert convert(GLUE[name], as_on_the_hub(loaded)).digest == loaded.digest


def tiny(labels: Mapping[str, list[int]], names: list[str]) -> dict[str, Dataset]:
    features = Features({"sentence": Value("string"), "label": ClassLabel(names=names)})
    return {
        split: Dataset.from_dict({"sentence": ["a"] * len(y), "label": y}, features=features)
        for split, y in labels.items()
    }


def test_labels_in_another_order_are_refused() -> None:
    found = tiny({"train": [0, 1], "validation": [0]}, ["acceptable", "unacceptable"])
    with pytest.raises(SclsearchError, match=r"cola: train: the labels must be \['unacceptable'"):
        convert(GLUE["cola"], found)


def test_rows_without_a_label_are_refused() -> None:
    found = tiny({"train": [0, 1], "validation": [-1, 0, -1]}, ["unacceptable", "acceptable"])
    with pytest.raises(SclsearchError, match="validation: every row must have a label, but 2"):
        convert(GLUE["cola"], found)


@pytest.mark.slow
def test_a_task_is_fetched_without_its_unlabelled_test_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {"train": [0, 1, 1], "validation": [1], "test": [-1]}
    for split, rows in tiny(labels, ["unacceptable", "acceptable"]).items():
        rows.to_parquet(tmp_path / "repository" / "cola" / f"{split}-00000-of-00001.parquet")
    (tmp_path / "repository" / "README.md").write_text(
        "---\nconfigs:\n- config_name: cola\n  data_files:\n"
        + "".join(f"  - split: {split}\n    path: cola/{split}-*\n" for split in labels)
        + "---\n"
    )
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", tmp_path / "cache")
    hub = GLUE["cola"].hub
    assert hub is not None
    here = replace(hub, repository=str(tmp_path / "repository"))
    loaded = fetch(replace(GLUE["cola"], hub=here))
    assert {name: rows.y.tolist() for name, rows in loaded.splits.items()} == {
        "train": [0, 1, 1],
        "validation": [1],
    }
    # These are not of the revision that is asked for.
    assert hub.revision[:8] not in loaded.source
    assert loaded.source.endswith(", which the hub's cache has")


def test_rows_of_the_revision_that_is_asked_for_are_told_with_it(glue: Path) -> None:
    loaded = load_task("rte", glue)
    assert convert(GLUE["rte"], as_on_the_hub(loaded)).source == "nyu-mll/glue at bcdcba79"


def test_rows_that_cannot_be_kept_are_one_error_with_its_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object, **__: object) -> None:
        raise DatasetGenerationError("no rows") from OSError(28, "No space left on device")

    monkeypatch.setattr("datasets.load_dataset", full)
    with pytest.raises(SclsearchError, match=r"but: no rows \(\[Errno 28\] No space left .* two w"):
        fetch(GLUE["cola"])


@pytest.mark.parametrize("answers", [True, False])
def test_a_hub_that_cannot_be_reached_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    offline = []

    def asked(*_: object, **__: object) -> None:
        if not answers:
            raise ConnectionError("Name or service not known")

    def found(*_: object, **__: object) -> None:
        offline.append(config.HF_HUB_OFFLINE)
        raise DatasetGenerationError("no rows")

    monkeypatch.setattr(config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", asked)
    monkeypatch.setattr("datasets.load_dataset", found)
    with pytest.raises(SclsearchError, match="cola must be on the hub or in its cache"):
        fetch(GLUE["cola"])
    assert offline == [not answers]
    assert not config.HF_HUB_OFFLINE


@pytest.mark.slow
def test_without_hub_and_cache_both_ways_are_told(tmp_path: Path) -> None:
    code = "from sclsearch.tasks import load_task; load_task('cola')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    message = done.stderr.splitlines()[-1]
    assert "SclsearchError: nyu-mll/glue: cola must be on the hub or in its cache" in message
    assert "--data-dir FOLDER" in message
    assert "SCLSEARCH_DATA" in message


@pytest.mark.parametrize("name", ["eprstmt", "bustm", "fewglue-rte"])
def test_what_no_hub_has_asks_for_a_folder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCLSEARCH_DATA", raising=False)
    with pytest.raises(SclsearchError) as raised:
        load_task(name)
    message = str(raised.value)
    assert message.startswith(f"--data-dir: a folder with {name}'s files must be named")
    assert f"There is one way to {name}'s rows: --data-dir FOLDER" in message
    assert "from https://" in message
