"""GLUE's own files load whole: every row, every label; what is broken is named by its line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.tasks import load_task
from sclsearch.tasks.glue import GLUE

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
Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: str) -> None:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(content, encoding="utf-8")

    return write


@pytest.mark.parametrize("name", COUNTS)
def test_every_row_and_label_is_read(glue: Path, name: str) -> None:
    loaded = load_task(name, glue)
    counts = {split: np.bincount(rows.y).tolist() for split, rows in loaded.splits.items()}
    assert counts == COUNTS[name]
    for rows in loaded.splits.values():
        assert len(rows.texts) == len(rows.y)
        assert {len(texts) for texts in rows.texts} == {1 + GLUE[name].task.pair}
        assert all(text and text == text.rstrip() for texts in rows.texts for text in texts)


def test_scores_are_read_as_they_are_written(glue: Path) -> None:
    splits = load_task("stsb", glue).splits
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 5749, "validation": 1500}
    assert splits["train"].y[:2].tolist() == [5.0, 3.8]
    assert splits["train"].y.mean() == pytest.approx(2.701, abs=5e-4)
    assert splits["validation"].y.mean() == pytest.approx(2.364, abs=5e-4)


def test_quotes_and_marks_of_the_real_files_stay_in_the_texts(glue: Path) -> None:
    rows = load_task("mrpc", glue).splits["validation"]
    assert rows.texts[0] == (
        "He said the foodservice pie business doesn 't fit the company 's "
        "long-term growth strategy .",
        '" The foodservice pie business does not fit our long-term growth strategy .',
    )


def test_qnli_takes_the_question_first(write: Write, tmp_path: Path) -> None:
    header = "index\tquestion\tsentence\tlabel\n"
    write(
        "QNLI/train.tsv",
        f"{header}0\tWho?\tShe did.\tentailment\n1\tWhy?\tIn May.\tnot_entailment\n",
    )
    write("QNLI/dev.tsv", f"{header}0\tWhen?\tIn May.\tentailment\n")
    splits = load_task("qnli", tmp_path).splits
    assert splits["train"].texts == (("Who?", "She did."), ("Why?", "In May."))
    assert splits["train"].y.tolist() == [0, 1]
    assert splits["validation"].y.tolist() == [0]


def test_every_kind_of_fault_is_told_with_its_line(write: Write, tmp_path: Path) -> None:
    header = "index\tsentence1\tsentence2\tlabel\n"
    write("RTE/dev.tsv", f"{header}0\ta\tb\tentailment\n")
    write("RTE/train.tsv", f"{header}0\ta\tb\tneutral\n1\ta\tb\n2\ta\t \tentailment\n3\ta\tb\t\n")
    with pytest.raises(SclsearchError) as raised:
        load_task("rte", tmp_path)
    file = tmp_path / "RTE" / "train.tsv"
    assert str(raised.value).splitlines() == [
        f"{file}: line 2: the label must be one of entailment, not_entailment, but it is 'neutral'",
        f"{file}: line 3: 4 columns must be there, but there are 3",
        f"{file}: line 4: every text must hold something, but one is empty",
        f"{file}: line 5: the label must be there, but it is empty",
    ]


def test_a_score_that_is_no_number_is_refused(write: Write, tmp_path: Path) -> None:
    write("STS-B/dev.tsv", "sentence1\tsentence2\tscore\na\tb\t1.0\n")
    write("STS-B/train.tsv", "sentence1\tsentence2\tscore\na\tb\tnan\na\tb\thigh\n")
    with pytest.raises(SclsearchError, match=r"line 2: .*number, but it is 'nan'\n.*'high'"):
        load_task("stsb", tmp_path)


def test_cola_without_its_four_columns_is_refused(write: Write, tmp_path: Path) -> None:
    write("CoLA/dev.tsv", "gj04\t1\t\tFine.\n")
    write("CoLA/train.tsv", "index\tsentence\n0\tFine.\n")
    with pytest.raises(SclsearchError, match="line 1: 4 columns must be there, but there are 2"):
        load_task("cola", tmp_path)


def test_a_file_with_a_header_alone_is_refused(write: Write, tmp_path: Path) -> None:
    write("SST-2/train.tsv", "sentence\tlabel\n")
    write("SST-2/dev.tsv", "sentence\tlabel\nfine \t1\n")
    with pytest.raises(SclsearchError, match=r"train\.tsv: rows must be there, but there are none"):
        load_task("sst2", tmp_path)


def test_the_few_broken_lines_of_qqp_are_left_out_and_told(write: Write, tmp_path: Path) -> None:
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    write("QQP/dev.tsv", f"{header}0\t1\t2\tWhy?\tWhy not?\t0\n")
    write(
        "QQP/train.tsv",
        f"{header}0\t1\t2\tWhy?\tHow come?\t1\n1\t3\t4\tWho was\n\tshe?\t0\n2\t5\t6\t\tWhat?\t0\n",
    )
    loaded = load_task("qqp", tmp_path)
    assert loaded.splits["train"].texts == (("Why?", "How come?"), ("", "What?"))
    assert loaded.source.endswith("QQP; 2 broken lines of train.tsv left out")


def test_many_broken_lines_are_refused_even_in_qqp(write: Write, tmp_path: Path) -> None:
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    write("QQP/dev.tsv", f"{header}0\t1\t2\tWhy?\tWhy not?\t0\n")
    write("QQP/train.tsv", header + "0\t1\t2\tWhy?\n" * 11 + "0\t1\t2\tWhy?\tWhy not?\t0\n")
    with pytest.raises(SclsearchError, match="11 faults in all"):
        load_task("qqp", tmp_path)


def test_missing_files_are_named_with_both_ways_to_the_rows(tmp_path: Path) -> None:
    with pytest.raises(SclsearchError) as raised:
        load_task("mnli", tmp_path)
    message = str(raised.value)
    for file in ("train.tsv", "dev_matched.tsv", "dev_mismatched.tsv"):
        assert f"{tmp_path / 'MNLI' / file}: the file must be there" in message
    assert "--data-dir FOLDER" in message
    assert "Hugging Face hub" in message


@pytest.mark.parametrize("name", GLUE)
def test_a_literal_is_complete(name: str) -> None:
    glue = GLUE[name]
    assert len(glue.columns) == 2 + glue.task.pair
    assert glue.hub is not None
    assert len(glue.hub.columns) == 1 + glue.task.pair
    assert {"train", "validation"} <= set(glue.files)
