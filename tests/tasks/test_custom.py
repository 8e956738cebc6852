"""Tests of tasks from the user's files, data frames and data sets: splits, labels, notes."""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.tasks import as_task
from sclsearch.tasks.base import Split
from sclsearch.tasks.custom import CustomTask, as_options
from sclsearch.tasks.own_rows import draw_splits, load_custom_task

HEADER = "text,label\n"
BALANCED = HEADER + "".join(f"row {n},{'pos' if n % 2 else 'neg'}\n" for n in range(40))
SCORES = HEADER + "".join(f"row {n},{n / 4}\n" for n in range(40))


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
    loaded = load_custom_task(replace(own, path=packed, fractions=(0.6, 0, 0.4)))
    assert (loaded.task.name, loaded.task.labels) == ("reviews", ("neg", "pos"))
    assert (loaded.task.metric, loaded.task.protocol) == ("accuracy", "plain")
    assert sizes(loaded.splits) == {"train": 24, "test": 16}
    for split in loaded.splits.values():
        assert split.y.mean() == 0.5
        # The identifiers are the numbers of the rows in the file.
        numbers = [int(text.removeprefix("row ")) for (text,) in split.texts]
        assert split.ids == tuple(str(number + 1) for number in numbers)
    assert "0.6/0.4 into train/test" in loaded.source
    assert loaded.notes == ()
    for rows, test, scores in ((499, 0, 125), (10, 0, 4), (120, 0, 40), (40_000, 2_000, 2_000)):
        own.path.write_text(HEADER + "".join(f"row {n},{n % 2}\n" for n in range(rows)))
        for held, regression in ((test, False), (scores, True)):
            drawn = sizes(load_custom_task(replace(own, regression=regression)).splits)
            assert drawn == {"train": rows - held} | ({"test": held} if held else {})
        # Other protocols than `plain` have no folds.
        drawn = sizes(load_custom_task(own, on_folds=False).splits)
        assert drawn == {"train": rows - scores, "test": scores}


@pytest.mark.parametrize("regression", [False, True])
def test_unlabeled_rows_follow_the_labeled_training_rows(own: CustomTask, regression: bool) -> None:
    content = SCORES if regression else BALANCED
    own = replace(own, regression=regression, fractions=(0.6, 0, 0.4))
    own.path.write_text(content)
    labeled = load_custom_task(own)
    own.path.write_text(content.replace("label\n", "label\nunseen, \n") + "unheard,\n")
    loaded = load_custom_task(own)
    assert loaded.task.metric == ("pearson" if regression else "accuracy")
    assert sizes(loaded.splits) == {"train": 26, "test": 16}
    train = loaded.splits["train"]
    assert train.texts == (*labeled.splits["train"].texts, ("unseen",), ("unheard",))
    assert np.array_equal(train.y[:24], labeled.splits["train"].y)
    assert (np.isnan(train.y[24:]) if regression else train.y[24:] == -1).all()
    assert (loaded.digest, loaded.notes) == (labeled.digest, labeled.notes)
    assert bool(loaded.unlabeled_digest) > bool(labeled.unlabeled_digest)
    taken = train.take(np.array([0, 23, 24]))
    assert (taken.labeled, taken.unlabeled) == (2, 1)


def test_a_column_names_the_splits_and_rows_without_text_or_label_are_left_out_with_a_note(
    own: CustomTask,
) -> None:
    own.path.write_text(
        "a,b,label,part\n1,one,x,train\n ,,y,train\n2,two,y,Train\n,,,train\n3,c,,dev\n"
        "4,d,x,valid\n5,e,,train\n6,f,y,test\n"
    )
    loaded = load_custom_task(replace(own, text=("b", "a"), split_column="part"))
    assert loaded.task.pair
    train, validation, test = (loaded.splits[name] for name in ("train", "validation", "test"))
    assert train.texts == (("one", "1"), ("two", "2"), ("e", "5"))
    assert (train.unlabeled, train.ids) == (1, ("1", "3", "7"))
    assert (validation.texts, test.texts, test.y.tolist()) == ((("d", "4"),), (("f", "6"),), [1])
    assert loaded.notes[:2] == (
        "2 rows of reviews.csv with an empty b or a left out",
        "1 validation row without a label left out",
    )


PARTS = "text,label,part\na,x,train\nb,y,train\n,x,train\nc,,dev\n"
SPLIT: dict[str, Any] = {"split_column": "part"}
TEST: dict[str, Any] = {"test": Path("test.csv")}
FRACTIONS: dict[str, Any] = {"fractions": (0.8, 0.1, 0.1)}


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        (f"{HEADER}a,x\nb,y\nb,y\n", FRACTIONS, ".*has 2 different texts of 2 classes, too few"),
        (SCORES, FRACTIONS, ".*has 40 different texts of 40 classes, .*--regression"),
        (f"{PARTS}d,x,rest\n", SPLIT, ".*csv: row 5: the split must be one of .*, got 'rest'$"),
        (BALANCED, {**SPLIT, **FRACTIONS}, "--split-column, --fractions: "),
        (BALANCED, {**FRACTIONS, **TEST}, r"--fractions: the share of test .*, got 0\.1"),
        (f"{HEADER}a,x\0\nb,y\n", {}, ".*csv: column label: a class has a NUL character"),
        (BALANCED, {"delimiter": "ab"}, "--delimiter: must be an ASCII character or tab, got"),
        (BALANCED, {"delimiter": "§"}, "--delimiter: must be an ASCII character or tab, got"),
    ],
)
def test_an_invalid_file_or_option_is_named(
    own: CustomTask, content: str, changes: dict[str, Any], message: str
) -> None:
    own.path.write_text(content)
    with pytest.raises(SclsearchError, match=f"^{message}"):
        load_custom_task(replace(own, **changes))


def test_notes_warn_of_repeated_texts_and_of_lacking_or_doubtful_classes(
    own: CustomTask,
) -> None:
    def notes(content: str, **changes: Any) -> tuple[str, ...]:
        own.path.write_text(content)
        return load_custom_task(replace(own, **changes)).notes

    Path("test.csv").write_text(f"{HEADER}row 1,pos\nrow 2,pos\nnew,neg\n")
    assert notes(f"{BALANCED}new,\n", **TEST) == (
        "1 of 41 texts have more than one label, the first 'row 2': no model can predict all their "
        "rows",
        "2 of 3 test texts are also training texts",
        "1 of 3 test texts are also texts without a label",
    )
    assert notes(BALANCED.replace("pos", "Neg").replace("neg", "neg ")) == (
        "classes that differ in case, spaces or invisible characters alone: 'Neg', 'neg '",
    )
    assert notes(BALANCED.replace("pos", "neg\u200b")) == (
        "classes that differ in case, spaces or invisible characters alone: 'neg', 'neg\\u200b'",
    )
    assert notes(BALANCED.replace("pos", " 'pos'").replace("neg", "'neg'")) == (
        """all classes are in quotes: " 'pos'", "'neg'". Remove the quotes""",
    )
    assert notes(SCORES) == ("40 classes are numbers with decimals. Pass --regression for scores",)
    assert notes(BALANCED.replace("neg", "n/a").replace("pos", "null")) == (
        "classes that may mean no label: 'n/a', 'null'. Empty these cells to drop them",
    )
    assert notes(BALANCED.replace(HEADER, "text,pos\n"), label="pos") == (
        "column 'pos' has the name of a class: is there a header?",
    )
    many = HEADER + "".join(f"row {n},class {n % 150}\n" for n in range(450))
    assert notes(many, **FRACTIONS)[0].count("class ") == 11
    assert notes(many, **FRACTIONS)[0].endswith(" and 95 more")
    rare = HEADER + "".join(f"row {n},{int(n < 2)}\n" for n in range(40))
    assert notes(rare, **FRACTIONS)[:2] == (
        "validation has no row of class '1' (2 in all)",
        "test has no row of class '1' (2 in all)",
    )


def test_a_task_has_options_that_describe_it() -> None:
    home: Any = "~/my rows.csv"
    files = CustomTask(home, ["a", "b"], "y", regression=True, fractions=(0.8, 0.2, 0.0))
    expected = ["--task", str(Path.home() / "my rows.csv"), "--text", "a", "--text", "b"]
    expected += ["--label", "y", "--delimiter", "tab", "--fractions", "0.8,0.2,0.0", "--regression"]
    assert sorted(as_options(replace(files, delimiter="\\t"))) == sorted(expected)


def test_a_label_has_one_spelling(own: CustomTask) -> None:
    path = own.path.with_suffix(".jsonl")
    cases: list[tuple[list[Any], tuple[str, ...]]] = [
        ([1, 1.0, 0, None, 0.0], ("0", "1")),
        (["1.00", "1", "0.0", "nan", "0"], ("0", "1")),
        ([True, "true", False, None, "FALSE"], ("False", "True")),
        (["01", "1", "01", None, "1"], ("01", "1")),
        (["1.0", "2.0", "2.1", None], ("1.0", "2.0", "2.1")),
    ]
    for values, labels in cases:
        rows = [{"text": f"{n}", "label": value} for n, value in enumerate(values * 10)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        loaded = load_custom_task(CustomTask(path))
        assert loaded.task.labels == labels
        assert loaded.splits["train"].unlabeled == 10


def test_columns_are_found_by_name_or_length(own: CustomTask) -> None:
    both: dict[str, Any] = {"text": "body", "id": "nr"}
    for header, options, text, label in (
        ("label,sentence,more", {}, "sentence", "label"),
        ("short,the longer", {}, "the longer", "short"),
        ("nr,body,kind", both, "body", "kind"),
        ("sentence,label,kind", {"label": "kind"}, "sentence", "kind"),
    ):
        own.path.write_text(f"{header}\n{header}\n")
        found = CustomTask(own.path, **options).with_columns()
        assert (found.text, found.label) == ((text,), label)


def test_a_task_is_a_name_or_a_file(own: CustomTask) -> None:
    assert as_task(str(own.path)) == as_task(own.path) == own
    assert as_task(str(own.path), id="nr") == replace(own, id="nr")
    own.path.rename("cola")
    assert as_task("cola") == "cola"
    for task, options, message in (
        (own, {"id": "nr"}, "--id: is a field of the CustomTask"),
        ("demo", {"id": "nr"}, "--id: describes a file of your own, but demo"),
        ("cola", {"delimiter": ","}, "cola: the file extension must be"),
    ):
        with pytest.raises(SclsearchError, match=f"^{message}"):
            as_task(task, **options)


ROWS = [{"id": n, "text": f"row {n}", "label": "ny"[n % 2]} for n in range(40)]
FRAME = pd.DataFrame(ROWS, index=range(100, 140))


def task(data: Any = FRAME, **options: Any) -> CustomTask:
    return CustomTask(data, **{"text": "text", "label": "label", "name": "reviews", **options})


def as_dataset(unlabeled: int = 0) -> datasets.Dataset:
    """Return the rows as a data set with class numbers: -1 for some rows, 0 for n, 1 for y."""
    rows = [{"text": f"without {n}", "label": -1} for n in range(unlabeled)]
    rows += [{"text": row["text"], "label": "ny".index(str(row["label"]))} for row in ROWS]
    features = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["n", "y"])}
    return datasets.Dataset.from_list(rows, features=datasets.Features(features))


def test_data_in_memory_is_the_task_of_its_file_and_equal_data_are_written_once(
    own: CustomTask,
) -> None:
    FRAME[["text", "label"]].to_csv("reviews.csv", index=False)
    expected = load_custom_task(own)
    for data in (FRAME, as_dataset(), datasets.DatasetDict({"train": as_dataset()})):
        loaded = load_custom_task(task(data, text=None, label=None))
        assert (loaded.task.name, loaded.digest) == ("reviews", expected.digest)
        assert loaded.splits["train"].ids == expected.splits["train"].ids
    first, other = task(), task(FRAME[::-1])
    assert task(FRAME.assign(id=7)) == first
    assert {*own.path.parent.rglob("*.parquet")} == {first.path.resolve(), other.path.resolve()}
    assert replace(first, label="text").path == first.path != other.path


def test_empty_cells_and_class_minus_one_mean_no_label(own: CustomTask) -> None:
    frame = FRAME.assign(label=[0.5, float("nan"), *(n % 2 for n in range(38))])
    for data, labels in ((frame, ("0", "0.5", "1")), (as_dataset(unlabeled=1), ("n", "y"))):
        loaded = load_custom_task(task(data, fractions=(1.0, 0.0, 0.0)))
        assert loaded.task.labels == labels
        assert loaded.splits["train"].unlabeled == 1


def test_a_split_has_a_usual_name_or_is_named_as_left_out(
    own: CustomTask, caplog: pytest.LogCaptureFixture
) -> None:
    rows = as_dataset()
    parts = {"train": rows, "val": rows.select(range(4)), "validation_matched": rows}
    loaded = load_custom_task(task(datasets.DatasetDict(parts)))
    assert sizes(loaded.splits) == {"train": 40, "validation": 4}
    assert "splits validation_matched are left out" in caplog.text


def test_classes_keep_their_names_in_parquet_and_need_one(own: CustomTask) -> None:
    as_dataset(unlabeled=1).to_parquet("rows.parquet")
    loaded = load_custom_task(CustomTask(Path("rows.parquet")))
    assert loaded.task.labels == ("n", "y")
    assert loaded.splits["train"].unlabeled == 1
    # `datasets` writes and passes on numbers without a class.
    rows = as_dataset().data.table.set_column(1, "label", [[7] * 40])
    message = "column 'label': row 1: must be a class below 2, or -1 for none, got 7"
    with pytest.raises(SclsearchError, match=message):
        task(datasets.Dataset(rows, info=as_dataset().info))


def test_a_file_without_any_text_is_refused(own: CustomTask) -> None:
    own.path.write_text(HEADER + ",pos\n ,neg\n")
    with pytest.raises(SclsearchError, match=r"reviews\.csv: all 2 rows have an empty text\. "):
        load_custom_task(own)


def test_invalid_data_columns_or_names_are_refused_before_writing(own: CustomTask) -> None:
    twice = pd.concat([FRAME, FRAME["text"]], axis=1)
    for changes, message in (
        ({"text": "txet"}, r"reviews: no column is called 'txet'\. Did you mean 'text'"),
        ({"data": twice}, "reviews: two columns are called 'text'"),
        ({"data": FRAME["text"]}, r"--task: must be a file, .*, got Series\. Convert"),
        ({"data": {"text": ["a"]}}, r"--task: must have a split train, got text\."),
        ({"name": "a/b"}, "name: must be a file name"),
    ):
        with pytest.raises(SclsearchError, match=f"^{message}"):
            task(**changes)
    assert list(own.path.parent.rglob("*")) == [own.path]


def test_separate_files_stay_separate_and_fractions_draw_the_split_without_a_file(
    own: CustomTask,
) -> None:
    other = own.path.with_name("other.csv")
    other.write_text(BALANCED.replace("row", "other"))
    for name, drawn, fractions in (
        ("test", {}, None),
        ("validation", {"test": 10}, (0.75, 0.0, 0.25)),
    ):
        changes: dict[str, Any] = {name: other, "fractions": fractions}
        splits = load_custom_task(replace(own, **changes)).splits
        assert sizes(splits) == {"train": 40 - sum(drawn.values()), **drawn, name: 40}
        assert splits[name].texts == tuple((f"other {n}",) for n in range(40))
        assert splits[name].y.tolist() == [0, 1] * 20


SHARES = [(0.8, 0.1, 0.1), (0.5, 0.25, 0.25), (0.6, 0.4, 0.0), (0.9, 0.0, 0.1), (1.0, 0.0, 0.0)]


def numbered(y: Sequence[float]) -> Split:
    return Split(tuple((str(n),) for n in range(len(y))), np.array(y))


@given(st.lists(st.integers(0, 4), min_size=30, max_size=200), st.sampled_from(SHARES))
def test_every_row_is_drawn_once_and_every_class_has_its_share(
    y: list[int], fractions: tuple[float, float, float]
) -> None:
    assume(len(set(y)) <= len(y) * fractions[0] / 2)
    splits = draw_splits(numbered(y), fractions, "rows.csv")
    rows = [int(text) for split in splits.values() for (text,) in split.texts]
    assert sorted(rows) == list(range(len(y)))
    assert [y[row] for row in rows] == [label for split in splits.values() for label in split.y]
    shares = dict(zip(("train", "validation", "test"), fractions, strict=True))
    assert set(splits) == {name for name, share in shares.items() if share}
    assert set(splits["train"].y) == set(y)
    for name in {*splits} - {"train"}:
        assert len(splits[name]) == max(1, round(shares[name] * len(y)))
        counts = np.bincount(splits[name].y, minlength=5)
        # Each class with remaining rows first gets one row; then the shares are rounded.
        assert np.abs(counts - shares[name] * np.bincount(y, minlength=5)).max() <= 5


def test_the_draw_is_pinned_also_of_scores() -> None:
    for y, pinned in (([0, 1] * 10, "11 14 0 3"), ([n / 1 for n in range(20)], "0 13 1 7")):
        splits = draw_splits(numbered(y), SHARES[0], "rows.csv")
        drawn = (*splits["validation"].texts, *splits["test"].texts)
        assert " ".join(text for (text,) in drawn) == pinned


def test_rows_with_equal_texts_are_drawn_together(own: CustomTask) -> None:
    rows = [f"row {n % 20},{'pos' if n % 3 else 'neg'}\n" for n in range(60)]
    own.path.write_text(HEADER + "".join(rows))
    loaded = load_custom_task(replace(own, fractions=(0.6, 0.2, 0.2)))
    texts = [set(split.texts) for split in loaded.splits.values()]
    assert [*map(len, texts)] == [12, 4, 4]
    assert len(set.union(*texts)) == 20
    assert loaded.notes[-1].startswith("20 of 20 texts have more than one label")
