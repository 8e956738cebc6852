"""Tests of data sets from the Hugging Face hub, online and offline."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from datasets import ClassLabel, Dataset, Features, Value, config
from datasets.exceptions import DatasetGenerationError

from sclsearch.errors import SclsearchError
from sclsearch.tasks import CORPORA, as_task, load_task
from sclsearch.tasks.corpus import fetch, from_hub
from sclsearch.tasks.custom import CustomTask

COLA = CORPORA["cola"]
assert COLA.hub is not None
HUB = COLA.hub
NAMES = ["unacceptable", "acceptable"]


def tiny(labels: Mapping[str, list[int]], names: list[str]) -> dict[str, Dataset]:
    features = Features({"sentence": Value("string"), "label": ClassLabel(names=names)})
    return {
        split: Dataset.from_dict({"sentence": ["a"] * len(y), "label": y}, features=features)
        for split, y in labels.items()
    }


def test_labels_in_another_order_or_without_a_value_are_refused() -> None:
    with pytest.raises(SclsearchError, match=r"cola: train: .*\['unacceptable', 'acceptable'\]"):
        from_hub(COLA, HUB, tiny({"train": [0, 1], "validation": [0]}, NAMES[::-1]))
    with pytest.raises(SclsearchError, match="cola: validation: 2 rows have no label"):
        from_hub(COLA, HUB, tiny({"train": [0, 1], "validation": [-1, 0, -1]}, NAMES))


def test_a_hub_data_set_becomes_a_custom_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task: Any = "hf:me/mine/part@v1"
    with pytest.raises(SclsearchError, match=r"^me/mine: hf:me/mine/part@v1 is neither on the hub"):
        as_task(task)
    rows = tiny({"train": [0, 1] * 9, "dev": [1, 0], "test": [-1]}, ["no", "yes"])
    load = Mock(return_value=rows)
    monkeypatch.setattr("datasets.load_dataset", load)
    monkeypatch.chdir(tmp_path)
    loaded = load_task(CustomTask(task, "sentence", "label"))
    assert load_task(task).digest == loaded.digest
    load.assert_called_with("me/mine", "part", revision="v1")
    assert (loaded.task.name, loaded.task.labels) == ("mine-part", ("no", "yes"))
    sizes = {name: len(split.y) for name, split in loaded.splits.items()}
    assert sizes == {"train": 18, "validation": 2}
    with pytest.raises(SclsearchError, match=r"^--test: the task has this split\. Leave it out\."):
        as_task("hf:me/mine", test="rows.csv")
    with pytest.raises(SclsearchError, match=r"^--task hf:: must be hf:owner/name, "):
        load_task("hf:")


@pytest.mark.slow
def test_unlabeled_test_rows_are_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {"train": [0, 1, 1], "validation": [1], "test": [-1]}
    files = ""
    for split, rows in tiny(labels, NAMES).items():
        rows.to_parquet(tmp_path / "repository" / "cola" / f"{split}-00000-of-00001.parquet")
        files += f"  - split: {split}\n    path: cola/{split}-*\n"
    (tmp_path / "repository" / "README.md").write_text(
        f"---\nconfigs:\n- config_name: cola\n  data_files:\n{files}---\n"
    )
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", tmp_path / "cache")
    loaded = fetch(replace(COLA, hub=replace(HUB, repository=str(tmp_path / "repository"))))
    found = {name: rows.y.tolist() for name, rows in loaded.splits.items()}
    assert found == {"train": [0, 1, 1], "validation": [1]}
    # The source must not name the corpus's revision: the rows are not from it.
    assert str(HUB.revision)[:8] not in loaded.source


@pytest.mark.parametrize("failure", [None, ConnectionError("Name or service not known")])
def test_datasets_works_offline_if_the_hub_is_unreachable(
    monkeypatch: pytest.MonkeyPatch, failure: Exception | None
) -> None:
    offline = []

    def load_dataset(*_: object, **__: object) -> None:
        offline.append(config.HF_HUB_OFFLINE)
        raise DatasetGenerationError("no rows") from OSError(28, "No space left on device")

    monkeypatch.setattr(config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", Mock(side_effect=failure))
    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    with pytest.raises(SclsearchError, match=r"cola is neither .* No space left .*--data-dir"):
        fetch(COLA)
    assert offline == [failure is not None]
    assert not config.HF_HUB_OFFLINE
    with pytest.raises(SclsearchError, match=r"^--data-dir: bustm needs a folder .*https://"):
        fetch(CORPORA["bustm"])
