"""From Python a search is asked for as on the command line, and answers with its report."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sclsearch import How, Report, What, compare, export, select, train, tune
from sclsearch.errors import SclsearchError
from sclsearch.search.prepare import prepare_study
from sclsearch.store.runs import SeedRun


@pytest.fixture
def encoder(tmp_path: Path, tiny_encoder: Path) -> str:
    """Return the folder of a tiny encoder."""
    return str(shutil.copytree(tiny_encoder, tmp_path / "encoder"))


@pytest.fixture
def how(tmp_path: Path) -> How:
    return How(study="mine", storage=tmp_path / "storage", configs=2, seeds=2, tracking="none")


def finish(what: What, how: How) -> None:
    """Stores made-up figures of every seed run, the later the better."""
    prepared = prepare_study(what, how)
    prepared.begin()
    board = prepared.board()
    while (task := board.next()) is not None:
        right = 300 + 10 * len(board.done)
        evaluation = {"confusion": [[right, 500 - right], [0, 0]]}
        evaluations = ({"update": 9, "validation": evaluation},)
        run = SeedRun(task.key, task.identity, {}, evaluations=evaluations, test=evaluation)
        prepared.runs.put(run)
        board.finish(task, run)


def numbers(report: Report) -> list[int]:
    return [line.number for line in report.configurations]


def test_a_finished_search_answers_with_its_report_from_the_store(encoder: str, how: How) -> None:
    what = What(method="scl", task="demo", model=encoder)
    finish(what, how)
    report = tune(what, how)
    assert numbers(report) == [1, 0]
    assert report.winner is not None
    assert report.winner.test_mean == pytest.approx(0.65)
    assert report == select("mine", storage=how.storage)


def test_a_rule_of_an_earlier_start_is_no_rule_of_this_one(encoder: str, how: How) -> None:
    what = What(method="scl", task="demo", model=encoder)
    finish(what, replace(how, rule="best"))
    assert tune(what, how).rule == "mean"
    assert tune(what, replace(how, rule="mean/best")).rule == "mean/best"
    assert select("mine", storage=how.storage).rule == "best"


def test_a_search_that_is_stopped_says_so(
    encoder: str, how: How, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = What(method="scl", task="demo", model=encoder)
    finish(what, how)
    monkeypatch.setattr("sclsearch.search.run._train", lambda *_: "interrupted")
    with pytest.raises(KeyboardInterrupt):
        tune(what, replace(how, configs=3))


def test_a_search_whose_time_is_used_shows_by_its_scores(
    encoder: str, how: How, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = What(method="scl", task="demo", model=encoder)
    finish(what, how)
    monkeypatch.setattr("sclsearch.search.run._train", lambda *_: "out of time")
    scores = [line.score for line in tune(what, replace(how, configs=3)).configurations]
    assert (len(scores), scores.count(None)) == (3, 1)


def test_training_is_one_configuration_of_the_starting_point_and_the_settings(
    encoder: str, how: How
) -> None:
    what = What(method="scl", task="demo", model=encoder, settings={"epochs": 3})
    finish(replace(what, searched=False), how)
    [line] = train(what, how).configurations
    assert line.values == {
        "tau": 0.3,
        "lam": 0.9,
        "learning_rate": 1e-05,
        "batch_size": 16,
        "epochs": 3,
    }
    assert (line.fields["tau"], line.fields["epochs"]) == (0.3, 3)


def test_a_study_is_selected_from_under_any_rule_and_for_fewer_seeds(
    encoder: str, how: How
) -> None:
    finish(What(method="scl", task="demo", model=encoder), how)
    assert select("mine", storage=how.storage).rule == "mean"
    assert select("mine", rule="mean/best", storage=how.storage).rule == "mean/best"
    assert select("mine", storage=how.storage, seeds=1).seeds == 1


def test_what_the_caller_can_mend_is_raised(tmp_path: Path, how: How) -> None:
    with pytest.raises(SclsearchError, match=r"Unknown study 'mien' .* Known: none"):
        select("mien", storage=tmp_path)
    with pytest.raises(SclsearchError, match="Unknown study 'mine'"):
        export("mine", tmp_path / "out", storage=tmp_path / "mien")
    assert not (tmp_path / "mien").exists()
    with pytest.raises(SclsearchError, match="Unknown rule 'median'"):
        select("mine", rule="median", storage=tmp_path)
    with pytest.raises(SclsearchError, match="Did you mean 'scl'"):
        tune(What(method="sc1", task="demo"), how)
    with pytest.raises(SclsearchError, match=r"^--data-dir .* but demo is made by sclsearch"):
        tune(What(method="scl", task="demo"), replace(how, data_dir=tmp_path))


def test_winners_of_two_methods_are_compared_on_the_rows_of_both(encoder: str, how: How) -> None:
    for method in ("scl", "ce"):
        finish(What(method=method, task="demo", model=encoder), replace(how, study=method))
    found = compare("scl", "ce", storage=how.storage)
    assert [(one.study, one.number) for one in found.studies] == [("scl", 1), ("ce", 1)]
    assert (found.task, found.seeds, found.notes) == ("demo", 2, ())
    comparison = found.studies[1].comparison
    assert comparison is not None
    assert (comparison.n, comparison.difference) == (2, 0)
