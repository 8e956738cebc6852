"""CLUE's labels are the official ones, and undecided rows are left out and told."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.tasks import load_task
from sclsearch.tasks.clue import APPS, CLUE, TOPICS


def write(folder: Path, **files: list[dict[str, object]]) -> None:
    folder.mkdir()
    for name, records in files.items():
        lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (folder / f"{name}.json").write_text(lines, encoding="utf-8")


def test_undecided_rows_of_ocnli_are_left_out_and_told(glue: Path, tmp_path: Path) -> None:
    real, folder = glue.parent / "clue" / "OCNLI", tmp_path / "ocnli_public"
    folder.mkdir()
    # The real folder has a sample of the training rows alone.
    shutil.copy(real / "train.10k.json", folder / "train.50k.json")
    shutil.copy(real / "dev.json", folder)
    loaded = load_task("ocnli", tmp_path)
    assert {name: len(rows) for name, rows in loaded.splits.items()} == {
        "train": 9985,
        "validation": 2950,
    }
    counts = np.bincount(loaded.splits["validation"].y).tolist()
    assert dict(zip(loaded.task.labels, counts, strict=True)) == {
        "neutral": 1103,
        "entailment": 947,
        "contradiction": 900,
    }
    assert loaded.source == (
        f"{folder}; 15 rows of train.50k.json labelled '-' left out; "
        "50 rows of dev.json labelled '-' left out"
    )


def test_no_other_task_has_undecided_rows(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"sentence1": "一", "sentence2": "二", "label": "-"}]
    write(tmp_path / "afqmc_public", train=rows, dev=rows)
    with pytest.raises(SclsearchError, match="the label must be one of 0, 1, but it is '-'"):
        load_task("afqmc", tmp_path)


def test_the_topics_of_tnews_are_named_as_its_files_name_them(glue: Path) -> None:
    file = glue.parent / "fewclue" / "tnews" / "test_public.json"
    records = [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]
    assert {str(record["label"]): record["label_desc"] for record in records} == TOPICS


def test_labels_may_be_numbers_and_other_keys_are_passed_over(tmp_path: Path) -> None:
    train: list[dict[str, object]] = [
        {
            "label": "102",
            "label_des": "news_entertainment",
            "sentence": "甜甜圈自拍",
            "keywords": "",
        },
        {
            "label": 110,
            "label_des": "news_military",
            "sentence": "传统\u2028武术 ",
            "keywords": "武术",
        },
    ]
    write(tmp_path / "tnews_public", train=train, dev=train[:1])
    rows = load_task("tnews", tmp_path).splits["train"]
    assert rows.texts == (("甜甜圈自拍",), ("传统\u2028武术",))
    assert [CLUE["tnews"].task.labels[y] for y in rows.y] == ["news_entertainment", "news_military"]


def test_the_119_kinds_of_iflytek_stand_at_their_numbers() -> None:
    assert len(set(APPS)) == len(APPS) == 119
    known = {0: "打车", 3: "租车", 34: "新闻", 61: "语言(非英语)", 99: "银行", 110: "社区超市"}
    assert {n: APPS[n] for n in known} == known
    assert APPS[115:] == ("女性", "经营", "收款", "其他")


def test_an_empty_headline_is_taken(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"sentence": "", "label": "100"}]
    write(tmp_path / "tnews_public", train=rows, dev=rows)
    assert load_task("tnews", tmp_path).splits["train"].texts == (("",),)


def test_an_empty_premise_of_ocnli_is_refused(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"sentence1": " ", "sentence2": "二", "label": "neutral"}]
    write(tmp_path / "ocnli_public", **{"train.50k": rows, "dev": rows})
    with pytest.raises(SclsearchError, match="line 1: every text must hold something"):
        load_task("ocnli", tmp_path)
