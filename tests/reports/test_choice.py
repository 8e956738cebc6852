"""Tests that a report says what the test rows chose."""

from dataclasses import replace

from sclsearch.reports.report import report
from tests.protocols.conftest import labeled, splits_of
from tests.reports.conftest import WriteStudy


def test_a_report_says_whether_the_test_rows_chose_the_winner(write_study: WriteStudy) -> None:
    found = report(write_study([(70, 60), (70, 60)]), "made-up")
    assert found.choice == "The test rows played no part in the choice."
    splits = splits_of("supcl-seq", labeled(train=[0, 1] * 9, validation=[0, 1] * 9))
    assert "too high" in replace(found, rows=(splits.digests,)).choice
