"""An exported winner says of texts what it said of them in its study."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sclsearch
from sclsearch.canonical import file_digest
from sclsearch.cli import app
from sclsearch.encoders.models import CARD
from sclsearch.errors import SclsearchError
from sclsearch.reports.export import PARTS
from sclsearch.reports.report import report
from sclsearch.store.runs import RunStore
from sclsearch.tasks import load_task
from tests.reports.trained import Trained


@pytest.fixture
def exported(once: Trained, tmp_path: Path) -> Path:
    once.export(tmp_path / "winner")
    return tmp_path / "winner"


def test_test_rows_get_the_predictions_that_are_stored(once: Trained, exported: Path) -> None:
    winner = report(once.storage, "mine").winner
    assert winner is not None
    run = RunStore(once.storage).get(winner.seeds[winner.reported[0]].key)
    assert run is not None
    split = load_task("demo").splits["test"]
    found = sclsearch.predict(exported, split.texts)
    labels = load_task("demo").task.labels
    counts = [[0, 0], [0, 0]]
    for truth, one in zip(split.y, found, strict=True):
        counts[int(truth)][labels.index(str(one.label))] += 1
    assert run.test["confusion"] == counts
    assert all(one.scores.keys() == set(labels) for one in found)
    assert all(one.scores[str(one.label)] == max(one.scores.values()) for one in found)


def test_a_text_gets_the_same_prediction_alone_and_among_others(exported: Path) -> None:
    texts = ["the film was good", "it was awful, and long", "a"]
    together = sclsearch.predict(str(exported), texts)
    (alone,) = sclsearch.predict(exported, [texts[1]])
    assert alone.label == together[1].label
    assert list(alone.scores.values()) == pytest.approx(list(together[1].scores.values()), abs=1e-5)
    assert sclsearch.predict(exported, []) == []


def test_the_texts_of_a_file_are_labelled_as_csv(exported: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.csv"
    file.write_text('id,body\n1,the film was good\n2,"awful, and ""long"""\n', encoding="utf-8")
    asked = ["predict", str(exported), str(file)]
    done = CliRunner().invoke(app, [*asked, "--text", "body"])
    assert done.exit_code == 0, done.output
    header, *rows = csv.reader(done.stdout.splitlines())
    assert header == ["body", "predicted", "score unacceptable", "score acceptable"]
    assert [row[0] for row in rows] == ["the film was good", 'awful, and "long"']
    found = sclsearch.predict(exported, [row[0] for row in rows])
    assert [row[1] for row in rows] == [one.label for one in found]
    assert [float(row[2]) for row in rows] == pytest.approx(
        [one.scores["unacceptable"] for one in found], rel=1e-4
    )
    kept = CliRunner().invoke(app, [*asked, "--text", "body", "--keep", "id"])
    header, *rows = csv.reader(kept.stdout.splitlines())
    assert header[:3] == ["body", "id", "predicted"]
    assert [row[1] for row in rows] == ["1", "2"]


@pytest.mark.parametrize(
    ("content", "text", "message"),
    [
        ("body\na\n", (), "--text: must name one column of"),
        ("body\na\n", ("--text", "body", "--keep", "body"), "body would be printed twice"),
        ("body\na\n", ("--text", "bdy"), "no column is called 'bdy'"),
        ("body\n", ("--text", "body"), "there are no rows"),
        ('body\na\n" "\n', ("--text", "body"), "line 3: a text is empty"),
    ],
)
def test_a_file_without_texts_is_refused(
    exported: Path, tmp_path: Path, content: str, text: tuple[str, ...], message: str
) -> None:
    file = tmp_path / "new.csv"
    file.write_text(content)
    refused = CliRunner().invoke(app, ["predict", str(exported), str(file), *text])
    assert isinstance(refused.exception, SclsearchError)
    assert message in str(refused.exception)
    assert not refused.stdout


def test_a_pair_where_texts_stand_alone_is_refused(exported: Path) -> None:
    with pytest.raises(SclsearchError, match="text 1: must have 1 part as in demo, got 2"):
        sclsearch.predict(exported, ["one", ("one", "two")])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "texts: must be a list, got one text. Pass [text]."),
        (["one", " "], "text 1: a text is empty."),
    ],
)
def test_a_wrong_list_of_texts_is_refused(exported: Path, texts: list[str], message: str) -> None:
    with pytest.raises(SclsearchError) as raised:
        sclsearch.predict(exported, texts)
    assert str(raised.value) == message


def test_a_folder_that_is_no_export_is_refused(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(SclsearchError, match=r"sclsearch\.json: not a file of `sclsearch export"):
        sclsearch.predict(tmp_path, ["one"])
    card = json.loads((exported / CARD).read_text())
    older = {name: value for name, value in card.items() if name != "mean_test"}
    (exported / CARD).write_text(json.dumps(older))
    assert sclsearch.predict(exported, ["one"])
    (exported / CARD).write_text(json.dumps({**card, "seeds": "many"}))
    with pytest.raises(SclsearchError, match="seeds: Input should be a valid integer"):
        sclsearch.predict(exported, ["one"])
    (exported / CARD).write_text(json.dumps({**card, "place": ""}))
    with pytest.raises(SclsearchError, match="an older version wrote it"):
        sclsearch.predict(exported, ["one"])
    (exported / CARD).write_text(json.dumps({**card, "method_digest": "0" * 64}))
    with pytest.raises(SclsearchError, match="is a built-in method, but the record has"):
        sclsearch.predict(exported, ["one"])


def test_code_that_an_export_names_runs_only_if_the_caller_names_it_and_it_is_unchanged(
    exported: Path, tmp_path: Path
) -> None:
    mark, file = tmp_path / "imported", tmp_path / "theirs.py"
    file.write_text(f"open({str(mark)!r}, 'w')\n", encoding="utf-8")
    named = f"{file}:Theirs"
    card = json.loads((exported / CARD).read_text())
    recorded = {**card, "place": named, "method_digest": file_digest(file)}
    (exported / CARD).write_text(json.dumps(recorded))
    with pytest.raises(SclsearchError, match="not imported without your consent"):
        sclsearch.predict(exported, ["one"])
    (exported / CARD).write_text(json.dumps({**recorded, "method_digest": "0" * 64}))
    with pytest.raises(SclsearchError, match="its hash differs"):
        sclsearch.predict(exported, ["one"], method=named)
    assert not mark.exists()


def test_parts_that_are_cut_off_or_gone_are_named(exported: Path) -> None:
    splits = exported / PARTS
    splits.write_bytes(splits.read_bytes()[:-1])
    with pytest.raises(SclsearchError, match=rf"^{splits}: not a file of `sclsearch export`"):
        sclsearch.predict(exported, ["one"])
    splits.unlink()
    with pytest.raises(SclsearchError, match=r"No such file or directory.* Export the study again"):
        sclsearch.predict(exported, ["one"])
