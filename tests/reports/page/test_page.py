"""Tests of the report page: sections, references, escaping and missing data."""

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
from rich.console import Console
from typer.testing import CliRunner

import sclsearch
from sclsearch import SclsearchError
from sclsearch.cli import app
from sclsearch.reports.comparison_tables import show_comparison
from sclsearch.reports.page import sections as parts
from sclsearch.reports.page.sections import read_results
from sclsearch.reports.page.winner import restore_winner
from sclsearch.reports.report import finished_winner
from sclsearch.selection.rules import Band
from tests.reports.conftest import WriteStudy
from tests.reports.page.conftest import LABELS, TEXT, Studies

SECTIONS = (
    *("ranking", "test", "seeds", "hyperparameters"),
    *("classes", "calibration", "mistakes", "embeddings"),
)
VOID = {"meta", "br", "hr", "img", "link", "input"}


class ParsedPage(HTMLParser):
    """Parsed HTML: open elements, ids, references, tags, and text by section."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.tags: Counter[str] = Counter()
        self.sections: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags[tag] += 1
        if tag not in VOID:
            self.open.append(tag)
        if "id" in attributes:
            self.ids.append(str(attributes["id"]))
        if tag == "section":
            self.sections[str(attributes["id"])] = ""
        for name in ("src", "href", "xlink:href"):
            if name in attributes:
                self.references.append(str(attributes[name]))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "section" in self.open:
            self.sections[next(reversed(self.sections))] += data


def read(folder: Path) -> ParsedPage:
    return ParsedPage((folder / "index.html").read_text(encoding="utf-8"))


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_page_has_all_sections_in_order(page: Path) -> None:
    each = [f"{study}-{name}" for study in ("scl", "ce", "lacon") for name in ("study", *SECTIONS)]
    last = ["all-studies", "comparison", "budget", "cost", "environment", "commands"]
    assert list(read(page).sections) == ["answer", *each, *last]


def test_the_html_is_well_formed_and_has_unique_ids(page: Path) -> None:
    parsed = read(page)
    assert parsed.open == []
    assert max(Counter(parsed.ids).values()) == 1
    assert parsed.tags["svg"] == len(list((page / "figures").glob("*.svg")))


def test_the_page_has_no_external_references(page: Path) -> None:
    parsed = read(page)
    assert {name for name in parsed.references if name[1:] not in parsed.ids} == set()
    assert all(name.startswith("#") for name in parsed.references)
    text = (page / "index.html").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\s\"']+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert re.findall(r"url\((?!#)", text) == []
    assert parsed.tags["script"] == parsed.tags["img"] == parsed.tags["link"] == 0


def test_texts_and_labels_are_escaped(page: Path) -> None:
    text = (page / "index.html").read_text(encoding="utf-8")
    assert TEXT not in text
    assert LABELS[0] not in text
    sections = read(page).sections
    assert TEXT in sections["scl-mistakes"]
    assert all(label in sections["scl-classes"] for label in LABELS)


def test_the_same_results_give_the_same_bytes(studies: Studies, page: Path, tmp_path: Path) -> None:
    studies.write(tmp_path / "again", "scl", "ce", "lacon")
    assert files(tmp_path / "again") == files(page)


def test_figures_have_a_png_and_a_vector_file_with_text(page: Path) -> None:
    names = {path.stem for path in (page / "figures").glob("*.svg")}
    assert names == {path.stem for path in (page / "figures").glob("*.png")}
    assert {"scl-seeds-test", "scl-score-tau", "lacon-embeddings"} <= names
    svg = (page / "figures" / "scl-confusion.svg").read_text(encoding="utf-8")
    assert "predicted class" in svg
    assert "good &amp; $x$" in svg


def test_tables_hold_all_configurations_and_seed_runs(studies: Studies, page: Path) -> None:
    tables = page / "tables"
    frame = sclsearch.table("scl", "ce", "lacon", storage=studies.storage)
    assert pd.read_parquet(tables / "configurations.parquet").score.tolist() == frame.score.tolist()
    assert len(pd.read_csv(tables / "seed-runs.csv")) == 15
    assert {path.suffix for path in tables.glob("configurations.*")} == {
        *(".csv", ".md", ".tex", ".parquet")
    }
    assert (tables / "methods-by-tasks.tex").read_text().startswith(r"\begin{tabular}{ll}")
    ranking = pd.read_csv(tables / "scl-ranking.csv")
    winner = finished_winner(sclsearch.select("scl", storage=studies.storage))
    assert ranking["#"][0] == winner.number
    assert ranking["validation accuracy"][0] == round(winner.score or 0, 4)


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


def test_a_custom_method_is_for_the_studies_that_have_one(studies: Studies) -> None:
    report = sclsearch.select("ce", storage=studies.storage)
    results = read_results(report, "")
    assert not isinstance(restore_winner(results, None, "./mine.py:Mine"), str)


def test_a_page_reports_missing_data_and_weights(studies: Studies, tmp_path: Path) -> None:
    storage = shutil.copytree(studies.storage, tmp_path / "storage")
    shutil.rmtree(storage / "studies" / "ce" / "weights")
    copied = Studies(storage, studies.file)
    copied.write(tmp_path / "weights", "ce")
    section = read(tmp_path / "weights").sections["embeddings"]
    assert "The weights of the winner's best seed are not stored. Repeat the search" in section
    moved = shutil.move(studies.file, tmp_path / "moved.tsv")
    try:
        copied.write(tmp_path / "data", "ce")
    finally:
        shutil.move(moved, studies.file)
    sections = read(tmp_path / "data").sections
    for name in ("mistakes", "embeddings"):
        assert "The task's rows, the encoder or the method are not available." in sections[name]
        assert studies.file.name in sections[name]
    assert "recall" in sections["classes"]


def test_a_regression_has_no_sections_of_classes(regression: Path, tmp_path: Path) -> None:
    sclsearch.write_report("scores", output=tmp_path / "report", storage=regression)
    sections = read(tmp_path / "report").sections
    for name in ("classes", "calibration", "mistakes", "embeddings"):
        assert "The task has scores instead of classes." in sections[name]
    assert "Its test pearson is" in sections["answer"]


def test_the_answer_names_winner_scores_certainty_and_unequal_budgets(
    studies: Studies, page: Path
) -> None:
    report = sclsearch.select("scl", storage=studies.storage)
    winner = finished_winner(report)
    assert report.lead is not None
    answer = read(page).sections["answer"]
    assert f"Of 3 configurations, #{winner.number} (tau=" in answer
    lead = f"{report.lead:.4f} above the second configuration."
    assert f"validation accuracy {winner.score:.4f}, mean of 3 seeds, {lead}" in answer
    assert f"Its test accuracy is {winner.test_mean:.4f} ± {winner.test_std:.4f}" in answer
    assert "Every configuration has all 3 seeds, so none was left out early." in answer
    assert "The winner of ce differs from that of scl by" in answer
    budget = read(page).sections["budget"]
    assert "Warning: unequal budgets: configurations, seed runs." in budget


def test_the_answer_names_configurations_with_the_same_score(write_study: WriteStudy) -> None:
    storage = write_study([(60, 61), (62, 60)], [(61, 70), (61, 70)])
    results = read_results(sclsearch.select("made-up", storage=storage), "")
    answer = " ".join(parts.answer([results]).text)
    assert (
        "validation accuracy 0.6100, mean of 2 seeds, tied by validation with #1; the lowest "
        "number decides." in answer
    )


def test_the_score_of_the_report_is_shown_even_if_seeds_failed(write_study: WriteStudy) -> None:
    seeds = [(60, 50), (61, 52), (62, 54), "nan", "nan"]
    results = read_results(
        sclsearch.select("made-up", storage=write_study(seeds, rule="top-4")), ""
    )
    *_, own = parts.reported_scores(results).tables[0].cells.values.tolist()
    assert own[:3] == ["mean of the top 4 of 5 seeds (this report)", "0.5200 ± 0.0200", "3 seeds"]


@pytest.mark.parametrize(
    ("race", "finished", "statement"),
    [
        (2.5, True, ": the race left them out; in recorded searches, one of them would have won"),
        ("exact", True, ": none of them could win with all seeds."),
        (None, False, ": the search is unfinished, and one of them may win."),
    ],
)
def test_the_ranking_says_how_many_seeds_configurations_have(
    studies: Studies, race: Band, finished: bool, statement: str
) -> None:
    report = sclsearch.select("scl", storage=studies.storage)
    *lines, last = report.configurations
    last = replace(last, seeds=last.seeds[:1], score=None)
    report = replace(report, configurations=(*lines, last), race=race, finished=finished)
    results = read_results(report, "")
    section = parts.ranking(results)
    lacking = "1 of 3 configurations have fewer than 3 seeds (1 with 1)"
    assert f"{lacking}{statement}" in section.text[1]
    cells = section.tables[0].cells.values.tolist()
    assert cells[2][1].endswith(" (1 seed)")
    assert (cells[2][3], cells[2][4]) == ("–", "1/3")
    assert "2 of 9 seed runs were not trained" in parts.cost([results]).text[0]


def test_the_ranking_of_many_configurations_is_cut(studies: Studies) -> None:
    report = sclsearch.select("scl", storage=studies.storage)
    lines = [
        replace(line, number=3 * turn + line.number)
        for turn in range(8)
        for line in report.configurations
    ]
    results = read_results(replace(report, configurations=tuple(lines)), "")
    ranking = parts.ranking(results)
    assert len(ranking.tables[0].cells) == 20 + len(report.baselines)
    assert "4 further configurations" in ranking.tables[0].caption


def test_the_page_shows_everything_that_compare_prints(
    write_study: WriteStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = range(7)
    rows = {"train": "a" * 7, "test": "t"}
    write_study([(50, 60)] * 7, [(49, 40)] * 7, name="base", rows=rows)
    better = [(60, 61 + seed) for seed in seeds]
    write_study(better, [(59, 70)] * 7, name="better", rows=rows)
    fresh = {"values": [{"tau": 0.1}], "confirms": "better", "fresh": 7, "rows": rows}
    storage = write_study([(1, 62), (1, 64)], name="again", **fresh)
    reports = [sclsearch.select(name, storage=storage) for name in ("base", "better")]
    results = [read_results(one, f"{one.study}-") for one in reports]
    answer = " ".join(parts.answer(results).text)
    assert "(tau=0.1) is the winner: " in answer
    assert "On 2 fresh seeds it is 0.6300 ± 0.0141 (again)." in answer
    sections = [parts.comparison(parts.compare_results(results)), parts.budget(results)]
    winners, differences, budget = (table.cells for one in sections for table in one.tables)
    assert winners["on fresh seeds"].tolist() == ["", "0.6300 ± 0.0141 (2 seeds)"]
    assert budget["seed runs"].tolist() == ["14", "14"]
    compared = sclsearch.compare("base", "better", storage=storage)
    interval = compared.studies[1].search_interval
    assert interval is not None
    ends = [f"{100 * end:+.1f}" for end in interval]
    assert differences["95 %, search"].tolist() == [" … ".join(ends)]
    show_comparison(Console(width=400), compared)
    printed = capsys.readouterr().out
    shown = [text for one in sections for text in (*one.text, *one.notes, *one.commands)]
    assert "All studies have equal budgets." in shown
    assert any(text in printed for text in shown if "cannot go below p" in text)
    assert [f"sclsearch confirm base --storage {storage}"] == sections[0].commands
    for line in printed.splitlines()[1:]:
        for part in re.split(r" {2,}", line.strip().removeprefix("- ")):
            cells = [*winners.values.flat, *differences.values.flat, *budget.values.flat]
            texts = [*shown, *cells, *winners, *differences, *budget, sections[0].tables[1].caption]
            titles = {"1", "2", "Budget of the searches", "Against 1, in points"}
            assert part in titles or any(part in text for text in texts), part


def test_studies_with_different_metrics_are_shown_without_a_comparison(studies: Studies) -> None:
    report = sclsearch.select("ce", storage=studies.storage)
    other = replace(report, study="scl", metric="macro_f1")
    results = [read_results(one, f"{one.study}-") for one in (report, other)]
    section = parts.comparison(parts.compare_results(results))
    assert section.text[0].startswith("The studies cannot be compared. compare: ce (task")
    assert section.plots == []


def test_the_printed_search_command_finds_every_stored_seed_run(page: Path) -> None:
    text = read(page).sections["commands"]
    (command,) = (line for line in text.splitlines() if "--study ce" in line)
    result = CliRunner().invoke(app, [*shlex.split(command)[1:], "--dry-run", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["stored"] == 3


def test_the_command_writes_the_page_of_one_study_without_a_comparison(
    studies: Studies, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "report"
    result = CliRunner().invoke(
        app, ["report", "ce", "--storage", str(studies.storage), "--output", str(folder)]
    )
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{folder / 'index.html'}\n"
    assert list(read(folder).sections) == ["answer", *SECTIONS, "cost", "environment", "commands"]


def test_a_report_replaces_an_earlier_one_but_no_other_files(
    studies: Studies, page: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(page, tmp_path / "report")
    (folder / "figures" / "old.svg").write_text("old")
    studies.write(folder, "ce", texts=False)
    assert not (folder / "figures" / "old.svg").exists()
    assert "Texts of the task are left out." in read(folder).sections["mistakes"]
    assert not any(TEXT.encode() in content for content in files(folder).values())
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(SclsearchError, match=r"output .*report: must be missing, empty or an ear"):
        studies.write(folder, "ce")
    assert (folder / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("names", [(), ("ce", "ce")], ids=["none", "twice"])
def test_a_report_needs_different_studies(
    studies: Studies, tmp_path: Path, names: tuple[str, ...]
) -> None:
    with pytest.raises(SclsearchError, match="report: needs one or more different studies, got"):
        studies.write(tmp_path / "report", *names)
    assert not (tmp_path / "report").exists()
