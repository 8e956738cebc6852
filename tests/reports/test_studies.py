"""Tests of the list of studies: settings, progress and best score."""

from sclsearch.reports.studies import StudyLine, studies
from tests.reports.conftest import WriteStudy


def test_a_study_is_listed_with_its_settings_and_progress(write_study: WriteStudy) -> None:
    storage = write_study([(1, 2), None, None], [(3, 4), None, None])
    (line,) = studies(storage)
    assert isinstance(line, StudyLine)
    size = sum(file.stat().st_size for file in storage.rglob("*.json"))
    assert (line.best, line.winner, line.bytes) == (None, None, size)
    assert str(line) == (
        "scl on cola (100), minilm, gunel-fewshot; 2 configurations x 3 seeds, "
        f"2 seed runs stored; {size / 1000:.1f} kB; 1970-01-01"
    )


def test_the_best_score_follows_the_rule_of_the_study(write_study: WriteStudy) -> None:
    configurations = [(50, 1), (52, 1)], [(40, 1), (70, 1)], [(99, 1), None], [(30, 1), "failed"]
    (line,) = studies(write_study(*configurations))
    assert isinstance(line, StudyLine)
    assert (line.best, line.winner, line.failed) == (0.55, 1, 1)


def test_a_damaged_study_does_not_hide_other_studies(write_study: WriteStudy) -> None:
    storage = write_study(["it", "broke"])
    path = storage / "studies" / "bad" / "study.json"
    path.parent.mkdir()
    path.touch()
    bad, other = studies(storage)
    assert (bad.name, other.name) == ("bad", "made-up")
    assert str(bad).startswith(f"cannot be read: {path}: is not a JSON object")
    assert "; all failed; " in str(other)
    assert studies(storage / "not there") == []
