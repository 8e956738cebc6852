"""Tests of the report page: numbers, caveats, commands, escaping and missing data."""

import json
import re
import shlex
import shutil
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import sclsearch
from sclsearch import SclsearchError
from sclsearch.cli import app
from sclsearch.reports.page import sections as parts
from sclsearch.reports.page.sections import StudyResults, read_results
from sclsearch.reports.report import finished_winner
from tests.reports.conftest import WriteStudy
from tests.reports.page.conftest import LABELS, TEXT, Studies

VOID = {"meta", "br", "hr", "img", "link", "input"}


class ParsedPage(HTMLParser):
    """Parsed HTML: open elements, ids, references, tags, and text by section."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.tags: Counter[str] = Counter()
        self.sections: dict[str, str] = {}
        self.feed((folder / "index.html").read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: str(value) for name, value in attrs}
        self.tags[tag] += 1
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [attributes["id"]] if "id" in attributes else []
        if tag == "section":
            self.sections[attributes["id"]] = ""
        links = ("src", "href", "xlink:href")
        self.references += [attributes[name] for name in links if name in attributes]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "section" in self.open:
            self.sections[next(reversed(self.sections))] += data


def files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def results_of(storage: Path, name: str = "made-up") -> StudyResults:
    return read_results(sclsearch.select(name, storage=storage), f"{name}-")


def test_the_html_is_well_formed_and_has_no_external_references(page: Path) -> None:
    parsed = ParsedPage(page)
    assert parsed.open == []
    assert max(Counter(parsed.ids).values()) == 1
    assert parsed.tags["svg"] == len(list((page / "figures").glob("*.svg")))
    assert {name for name in parsed.references if name[1:] not in parsed.ids} == set()
    assert all(name.startswith("#") for name in parsed.references)
    text = (page / "index.html").read_text(encoding="utf-8")
    addresses = set(re.findall(r"https?://[^\s\"']+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert re.findall(r"url\((?!#)", text) == []
    assert parsed.tags["script"] == parsed.tags["img"] == parsed.tags["link"] == 0


def test_texts_and_labels_are_escaped(page: Path) -> None:
    text = (page / "index.html").read_text(encoding="utf-8")
    assert TEXT not in text
    assert LABELS[0] not in text
    sections = ParsedPage(page).sections
    assert TEXT in sections["scl-mistakes"]
    assert all(label in sections["scl-classes"] for label in LABELS)
    svg = (page / "figures" / "scl-confusion.svg").read_text(encoding="utf-8")
    assert "predicted class" in svg
    assert "good &amp; $x$" in svg


def test_the_same_results_give_the_same_bytes(studies: Studies, page: Path, tmp_path: Path) -> None:
    studies.write(tmp_path / "again", "scl", "ce", "lacon")
    assert files(tmp_path / "again") == files(page)


def test_the_page_has_the_caveats_and_the_answer_of_every_study(
    studies: Studies, page: Path
) -> None:
    sections = ParsedPage(page).sections
    for name in ("scl", "ce", "lacon"):
        report = sclsearch.select(name, storage=studies.storage)
        winner = finished_winner(report)
        assert all(note in sections[f"{name}-ranking"] for note in report.notes)
        assert f"validation accuracy {winner.score:.4f}, mean of 3 seeds" in sections["answer"]
        tested = f"Its test accuracy is {winner.test_mean:.4f} ± {winner.test_std:.4f}"
        assert tested in sections["answer"]
    assert "Every configuration has all 3 seeds, so none was left out early." in sections["answer"]
    assert "The winner of ce differs from that of scl by" in sections["answer"]
    assert "Warning: unequal budgets: configurations, seed runs." in sections["budget"]


def test_tables_and_figures_are_files_with_all_configurations_and_seed_runs(
    studies: Studies, page: Path
) -> None:
    tables, figures = page / "tables", page / "figures"
    frame = sclsearch.table("scl", "ce", "lacon", storage=studies.storage)
    assert pd.read_parquet(tables / "configurations.parquet").score.tolist() == frame.score.tolist()
    assert len(pd.read_csv(tables / "seed-runs.csv")) == 15
    assert (tables / "methods-by-tasks.tex").read_text().startswith(r"\begin{tabular}{ll}")
    ranking = pd.read_csv(tables / "scl-ranking.csv")
    winner = finished_winner(sclsearch.select("scl", storage=studies.storage))
    assert ranking["#"][0] == winner.number
    assert ranking["validation accuracy"][0] == round(winner.score or 0, 4)
    names = {path.stem for path in figures.glob("*.svg")}
    assert names == {path.stem for path in figures.glob("*.png")}
    assert {"scl-seeds-test", "scl-score-tau", "lacon-embeddings"} <= names


def test_mistakes_are_sorted_by_the_number_of_wrong_seeds(studies: Studies, page: Path) -> None:
    report = sclsearch.select("scl", storage=studies.storage)
    frame = report.predictions()
    own = frame[(frame.configuration == finished_winner(report).number) & (frame.split == "test")]
    wrong = (own.label != own.predicted).groupby(own.row).sum()
    rows = pd.read_csv(studies.file, sep="\t")
    texts = rows[rows.split == "test"].text.tolist()
    table = pd.read_csv(page / "tables" / "scl-mistakes.csv")
    counts = {texts[int(str(row))]: int(count) for row, count in wrong.items()}
    wrong_seeds = [int(cell.removesuffix(" of 3")) for cell in table["wrong seeds"]]
    assert wrong_seeds == [counts[text] for text in table.text]
    assert wrong_seeds == sorted((count for count in counts.values() if count), reverse=True)[:20]
    assert [rows.text[int(row) - 1] for row in table.row] == table.text.tolist()


def test_a_page_reports_missing_data_and_weights(studies: Studies, tmp_path: Path) -> None:
    storage = shutil.copytree(studies.storage, tmp_path / "storage")
    shutil.rmtree(storage / "studies" / "ce" / "weights")
    copied = Studies(storage, studies.file)
    copied.write(tmp_path / "weights", "ce")
    section = ParsedPage(tmp_path / "weights").sections["embeddings"]
    assert "The weights of the winner's best seed are not stored. Repeat the search" in section
    moved = shutil.move(studies.file, tmp_path / "moved.tsv")
    try:
        copied.write(tmp_path / "data", "ce")
    finally:
        shutil.move(moved, studies.file)
    sections = ParsedPage(tmp_path / "data").sections
    for name in ("mistakes", "embeddings"):
        assert "The task's rows, the encoder or the method are not available." in sections[name]
        assert studies.file.name in sections[name]
    assert "recall" in sections["classes"]


def test_a_regression_has_no_sections_of_classes(regression: Path, tmp_path: Path) -> None:
    sclsearch.write_report("mine", output=tmp_path / "report", storage=regression)
    sections = ParsedPage(tmp_path / "report").sections
    for name in ("classes", "calibration", "mistakes", "embeddings"):
        assert "The task has scores instead of classes." in sections[name]
    assert "Its test pearson is" in sections["answer"]


def test_test_scores_are_shown_as_papers_report_them_even_if_seeds_failed(
    write_study: WriteStudy,
) -> None:
    seeds = [(60, 50), (61, 52), (62, 54), "nan", "nan"]
    (table,) = parts.reported_scores(results_of(write_study(seeds, rule="top-4"))).tables
    assert [row[:3] for row in table.cells.values.tolist()] == [
        ["mean of 5 seeds", "0.5200 ± 0.0200", "3 seeds"],
        ["mean of the top 3 of 5 seeds", "0.5200 ± 0.0200", "3 seeds"],
        ["best of 5 seeds", "0.5400", "1 seed"],
        ["mean of the top 4 of 5 seeds (this report)", "0.5200 ± 0.0200", "3 seeds"],
    ]


def test_ranking_and_cost_count_seed_runs_that_were_not_trained(write_study: WriteStudy) -> None:
    rows = [[(90 - n, 50), (80 - n, 50)] for n in range(23)]
    results = results_of(write_study(*rows, [(99, 99), None], [None, None]))
    ranking = parts.ranking(results)
    cells = ranking.tables[0].cells.values.tolist()
    assert len(cells) == 20
    assert cells[0][:5] == ["0", "0.8500", "0.0707", "0.5000 ± 0.0000", "2/2"]
    assert "5 further configurations" in ranking.tables[0].caption
    lacking = "2 of 25 configurations have fewer than 2 seeds (1 with 0, 1 with 1)"
    assert lacking in " ".join(ranking.text)
    cost = parts.cost([results])
    # A made-up seed run takes 90 s.
    assert cost.tables[0].cells.values.tolist() == [
        ["made-up", "47 of 50", "0", "1.18", "90.0", "3", "0.07"]
    ]
    assert "3 of 50 seed runs were not trained, about 4 min at the mean time" in cost.text[0]


def test_a_comparison_has_intervals_limits_fresh_seeds_and_commands(
    write_study: WriteStudy,
) -> None:
    rows = {"train": "a" * 7, "test": "t"}
    write_study([(50, 60)] * 7, [(49, 40)] * 7, name="base", rows=rows)
    write_study([(60, 61 + n) for n in range(7)], [(59, 70)] * 7, name="better", rows=rows)
    fresh = {"values": [{"tau": 0.1}], "confirms": "better", "fresh": 7, "rows": rows}
    storage = write_study([(1, 62), (1, 64)], name="again", **fresh)
    results = [results_of(storage, name) for name in ("base", "better")]
    assert "On 2 fresh seeds it is 0.6300 ± 0.0141 (again)." in parts.answer(results).text[3]
    found = parts.compare_results(results)
    assert not isinstance(found, str)
    interval = found.studies[1].search_interval
    assert interval is not None
    section = parts.comparison(found)
    cells = section.tables[1].cells
    assert cells["95 %, search"].tolist() == [
        f"{100 * interval[0]:+.1f} … {100 * interval[1]:+.1f}"
    ]
    assert cells["diff"].tolist() == ["+4.0"]
    assert "7 pairs cannot go below p = 0.0156." in section.text
    assert section.commands == [f"sclsearch confirm base --storage {storage}"]
    assert parts.budget(results).text == ["All studies have equal budgets."]
    other = replace(results[1], report=replace(results[1].report, metric="macro_f1"))
    section = parts.comparison(parts.compare_results([results[0], other]))
    assert section.text[0].startswith("The studies cannot be compared. compare: base (task")


def test_the_commands_of_the_page_repeat_the_search_and_the_page(
    studies: Studies, page: Path
) -> None:
    text = ParsedPage(page).sections["commands"]
    (command,) = (line for line in text.splitlines() if "--study ce" in line)
    result = CliRunner().invoke(app, [*shlex.split(command)[1:], "--dry-run", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["stored"] == 3
    assert f"sclsearch report scl ce lacon --storage {studies.storage} --output FOLDER" in text


def test_a_report_replaces_an_earlier_one_but_no_other_files(
    studies: Studies, page: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(page, tmp_path / "report")
    (folder / "figures" / "old.svg").write_text("old")
    command = ["report", "ce", "--storage", str(studies.storage), "--output", str(folder)]
    result = CliRunner().invoke(app, [*command, "--no-texts"])
    assert (result.exit_code, result.stdout) == (0, f"{folder / 'index.html'}\n")
    assert not (folder / "figures" / "old.svg").exists()
    assert "Texts of the task are left out." in ParsedPage(folder).sections["mistakes"]
    assert not any(TEXT.encode() in content for content in files(folder).values())
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(SclsearchError, match=r"output .*report: must be missing, empty or an ear"):
        studies.write(folder, "ce")
    assert (folder / "notes.txt").read_text() == "mine"
    with pytest.raises(SclsearchError, match="report: needs one or more different studies, got"):
        studies.write(tmp_path / "twice", "ce", "ce")
