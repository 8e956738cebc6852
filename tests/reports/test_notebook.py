"""Tests of a report's text at a prompt and its HTML in a notebook."""

from sclsearch import select
from tests.reports.conftest import WriteStudy


def test_a_report_prints_as_one_line(write_study: WriteStudy) -> None:
    report = select("made-up", storage=write_study([(60, 50), (70, 61)], [(90, 40), (90, 50)]))
    assert repr(report) == (
        "<Report made-up: scl on cola, winner #1, validation accuracy 0.9000, test 0.4500 ± 0.0707>"
    )


def test_a_report_without_a_winner_has_a_message_instead(write_study: WriteStudy) -> None:
    report = select("made-up", storage=write_study([(60, 50), None]))
    assert repr(report) == "<Report made-up: scl on cola, no configuration is finished>"
    assert "no configuration is finished" in report._repr_html_()


def test_a_notebook_shows_the_ranking_with_escaped_text(write_study: WriteStudy) -> None:
    values = [{"kind": "<script>"}, *({"kind": f"k{number}"} for number in range(24))]
    scores = [[(90 - number, 50)] for number in range(25)]
    page = select("made-up", storage=write_study(*scores, values=values))._repr_html_()
    assert "winner #0" in page
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") == 2
    assert "k18" in page
    assert "k19" not in page
    assert "… and 5 more" in page
