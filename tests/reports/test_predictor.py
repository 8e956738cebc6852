"""An exported winner says of texts what it said of them in its study."""

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import sclsearch
from sclsearch.canonical import file_digest
from sclsearch.cli import app
from sclsearch.encoders.models import CARD
from sclsearch.errors import SclsearchError
from sclsearch.methods.lacon import LaCon
from sclsearch.reports.export import PARTS
from sclsearch.reports.export_record import read_record
from sclsearch.reports.report import report
from sclsearch.store.runs import RunStore
from sclsearch.tasks import load_task
from tests.reports.trained import Trained


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
        (
            "scores,body\n1,a\n",
            ("--text", "body", "--keep", "scores", "--format", "jsonl"),
            "scores would be printed twice",
        ),
        ("body\n", ("--text", "body"), "there are no rows"),
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


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "texts: must be a list, got one text. Pass [text]."),
        (None, "texts: must be a list, got None. Pass [text]."),
        (["one", ("one", "two")], "text 1: must have 1 part as in demo, got 2."),
        ([{"text": "one"}], "text 0: must be a text or a pair of texts, got {'text': 'one'}."),
        ([("one", 2)], "text 0: must be a text or a pair of texts, got ('one', 2)."),
    ],
)
def test_a_wrong_list_of_texts_is_refused(exported: Path, texts: Any, message: str) -> None:
    with pytest.raises(SclsearchError) as raised:
        sclsearch.predict(exported, texts)
    assert str(raised.value) == message


def test_a_folder_that_is_no_export_is_refused(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(SclsearchError) as raised:
        sclsearch.predict(tmp_path, ["one"])
    assert str(raised.value) == (
        f"{tmp_path / CARD}: not a file of `sclsearch export`: No such file or directory. Name the "
        "folder of an export, or export the study again."
    )
    card = json.loads((exported / CARD).read_text())
    older = {name: value for name, value in card.items() if name != "mean_test"}
    (exported / CARD).write_text(json.dumps(older))
    assert sclsearch.predict(exported, ["one"])
    (exported / CARD).write_text("{")
    with pytest.raises(SclsearchError, match="`sclsearch export`: Invalid JSON: EOF while"):
        sclsearch.predict(exported, ["one"])
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


def test_a_stream_is_read_one_batch_ahead_and_equals_the_predictions_of_all_texts(
    exported: Path,
) -> None:
    classifier = sclsearch.load(exported, batch_size=2)
    taken: list[str] = []

    def arriving() -> Iterator[str]:
        for text in ("good", "the film was bad", "dull", "a lovely film", "not bad"):
            taken.append(text)
            yield text

    stream = classifier.predict_stream(arriving())
    found = [next(stream)]
    assert len(taken) == 2
    found.extend(stream)
    assert [one.label for one in found] == [one.label for one in classifier.predict(taken)]
    scores = [list(one.scores.values()) for one in found]
    expected = [list(one.scores.values()) for one in sclsearch.predict(str(exported), taken)]
    assert np.array(scores) == pytest.approx(np.array(expected), abs=1e-5)
    stream = classifier.predict_stream(iter(["good", "bad", "it", ""]))
    assert [next(stream).label, next(stream).label]
    with pytest.raises(SclsearchError, match=r"^text 3: a text is empty\.$"):
        next(stream)


def test_probabilities_are_the_softmax_of_logits(exported: Path) -> None:
    classifier = sclsearch.load(exported, device="cpu")
    texts = ["good", "the film was bad"]
    found = classifier.predict_proba(texts)
    scores = torch.tensor([list(one.scores.values()) for one in classifier.predict(texts)])
    assert found == pytest.approx(scores.softmax(1).numpy(), abs=1e-6)
    assert [list(one.probabilities.values()) for one in classifier.predict(texts)] == [
        pytest.approx(row) for row in found.tolist()
    ]
    assert classifier.predict_proba([]).shape == (0, 2)
    assert classifier.predict([]) == []


def test_probabilities_of_cosines_have_the_temperature_of_the_loss() -> None:
    cosines = torch.tensor([[0.5, 0.3], [-1.0, 1.0]])
    assert torch.equal(LaCon(tau=0.1).probabilities(cosines), (cosines / 0.1).softmax(1))


def test_threads_share_a_classifier(exported: Path) -> None:
    classifier = sclsearch.load(exported)
    texts = [["good film", "bad"], ["dull", "a lovely film and not bad"]] * 4
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(classifier.predict_proba, texts))
    for own, expected in zip(found, map(classifier.predict_proba, texts), strict=True):
        assert own == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size: must be at least 1, got 0."),
        ({"device": "warp"}, "device warp: torch cannot use it: "),
        ({"device": "cuda:99"}, "device cuda:99: torch cannot use it: "),
    ],
)
def test_a_device_or_batch_size_that_cannot_be_is_refused(
    exported: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SclsearchError) as raised:
        sclsearch.load(exported, **options)
    assert str(raised.value).startswith(message)


def test_a_regression_has_no_probabilities(exported: Path, tmp_path: Path) -> None:
    record = read_record(exported)
    replace(record, labels=(), method="ce", place="ce").write(exported)
    file = tmp_path / "new.csv"
    file.write_text("body\na\n")
    asked = ["predict", str(exported), str(file), "--text", "body", "--proba"]
    refused = CliRunner().invoke(app, asked)
    assert str(refused.exception) == (
        "--proba: demo must have classes, got a regression. Leave it out."
    )


def test_standard_input_is_answered_in_its_format(exported: Path) -> None:
    asked = ["predict", str(exported), "-", "--text", "body", "--keep", "id"]
    texts = ["the film was good", 'awful, and "long"']
    classifier = sclsearch.load(exported)
    csv_in = 'id,body\n1,the film was good\n2,"awful, and ""long"""\n'
    done = CliRunner().invoke(app, [*asked, "--proba", "--batch-size", "1"], input=csv_in)
    assert done.exit_code == 0, done.output
    header, *rows = csv.reader(done.stdout.splitlines())
    assert header[2:] == ["predicted", "probability unacceptable", "probability acceptable"]
    assert [row[:2] for row in rows] == [[texts[0], "1"], [texts[1], "2"]]
    found = np.array([[float(cell) for cell in row[3:]] for row in rows])
    assert found == pytest.approx(classifier.predict_proba(texts), abs=1e-4)

    lines = "".join(json.dumps({"id": n, "body": text}) + "\n" for n, text in enumerate(texts))
    done = CliRunner().invoke(app, [*asked, "--format", "jsonl"], input=lines)
    assert done.exit_code == 0, done.output
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["id"], one["body"]) for one in answers] == [("0", texts[0]), ("1", texts[1])]
    for one, own in zip(answers, classifier.predict(texts), strict=True):
        assert (one["predicted"], list(one["scores"])) == (own.label, list(classifier.labels))


@pytest.mark.parametrize("of", ["file", "standard input"])
def test_a_row_with_an_empty_text_has_no_prediction(
    exported: Path, tmp_path: Path, of: str
) -> None:
    texts = 'id,body\n1," "\n2,the film was good\n3,\n4,awful\n'
    file = tmp_path / "new.csv"
    file.write_text(texts)
    asked = ["predict", str(exported), str(file) if of == "file" else "-", "--text", "body"]
    done = CliRunner().invoke(app, [*asked, "--keep", "id"], input=texts)
    assert done.exit_code == 0, done.output
    _, *rows = csv.reader(done.stdout.splitlines())
    assert [row[1] for row in rows] == ["1", "2", "3", "4"]
    assert [bool(row[2]) for row in rows] == [False, True, False, True]
    assert [row[2:] for row in (rows[0], rows[2])] == [["", "", ""]] * 2
    expected = sclsearch.predict(exported, ["the film was good", "awful"])
    assert [rows[1][2], rows[3][2]] == [one.label for one in expected]
    assert "2 rows with an empty text: no prediction. Lines: 2, 4\n" in done.stderr


def test_a_json_line_with_an_empty_text_has_null_as_its_prediction(exported: Path) -> None:
    asked = ["predict", str(exported), "-", "--text", "body", "--format", "jsonl"]
    done = CliRunner().invoke(app, asked, input='{"body": ""}\n{"body": "good"}\n')
    assert done.exit_code == 0, done.output
    empty, full = map(json.loads, done.stdout.splitlines())
    assert empty == {"body": "", "predicted": None, "scores": None}
    assert full.keys() == empty.keys()
    assert full["predicted"] is not None


@pytest.mark.parametrize(
    ("form", "lines", "message"),
    [
        ("csv", "body\ngood,bad\n", "standard input: line 2: must have 1 columns, got 2. "),
        ("csv", 'body\n"good\n', "standard input: line 2: invalid CSV: "),
        ("csv", "bdy\ngood\n", "standard input: no column is called 'body'. Did you mean 'bdy'?"),
        ("jsonl", '{"body": "good"}\n{"bdy": 1}\n', "standard input: line 2: 'body' is missing."),
        ("jsonl", "[1]\n", "standard input: line 1: must be a JSON object, got a list."),
        (
            "csv",
            b"body\ngood\n\xff\n",
            "standard input: line 3: byte 1 is not valid UTF-8, got 0xff. Mend the line.",
        ),
    ],
)
def test_an_invalid_line_of_standard_input_is_named(
    exported: Path, form: str, lines: str | bytes, message: str
) -> None:
    asked = ["predict", str(exported), "-", "--text", "body", "--format", form]
    refused = CliRunner().invoke(app, asked, input=lines)
    assert isinstance(refused.exception, SclsearchError)
    assert str(refused.exception).startswith(message)


def test_a_reader_that_has_enough_is_no_error(exported: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.csv"
    file.write_text("body\n" + "good\n" * 20_000)
    words = [sys.executable, "-m", "sclsearch", "predict", str(exported), str(file)]
    words += ["--text", "body", "--batch-size", "100"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline().startswith(b"body,predicted")
        running.stdout.close()
        assert running.stderr.read().decode() == ""
    assert running.returncode == 0


def test_an_output_that_cannot_be_written_is_named(
    exported: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.csv"
    file.write_text("body\ngood\n")
    words = [sys.executable, "-m", "sclsearch", "predict", str(exported), str(file)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*words, "--text", "body"], stdout=full, check=False)
    assert done.returncode == 2
    assert capfd.readouterr().err == (
        "standard output: cannot be written: No space left on device. Write the predictions "
        "elsewhere.\n"
    )
