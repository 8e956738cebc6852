"""Tests of the corpora: files, hub data sets, pinned rows and errors."""

import csv
import json
import sys
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Value

from sclsearch.errors import SclsearchError
from sclsearch.tasks import CORPORA, load_task
from sclsearch.tasks.corpus import Corpus, from_hub, load_corpora, load_corpus

SCORES = ("5.0", "3.8")
# Rows of each class, by split; QQP and MNLI are samples.
COUNTS = {
    "cola": {"train": [2528, 6023], "validation": [322, 721]},
    "sst2": {"train": [29780, 37569], "validation": [428, 444]},
    "mrpc": {"train": [1194, 2474], "validation": [129, 279]},
    "rte": {"train": [1249, 1241], "validation": [146, 131]},
    "wnli": {"train": [323, 312], "validation": [40, 31]},
    "qqp": {"train": [5747, 3252], "validation": [623, 377]},
    "mnli": {
        "train": [3061, 2980, 2958],
        "validation": [373, 311, 316],
        "validation_mismatched": [346, 319, 335],
    },
    "mnli-mm": {
        "train": [3061, 2980, 2958],
        "validation": [373, 311, 316],
        "test": [346, 319, 335],
    },
}
# If these digests change, stored seed runs on the two tasks are no longer found.
RTE = "30ef37c6d45c8938c3ef212153d34a68088a46fe7954e232fa0632381757ac05"
EPRSTMT = "fa741db42c8dd69efec1a3a4834f005d450fdb813776c3e6daa8f51ca00df116"


def write(folder: Path, files: Mapping[str, str]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    return folder


def json_lines(*records: Mapping[str, object]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\r\n" for record in records)


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
            separator = "\t" if name.endswith(".tsv") else ","
            writer = csv.DictWriter(file, columns, delimiter=separator, lineterminator="\n")
            if corpus.header is None:
                writer.writeheader()
            writer.writerows(records)


@pytest.mark.parametrize("name", CORPORA)
def test_texts_and_labels_are_read_in_their_order(name: str, tmp_path: Path) -> None:
    corpus = CORPORA[name]
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


@pytest.mark.parametrize("name", [name for name in CORPORA if CORPORA[name].hub])
def test_the_hub_gives_the_rows_of_the_files(name: str, tmp_path: Path) -> None:
    corpus = CORPORA[name]
    write_files(corpus, tmp_path)
    hub = corpus.hub
    assert hub is not None
    names = (hub.as_written and corpus.written) or corpus.task.labels
    label = ClassLabel(names=list(names)) if names else Value("float32")
    splits = {}
    for split in corpus.files:
        *columns, labels = zip(*rows_of(corpus, split), strict=True)
        texts = dict(zip(hub.columns, columns, strict=True))
        features = Features({"label": label, **dict.fromkeys(texts, Value("string"))})
        y = [*range(len(labels))] if names else [*map(float, labels)]
        content = {"label": y, **texts}
        splits[hub.splits.get(split, split)] = Dataset.from_dict(content, features=features)
    loaded = from_hub(corpus, hub, splits)
    assert loaded.digest == load_corpus(corpus, tmp_path).digest
    assert loaded.source == f"{hub.repository} at {str(hub.revision)[:8]}"


@pytest.mark.parametrize("name", CORPORA)
def test_missing_files_are_listed_with_download_instructions(name: str, tmp_path: Path) -> None:
    corpus = CORPORA[name]
    with pytest.raises(SclsearchError) as raised:
        load_task(name, tmp_path)
    *missing, instructions = str(raised.value).splitlines()
    for line, file in zip(missing, corpus.files.values(), strict=True):
        assert line == f"{tmp_path / corpus.folder / file}: the file is missing."
        assert f"FOLDER/{corpus.folder}/{file}" in instructions
    assert corpus.origin in instructions
    assert ("from the hub" in instructions) == (corpus.hub is not None)


@pytest.mark.parametrize("name", COUNTS)
def test_every_row_of_glue_is_read(glue: Path, name: str) -> None:
    loaded = load_task(name, glue)
    counts = {split: np.bincount(rows.y).tolist() for split, rows in loaded.splits.items()}
    assert counts == COUNTS[name]
    assert name != "rte" or loaded.digest == RTE
    for rows in loaded.splits.values():
        assert {len(texts) for texts in rows.texts} == {1 + CORPORA[name].task.pair}
        assert all(text and text == text.rstrip() for texts in rows.texts for text in texts)


def test_every_score_of_stsb_is_read(glue: Path) -> None:
    splits = load_task("stsb", glue).splits
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 5749, "validation": 1500}
    assert splits["train"].y[:2].tolist() == [5.0, 3.8]
    assert splits["train"].y.mean() == pytest.approx(2.701, abs=5e-4)
    assert splits["validation"].y.mean() == pytest.approx(2.364, abs=5e-4)


def test_every_invalid_label_of_a_file_is_reported_with_its_row(tmp_path: Path) -> None:
    header = "index\tsentence1\tsentence2\tlabel\n"
    train = f"{header}0\ta\tb\tneutral\n1\ta\tb\n2\ta\t \tentailment\n3\ta\tb\t\n"
    files = {"dev.tsv": f"{header}0\ta\tb\tentailment\n", "train.tsv": train}
    file = write(tmp_path / "RTE", files) / "train.tsv"
    with pytest.raises(SclsearchError) as raised:
        load_task("rte", tmp_path)
    assert str(raised.value).splitlines() == [
        f"{file}: row 1: the label must be one of entailment, not_entailment, got 'neutral'",
        f"{file}: row 2: the label must be one of entailment, not_entailment, got ''",
        f"{file}: row 3: a text is empty",
        f"{file}: row 4: the label must be one of entailment, not_entailment, got ''",
    ]


QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
PAIRS = "sentence1\tsentence2\tscore\n"
PREMISE = json_lines({"sentence1": " ", "sentence2": "二", "label": "neutral"})
UNDECIDED = json_lines({"sentence1": "一", "sentence2": "二", "label": "-"})


@pytest.mark.parametrize(
    ("name", "train", "fault"),
    [
        ("stsb", f"{PAIRS}a\tb\tnan\na\tb\thigh\n", r"row 1: .*'nan'\n.*row 2: .*'high'"),
        ("tnews", "", "no column is called 'sentence'"),
        ("qqp", QQP + "0\t1\t2\tWhy?\n" * 11 + "0\t1\t2\ta\tb\t0\n", "11 faults in all"),
        ("ocnli", PREMISE, "row 1: a text is empty"),
        ("afqmc", UNDECIDED, "row 1: the label must be one of 0, 1, got '-'"),
    ],
)
def test_invalid_training_rows_are_refused(
    name: str, train: str, fault: str, tmp_path: Path
) -> None:
    corpus = CORPORA[name]
    write(tmp_path / corpus.folder, dict.fromkeys(corpus.files.values(), train))
    with pytest.raises(SclsearchError, match=rf"{corpus.files['train']}: {fault}"):
        load_task(name, tmp_path)


def test_broken_lines_of_qqp_are_dropped_and_counted(tmp_path: Path) -> None:
    train = f"{QQP}0\t1\t2\tWhy?\tHow?\t1\n1\t3\t4\tWho was\n\tshe?\t0\n2\t5\t6\t\tWhat?\t0\n"
    dev = f"{QQP}0\t1\t2\tWhy?\tWhy not?\t0\n"
    write(tmp_path / "QQP", {"train.tsv": train, "dev.tsv": dev})
    loaded = load_task("qqp", tmp_path)
    assert loaded.splits["train"].texts == (("Why?", "How?"), ("", "What?"))
    assert loaded.source.endswith("QQP; 2 broken lines of train.tsv left out")


def test_undecided_rows_of_ocnli_are_dropped_and_counted(glue: Path, tmp_path: Path) -> None:
    real, folder = glue.parent / "clue" / "OCNLI", tmp_path / "ocnli_public"
    folder.mkdir()
    # The real folder has only a sample of the training rows.
    (folder / "train.50k.json").symlink_to(real / "train.10k.json")
    (folder / "dev.json").symlink_to(real / "dev.json")
    loaded = load_task("ocnli", tmp_path)
    assert loaded.task.labels == ("neutral", "entailment", "contradiction")
    assert len(loaded.splits["train"]) == 9985
    assert np.bincount(loaded.splits["validation"].y).tolist() == [1103, 947, 900]
    assert loaded.source == (
        f"{folder}; 15 rows of train.50k.json labeled '-' left out; "
        "50 rows of dev.json labeled '-' left out"
    )


def test_tnews_accepts_numeric_labels_extra_keys_and_empty_headlines(tmp_path: Path) -> None:
    content = json_lines(
        {"label": "102", "label_des": "news_entertainment", "sentence": "甜甜圈自拍"},
        {"label": 110, "sentence": "传统\u2028武术 ", "keywords": "武术"},
        {"label": "100", "sentence": ""},
    )
    write(tmp_path / "tnews_public", dict.fromkeys(("train.json", "dev.json"), content))
    loaded = load_task("tnews", tmp_path)
    rows = loaded.splits["train"]
    assert rows.texts == (("甜甜圈自拍",), ("传统\u2028武术",), ("",))
    names = [loaded.task.labels[y] for y in rows.y]
    assert names == ["news_entertainment", "news_military", "news_story"]


def test_the_classes_of_iflytek_have_their_official_numbers() -> None:
    apps = CORPORA["iflytek"].task.labels
    assert len(set(apps)) == len(apps) == 119
    known = {0: "打车", 3: "租车", 34: "新闻", 61: "语言(非英语)", 99: "银行", 110: "社区超市"}
    assert {n: apps[n] for n in known} == known
    assert apps[115:] == ("女性", "经营", "收款", "其他")


def test_every_text_of_eprstmt_is_read_once_and_pinned(fewclue: Path) -> None:
    loaded = load_task("eprstmt", fewclue)
    counts = {name: np.bincount(rows.y).tolist() for name, rows in loaded.splits.items()}
    assert counts == {"train": [63, 68], "validation": [71, 64], "test": [305, 305]}
    assert loaded.digest == EPRSTMT
    assert loaded.source == (
        f"{fewclue / 'eprstmt'}; 29 texts of train_few_all.json that come again left out; 25 texts "
        "of dev_few_all.json that come again left out"
    )


def test_every_row_of_fewclue_tnews_is_read_with_its_topic(fewclue: Path) -> None:
    loaded = load_task("fewclue-tnews", fewclue)
    sizes = {name: len(rows) for name, rows in loaded.splits.items()}
    assert sizes == {"train": 1185, "validation": 1098, "test": 2010}
    lines = (fewclue / "tnews" / "test_public.json").read_text("utf-8").split("\n")
    records = [json.loads(line) for line in lines if line]
    names = {str(record["label"]): record["label_desc"] for record in records}
    for corpus in (CORPORA["tnews"], CORPORA["fewclue-tnews"]):
        assert dict(zip(corpus.written, corpus.task.labels, strict=True)) == names
    topics = [loaded.task.labels[y] for y in loaded.splits["test"].y]
    assert topics == [record["label_desc"] for record in records]


def test_articles_of_dbpedia_are_read_with_their_classes(glue: Path, dbpedia: Path) -> None:
    loaded = load_task("dbpedia", dbpedia)
    classes = (glue.parent / "dbpedia_14" / "classes.txt").read_text().split()
    assert list(loaded.task.labels) == classes
    assert [np.bincount(rows.y).tolist() for rows in loaded.splits.values()] == [[79] * 14] * 2
    assert loaded.splits["train"].texts[0][0].startswith("Transweb Educational Services founded")


@pytest.mark.parametrize("written", [r"He said \"yes\".\n\nFine. ", r'He said \""yes\"".\n\nFine.'])
def test_escaped_line_ends_and_quotes_of_reviews_are_unescaped(written: str) -> None:
    assert CORPORA["yelp2"].texts((written,)) == ('He said "yes".\n\nFine.',)


def test_titles_are_joined_to_texts_and_only_reviews_are_unescaped(tmp_path: Path) -> None:
    content = (
        '"2","Great CD "," My ""lovely"" Pat\\nsings"\n"1","","Poor"\n"1","Poor",""\n"2","",""\n'
    )
    texts = {
        "amazon2": ('Great CD My "lovely" Pat\nsings', "Poor", "Poor", ""),
        "dbpedia": ('Great CD My "lovely" Pat\\nsings', "Poor", "Poor", ""),
    }
    for name, expected in texts.items():
        write(tmp_path / CORPORA[name].folder, dict.fromkeys(("train.csv", "test.csv"), content))
        rows = load_task(name, tmp_path).splits["train"]
        assert rows.texts == tuple((text,) for text in expected)
        assert rows.y.tolist() == [1, 0, 0, 1]


def test_loading_takes_little_more_memory_than_two_copies_of_the_texts(tmp_path: Path) -> None:
    folder = tmp_path / "amazon_review_polarity_csv"
    folder.mkdir()
    for name, rows in (("train.csv", 10_000), ("test.csv", 2)):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            review = "a “quoted” word and some more of them " * 10
            csv.writer(file).writerows((1 + n % 2, f"title {n}", review) for n in range(rows))
    tracemalloc.start()
    loaded = load_task("amazon2", tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    texts = sum(sys.getsizeof(text) for (text,) in loaded.splits["train"].texts)
    assert peak < 2.5 * texts


def test_an_unknown_key_of_a_corpus_is_refused() -> None:
    toml = '[one]\ncolums = ["text", "label"]\ntasks.mood = {}\n'
    with pytest.raises(ValueError, match=r"corpora\.toml: mood: unknown keys: colums"):
        load_corpora(toml)
