"""Tests of the report page: numbers, caveats, commands, escaping and missing data."""

import json
import re
import shlex
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import sclsearch
from sclsearch import SclsearchError
from sclsearch.cli import app
from sclsearch.objectives.lacon import label_scores
from sclsearch.reports.comparison import compare_studies
from sclsearch.reports.page import FILES, page_html
from sclsearch.reports.page.results import StudyResults, best_study, read_results
from sclsearch.reports.page.winner import embed_test_rows
from sclsearch.reports.report import finished_winner
from sclsearch.reports.summary import summarize_comparison
from sclsearch.store.runs import RunStore
from sclsearch.store.studies import StudyStore
from sclsearch.study.restore import restore_seed_run
from sclsearch.tasks.custom import CustomTask
from sclsearch.training.baselines import LOGISTIC
from tests.made_up import WriteStudy, study_on

LABELS, TEXT = ("<b>dull</b>", 'good & $x$ "fun"'), "<script>alert(1)</script>"
STUDIES = ("scl", "ce", "lacon")


@pytest.fixture(scope="module")
def studies(
    toy: CustomTask, tiny_bert: Path, space_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return a storage with `STUDIES` of one task whose texts and labels need escaping.

    The task's file is in the same folder. `scl` has two configurations.
    """
    storage, rows = tmp_path_factory.mktemp("page"), pd.read_csv(str(toy.path))
    rows["text"] += [f" {number} {TEXT}" for number in rows.index]
    rows["label"] = rows.label.map(dict(zip("ny", LABELS, strict=True)))
    rows.to_csv(storage / "own.csv", index=False)
    task = replace(toy, path=storage / "own.csv")
    usual = {"epochs": 2, "batch_size": 8, "pooling": "mean", "learning_rate": 1e-3}
    searches: dict[str, dict[str, Any]] = {
        "scl": {"searched": True, "space": space_file, "configs": 2, "settings": {"epochs": 3}},
        "ce": {"settings": usual},
        "lacon": {"settings": {**usual, "heads": 2}},
    }
    for name in STUDIES:
        study_on(tiny_bert, storage, task, study=name, method=name, **searches[name])
    return storage


@pytest.fixture(scope="module")
def page(studies: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the report of all three studies."""
    folder = tmp_path_factory.mktemp("report") / "all"
    return sclsearch.write_report(*STUDIES, output=folder, storage=studies).parent


def sections_of(folder: Path) -> dict[str, str]:
    """Return the text of each section of a page."""
    page = (folder / "index.html").read_text(encoding="utf-8")
    _, *parts = re.split(r'<(?:section|header)[^>]* id="([^"]+)"[^>]*>', page)
    texts = [unescape(re.sub(r"<[^>]*>", "", part)) for part in parts[1::2]]
    return dict(zip(parts[::2], texts, strict=True))


def files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def results_of(storage: Path, *names: str) -> list[StudyResults]:
    return read_results([sclsearch.select(name, storage=storage) for name in names or ("made-up",)])


def test_texts_and_labels_are_escaped_and_nothing_is_loaded_from_elsewhere(page: Path) -> None:
    text = (page / "index.html").read_text(encoding="utf-8")
    assert TEXT not in text
    assert LABELS[0] not in text
    sections = sections_of(page)
    assert TEXT in sections["scl-mistakes"]
    assert all(label in sections["scl-classes"] for label in LABELS)
    assert "good &amp; $x$" in (page / "figures" / "scl-confusion.svg").read_text(encoding="utf-8")
    assert set(re.findall(r'(?:src|href)="(.)', text)) == {"#"}
    assert not re.search(r"<(script|img|link)\b|url\((?!#)", text)


def test_the_embeddings_predict_the_stored_classes(studies: Path) -> None:
    for name in ("scl", "lacon"):
        winner = finished_winner(sclsearch.select(name, storage=studies))
        key = winner.seeds[winner.reported[0]].key
        run = RunStore(studies).get(key)
        assert run is not None
        weights = StudyStore(studies, name).load_weights(key)
        assert weights is not None
        found = embed_test_rows(*restore_seed_run(run), weights)
        h, labels = torch.from_numpy(found.values), found.vectors
        if labels is None:
            head = {n.rpartition(".")[2]: t.double() for n, t in weights.items() if ".out." in n}
            logits = torch.nn.functional.linear(h, head["weight"], head["bias"])
        else:
            logits = label_scores(h, torch.from_numpy(labels))
        assert (labels is None) == (name == "scl")
        assert logits.argmax(1).tolist() == run.predictions["test"]


def test_the_same_results_give_the_same_bytes(studies: Path, page: Path, tmp_path: Path) -> None:
    sclsearch.write_report(*STUDIES, output=tmp_path / "again", storage=studies)
    assert files(tmp_path / "again") == files(page)


def test_the_page_begins_with_the_answer_and_has_each_warning_and_fact_once(
    studies: Path, page: Path
) -> None:
    sections = sections_of(page)
    compared = sclsearch.compare(*STUDIES, storage=studies)
    assert isinstance(compared, sclsearch.StudyComparison)
    for sentence in (*summarize_comparison(compared).lines[:2], "majority class"):
        assert sentence in sections["answer"]
    for one in compared.studies:
        score = f"{one.test_mean:.4f}"
        assert score in sections["answer"]
        assert score in sections["comparison"]
    for note in (note for one in compared.reports for note in one.notes):
        where = "settings" if note.kind == "fact" else "warnings"
        assert note.text.rpartition(": ")[2] in sections[where]
    assert len(re.findall("unequal budgets", sections["warnings"])) == 1
    assert sections["settings"].count("protocol") == 1


def test_tables_are_files_with_all_configurations_seed_runs_and_mistakes(
    studies: Path, page: Path
) -> None:
    tables = page / "tables"
    frame = sclsearch.table(*STUDIES, storage=studies)
    assert pd.read_csv(tables / "configurations.csv").score.tolist() == frame.score.tolist()
    runs = sclsearch.table(*STUDIES, rows="seed-runs", storage=studies)
    assert pd.read_csv(tables / "seed-runs.csv").key.tolist() == runs.key.tolist()
    report = sclsearch.select("scl", storage=studies)
    frame = report.predictions()
    own = frame[(frame.configuration == finished_winner(report).number) & (frame.split == "test")]
    wrong = (own.label != own.predicted).groupby(own.row).sum()
    rows = pd.read_csv(studies / "own.csv")
    texts = rows[rows.split == "test"].text.tolist()
    counts = {texts[int(str(row))]: f"{count} of 2" for row, count in wrong.items() if count}
    table = pd.read_csv(tables / "scl-mistakes.csv")
    assert len(table) == min(20, len(counts))
    assert table["wrong seeds"].tolist() == [counts[text] for text in table.text]
    assert [rows.text[int(row) - 1] for row in table.row] == table.text.tolist()


def test_a_page_reports_missing_data_and_weights(studies: Path, tmp_path: Path) -> None:
    copied, file = shutil.copytree(studies, tmp_path / "storage"), studies / "own.csv"
    shutil.rmtree(copied / "studies" / "ce" / "weights")
    sclsearch.write_report("ce", output=tmp_path / "weights", storage=copied)
    assert "seed are not stored" in sections_of(tmp_path / "weights")["embeddings"]
    moved = shutil.move(file, tmp_path / "moved.csv")
    try:
        sclsearch.write_report("ce", output=tmp_path / "data", storage=copied)
    finally:
        shutil.move(moved, file)
    sections = sections_of(tmp_path / "data")
    for name in ("mistakes", "embeddings"):
        assert file.name in sections[name]
    assert "recall" in sections["classes"]


def test_a_regression_has_no_sections_of_classes(regression: Path, tmp_path: Path) -> None:
    sclsearch.write_report("mine", output=tmp_path / "report", storage=regression)
    sections = sections_of(tmp_path / "report")
    assert sections.keys().isdisjoint({"classes", "calibration", "mistakes", "embeddings"})
    for kind in ("Pearson", "Spearman", "root mean squared error", "stroke-linejoin"):
        assert kind in sections["scores"]
    assert "test pearson" in sections["answer"]
    assert "ridge regression on the frozen encoder" in sections["answer"]


def test_the_ranking_ends_with_the_number_of_further_configurations(
    write_study: WriteStudy,
) -> None:
    rows = [[(90 - n, 50), (80 - n, 50)] for n in range(23)]
    results = results_of(write_study(*rows, [(99, 99), None], [None, None], labels=["no", "yes"]))
    cells = results[0].ranking().values.tolist()
    assert len(cells) == 20
    assert cells[0][:4] == ["#0", "0.8500", "0.0707", "0.5000 ± 0.0000"]
    assert cells[0][5] == "2/2"
    assert "and 5 further configurations" in page_html([results[0].report])


def test_a_comparison_has_intervals_limits_and_baselines(write_study: WriteStudy) -> None:
    rows = {"train": "a" * 7, "test": "t"}
    made: dict[str, Any] = {"rows": rows, "labels": ["no", "yes"]}
    write_study([(50, 60)] * 7, [(49, 40)] * 7, name="base", method="ce", **made)
    scores = [(60, 61 + n) for n in range(7)]
    baselines = {LOGISTIC: 50}
    storage = write_study(scores, [(59, 70)] * 7, name="better", baselines=baselines, **made)
    reports = [one.report for one in results_of(storage, "base", "better")]
    found = compare_studies(reports)
    cells = best_study(found)
    assert [[row[0], row[1], row[3]] for row in cells.values.tolist()] == [
        ["scl", "0.6400 ± 0.0216", ""],
        ["ce", "0.6000 ± 0.0000", "+4.0"],
        [LOGISTIC, "0.5000 ± 0.0000", "+14.0"],
    ]
    assert [len(row[2]) for row in cells.values.tolist()] == [7, 7, 7]
    assert max(cells.values.tolist()[2][2]) < 0  # the baseline is beyond the axis
    text = page_html(reports)
    assert "Which method is best on cola with 100 training examples?" in text
    assert found.pairs[0].search_interval is not None
    low, high = found.pairs[0].search_interval
    for cell in (f"{100 * low:+.1f} … {100 * high:+.1f}", "95 %, search"):
        assert cell in text
    assert 'class="first"' in text  # the best row of a clear result alone is bold
    assert 'class="first"' not in page_html(reports[1:])
    other = replace(reports[1], metric="macro_f1")
    assert "The studies cannot be compared" in page_html([reports[0], other])


def test_the_commands_of_the_page_repeat_the_search_and_the_page(studies: Path, page: Path) -> None:
    text = sections_of(page)["commands"]
    (command,) = (line for line in text.splitlines() if "--study ce" in line)
    result = CliRunner().invoke(app, [*shlex.split(command)[1:], "--dry-run", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["stored"] == 2
    assert f"sclsearch report scl ce lacon --storage {studies} --output FOLDER" in text


def test_a_report_replaces_an_earlier_one_but_no_other_files(
    studies: Path, page: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(page, tmp_path / "report")
    earlier = folder / "figures" / "scl-confusion.svg"
    assert earlier.exists()
    command = ["report", "ce", "--storage", str(studies), "--output", str(folder)]
    result = CliRunner().invoke(app, [*command, "--data-dir", "\udcff"])
    assert result.exit_code == 0
    result = CliRunner().invoke(app, [*command, "--no-texts"])
    assert (result.exit_code, result.stdout) == (0, f"{folder / 'index.html'}\n")
    assert not earlier.exists()
    assert not any(TEXT.encode() in content for content in files(folder).values())
    for name in ("notes.txt", "tables/notes.md", "figures/mine/plot.svg"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("mine")
        with pytest.raises(SclsearchError, match=f"missing, empty or an earlier .*{name}"):
            sclsearch.write_report("ce", output=folder, storage=studies)
        (folder / name).unlink()
    (folder / FILES).write_bytes(b"\xff")
    for other in (folder, "/"):
        with pytest.raises(SclsearchError, match="missing, empty or an earlier report, got"):
            sclsearch.write_report("ce", output=other, storage=studies)
    with pytest.raises(SclsearchError, match="report: needs one or more different studies, got"):
        sclsearch.write_report("ce", "ce", output=tmp_path / "twice", storage=studies)
