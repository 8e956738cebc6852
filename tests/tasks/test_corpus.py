"""Every corpus reads its published layout, from files and from the hub alike."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from datasets import ClassLabel, Dataset, Features, Value

from sclsearch.errors import SclsearchError
from sclsearch.tasks import CORPORA, load_task
from sclsearch.tasks.corpus import Corpus, load_corpus
from sclsearch.tasks.glue import GLUE
from sclsearch.tasks.hub import convert

NAMES = [name for name in CORPORA if name not in GLUE]
ON_THE_HUB = [name for name in NAMES if CORPORA[name].hub]


def rows_of(corpus: Corpus, split: str) -> list[tuple[str, ...]]:
    """Returns a row of each class, its label as the files write it last."""
    texts = range(len(corpus.columns) - 1)
    return [(*(f"{split} {label} {n} " for n in texts), label) for label in corpus.classes or ()]


def write_files(corpus: Corpus, folder: Path) -> None:
    (folder / corpus.folder).mkdir(parents=True)
    for split, name in corpus.files.items():
        with (folder / corpus.folder / name).open("w", encoding="utf-8", newline="") as file:
            for *texts, label in rows_of(corpus, split):
                if name.endswith(".csv"):
                    csv.writer(file, quoting=csv.QUOTE_ALL).writerow([label, *texts])
                else:
                    record = dict(zip(corpus.columns, (*texts, label), strict=True))
                    file.write(json.dumps({"id": 7, **record}, ensure_ascii=False) + "\r\n")


def on_the_hub(corpus: Corpus) -> Mapping[str, Dataset]:
    assert corpus.hub is not None
    label = ClassLabel(names=list(corpus.hub.names or corpus.task.labels))
    found = {}
    for split in corpus.files:
        rows = rows_of(corpus, split)
        *columns, _ = zip(*rows, strict=True)
        texts = dict(zip(corpus.hub.columns, columns, strict=True))
        features = Features({"label": label, **dict.fromkeys(texts, Value("string"))})
        found[split] = Dataset.from_dict({"label": [*range(len(rows))], **texts}, features=features)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_label_is_read_in_its_order(name: str, tmp_path: Path) -> None:
    corpus = CORPORA[name]
    write_files(corpus, tmp_path)
    loaded = load_task(name, tmp_path)
    assert loaded.task is corpus.task
    assert loaded.source == str(tmp_path / corpus.folder)
    assert tuple(loaded.splits) == tuple(corpus.files)
    for rows in loaded.splits.values():
        assert rows.y.tolist() == list(range(len(corpus.task.labels)))
        assert {len(texts) for texts in rows.texts} == {1 + corpus.task.pair}
        assert all(text == text.strip() for texts in rows.texts for text in texts)


@pytest.mark.parametrize("name", ON_THE_HUB)
def test_the_hub_gives_the_rows_of_the_files(name: str, tmp_path: Path) -> None:
    corpus = CORPORA[name]
    write_files(corpus, tmp_path)
    found = convert(corpus, on_the_hub(corpus))
    assert found.digest == load_corpus(corpus, tmp_path).digest
    assert corpus.hub is not None
    assert found.source == f"{corpus.hub.repository} at {corpus.hub.revision[:8]}"


@pytest.mark.parametrize("name", NAMES)
def test_missing_files_are_named_with_what_to_download_and_where_to(
    name: str, tmp_path: Path
) -> None:
    corpus = CORPORA[name]
    with pytest.raises(SclsearchError) as raised:
        load_task(name, tmp_path)
    *missing, ways = str(raised.value).splitlines()
    for line, file in zip(missing, corpus.files.values(), strict=True):
        assert line == f"{tmp_path / corpus.folder / file}: the file must be there, but it is not."
        assert f"FOLDER/{corpus.folder}/{file}" in ways
    assert corpus.origin in ways
    assert ("Hugging Face hub" in ways) == (corpus.hub is not None)


@pytest.mark.parametrize("name", NAMES)
def test_a_label_that_is_none_is_told_with_its_line(name: str, tmp_path: Path) -> None:
    corpus = CORPORA[name]
    write_files(corpus, tmp_path)
    path = tmp_path / corpus.folder / corpus.files["train"]
    label = rows_of(corpus, "train")[0][-1]
    path.write_text(path.read_text("utf-8").replace(f'"{label}"', '"nonsense"', 1), "utf-8")
    with pytest.raises(SclsearchError, match=r"line 1: the label must be one of .*'nonsense'"):
        load_task(name, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_without_rows_is_refused(name: str, tmp_path: Path) -> None:
    write_files(CORPORA[name], tmp_path)
    (tmp_path / CORPORA[name].folder / CORPORA[name].files["train"]).write_text("")
    with pytest.raises(SclsearchError, match="rows must be there, but there are none"):
        load_task(name, tmp_path)
