"""A user's own files become a task, whichever way the splits are told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.tasks.custom import CustomTask, load_custom_task

BALANCED = "text,label\n" + "".join(f"row {n},{'pos' if n % 2 else 'neg'}\n" for n in range(40))


@pytest.fixture
def own(tmp_path: Path) -> CustomTask:
    path = tmp_path / "reviews.csv"
    path.write_text(BALANCED)
    return CustomTask(path, ("text",), "label")


def test_a_single_file_is_drawn_into_stratified_splits(own: CustomTask) -> None:
    loaded = load_custom_task(own)
    assert loaded.task.name == "reviews"
    assert loaded.task.labels == ("neg", "pos")
    assert (loaded.task.metric, loaded.task.protocol) == ("accuracy", "plain")
    assert {name: len(split) for name, split in loaded.splits.items()} == {
        "train": 32,
        "validation": 4,
        "test": 4,
    }
    assert all(split.y.mean() == 0.5 for split in loaded.splits.values())
    assert "0.8/0.1/0.1" in loaded.source


def test_stated_fractions_take_the_storage_path_the_usual_ones(own: CustomTask) -> None:
    loaded = load_custom_task(replace(own, fractions=(0.5, 0.5, 0.0)))
    assert {name: len(split) for name, split in loaded.splits.items()} == {
        "train": 20,
        "validation": 20,
    }


def test_separate_files_stay_separate(own: CustomTask, tmp_path: Path) -> None:
    validation = tmp_path / "dev.jsonl"
    validation.write_text('{"label": "pos", "text": "fine"}\n')
    loaded = load_custom_task(replace(own, validation=validation))
    assert len(loaded.splits["train"]) == 40
    assert loaded.splits["validation"].texts == (("fine",),)
    assert loaded.splits["validation"].y.tolist() == [1]
    assert set(loaded.splits) == {"train", "validation"}


def test_a_column_tells_the_splits(own: CustomTask) -> None:
    own.path.write_text("text,label,part\na,x,train\nb,y,Train\nc,x,dev\nd,y,valid\ne,y,test\n")
    splits = load_custom_task(replace(own, split_column="part")).splits
    assert splits["train"].texts == (("a",), ("b",))
    assert splits["validation"].texts == (("c",), ("d",))
    assert splits["test"].y.tolist() == [1]


def test_two_columns_make_pairs(own: CustomTask) -> None:
    own.path.write_text("a,b,label,part\none,two,x,train\nthree,four,y,train\n")
    loaded = load_custom_task(replace(own, text=("b", "a"), split_column="part"))
    assert loaded.task.pair
    assert loaded.splits["train"].texts == (("two", "one"), ("four", "three"))


def test_scores_make_a_regression_when_asked(own: CustomTask) -> None:
    own.path.write_text("text,label\n" + "".join(f"row {n},{n / 4}\n" for n in range(40)))
    loaded = load_custom_task(replace(own, regression=True))
    assert loaded.task.regression
    assert loaded.task.metric == "pearson"
    assert max(loaded.splits["train"].y) > 9
    with pytest.raises(SclsearchError, match=r"40 different numbers.*--regression"):
        load_custom_task(own)


def test_many_whole_numbers_are_classes(own: CustomTask) -> None:
    own.path.write_text("text,label\n" + "".join(f"row {n},{n % 25}\n" for n in range(100)))
    assert len(load_custom_task(own).task.labels) == 25


def test_every_fault_of_a_file_is_named_in_one_go(own: CustomTask) -> None:
    own.path.write_text(
        "text,label,part\na,x,train\nb,y,train\n,x,train\nc,,dev\nd,z,dev\ne,x,eval\n"
    )
    with pytest.raises(SclsearchError) as raised:
        load_custom_task(replace(own, split_column="part"))
    known = "train, validation, valid, dev, test"
    assert str(raised.value).splitlines() == [
        f"{own.path}: line 4: every text must hold something, but one is empty",
        f"{own.path}: line 5: the label must be there, but it is empty",
        f"{own.path}: line 6: the label must be one of x, y, but it is 'z'",
        f"{own.path}: line 7: the split must be one of {known}, but it is 'eval'",
    ]


def test_a_label_that_training_lacks_is_named_by_file_and_line(
    own: CustomTask, tmp_path: Path
) -> None:
    test = tmp_path / "test.csv"
    test.write_text("text,label\nfine,pos\nmixed,neutral\n")
    with pytest.raises(SclsearchError, match=r"test\.csv: line 3: .*one of neg, pos.*'neutral'"):
        load_custom_task(replace(own, test=test))


def test_a_long_list_of_classes_is_cut_in_errors(own: CustomTask, tmp_path: Path) -> None:
    own.path.write_text("text,label\n" + "".join(f"row,{n:02}\n" for n in range(30)))
    test = tmp_path / "test.csv"
    test.write_text("text,label\nfine,other\n")
    with pytest.raises(SclsearchError, match=r"one of 00, .*, 09, …, but it is 'other'"):
        load_custom_task(replace(own, test=test))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "rows for training must be there"),
        ("text,label\n", "rows for training must be there"),
        ("text,label\na\n", "line 2: 2 columns must be there"),
        ("text,label\na,x\nb,x\n", r"two classes or more.*but it holds \['x'\]"),
        ("text,label\na,x\nb,y\n", "the rows must suffice"),
    ],
    ids=["empty", "header alone", "broken rows alone", "one class", "too few rows"],
)
def test_a_file_that_cannot_be_a_task_is_refused(
    own: CustomTask, content: str, message: str
) -> None:
    own.path.write_text(content)
    with pytest.raises(SclsearchError, match=message):
        load_custom_task(own)


def test_an_empty_second_file_is_named(own: CustomTask, tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text("text,label\n")
    with pytest.raises(SclsearchError, match=r"test\.csv: rows must be there"):
        load_custom_task(replace(own, test=test))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": ()}, "--text: one column or two"),
        ({"text": ("a", "b", "c")}, "--text: one column or two"),
        ({"text": ("label",)}, "the columns must differ"),
        ({"split_column": "part", "fractions": (0.8, 0.1, 0.1)}, "--split-column, --fractions: "),
        ({"split_column": "part", "test": Path("t.csv")}, "--split-column, --validation, --test"),
        (
            {"fractions": (0.8, 0.1, 0.1), "test": Path("t.csv")},
            r"^--fractions: the share of test must be 0 beside --test t\.csv, but it is 0\.1",
        ),
        ({"fractions": (0.8, 0.1, 0.2)}, "--fractions: .*must sum to 1"),
        ({"fractions": (0.0, 0.5, 0.5)}, "--fractions: train > 0"),
        (
            {"fractions": (0.5, 0.5)},
            r"^--fractions: must have more values, got \(0\.5, 0\.5\)",
        ),
        ({"metric": "acuracy"}, "Unknown metric 'acuracy'. Did you mean 'accuracy'"),
        ({"metric": ""}, "Unknown metric ''. Known: accuracy"),
        ({"split_column": ""}, "no column is called ''"),
        ({"split_column": "", "fractions": (0.8, 0.1, 0.1)}, "the column tells all splits"),
        ({"fractions": ()}, "^--fractions: must have more values"),
        ({"path": 3}, "^--task: must be a path, got 3"),
        ({"split_column": 3}, "^--split-column: must be a valid string, got 3"),
        ({"regression": "maybe"}, "^--regression: must be a valid boolean, got 'maybe'"),
        ({"metric": "pearson"}, "--metric: the metric 'pearson' needs scores"),
        ({"label": "lable"}, "no column is called 'lable'. Did you mean 'label'"),
        ({"path": Path("no-such.csv")}, r"no-such\.csv: a readable file must be there"),
    ],
)
def test_an_option_that_cannot_be_is_named(
    own: CustomTask, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(SclsearchError, match=message):
        load_custom_task(replace(own, **changes))  # type: ignore[arg-type]


def test_a_file_has_one_use(own: CustomTask, tmp_path: Path) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to(own.path)
    for option in ("validation", "test"):
        with pytest.raises(
            SclsearchError, match=rf"^--{option} .*link\.csv: .* that of --task, but"
        ):
            load_custom_task(replace(own, **{option: link}))  # type: ignore[arg-type]
    dev = tmp_path / "dev.csv"
    dev.write_text(BALANCED)
    with pytest.raises(
        SclsearchError, match=r"^--test .*dev\.csv: .* that of --validation, but it"
    ):
        load_custom_task(replace(own, validation=dev, test=dev))


def test_classes_that_differ_in_blanks_alone_are_refused(own: CustomTask) -> None:
    own.path.write_text(BALANCED + "more,pos \n" * 9)
    with pytest.raises(SclsearchError, match=r"got 'pos' and 'pos ', which differ in invisible"):
        load_custom_task(own)


def test_test_texts_that_are_trained_on_are_counted(own: CustomTask, tmp_path: Path) -> None:
    assert load_custom_task(own).notes == ()
    test = tmp_path / "test.csv"
    test.write_text("text,label\nrow 1,pos\nrow 2,pos\nnew,neg\n")
    loaded = load_custom_task(replace(own, test=test))
    assert loaded.notes == ("2 of 3 test texts are also training texts",)


def test_what_classes_are_called_is_told_where_it_matters(own: CustomTask) -> None:
    assert load_custom_task(replace(own, metric="f1")).notes == (
        "f1 is of the class 'pos', the last by name",
    )
    assert load_custom_task(replace(own, metric="macro_f1")).notes == ()
    own.path.write_text(BALANCED.replace("pos", "Neg"))
    assert load_custom_task(own).notes == ("classes that differ in case alone: 'Neg', 'neg'",)


def test_f1_fits_two_classes_and_no_more(own: CustomTask) -> None:
    assert load_custom_task(replace(own, metric="f1")).task.metric == "f1"
    own.path.write_text("text,label\n" + "".join(f"row,{n % 3}\n" for n in range(30)))
    with pytest.raises(SclsearchError, match="needs two classes, but there are 3"):
        load_custom_task(replace(own, metric="f1"))


def test_a_class_that_a_split_lacks_is_told(own: CustomTask, tmp_path: Path) -> None:
    own.path.write_text("text,label\n" + "".join(f"row {n},{int(n < 2)}\n" for n in range(40)))
    assert load_custom_task(own).notes[0] == "test has no row of class '1' (2 in all)"
    own.path.write_text("text,label,part\na,x,train\nb,y,train\nc,z,train\nd,x,dev\ne,y,test\n")
    assert load_custom_task(replace(own, split_column="part")).notes == (
        "validation has no row of class 'y' (2 in all), 'z' (1 in all)",
        "test has no row of class 'x' (2 in all), 'z' (1 in all)",
    )
    own.path.write_text("text,label\n" + "".join(f"row,{n:02}\n" for n in range(30)))
    test = tmp_path / "test.csv"
    test.write_text("text,label\nfine,00\n")
    assert load_custom_task(replace(own, test=test)).notes == (
        "test has no row of class "
        + ", ".join(f"'{n:02}' (1 in all)" for n in range(1, 11))
        + " and 19 more",
    )


def test_a_large_class_is_told_where_accuracy_is_the_metric(own: CustomTask) -> None:
    own.path.write_text("text,label\n" + "".join(f"row {n},{int(n % 5 < 1)}\n" for n in range(99)))
    (note,) = load_custom_task(own).notes
    assert note.startswith("80% of the training rows are '0', and predicting it alone has that ")
    assert load_custom_task(replace(own, metric="macro_f1")).notes == ()


def test_columns_and_files_may_be_given_as_text_and_as_lists(own: CustomTask) -> None:
    told: Any = {"path": str(own.path), "text": "text", "fractions": [0.8, 0.1, 0.1]}
    files = CustomTask(label="label", **told)
    assert files == replace(own, fractions=(0.8, 0.1, 0.1))
    assert load_custom_task(files).digest == load_custom_task(own).digest
    assert replace(own, text=["a", "b"]).text == ("a", "b")
