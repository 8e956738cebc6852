"""Tests of tasks from the user's files: splits, labels, notes and errors."""

import csv
import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.tasks import as_task
from sclsearch.tasks.base import Split
from sclsearch.tasks.custom import CustomTask, as_options
from sclsearch.tasks.own_rows import load_custom_task

HEADER = "text,label\n"
BALANCED = HEADER + "".join(f"row {n},{'pos' if n % 2 else 'neg'}\n" for n in range(40))
SCORES = HEADER + "".join(f"row {n},{n / 4}\n" for n in range(40))
MANY = HEADER + "".join(f"row,{n:02}\n" for n in range(30))


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CustomTask:
    """Return a task of 40 rows in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "reviews.csv"
    path.write_text(BALANCED)
    return CustomTask(path, ("text",), "label")


def sizes(splits: Mapping[str, Split]) -> dict[str, int]:
    return {name: len(split) for name, split in splits.items()}


def test_a_single_file_is_drawn_into_stratified_splits(own: CustomTask) -> None:
    packed = own.path.with_name("reviews.csv.gz")
    packed.write_bytes(gzip.compress(own.path.read_bytes()))
    loaded = load_custom_task(replace(own, path=packed))
    assert (loaded.task.name, loaded.task.labels) == ("reviews", ("neg", "pos"))
    assert (loaded.task.metric, loaded.task.protocol) == ("accuracy", "plain")
    assert sizes(loaded.splits) == {"train": 24, "test": 16}
    assert all(split.y.mean() == 0.5 for split in loaded.splits.values())
    assert "0.6/0.4 into train/test" in loaded.source
    assert loaded.notes == ()


@pytest.mark.parametrize(("rows", "test"), [(10, 4), (120, 40), (1_000, 250), (40_000, 2_000)])
def test_without_splits_the_number_of_rows_decides_the_test_rows(
    own: CustomTask, rows: int, test: int
) -> None:
    own.path.write_text(HEADER + "".join(f"row {n},{n % 2}\n" for n in range(rows)))
    assert sizes(load_custom_task(own).splits) == {"train": rows - test, "test": test}


def test_separate_files_stay_separate(own: CustomTask, tmp_path: Path) -> None:
    validation = tmp_path / "dev.jsonl"
    validation.write_text('{"label": "pos", "text": "fine"}\n')
    loaded = load_custom_task(replace(own, validation=validation))
    assert sizes(loaded.splits) == {"train": 40, "validation": 1}
    assert loaded.splits["validation"].texts == (("fine",),)
    assert loaded.splits["validation"].y.tolist() == [1]
    assert loaded.source == f"{own.path} (train), {validation} (validation)"


@pytest.mark.parametrize(
    ("name", "drawn", "fractions"),
    [("test", "validation", (0.75, 0.25, 0.0)), ("validation", "test", (0.75, 0.0, 0.25))],
)
def test_fractions_draw_the_split_that_has_no_file(
    own: CustomTask, name: str, drawn: str, fractions: tuple[float, float, float]
) -> None:
    other = own.path.with_name(f"{name}.csv")
    other.write_text(BALANCED.replace("row", name))
    changes: dict[str, Any] = {name: other, "fractions": fractions}
    data = load_custom_task(replace(own, **changes))
    assert sizes(data.splits) == {"train": 30, drawn: 10, name: 40}
    assert all(texts[0].startswith(name) for texts in data.splits[name].texts)
    assert f"drawn 0.75/0.25 into train/{drawn}" in data.source


def test_a_column_names_the_splits_and_two_columns_make_pairs(own: CustomTask) -> None:
    own.path.write_text(
        "a,b,label,part\n1,one,x,train\n2,two,y,Train\n3,c,x,dev\n4,d,y,valid\n5,e,y,test\n"
    )
    loaded = load_custom_task(replace(own, text=("b", "a"), split_column="part"))
    assert loaded.task.pair
    assert loaded.splits["train"].texts == (("one", "1"), ("two", "2"))
    assert loaded.splits["validation"].texts == (("c", "3"), ("d", "4"))
    assert loaded.splits["test"].y.tolist() == [1]


@pytest.mark.parametrize("regression", [False, True])
def test_unlabeled_rows_follow_the_labeled_training_rows(own: CustomTask, regression: bool) -> None:
    content = SCORES if regression else BALANCED
    own = replace(own, regression=regression)
    own.path.write_text(content)
    labeled = load_custom_task(own)
    own.path.write_text(content.replace("label\n", "label\nunseen, \n") + "unheard,\n")
    loaded = load_custom_task(own)
    assert loaded.task.metric == ("pearson" if regression else "accuracy")
    assert sizes(loaded.splits) == {"train": 26, "test": 16}
    train = loaded.splits["train"]
    assert (train.labeled, train.unlabeled) == (24, 2)
    assert train.texts == (*labeled.splits["train"].texts, ("unseen",), ("unheard",))
    assert np.array_equal(train.y[:24], labeled.splits["train"].y)
    assert (np.isnan(train.y[24:]) if regression else train.y[24:] == -1).all()
    assert (loaded.digest, loaded.notes) == (labeled.digest, labeled.notes)
    assert loaded.unlabeled_digest
    assert not labeled.unlabeled_digest
    taken = train.take(np.array([0, 23, 24]))
    assert (taken.labeled, taken.unlabeled) == (2, 1)


def test_rows_without_text_or_label_are_left_out_with_a_note(own: CustomTask) -> None:
    own.path.write_text(
        "text,label,part\na,x,train\n ,y,train\nb,y,train\n,,train\nc,,dev\nd,x,dev\ne,,train\n"
    )
    loaded = load_custom_task(replace(own, split_column="part"))
    assert loaded.splits["train"].texts == (("a",), ("b",), ("e",))
    assert loaded.splits["train"].unlabeled == 1
    assert loaded.splits["validation"].texts == (("d",),)
    assert loaded.splits["train"].ids == ("1", "3", "7")
    assert loaded.notes[:2] == (
        "2 rows of reviews.csv with an empty text left out",
        "1 validation row without a label left out",
    )


PARTS = "text,label,part\na,x,train\nb,y,train\n,x,train\nc,,dev\n"
SPLIT: dict[str, Any] = {"split_column": "part"}
TEST: dict[str, Any] = {"test": Path("test.csv")}
FRACTIONS: dict[str, Any] = {"fractions": (0.8, 0.1, 0.1)}


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        ("", {}, ".*no column is called 'text'. Known: none"),
        (f"{HEADER}a,\n", {}, ".*there are no labeled training rows"),
        (f"{HEADER}a,x\nb,x\n", {}, r".*at least two classes, got \['x'\]"),
        (f"{HEADER}a,x\nb,y\n", {}, ".*has 2 rows of 2 classes, too few"),
        (BALANCED + "more,pos \n" * 9, {}, ".*'pos' and 'pos ' differ only in invisible"),
        (SCORES, {}, ".*40 different numbers.*--regression"),
        (f"{PARTS}d,x,eval\n", SPLIT, ".*csv: row 5: the split must be one of .*, got 'eval'$"),
        (f"{PARTS}d,z,dev\n", SPLIT, ".*csv: row 5: the label must be one of x, y, got 'z'$"),
        (BALANCED, TEST, r"test\.csv: row 1: .* one of neg, pos, got 'mixed'"),
        (MANY, TEST, r"test\.csv: row 1: .* one of 00, .*, 09, …, got 'mixed'"),
        (BALANCED, {"test": Path("empty.csv")}, r"empty\.csv: there are no rows"),
        (BALANCED, {"text": ()}, "--text: .*got 0"),
        (BALANCED, {**SPLIT, **FRACTIONS}, "--split-column, --fractions: "),
        (BALANCED, {**SPLIT, **TEST}, "--split-column, --validation, --test: "),
        (BALANCED, {**FRACTIONS, **TEST}, r"--fractions: the share of test .*, got 0\.1"),
        (BALANCED, {"fractions": (0.8, 0.1, 0.2)}, r"--fractions: .*\[0\.8, 0\.1, 0\.2\]"),
        (BALANCED, {"fractions": (0.0, 0.5, 0.5)}, "--fractions: train > 0"),
        (BALANCED, {"fractions": (0.5, 0.5)}, "--fractions: "),
        (BALANCED, {"metric": "acuracy"}, "Unknown metric 'acuracy'. Did you mean 'accuracy'"),
        (BALANCED, {"metric": "pearson"}, "--metric: the metric 'pearson' needs scores, got 2 "),
        (BALANCED, {"path": 3}, "--task: must be a file, a pandas data frame or .*, got int"),
        (BALANCED, {"delimiter": "ab"}, "--delimiter: must be a character or tab, got 'ab'"),
        (BALANCED, {"id": "nr"}, ".*no column is called 'nr'. Known: label, text"),
        (BALANCED, {"path": Path("no\0such.csv")}, ".*cannot be read: embedded null byte"),
        (BALANCED, {"regression": "maybe"}, "--regression: "),
    ],
)
def test_an_invalid_file_or_option_is_named(
    own: CustomTask, content: str, changes: dict[str, Any], message: str
) -> None:
    own.path.write_text(content)
    Path("test.csv").write_text(f"{HEADER}a,mixed\n")
    Path("empty.csv").write_text(HEADER)
    with pytest.raises(SclsearchError, match=f"^{message}"):
        load_custom_task(replace(own, **changes))


def test_notes_warn_of_repeated_texts_lacking_classes_and_unsuitable_metrics(
    own: CustomTask,
) -> None:
    def notes(content: str, test: str = "", **changes: Any) -> tuple[str, ...]:
        own.path.write_text(content)
        Path("test.csv").write_text(test)
        return load_custom_task(replace(own, **(TEST if test else {}), **changes)).notes

    test = f"{HEADER}row 1,pos\nrow 2,pos\nnew,neg\n"
    assert notes(f"{BALANCED}new,\n", test) == (
        "2 of 3 test texts are also training texts",
        "1 of 3 test texts are also texts without a label",
    )
    assert notes(BALANCED, metric="f1") == ("f1 is of the class 'pos', the last by name",)
    assert notes(BALANCED.replace("pos", "Neg").replace("neg", "neg ")) == (
        "classes that differ in case or spaces alone: 'Neg', 'neg '",
    )
    rare = HEADER + "".join(f"row {n},{int(n < 2)}\n" for n in range(40))
    assert notes(rare, **FRACTIONS)[0] == "test has no row of class '1' (2 in all)"
    parts = "text,label,part\na,x,train\nb,y,train\nc,z,train\nd,x,dev\ne,y,test\n"
    assert notes(parts, split_column="part") == (
        "validation has no row of class 'y' (2 in all), 'z' (1 in all)",
        "test has no row of class 'x' (2 in all), 'z' (1 in all)",
    )
    missing = ", ".join(f"'{n:02}' (1 in all)" for n in range(1, 11))
    lacking = f"test has no row of class {missing} and 19 more"
    assert notes(MANY, f"{HEADER}fine,00\n") == (lacking,)
    large = HEADER + "".join(f"row {n},{int(n % 5 < 1)}\n" for n in range(99))
    (note,) = notes(large)
    assert note.startswith("80% of the training rows are '0'")
    assert notes(large, metric="macro_f1") == ()


def test_a_task_is_described_in_python_and_on_the_command_line(own: CustomTask) -> None:
    given: Any = {"path": str(own.path), "text": "text", "fractions": [0.8, 0.1, 0.1]}
    assert CustomTask(label="label", **given) == replace(own, fractions=(0.8, 0.1, 0.1))
    home: Any = {"path": "~/rows.csv", "test": "~/test.csv"}
    files = CustomTask(text=["a", "b"], label="label", **home)
    assert (files.path, files.test) == (Path.home() / "rows.csv", Path.home() / "test.csv")
    assert as_options("cola") == ["--task", "cola"]
    files = replace(files, path=Path("my train.csv"), validation=Path("dev.csv"), test=None)
    assert as_options(replace(files, metric="spearman", regression=True, id="nr")) == [
        *("--task", "my train.csv", "--text", "a", "--text", "b", "--label", "label"),
        *("--validation", "dev.csv", "--metric", "spearman", "--regression", "--id", "nr"),
    ]
    drawn = replace(own, fractions=(0.5, 0.25, 0.25), delimiter="\\t")
    assert as_options(drawn)[-4:] == ["--fractions", "0.5,0.25,0.25", "--delimiter", "tab"]
    assert as_options(replace(own, split_column="part"))[-2:] == ["--split-column", "part"]


def test_a_tsv_file_with_csv_quoting_is_refused(own: CustomTask) -> None:
    path = own.path.with_suffix(".tsv")
    rows = [("text", "label"), *((f"row {n}", "ab"[n % 2]) for n in range(40))]
    rows[3] = ('said "hi"', "a")
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter="\t").writerows(rows)

    def texts(**options: Any) -> list[tuple[str, ...]]:
        splits = load_custom_task(CustomTask(path, "text", "label", **options)).splits
        return [text for split in splits.values() for text in split.texts]

    with pytest.raises(SclsearchError, match=r"row 3: quoted as in CSV, .* pass --delimiter tab"):
        texts()
    assert ('said "hi"',) in texts(delimiter="tab")
    path.write_text(path.read_text().replace('"said ""hi"""', '"said" he "hi"'))
    assert ('"said" he "hi"',) in texts()


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([1, 1.0, 0, None, 0.0], ("0", "1")),
        (["1.0", "1", "0.0", "nan", "0"], ("0", "1")),
        ([True, "true", False, None, "FALSE"], ("False", "True")),
        ([0.5, 1, 1.0, None, 0.5], ("0.5", "1")),
        (["01", "1", "01", None, "1"], ("01", "1")),
        (["true", "half", "true", None, "half"], ("half", "true")),
        ([*range(24), None], tuple(sorted(map(str, range(24))))),
    ],
)
def test_a_label_has_one_spelling(own: CustomTask, values: list[Any], labels: object) -> None:
    path = own.path.with_suffix(".jsonl")
    rows = [{"text": f"{n}", "label": value} for n, value in enumerate(values * 10)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    loaded = load_custom_task(CustomTask(path))
    assert loaded.task.labels == labels
    assert loaded.splits["train"].unlabeled == 10


@pytest.mark.parametrize(
    ("header", "given", "expected"),
    [
        ("text,label,more", {}, (("text",), "label")),
        ("label,sentence,more", {}, (("sentence",), "label")),
        ("body,label", {}, (("body",), "label")),
        ("text,kind", {}, (("text",), "kind")),
        ("short,the longer", {"regression": True}, (("the longer",), "short")),
        ("nr,body,kind", {"text": "body", "id": "nr"}, (("body",), "kind")),
        ("a,b,label", {"text": ("a", "b")}, (("a", "b"), "label")),
        ("sentence,label,kind", {"label": "kind"}, (("sentence",), "kind")),
        ("sentence1,sentence2,label", {}, None),
    ],
)
def test_columns_are_found_by_name_or_length(
    own: CustomTask, header: str, given: dict[str, Any], expected: object
) -> None:
    own.path.write_text(f"{header}\n{header}\n")
    task = CustomTask(own.path, **given)
    if expected is None:
        with pytest.raises(
            SclsearchError, match=rf"the columns of .* are {header}\.".replace(",", ", ")
        ):
            task.with_columns()
        return
    found = task.with_columns()
    assert (found.text, found.label) == expected


def test_ids_are_those_of_a_column_or_row_numbers(own: CustomTask) -> None:
    own.path.write_text("text,label,nr\n" + "".join(f"t{n},{n % 2},n{n}\n" for n in range(40)))
    for files, prefix, first in ((own, "", 1), (replace(own, id="nr"), "n", 0)):
        for split in load_custom_task(files).splits.values():
            numbers = [int(text.removeprefix("t")) + first for (text,) in split.texts]
            assert [split.row_id(row) for row in range(len(split))] == [
                f"{prefix}{n}" for n in numbers
            ]


def test_a_task_is_a_name_or_a_file(own: CustomTask) -> None:
    assert as_task("cola") == "cola"
    assert as_task(str(own.path)) == as_task(own.path) == own
    assert as_task(str(own.path), metric="f1") == replace(own, metric="f1")
    own.path.rename("cola")
    for task, options, message in (
        ("colla", {}, "Unknown task 'colla'. Did you mean 'cola'"),
        ("no/such", {}, "--task no/such: the file is missing"),
        (own, {"metric": "f1"}, "--metric: is a field of the CustomTask"),
        ("demo", {"metric": "f1"}, "--metric: describes a file of your own, but demo"),
        ("cola", {"delimiter": ","}, "cola: the file extension must be"),
    ):
        with pytest.raises(SclsearchError, match=f"^{message}"):
            as_task(task, **options)
