"""Tests of the built-in tasks: files, hub data sets, pinned rows, errors and the demo."""

import csv
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Value, config
from datasets.exceptions import DatasetGenerationError

from sclsearch.errors import SclsearchError
from sclsearch.tasks import CORPORA, as_task, load_task
from sclsearch.tasks.corpus import Corpus, Hub, fetch, from_hub
from sclsearch.tasks.custom import CustomTask
from sclsearch.tasks.metrics import METRICS
from tests.conftest import real_data
from tools.demo.__main__ import TARGET, content


@pytest.fixture(scope="session")
def fewclue() -> Path:
    """Return the folder with eprstmt and tnews."""
    return real_data("fewclue")


SCORES = ("5.0", "3.8")
# First digits of the digests of real files. QQP and MNLI are samples. If one changes, stored seed
# runs on the task are no longer found.
PINNED = {
    "cola": "ffcdce05953f7aef",
    "sst2": "ff9e5f5450793016",
    "mrpc": "797b86968826787a",
    "rte": "30ef37c6d45c8938",
    "wnli": "6fd883b19acfe7ea",
    "qqp": "69eb9d5b22d26950",
    "mnli": "1664b83e884e9299",
    "mnli-mm": "c1828c0cdc7d3ab5",
    "stsb": "9bf06b5e026f44b3",
    "eprstmt": "fa741db42c8dd69e",
    "fewclue-tnews": "d587efb3924c62ea",
}


def json_lines(*records: Mapping[str, object]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\r\n" for record in records)


def write_splits(name: str, folder: Path, train: str, others: str) -> str:
    """Write the text of the training rows, and that of every other split; return the folder."""
    below = folder / CORPORA[name].folder
    below.mkdir(parents=True, exist_ok=True)
    for split, file in CORPORA[name].files.items():
        (below / file).write_text(train if split == "train" else others, encoding="utf-8")
    return str(below)


def rows_of(corpus: Corpus, split: str) -> list[tuple[str, ...]]:
    """Return a row of each class, or two rows with scores; the label is last."""
    texts = range(len(corpus.columns) - 1)
    labels = corpus.classes or SCORES
    return [(*(f"{split} {label} {n} " for n in texts), label) for label in labels]


def write_files(corpus: Corpus, folder: Path) -> None:
    (folder / corpus.folder).mkdir(parents=True)
    for split, name in corpus.files.items():
        records = [dict(zip(corpus.columns, row, strict=True)) for row in rows_of(corpus, split)]
        with (folder / corpus.folder / name).open("w", encoding="utf-8", newline="") as file:
            if ".json" in name:
                file.write(json_lines(*({"id": 7, **record} for record in records)))
                continue
            columns = corpus.header or ("index", *corpus.columns[::-1])
            writer = csv.DictWriter(file, columns, delimiter="\t" if ".tsv" in name else ",")
            if corpus.header is None:
                writer.writeheader()
            writer.writerows(records)


def hub_splits(corpus: Corpus, hub: Hub) -> dict[str, Dataset]:
    """Return the same rows as data sets of the hub."""
    names = (hub.as_written and corpus.written) or corpus.task.labels
    label = ClassLabel(names=list(names)) if names else Value("float32")
    splits = {}
    for split in corpus.files:
        *columns, labels = zip(*rows_of(corpus, split), strict=True)
        texts = dict(zip(hub.columns, columns, strict=True))
        features = Features({"label": label, **dict.fromkeys(texts, Value("string"))})
        rows = {"label": [*range(len(labels))] if names else [*map(float, labels)], **texts}
        splits[hub.splits.get(split, split)] = Dataset.from_dict(rows, features=features)
    return splits


@pytest.mark.parametrize("name", CORPORA)
def test_files_and_hub_give_texts_and_labels_in_their_order(name: str, tmp_path: Path) -> None:
    corpus = CORPORA[name]
    METRICS[corpus.task.metric].check(len(corpus.task.labels), name)
    with pytest.raises(SclsearchError) as raised:
        load_task(name, tmp_path)
    *missing, instructions = str(raised.value).splitlines()
    paths = [tmp_path / corpus.folder / file for file in corpus.files.values()]
    assert missing == [f"{path}: the file is missing." for path in paths]
    assert corpus.origin in instructions
    write_files(corpus, tmp_path)
    loaded = load_task(name, tmp_path)
    assert (loaded.task, loaded.source) == (corpus.task, str(tmp_path / corpus.folder))
    assert tuple(loaded.splits) == tuple(corpus.files)
    for split, rows in loaded.splits.items():
        expected = range(len(corpus.task.labels)) if corpus.classes else map(float, SCORES)
        assert rows.y.tolist() == list(expected)
        written = [tuple(text.strip() for text in row[:-1]) for row in rows_of(corpus, split)]
        joined = [(" ".join(row),) for row in written]
        assert list(rows.texts) == (joined if corpus.joined else written)
    if corpus.hub is not None:
        fetched = from_hub(corpus, corpus.hub, hub_splits(corpus, corpus.hub))
        assert fetched.digest == loaded.digest
        assert fetched.source == f"{corpus.hub.repository} at {str(corpus.hub.revision)[:8]}"


@pytest.mark.parametrize("name", PINNED)
def test_the_rows_of_real_files_are_pinned(
    name: str, glue: Path, fewclue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = CORPORA[name]
    folder = glue if (glue / corpus.folder).is_dir() else fewclue
    monkeypatch.setenv("SCLSEARCH_DATA", str(folder))
    assert load_task(name).digest[:16] == PINNED[name]
    monkeypatch.setenv("SCLSEARCH_DATA", str(tmp_path))
    assert load_task(name, folder).source.startswith(str(folder / corpus.folder))


def test_classes_of_dbpedia_have_the_names_of_its_file(glue: Path, tmp_path: Path) -> None:
    dbpedia = glue.parent / "dbpedia_14"
    (tmp_path / "dbpedia_csv").mkdir()
    for name, there in {"train": "train.csv", "test": "dev.csv"}.items():
        (tmp_path / f"dbpedia_csv/{name}.csv").symlink_to(dbpedia / there)
    loaded = load_task("dbpedia", tmp_path)
    classes = (dbpedia / "classes.txt").read_text().split()
    assert list(loaded.task.labels) == classes
    assert np.bincount(loaded.splits["train"].y).tolist() == [79] * 14


UNDECIDED = json_lines({"sentence1": "一", "sentence2": "二", "label": "-"})
DECIDED = UNDECIDED.replace('"-"', '"neutral"')
GOOD = json_lines({"sentence": "好", "label": "Positive"})
BAD = json_lines({"sentence": "坏", "label": "Negative"})
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
QUESTIONS = f"{QQP}0\t1\t2\tWhy?\tHow?\t1\n2\t5\t6\t\tWhat?\t0\n"
HEADLINES = json_lines(
    {"label": "102", "label_des": "news_entertainment", "sentence": "甜甜圈自拍"},
    {"label": 110, "sentence": "传统\u2028武术 ", "keywords": "武术"},
    {"label": "100", "sentence": ""},
)


@pytest.mark.parametrize(
    ("name", "usable", "dropped", "y", "note"),
    [
        ("qqp", QUESTIONS, "1\t3\t4\tWho\n\tshe?\t0\n", [1, 0], "; 2 broken lines of train.tsv"),
        ("ocnli", DECIDED, UNDECIDED, [0], "; 1 rows of train.50k.json labeled '-' left out"),
        ("eprstmt", GOOD + BAD, GOOD, [1, 0], "; 1 texts of train_few_all.json that come again"),
        ("tnews", HEADLINES, "", [2, 9, 0], ""),
    ],
)
def test_only_unusable_rows_are_dropped_and_they_are_counted(
    name: str, usable: str, dropped: str, y: list[int], note: str, tmp_path: Path
) -> None:
    folder = write_splits(name, tmp_path, usable + dropped, usable)
    loaded = load_task(name, tmp_path)
    assert loaded.splits["train"].texts == loaded.splits["validation"].texts
    assert loaded.splits["train"].y.tolist() == y
    assert loaded.source.startswith(f"{folder}{note}")
    assert loaded.source.count("left out") == bool(note)


def test_titles_are_joined_to_texts_and_only_reviews_are_unescaped(tmp_path: Path) -> None:
    rows = '"2","Great CD "," My ""lovely"" Pat\\nsings"\n"1","","Poor"\n"2","",""\n'
    for name, end in (("amazon2", "\nsings"), ("dbpedia", "\\nsings")):
        write_splits(name, tmp_path, rows, rows)
        train = load_task(name, tmp_path).splits["train"]
        assert train.texts == ((f'Great CD My "lovely" Pat{end}',), ("Poor",), ("",))
    for written in (r"He said \"yes\".\n\nFine. ", r'He said \""yes\"".\n\nFine.'):
        assert CORPORA["yelp2"].texts((written,)) == ('He said "yes".\n\nFine.',)


DEMO_DIGEST = "e4a362c9a35dea046f3b4fd587f390a7017363a1a781ff5cc02926f128fde915"


def test_the_demo_is_balanced_and_has_the_pinned_rows_of_its_generator() -> None:
    demo = load_task("demo")
    assert demo.digest == DEMO_DIGEST
    counts = {name: np.bincount(split.y).tolist() for name, split in demo.splits.items()}
    assert counts == {"train": [1000, 1000], "validation": [250, 250], "test": [250, 250]}
    assert gzip.decompress(TARGET.read_bytes()) == content()


COLA = CORPORA["cola"]
assert COLA.hub is not None
HUB = COLA.hub


def tiny(labels: Mapping[str, list[int]], *names: str) -> dict[str, Dataset]:
    label = ClassLabel(names=names or ["unacceptable", "acceptable"])
    features = Features({"sentence": Value("string"), "label": label})
    return {
        split: Dataset.from_dict({"sentence": ["a"] * len(y), "label": y}, features=features)
        for split, y in labels.items()
    }


def test_labels_in_another_order_or_without_a_value_are_refused() -> None:
    with pytest.raises(SclsearchError, match=r"cola: train: .*\['unacceptable', 'acceptable'\]"):
        from_hub(COLA, HUB, tiny({"train": [0]}, "acceptable", "unacceptable"))
    with pytest.raises(SclsearchError, match="cola: validation: 2 rows have no label"):
        from_hub(COLA, HUB, tiny({"train": [0, 1], "validation": [-1, 0, -1]}))


def test_a_hub_data_set_becomes_a_custom_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task: Any = "hf:me/mine/part@v1"
    with pytest.raises(SclsearchError, match=r"^me/mine: hf:me/mine/part@v1 is neither on the hub"):
        as_task(task)
    rows = tiny({"train": [0, 1] * 9, "dev": [1, 0], "test": [-1]}, "no", "yes")
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
    for name in ("hf:", "hf:../../mine"):
        with pytest.raises(SclsearchError, match=rf"^--task {name}: must be hf:owner/name, "):
            load_task(name)
    Path("me/mine").mkdir(parents=True)
    with pytest.raises(SclsearchError, match=r"^me/mine: .* but a folder here has its name"):
        load_task("hf:me/mine")


def test_the_source_names_the_revision_that_the_cache_has(tmp_path: Path) -> None:
    found = tiny({"train": [0], "validation": [1], "test": [-1]})
    for split, rows in found.items():
        rows.save_to_disk(tmp_path / split / "fedcba9876")
        found[split] = Dataset.load_from_disk(tmp_path / split / "fedcba9876")
    loaded = from_hub(COLA, HUB, found)
    assert {*loaded.splits} == {"train", "validation"}
    assert loaded.source.startswith(f"{HUB.repository} at fedcba98, ")


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
