"""Tests of predictions by an exported winner or ensemble: Python API and `sclsearch predict`."""

import csv
import json
import math
import shutil
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
from safetensors.torch import load_file, save
from typer.testing import CliRunner, Result

import sclsearch
from sclsearch.canonical import file_digest
from sclsearch.cli import app
from sclsearch.encoders.models import CARD, encoder_folder, model_folder
from sclsearch.errors import SclsearchError
from sclsearch.exports.predictor import PARTS, read_record
from sclsearch.methods.lacon import LaCon
from sclsearch.reports.report import finished_winner, report
from sclsearch.store.runs import RunStore
from sclsearch.tasks import load_task

TEXTS = ["the film was good", 'awful, and "long"']
CSV = 'id,body,more\n7,the film was good,m\n8,"awful, and ""long""",n\n'
BODY = ("--text", "body")


@pytest.fixture(scope="module")
def winner(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the exported winner, which tests must not change."""
    folder = tmp_path_factory.mktemp("export") / "winner"
    sclsearch.export("mine", folder, storage=trained, force=True)
    return folder


@pytest.fixture
def exported(winner: Path, tmp_path: Path) -> Path:
    """Return a copy of that folder, which the test may change."""
    return Path(shutil.copytree(winner, tmp_path / "winner"))


@pytest.fixture(scope="module")
def ensemble(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an exported ensemble of both seeds."""
    folder = tmp_path_factory.mktemp("export") / "both"
    command = ["export", "mine", str(folder), "--storage", str(trained), "--ensemble"]
    result = CliRunner().invoke(app, [*command, "--force"])
    assert result.exit_code == 0, result.output
    assert "an ensemble of 2 seeds, whose own scores average accuracy" in result.stdout
    return folder


def invoke(folder: Path, file: object, *options: str, texts: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["predict", str(folder), str(file), *options], input=texts)


def predict(folder: Path, file: object, *options: str, texts: str = "") -> tuple[list[str], str]:
    """Return the lines of a command's output, and its messages."""
    result = invoke(folder, file, *options, texts=texts)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines(), result.stderr


def test_predictions_of_the_test_rows_match_the_stored_ones(trained: Path, winner: Path) -> None:
    line = finished_winner(report(trained, "mine"))
    run = RunStore(trained).get(line.seeds[line.reported[0]].key)
    assert run is not None
    data = load_task("demo")
    predictions = sclsearch.load(winner).predict(data.splits["test"].texts)
    counts = np.zeros((2, 2), int)
    for truth, one in zip(data.splits["test"].y, predictions, strict=True):
        counts[int(truth), data.task.labels.index(str(one.label))] += 1
    assert run.test["confusion"] == counts.tolist()
    assert all(one.scores.keys() == set(data.task.labels) for one in predictions)
    assert all(one.scores[str(one.label)] == max(one.scores.values()) for one in predictions)


def test_an_ensemble_has_the_mean_probabilities_and_scores_of_its_members(
    trained: Path, ensemble: Path
) -> None:
    whole = sclsearch.load(ensemble)
    assert whole.record.members == ("seed-0", "seed-1")
    first, second = (
        sclsearch.load(ensemble / name).predict_proba(TEXTS) for name in whole.record.members
    )
    assert not np.allclose(first, second)
    expected = (first + second) / 2
    assert whole.predict_proba(TEXTS) == pytest.approx(expected)
    for one, row in zip(whole.predict(TEXTS), expected, strict=True):
        assert one.label == whole.labels[row.argmax()]
        assert list(one.scores.values()) == pytest.approx(row)
    line = finished_winner(report(trained, "mine"))
    assert whole.record.test == pytest.approx(np.mean([seed.test or 0 for seed in line.seeds]))
    assert whole.record.validation == pytest.approx(line.score)


def test_an_ensemble_has_several_members_of_the_same_labels_and_is_no_encoder(
    trained: Path, ensemble: Path, tmp_path: Path
) -> None:
    assert model_folder(f"{ensemble}/seed-0") == ensemble / "seed-0"
    with pytest.raises(SclsearchError, match=r"ensemble, pass the folder of one seed\.$"):
        model_folder(str(ensemble))
    given: dict[str, Any] = {"storage": trained, "ensemble": True, "force": True}
    with pytest.raises(SclsearchError, match=r"^ensemble: rule mean/best .* 2 seeds, got 1"):
        sclsearch.export("mine", tmp_path / "one", rule="mean/best", **given)
    card = shutil.copytree(ensemble, tmp_path / "two") / CARD
    card.write_text(json.dumps({**json.loads(card.read_text()), "labels": ["one"]}))
    with pytest.raises(SclsearchError, match="labels: must be those of seed-0"):
        sclsearch.load(tmp_path / "two")


def test_a_file_or_standard_input_is_printed_as_csv(winner: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.csv"
    file.write_text(CSV, encoding="utf-8")
    header, *rows = csv.reader(predict(winner, file, *BODY)[0])
    assert header == ["row", "body", "predicted", "score unacceptable", "score acceptable"]
    predictions = sclsearch.load(winner).predict(TEXTS)
    assert [row[:3] for row in rows] == [
        [str(number), text, one.label]
        for number, (text, one) in enumerate(zip(TEXTS, predictions, strict=True), 1)
    ]
    scores = np.array([list(one.scores.values()) for one in predictions])
    assert np.array([row[3:] for row in rows], float) == pytest.approx(scores, rel=1e-4)
    options = (*BODY, "--proba", "--batch-size", "1", "--id", "id", "--keep", "more", "--no-text")
    header, *rows = csv.reader(predict(winner, "-", *options, texts=CSV)[0])
    assert header[:3] == ["id", "more", "predicted"]
    assert header[3:] == ["probability unacceptable", "probability acceptable"]
    assert [row[:2] for row in rows] == [["7", "m"], ["8", "n"]]
    found = np.array([row[3:] for row in rows], float)
    assert found == pytest.approx(sclsearch.load(winner).predict_proba(TEXTS), abs=1e-4)


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("text,label\ngood,a\n", ()),
        ("a,sentence,b\n1,good,2\n", ()),
        ("body\ngood\n", ()),
        ("id,body,more\n1,good,2\n", ("--id", "id", "--keep", "more")),
    ],
)
def test_the_obvious_text_column_is_the_default(
    winner: Path, content: str, options: tuple[str, ...]
) -> None:
    (row,) = csv.DictReader(predict(winner, "-", *options, texts=content)[0])
    assert "good" in row.values()
    assert row["predicted"] == sclsearch.load(winner).predict(["good"])[0].label


def test_cells_have_no_control_characters_and_on_request_no_formulas(winner: Path) -> None:
    texts = 'body,id\n"=1+1 \x1b[31m",-3\n'
    for options, expected in (
        ((), ["-3", r"=1+1 \x1b[31m"]),
        (("--safe-cells",), ["'-3", r"'=1+1 \x1b[31m"]),
    ):
        _, row = csv.reader(predict(winner, "-", *BODY, "--id", "id", *options, texts=texts)[0])
        assert row[:2] == expected


def test_json_lines_have_the_types_of_the_input(winner: Path, tmp_path: Path) -> None:
    kept = {"id": 2**60, "share": 0.5, "seen": True, "note": None, "code": "007"}
    file = tmp_path / "new.parquet"
    pq.write_table(pa.Table.from_pylist([{"body": text, **kept} for text in TEXTS]), file)
    options = (*BODY, "--format", "jsonl", *(f"--keep={name}" for name in kept))
    rows = [json.loads(line) for line in predict(winner, file, *options)[0]]
    for row, text, own in zip(rows, TEXTS, sclsearch.load(winner).predict(TEXTS), strict=True):
        assert {"body": text, **kept, "predicted": own.label}.items() <= row.items()
        assert row["scores"].keys() == own.scores.keys()


def test_rows_with_an_empty_text_are_left_out_and_counted(winner: Path) -> None:
    texts = 'id,body\na1," "\na2,the film was good\na3,\na4,awful\n'
    found = sclsearch.load(winner).predict(["the film was good", "awful"])
    labels = [str(one.label) for one in found]
    own = ("--id", "id")
    for options, rows, empty in (((), "24", "row 1, 3"), (own, ("a2", "a4"), "id a1, a3")):
        lines, messages = predict(winner, "-", *BODY, *options, texts=texts)
        printed = [(row[0], row[2]) for row in csv.reader(lines[1:])]
        assert printed == [*zip(rows, labels, strict=True)]
        assert f"standard input: 2 rows with an empty text left out: {empty}\n" in messages


def test_texts_are_in_the_column_of_the_training_or_else_in_the_only_one(exported: Path) -> None:
    card = json.loads((exported / CARD).read_text())
    (exported / CARD).write_text(json.dumps({**card, "columns": ["message"]}))
    for content in ("message,text\nthe film was good,-\n", "body\nthe film was good\n"):
        lines, _ = predict(exported, "-", texts=content)
        assert next(csv.reader(lines[1:]))[:2] == ["1", "the film was good"]


def test_invalid_inputs_are_refused_with_their_place(winner: Path) -> None:
    for content, options, message in (
        (
            "a,b,c\na,b,c\n",
            (),
            "text, as demo, got none that is clear. Pass --text COLUMN; the columns are a, b, c.",
        ),
        ('" a\nb"\ngood\n', BODY, "no column is called 'body'. Known:  a b."),
        ("bdy\ngood\n", BODY, "no column is called 'body'. Did you mean 'bdy'? Known: bdy."),
        ('{"body": "a"}\n', (*BODY, "--keep", "body", "--format", "jsonl"), "printed twice"),
        (b"body\ngood\n\xff\n", BODY, "invalid start byte. Save it as UTF-8."),
    ):
        result = invoke(winner, "-", *options, texts=content)
        assert isinstance(result.exception, SclsearchError)
        assert message in str(result.exception)
    given: list[tuple[Any, str]] = [
        ("one text", "texts: must be a list, got one text"),
        (["one", ("one", "two")], "text 1: must have 1 part as in demo, got 2"),
        ([{"text": "one"}], "text 0: must be a text or a pair of texts, got {'text': 'one'}"),
    ]
    for texts, message in given:
        with pytest.raises(SclsearchError, match=f"^{message}"):
            sclsearch.load(winner).predict(texts)


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
        sclsearch.load(exported).predict(["one"])
    (exported / CARD).write_text(json.dumps({**recorded, "method_digest": "0" * 64}))
    with pytest.raises(SclsearchError, match="with an unchanged file"):
        sclsearch.load(exported, method=named).predict(["one"])
    (exported / CARD).write_text(json.dumps({**card, "method_digest": "0" * 64}))
    with pytest.raises(SclsearchError, match="must be scl, the method of the train"):
        sclsearch.load(exported).predict(["one"])
    assert not mark.exists()


def test_a_damaged_weights_file_is_an_error_that_names_it(exported: Path) -> None:
    (encoder_folder(exported) / "link").symlink_to("nowhere")
    tokenizer = encoder_folder(exported) / "tokenizer.json"
    tokenizer.rename(exported / "elsewhere")
    with pytest.raises(SclsearchError, match=f"^{tokenizer.parent}: lacks tokenizer.json"):
        sclsearch.load(exported)
    (exported / "elsewhere").rename(tokenizer)
    path = exported / PARTS
    weights = load_file(path)
    for content in (path.read_bytes()[:-1], save({n: t * math.nan for n, t in weights.items()})):
        path.write_bytes(content)
        with pytest.raises(SclsearchError, match=rf"^{path}: not a file of `sclsearch export`"):
            sclsearch.load(exported)


def test_a_stream_is_read_one_batch_ahead_and_predicts_like_a_list(winner: Path) -> None:
    classifier = sclsearch.load(winner, batch_size=2)
    read: list[str] = []

    def arriving() -> Iterator[str]:
        for text in ("good", "the film was bad", "dull", "a lovely film", ""):
            read.append(text)
            yield text

    stream = classifier.predict_stream(arriving())
    predictions = [next(stream)]
    assert len(read) == 2
    predictions += [next(stream) for _ in range(3)]
    expected = sclsearch.load(str(winner)).predict(read[:4])
    assert [one.label for one in predictions] == [one.label for one in expected]
    scores, lists = (np.array([[*o.scores.values()] for o in p]) for p in (predictions, expected))
    assert scores == pytest.approx(lists, abs=1e-5)
    with pytest.raises(SclsearchError, match=r"^text 4: a text is empty\. "):
        next(stream)


def test_probabilities_are_the_softmax_of_logits_or_of_cosines_over_tau(winner: Path) -> None:
    classifier = sclsearch.load(winner, device="cpu")
    predictions = classifier.predict(TEXTS)
    found = torch.tensor([list(one.probabilities.values()) for one in predictions])
    scores = torch.tensor([list(one.scores.values()) for one in predictions])
    assert found == pytest.approx(scores.softmax(1), abs=1e-6)
    assert classifier.predict_proba(TEXTS) == pytest.approx(found.numpy(), abs=1e-6)
    assert classifier.predict_proba([]).shape == (0, 2)
    cosines = torch.tensor([[0.5, 0.3], [-1.0, 1.0]])
    assert torch.equal(LaCon(tau=0.1).probabilities(cosines), (cosines / 0.1).softmax(1))


def test_threads_can_share_a_classifier(winner: Path) -> None:
    classifier = sclsearch.load(winner)
    texts = [["good film", "bad"], ["dull", "a lovely film and not bad"]] * 4
    expected = [classifier.predict_proba(one) for one in texts]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(classifier.predict_proba, texts))
    assert np.array(found) == pytest.approx(np.array(expected), abs=1e-6)


def test_an_invalid_device_or_batch_size_is_refused(winner: Path) -> None:
    with pytest.raises(SclsearchError, match=r"^batch_size: must be at least 1, got 0\."):
        sclsearch.load(winner, batch_size=0)
    for device in ("warp", "meta"):
        with pytest.raises(SclsearchError, match=rf"^device {device}: torch cannot use it: "):
            sclsearch.load(winner, device=device)


def test_a_regression_has_no_probabilities(exported: Path) -> None:
    replace(read_record(exported), labels=(), method="ce", place="ce").write(exported)
    result = invoke(exported, "-", *BODY, "--proba", texts="body\na\n")
    assert str(result.exception).startswith("--proba: demo must have classes, got a regression")


def test_a_closed_output_pipe_is_not_an_error_and_a_full_disk_is_named(
    winner: Path, tmp_path: Path
) -> None:
    file = tmp_path / "new.csv"
    file.write_text("body\n" + "good\n" * 20_000)
    command = [sys.executable, "-m", "sclsearch", "predict", str(winner), str(file), *BODY]
    command += ["--batch-size", "100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline().startswith(b"row,body,predicted")
        running.stdout.close()
        assert running.stderr.read().decode() == ""
    assert running.returncode == 0
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith(b"standard output: cannot be written: No space left on device.")
