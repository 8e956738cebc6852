"""Tests of tasks from the user's files: splits, labels, notes and errors."""

import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.tasks import as_task
from sclsearch.tasks.custom import CustomTask, as_options
from sclsearch.tasks.own_rows import load_custom_task

BALANCED = "text,label\n" + "".join(f"row {n},{'pos' if n % 2 else 'neg'}\n" for n in range(40))
SCORES = "text,label\n" + "".join(f"row {n},{n / 4}\n" for n in range(40))
MANY = "text,label\n" + "".join(f"row,{n:02}\n" for n in range(30))


@pytest.fixture
def own(tmp_path: Path) -> CustomTask:
    path = tmp_path / "reviews.csv"
    path.write_text(BALANCED)
    return CustomTask(path, ("text",), "label")


def sizes(files: CustomTask) -> dict[str, int]:
    return {name: len(split) for name, split in load_custom_task(files).splits.items()}


def test_a_single_file_is_drawn_into_stratified_splits(own: CustomTask) -> None:
    loaded = load_custom_task(own)
    assert (loaded.task.name, loaded.task.labels) == ("reviews", ("neg", "pos"))
    assert (loaded.task.metric, loaded.task.protocol) == ("accuracy", "plain")
    assert sizes(own) == {"train": 24, "test": 16}
    assert all(split.y.mean() == 0.5 for split in loaded.splits.values())
    assert "0.6/0.4 into train/test" in loaded.source
    assert loaded.notes == ()


@pytest.mark.parametrize(
    ("rows", "test"), [(10, 4), (40, 16), (120, 40), (1_000, 250), (40_000, 2_000)]
)
def test_without_splits_the_number_of_rows_decides_the_test_rows(
    own: CustomTask, rows: int, test: int
) -> None:
    own.path.write_text("text,label\n" + "".join(f"row {n},{n % 2}\n" for n in range(rows)))
    assert sizes(own) == {"train": rows - test, "test": test}


def test_separate_files_stay_separate(own: CustomTask, tmp_path: Path) -> None:
    validation = tmp_path / "dev.jsonl"
    validation.write_text('{"label": "pos", "text": "fine"}\n')
    loaded = load_custom_task(replace(own, validation=validation))
    assert set(loaded.splits) == {"train", "validation"}
    assert len(loaded.splits["train"]) == 40
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
    found = {name: len(split) for name, split in data.splits.items()}
    assert found == {"train": 30, drawn: 10, name: 40}
    assert all(texts[0].startswith(name) for texts in data.splits[name].texts)
    assert data.source == (
        f"{own.path}, drawn 0.75/0.25 into train/{drawn}, every class in its share, "
        f"{other} ({name})"
    )


def test_a_column_can_name_the_splits(own: CustomTask) -> None:
    own.path.write_text("text,label,part\na,x,train\nb,y,Train\nc,x,dev\nd,y,valid\ne,y,test\n")
    splits = load_custom_task(replace(own, split_column="part")).splits
    assert splits["train"].texts == (("a",), ("b",))
    assert splits["validation"].texts == (("c",), ("d",))
    assert splits["test"].y.tolist() == [1]


def test_two_text_columns_make_pairs(own: CustomTask) -> None:
    own.path.write_text("a,b,label,part\none,two,x,train\nthree,four,y,train\n")
    loaded = load_custom_task(replace(own, text=("b", "a"), split_column="part"))
    assert loaded.task.pair
    assert loaded.splits["train"].texts == (("two", "one"), ("four", "three"))


def test_scores_need_the_regression_option(own: CustomTask) -> None:
    own.path.write_text(SCORES)
    loaded = load_custom_task(replace(own, regression=True))
    assert loaded.task.regression
    assert loaded.task.metric == "pearson"
    assert max(loaded.splits["train"].y) > 9
    with pytest.raises(SclsearchError, match=r"40 different numbers.*--regression"):
        load_custom_task(own)


def test_many_integers_are_classes(own: CustomTask) -> None:
    own.path.write_text("text,label\n" + "".join(f"row {n},{n % 25}\n" for n in range(100)))
    assert len(load_custom_task(own).task.labels) == 25


@pytest.mark.parametrize("regression", [False, True])
def test_unlabeled_rows_follow_the_labeled_training_rows(own: CustomTask, regression: bool) -> None:
    content = SCORES if regression else BALANCED
    own = replace(own, regression=regression)
    own.path.write_text(content)
    labeled = load_custom_task(own)
    own.path.write_text(content.replace("label\n", "label\nunseen, \n") + "unheard,\n")
    loaded = load_custom_task(own)
    assert sizes(own) == {"train": 26, "test": 16}
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


def test_invalid_splits_and_labels_are_reported_with_their_rows(own: CustomTask) -> None:
    own = replace(own, split_column="part")
    content = "text,label,part\na,x,train\nb,y,train\n,x,train\nc,,dev\nd,z,dev\n"
    own.path.write_text(f"{content}e,x,eval\n")
    known = "train, validation, valid, dev, test"
    with pytest.raises(SclsearchError) as raised:
        load_custom_task(own)
    assert str(raised.value) == f"{own.path}: row 6: the split must be one of {known}, got 'eval'"
    own.path.write_text(content)
    with pytest.raises(SclsearchError) as raised:
        load_custom_task(own)
    assert str(raised.value) == f"{own.path}: row 5: the label must be one of x, y, got 'z'"


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


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (BALANCED, "text,label\na,pos\nb,mixed\n", r"row 2: .* one of neg, pos, got 'mixed'"),
        (MANY, "text,label\nfine,other\n", r"row 1: .* one of 00, .*, 09, …, got 'other'"),
        (BALANCED, "text,label\n", r"there are no rows"),
    ],
    ids=["new label", "many labels", "no rows"],
)
def test_an_invalid_test_file_is_named(
    own: CustomTask, tmp_path: Path, train: str, test: str, message: str
) -> None:
    own.path.write_text(train)
    file = tmp_path / "test.csv"
    file.write_text(test)
    with pytest.raises(SclsearchError, match=rf"test\.csv: {message}"):
        load_custom_task(replace(own, test=file))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no column is called 'text'. Known: none"),
        ("text,label\n", "there are no labeled training rows"),
        ("text,label\na,\n", "there are no labeled training rows"),
        ("text,label\na,x\nb,x\n", r"at least two classes, got \['x'\]"),
        ("text,label\na,x\nb,y\n", "has 2 rows of 2 classes, too few"),
        (BALANCED + "more,pos \n" * 9, "'pos' and 'pos ' differ only in invisible characters"),
    ],
    ids=["empty", "header", "unlabeled", "one class", "too few rows", "blanks"],
)
def test_an_unusable_file_is_refused(own: CustomTask, content: str, message: str) -> None:
    own.path.write_text(content)
    with pytest.raises(SclsearchError, match=message):
        load_custom_task(own)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": ()}, "--text: .*got 0"),
        ({"split_column": "part", "fractions": (0.8, 0.1, 0.1)}, "--split-column, --fractions: "),
        ({"split_column": "part", "test": Path("t.csv")}, "--split-column, --validation, --test: "),
        (
            {"fractions": (0.8, 0.1, 0.1), "test": Path("t.csv")},
            r"--fractions: the share of test must be 0 with --test t\.csv, got 0\.1",
        ),
        ({"fractions": (0.8, 0.1, 0.2)}, r"--fractions: .*\[0\.8, 0\.1, 0\.2\]"),
        ({"fractions": (0.0, 0.5, 0.5)}, "--fractions: train > 0"),
        ({"fractions": (0.5, 0.5)}, "--fractions: "),
        ({"metric": "acuracy"}, "Unknown metric 'acuracy'. Did you mean 'accuracy'"),
        ({"metric": "pearson"}, "--metric: the metric 'pearson' needs scores, got 2 .* f1, "),
        ({"split_column": ""}, ".*no column is called ''"),
        ({"path": 3}, "--task: must be a file, a pandas data frame or .*, got int"),
        ({"delimiter": "ab"}, "--delimiter: must be a character or tab, got 'ab'"),
        ({"id": "nr"}, ".*no column is called 'nr'. Known: label, text"),
        ({"path": Path("no\0such.csv")}, ".*cannot be read: embedded null byte"),
        ({"path": Path("no-such.csv")}, r"no-such\.csv: cannot be read"),
        ({"regression": "maybe"}, "--regression: "),
    ],
)
def test_an_invalid_option_is_named(own: CustomTask, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SclsearchError, match=f"^{message}"):
        load_custom_task(replace(own, **changes))


def test_a_note_counts_texts_that_are_also_training_texts(own: CustomTask, tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text("text,label\nrow 1,pos\nrow 2,pos\nnew,neg\n")
    own.path.write_text(f"{BALANCED}new,\n")
    assert load_custom_task(replace(own, test=test)).notes == (
        "2 of 3 test texts are also training texts",
        "1 of 3 test texts are also texts without a label",
    )


def test_notes_name_the_class_of_f1_and_classes_with_similar_names(own: CustomTask) -> None:
    assert load_custom_task(replace(own, metric="f1")).notes == (
        "f1 is of the class 'pos', the last by name",
    )
    assert load_custom_task(replace(own, metric="macro_f1")).notes == ()
    own.path.write_text(BALANCED.replace("pos", "Neg").replace("neg", "neg "))
    assert load_custom_task(own).notes == (
        "classes that differ in case or spaces alone: 'Neg', 'neg '",
    )


def test_notes_name_the_classes_that_a_split_lacks(own: CustomTask, tmp_path: Path) -> None:
    own.path.write_text("text,label\n" + "".join(f"row {n},{int(n < 2)}\n" for n in range(40)))
    own_splits = replace(own, fractions=(0.8, 0.1, 0.1))
    assert load_custom_task(own_splits).notes[0] == "test has no row of class '1' (2 in all)"
    own.path.write_text("text,label,part\na,x,train\nb,y,train\nc,z,train\nd,x,dev\ne,y,test\n")
    assert load_custom_task(replace(own, split_column="part")).notes == (
        "validation has no row of class 'y' (2 in all), 'z' (1 in all)",
        "test has no row of class 'x' (2 in all), 'z' (1 in all)",
    )
    own.path.write_text(MANY)
    test = tmp_path / "test.csv"
    test.write_text("text,label\nfine,00\n")
    missing = ", ".join(f"'{n:02}' (1 in all)" for n in range(1, 11))
    assert load_custom_task(replace(own, test=test)).notes == (
        f"test has no row of class {missing} and 19 more",
    )


def test_a_note_warns_of_accuracy_with_a_large_class(own: CustomTask) -> None:
    own.path.write_text("text,label\n" + "".join(f"row {n},{int(n % 5 < 1)}\n" for n in range(99)))
    (note,) = load_custom_task(own).notes
    assert note.startswith("80% of the training rows are '0'")
    assert load_custom_task(replace(own, metric="macro_f1")).notes == ()


def test_paths_and_columns_may_be_strings_or_lists(own: CustomTask) -> None:
    given: Any = {"path": str(own.path), "text": "text", "fractions": [0.8, 0.1, 0.1]}
    assert CustomTask(label="label", **given) == replace(own, fractions=(0.8, 0.1, 0.1))
    assert replace(own, text=["a", "b"]).text == ("a", "b")
    home: Any = {"path": "~/rows.csv", "test": "~/test.csv"}
    files = CustomTask(text="text", label="label", **home)
    assert (files.path, files.test) == (Path.home() / "rows.csv", Path.home() / "test.csv")


def test_options_describe_the_task_on_the_command_line() -> None:
    own = CustomTask(Path("my train.csv"), "text", "label")
    assert as_options("cola") == ["--task", "cola"]
    assert as_options(own) == ["--task", "my train.csv", "--text", "text", "--label", "label"]
    files = replace(own, text=("a", "b"), metric="spearman", regression=True)
    assert as_options(replace(files, validation=Path("dev.csv"), test=Path("test.csv"))) == [
        *("--task", "my train.csv", "--text", "a", "--text", "b", "--label", "label"),
        *("--validation", "dev.csv", "--test", "test.csv", "--metric", "spearman", "--regression"),
    ]
    cells = as_options(replace(own, id="nr", delimiter="\\t"))
    assert cells[-4:] == ["--id", "nr", "--delimiter", "tab"]
    assert as_options(replace(own, split_column="part"))[-2:] == ["--split-column", "part"]
    drawn = as_options(replace(own, fractions=(0.5, 0.25, 0.25)))
    assert drawn[-2:] == ["--fractions", "0.5,0.25,0.25"]


def test_a_tsv_file_with_csv_quoting_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    rows = [("text", "label"), *((f"row {n}", "ab"[n % 2]) for n in range(40))]
    rows[3] = ('said "hi"', "a")
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter="\t").writerows(rows)
    with pytest.raises(SclsearchError, match=r"row 3: quoted as in CSV, .* pass --delimiter tab"):
        load_custom_task(CustomTask(path, "text", "label"))
    read = CustomTask(path, "text", "label", delimiter="tab")
    splits = load_custom_task(read).splits
    assert ('said "hi"',) in [text for split in splits.values() for text in split.texts]
    path.write_text(path.read_text().replace('"said ""hi"""', '"said" he "hi"'))
    splits = load_custom_task(CustomTask(path, "text", "label")).splits
    assert ('"said" he "hi"',) in [text for split in splits.values() for text in split.texts]


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([1, 1.0, 0, None, 0.0], ("0", "1")),
        (["1.0", "1", "0.0", "nan", "0"], ("0", "1")),
        ([True, "true", False, None, "FALSE"], ("False", "True")),
        ([0.5, 1, 1.0, None, 0.5], ("0.5", "1")),
        (["01", "1", "01", None, "1"], ("01", "1")),
        (["true", "half", "true", None, "half"], ("half", "true")),
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
    ],
)
def test_columns_are_found_by_name_or_length(
    tmp_path: Path, header: str, given: dict[str, Any], expected: object
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\n{header}\n")
    found = CustomTask(path, **given).with_columns()
    assert (found.text, found.label) == expected
    assert found.with_columns() is found


def test_columns_that_are_not_clear_are_one_error(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("sentence1,sentence2,label\na,b,x\n")
    with pytest.raises(SclsearchError) as raised:
        load_custom_task(CustomTask(path))
    assert str(raised.value) == (
        f"{path}: the columns of text and label are not clear. Pass --text (twice for a pair of "
        "texts) and --label; the columns are sentence1, sentence2, label."
    )


def test_ids_are_those_of_a_column_or_row_numbers(own: CustomTask) -> None:
    own.path.write_text("text,label,nr\n" + "".join(f"t{n},{n % 2},n{n}\n" for n in range(40)))
    for files, prefix, first in ((own, "", 1), (replace(own, id="nr"), "n", 0)):
        for split in load_custom_task(files).splits.values():
            numbers = [int(text.removeprefix("t")) + first for (text,) in split.texts]
            assert [split.row_id(row) for row in range(len(split))] == [
                f"{prefix}{n}" for n in numbers
            ]


def test_the_name_of_a_task_has_no_ending(own: CustomTask) -> None:
    packed = own.path.with_name("reviews.csv.gz")
    packed.write_bytes(gzip.compress(own.path.read_bytes()))
    assert load_custom_task(replace(own, path=packed)).task.name == "reviews"


def test_a_task_is_a_name_or_a_file(own: CustomTask, monkeypatch: pytest.MonkeyPatch) -> None:
    assert as_task("cola") == "cola"
    assert as_task(str(own.path)) == as_task(own.path) == own
    assert as_task(str(own.path), metric="f1") == replace(own, metric="f1")
    with pytest.raises(SclsearchError, match=r"^--metric: describes a file of your own, but cola"):
        as_task("cola", metric="f1")
    with pytest.raises(SclsearchError, match=r"^--metric: is a field of the CustomTask"):
        as_task(own, metric="f1")
    with pytest.raises(SclsearchError, match=r"^--task no/such: the file is missing"):
        as_task("no/such")
    with pytest.raises(SclsearchError, match=r"Unknown task 'colla'. Did you mean 'cola'"):
        as_task("colla")
    monkeypatch.chdir(own.path.parent)
    own.path.rename("cola")
    with pytest.raises(SclsearchError, match=r"^cola: the file extension must be"):
        as_task("cola", delimiter=",")
    Path("rows.csv").touch()
    with pytest.raises(SclsearchError, match=r"^rows\.csv: the columns .* are none\.$"):
        as_task("rows.csv")
