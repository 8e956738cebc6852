"""Tests of predictions by an exported winner: Python API and `sclsearch predict`."""

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
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

import sclsearch
from sclsearch.canonical import file_digest
from sclsearch.cli import app
from sclsearch.encoders.models import CARD
from sclsearch.errors import SclsearchError
from sclsearch.methods.lacon import LaCon
from sclsearch.reports.predictor import PARTS, read_record
from sclsearch.reports.report import finished_winner, report
from sclsearch.store.runs import RunStore
from sclsearch.tasks import load_task
from tests.reports.trained import Trained


def test_predictions_of_the_test_rows_match_the_stored_ones(
    trained: Trained, exported: Path
) -> None:
    winner = finished_winner(report(trained.storage, "mine"))
    run = RunStore(trained.storage).get(winner.seeds[winner.reported[0]].key)
    assert run is not None
    split = load_task("demo").splits["test"]
    predictions = sclsearch.predict(exported, split.texts)
    labels = load_task("demo").task.labels
    counts = [[0, 0], [0, 0]]
    for truth, one in zip(split.y, predictions, strict=True):
        counts[int(truth)][labels.index(str(one.label))] += 1
    assert run.test["confusion"] == counts
    assert all(one.scores.keys() == set(labels) for one in predictions)
    assert all(one.scores[str(one.label)] == max(one.scores.values()) for one in predictions)


def test_predictions_for_a_file_are_printed_as_csv(exported: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.csv"
    file.write_text('id,body\n1,the film was good\n2,"awful, and ""long"""\n', encoding="utf-8")
    command = ["predict", str(exported), str(file)]
    result = CliRunner().invoke(app, [*command, "--text", "body"])
    assert result.exit_code == 0, result.output
    header, *rows = csv.reader(result.stdout.splitlines())
    assert header == ["row", "body", "predicted", "score unacceptable", "score acceptable"]
    texts = ["the film was good", 'awful, and "long"']
    assert [row[:2] for row in rows] == [["1", texts[0]], ["2", texts[1]]]
    predictions = sclsearch.predict(exported, texts)
    assert [row[2] for row in rows] == [one.label for one in predictions]
    assert [float(row[3]) for row in rows] == pytest.approx(
        [one.scores["unacceptable"] for one in predictions], rel=1e-4
    )
    shown = ["--text", "body", "--id", "id", "--keep", "more", "--no-text", "--delimiter", "tab"]
    file.write_text("more\tbody\tid\nm\tthe film was good\ta7\nn\tbad\ta8\n", encoding="utf-8")
    result = CliRunner().invoke(app, [*command, *shown])
    header, *rows = csv.reader(result.stdout.splitlines())
    assert header[:3] == ["id", "more", "predicted"]
    assert [row[:2] for row in rows] == [["a7", "m"], ["a8", "n"]]


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
def test_a_file_with_invalid_columns_or_without_rows_is_refused(
    exported: Path, tmp_path: Path, content: str, text: tuple[str, ...], message: str
) -> None:
    file = tmp_path / "new.csv"
    file.write_text(content)
    result = CliRunner().invoke(app, ["predict", str(exported), str(file), *text])
    assert isinstance(result.exception, SclsearchError)
    assert message in str(result.exception)
    assert not result.stdout


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "texts: must be a list, got one text. Pass [text]."),
        (None, "texts: must be a list, got None. Pass [text]."),
        (["one", ("one", "two")], "text 1: must have 1 part as in demo, got 2. Correct it."),
        (
            [{"text": "one"}],
            "text 0: must be a text or a pair of texts, got {'text': 'one'}. Correct it.",
        ),
        ([("one", 2)], "text 0: must be a text or a pair of texts, got ('one', 2). Correct it."),
    ],
)
def test_an_invalid_list_of_texts_is_refused(exported: Path, texts: Any, message: str) -> None:
    with pytest.raises(SclsearchError) as raised:
        sclsearch.predict(exported, texts)
    assert str(raised.value) == message


def test_a_folder_without_a_valid_record_is_refused(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(SclsearchError) as raised:
        sclsearch.predict(tmp_path, ["one"])
    assert str(raised.value) == (
        f"{tmp_path / CARD}: not a file of `sclsearch export`: No such file or directory. Name the "
        "folder of an export, or export the study again."
    )
    card = json.loads((exported / CARD).read_text())
    (exported / CARD).write_text("{")
    with pytest.raises(SclsearchError, match="`sclsearch export`: invalid JSON: EOF while"):
        sclsearch.predict(exported, ["one"])
    (exported / CARD).write_text(json.dumps({**card, "seeds": "many"}))
    with pytest.raises(SclsearchError, match="seeds: must be a valid integer, got 'many'"):
        sclsearch.predict(exported, ["one"])
    (exported / CARD).write_text(json.dumps({**card, "method_digest": "0" * 64}))
    with pytest.raises(SclsearchError, match="must be scl, the method of the training"):
        sclsearch.predict(exported, ["one"])


def test_a_custom_method_is_imported_only_with_consent_and_a_matching_hash(
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
    with pytest.raises(SclsearchError, match="with an unchanged file"):
        sclsearch.predict(exported, ["one"], method=named)
    assert not mark.exists()


def test_a_truncated_or_missing_weights_file_is_an_error_that_names_it(exported: Path) -> None:
    path = exported / PARTS
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SclsearchError, match=rf"^{path}: not a file of `sclsearch export`"):
        sclsearch.predict(exported, ["one"])
    path.unlink()
    with pytest.raises(SclsearchError, match=r"No such file or directory.* Export the study again"):
        sclsearch.predict(exported, ["one"])


def test_a_stream_is_read_one_batch_ahead_and_predicts_like_a_list(
    exported: Path,
) -> None:
    classifier = sclsearch.load(exported, batch_size=2)
    read: list[str] = []

    def arriving() -> Iterator[str]:
        for text in ("good", "the film was bad", "dull", "a lovely film", "not bad"):
            read.append(text)
            yield text

    stream = classifier.predict_stream(arriving())
    predictions = [next(stream)]
    assert len(read) == 2
    predictions.extend(stream)
    assert [one.label for one in predictions] == [one.label for one in classifier.predict(read)]
    scores = [list(one.scores.values()) for one in predictions]
    expected = [list(one.scores.values()) for one in sclsearch.predict(str(exported), read)]
    assert np.array(scores) == pytest.approx(np.array(expected), abs=1e-5)
    stream = classifier.predict_stream(iter(["good", "bad", "it", ""]))
    assert [next(stream).label, next(stream).label]
    with pytest.raises(SclsearchError, match=r"^text 3: a text is empty\. "):
        next(stream)


def test_probabilities_are_the_softmax_of_logits(exported: Path) -> None:
    classifier = sclsearch.load(exported, device="cpu")
    texts = ["good", "the film was bad"]
    probabilities = classifier.predict_proba(texts)
    scores = torch.tensor([list(one.scores.values()) for one in classifier.predict(texts)])
    assert probabilities == pytest.approx(scores.softmax(1).numpy(), abs=1e-6)
    assert [list(one.probabilities.values()) for one in classifier.predict(texts)] == [
        pytest.approx(row) for row in probabilities.tolist()
    ]
    assert classifier.predict_proba([]).shape == (0, 2)
    assert classifier.predict([]) == []


def test_probabilities_of_cosines_use_the_temperature_of_the_loss() -> None:
    cosines = torch.tensor([[0.5, 0.3], [-1.0, 1.0]])
    assert torch.equal(LaCon(tau=0.1).probabilities(cosines), (cosines / 0.1).softmax(1))


def test_threads_can_share_a_classifier(exported: Path) -> None:
    classifier = sclsearch.load(exported)
    texts = [["good film", "bad"], ["dull", "a lovely film and not bad"]] * 4
    with ThreadPoolExecutor(4) as pool:
        probabilities = list(pool.map(classifier.predict_proba, texts))
    for own, expected in zip(probabilities, map(classifier.predict_proba, texts), strict=True):
        assert own == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size: must be at least 1, got 0."),
        ({"device": "warp"}, "device warp: torch cannot use it: "),
        ({"device": "cuda:99"}, "device cuda:99: torch cannot use it: "),
    ],
)
def test_an_invalid_device_or_batch_size_is_refused(
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
    command = ["predict", str(exported), str(file), "--text", "body", "--proba"]
    result = CliRunner().invoke(app, command)
    assert str(result.exception) == (
        "--proba: demo must have classes, got a regression. Leave it out."
    )


def test_predictions_for_standard_input_have_its_format(exported: Path) -> None:
    command = ["predict", str(exported), "-", "--text", "body", "--keep", "id"]
    texts = ["the film was good", 'awful, and "long"']
    classifier = sclsearch.load(exported)
    csv_in = 'id,body\n1,the film was good\n2,"awful, and ""long"""\n'
    result = CliRunner().invoke(app, [*command, "--proba", "--batch-size", "1"], input=csv_in)
    assert result.exit_code == 0, result.output
    header, *rows = csv.reader(result.stdout.splitlines())
    assert header[3:] == ["predicted", "probability unacceptable", "probability acceptable"]
    assert [row[:3] for row in rows] == [["1", texts[0], "1"], ["2", texts[1], "2"]]
    probabilities = np.array([[float(cell) for cell in row[4:]] for row in rows])
    assert probabilities == pytest.approx(classifier.predict_proba(texts), abs=1e-4)

    lines = "".join(json.dumps({"id": n, "body": text}) + "\n" for n, text in enumerate(texts))
    result = CliRunner().invoke(app, [*command, "--format", "jsonl"], input=lines)
    assert result.exit_code == 0, result.output
    predictions = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(one["id"], one["body"]) for one in predictions] == [(0, texts[0]), (1, texts[1])]
    for one, own in zip(predictions, classifier.predict(texts), strict=True):
        assert (one["predicted"], list(one["scores"])) == (own.label, list(classifier.labels))


def test_json_lines_have_the_types_of_the_input(exported: Path, tmp_path: Path) -> None:
    kept = {"id": 2**60, "share": 0.5, "seen": True, "note": None, "code": "007"}
    file = tmp_path / "new.parquet"
    pq.write_table(pa.Table.from_pylist([{"body": "good", **kept}]), file)
    command = ["predict", str(exported), str(file), "--text", "body", "--format", "jsonl"]
    result = CliRunner().invoke(app, [*command, *(f"--keep={name}" for name in kept)])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert {name: printed[name] for name in ("body", *kept)} == {"body": "good", **kept}


@pytest.mark.parametrize("source", ["file", "standard input"])
def test_rows_with_an_empty_text_are_left_out_and_counted(
    exported: Path, tmp_path: Path, source: str
) -> None:
    texts = 'id,body\na1," "\na2,the film was good\na3,\na4,awful\n'
    file = tmp_path / "new.csv"
    file.write_text(texts)
    command = ["predict", str(exported), str(file) if source == "file" else "-", "--text", "body"]
    expected = sclsearch.predict(exported, ["the film was good", "awful"])
    name = file if source == "file" else source
    for options, rows in (([], ["2", "4"]), (["--id", "id"], ["a2", "a4"])):
        result = CliRunner().invoke(app, [*command, *options], input=texts)
        assert result.exit_code == 0, result.output
        _, *printed = csv.reader(result.stdout.splitlines())
        assert [row[0] for row in printed] == rows
        assert [row[2] for row in printed] == [one.label for one in expected]
        empty = ", ".join(f"{row[:-1]}{int(row[-1]) - 1}" for row in rows)
        assert f"{name}: 2 rows with an empty text left out: {empty}\n" in result.stderr


def test_json_lines_have_the_row_and_leave_out_the_text(exported: Path) -> None:
    command = ["predict", str(exported), "-", "--text", "body", "--format", "jsonl", "--no-text"]
    result = CliRunner().invoke(app, command, input='{"body": ""}\n' * 12 + '{"body": "good"}\n')
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed.keys() == {"row", "predicted", "scores"}
    assert printed["row"] == 13
    assert "12 rows with an empty text left out: 1, 2" in result.stderr
    assert result.stderr.endswith("10, …\n")


@pytest.mark.parametrize(
    ("form", "lines", "message"),
    [
        ("csv", "body\na\ngood,bad\n", "standard input: cannot be read: Error tokenizing data. "),
        ("csv", "bdy\ngood\n", "standard input: no column is called 'body'. Did you mean 'bdy'?"),
        ("jsonl", "[1]\n", "standard input: row 1: must be a JSON object, got 1."),
        ("csv", b"body\ngood\n\xff\n", "standard input: cannot be read: 'utf-8' codec"),
    ],
)
def test_an_invalid_standard_input_is_an_error(
    exported: Path, form: str, lines: str | bytes, message: str
) -> None:
    command = ["predict", str(exported), "-", "--text", "body", "--format", form]
    result = CliRunner().invoke(app, command, input=lines)
    assert isinstance(result.exception, SclsearchError)
    assert str(result.exception).startswith(message)


def test_a_closed_output_pipe_is_not_an_error(exported: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.csv"
    file.write_text("body\n" + "good\n" * 20_000)
    command = [sys.executable, "-m", "sclsearch", "predict", str(exported), str(file)]
    command += ["--text", "body", "--batch-size", "100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline().startswith(b"row,body,predicted")
        running.stdout.close()
        assert running.stderr.read().decode() == ""
    assert running.returncode == 0


def test_an_unwritable_output_is_an_error_that_names_it(
    exported: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.csv"
    file.write_text("body\ngood\n")
    command = [sys.executable, "-m", "sclsearch", "predict", str(exported), str(file)]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run([*command, "--text", "body"], stdout=full, check=False)
    assert result.returncode == 2
    assert capfd.readouterr().err == (
        "standard output: cannot be written: No space left on device. Write the predictions "
        "elsewhere.\n"
    )
