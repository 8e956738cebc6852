"""Tests of the Python API: tune, train, select, compare and their errors."""

import re
import shutil
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import sclsearch
from sclsearch import Callback, Report, compare, export, select, train, tune
from sclsearch.arguments import fields_of
from sclsearch.errors import SclsearchError
from sclsearch.reports.commands import winner_spec
from sclsearch.reports.comparison import StudyComparison
from sclsearch.reports.report import finished_winner
from sclsearch.search.prepare import prepare_methods
from sclsearch.search.run import run_methods
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import SeedRun
from sclsearch.store.studies import ConfigurationRecord, StudyRecord
from sclsearch.study.spec import RunOptions, StudySpec, TuneKeywords
from sclsearch.study.state import ConfigurationScore, SeedRunTask
from sclsearch.tasks.custom import CustomTask
from tests.finished import Confusion
from tests.finished import finish as finish_study


@pytest.fixture
def encoder(tmp_path: Path, tiny_encoder: Path) -> str:
    """Return the folder of a tiny encoder."""
    return str(shutil.copytree(tiny_encoder, tmp_path / "encoder"))


@pytest.fixture
def options(tmp_path: Path, encoder: str) -> dict[str, Any]:
    """Return keyword arguments of `tune` for a study named `mine`."""
    return {
        "task": "demo",
        "model": encoder,
        "study": "mine",
        "storage": tmp_path / "storage",
        "configs": 2,
        "seeds": 2,
        "tracking": "none",
        "progress": False,
    }


def finish(*, searched: bool = True, **options: Any) -> None:
    """Store results of all seed runs; later ones have higher scores."""

    def counts(number: int, replicate: int) -> Confusion:
        right = 300 + 10 * (2 * number + replicate)
        return [[right, 500 - right], [0, 0]]

    spec = StudySpec(searched=searched, **fields_of(StudySpec, options))
    finish_study(spec, RunOptions(**fields_of(RunOptions, options)), counts)


def numbers(report: Report) -> list[int]:
    return [line.number for line in report.configurations]


def test_tune_on_a_finished_study_returns_the_stored_report(options: dict[str, Any]) -> None:
    finish(method="scl", **options)
    report = tune(method="scl", **options)
    assert numbers(report) == [1, 0]
    assert finished_winner(report).test_mean == pytest.approx(0.65)
    assert report == select("mine", storage=options["storage"])


def test_the_rule_of_an_earlier_run_is_not_used_by_tune(options: dict[str, Any]) -> None:
    finish(method="scl", rule="best", **options)
    assert tune(method="scl", **options).rule == "mean"
    assert tune(method="scl", rule="mean/best", **options).rule == "mean/best"
    assert select("mine", storage=options["storage"]).rule == "best"


def test_an_interrupted_search_raises_keyboard_interrupt(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(method="scl", **options)
    monkeypatch.setattr("sclsearch.search.run._train", lambda *_: "interrupted")
    with pytest.raises(KeyboardInterrupt):
        tune(method="scl", **{**options, "configs": 3})


def test_a_configuration_without_time_budget_has_no_score(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(method="scl", **options)
    monkeypatch.setattr("sclsearch.search.run._train", lambda *_: "out of time")
    scores = [line.score for line in tune(method="scl", **{**options, "configs": 3}).configurations]
    assert (len(scores), scores.count(None)) == (3, 1)


def test_train_has_one_configuration_with_the_starting_point_and_the_settings(
    options: dict[str, Any],
) -> None:
    finish(method="scl", searched=False, settings={"epochs": 3}, **options)
    del options["configs"]
    [line] = train(method="scl", settings={"epochs": 3}, **options).configurations
    assert line.values.items() >= {"tau": 0.3, "lam": 0.9, "batch_size": 16, "epochs": 3}.items()
    assert (line.fields["tau"], line.fields["epochs"]) == (0.3, 3)


def test_train_from_a_study_has_every_field_of_the_winner(options: dict[str, Any]) -> None:
    finish(method="scl", **options)
    found = select("mine", storage=options["storage"])
    winner = finished_winner(found)
    spec, _ = winner_spec(found, {"settings": {"epochs": 3}})
    finish_study(spec, RunOptions(study="again", storage=options["storage"], seeds=2))
    shared = {"storage": options["storage"], "seeds": 2, "tracking": "none", "progress": False}
    for source in ("mine", found):
        again = train(from_study=source, settings={"epochs": 3}, study="again", **shared)
        [line] = again.configurations
        assert line.fields == {**winner.fields, "epochs": 3}
        assert line.values == {**winner.values, "epochs": 3}
        assert again.settings == {}
    with pytest.raises(SclsearchError, match=r"^epoch: unknown argument"):
        train(from_study="mine", epoch=3, **shared)  # type: ignore[call-arg]
    with pytest.raises(SclsearchError, match=r"^task: must be given without from_study"):
        train(method="scl")


def test_wrong_arguments_for_stored_studies_raise_errors(tmp_path: Path) -> None:
    with pytest.raises(SclsearchError, match=r"Unknown study 'mien' .* Known: none"):
        select("mien", storage=tmp_path)
    with pytest.raises(SclsearchError, match="Unknown study 'mine'"):
        export("mine", tmp_path / "out", storage=tmp_path / "mien")
    assert not (tmp_path / "mien").exists()
    with pytest.raises(SclsearchError, match="Unknown rule 'median'"):
        select("mine", rule="median", storage=tmp_path)
    with pytest.raises(SclsearchError, match=r"^study \['mine', 'yours'\]: must be"):
        compare(["mine", "yours"], storage=tmp_path)  # type: ignore[arg-type]


def test_train_refuses_options_that_only_searches_have() -> None:
    with pytest.raises(
        SclsearchError, match=r"^configs, race: only searches have this\. Leave it out"
    ):
        train(method="scl", task="demo", race=2.5, configs=3)


def test_compare_pairs_the_winners_of_two_methods(options: dict[str, Any]) -> None:
    for method in ("scl", "ce"):
        finish(method=method, **{**options, "study": method, "space": "paper"})
    found = compare("scl", "ce", storage=options["storage"])
    assert [(study.study, study.number) for study in found.studies] == [("scl", 1), ("ce", 1)]
    searched = "searched hyperparameters of both methods: batch_size, learning_rate in ce"
    assert (found.task, found.seeds) == ("demo", 2)
    warning, other = found.notes
    assert warning == (
        "warning: the learning rate is not tuned alike (scl: fixed at 1e-05; ce: one of 1e-05, "
        "2e-05, 3e-05, 4e-05, 5e-05): scores may show that alone"
    )
    assert other == f"{searched}, nothing in scl"
    comparison = found.studies[1].comparison
    assert comparison is not None
    assert (comparison.n, comparison.difference) == (2, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shots": 0}, "shots: must be between 1 and"),
        ({"settings": {"tua": 1}}, "settings tua: unknown key."),
        ({"method": "sc1"}, "Unknown method 'sc1'. Did you mean 'scl'?"),
        ({"method": "ce,scl"}, "method 'ce,scl': must be one name. Pass several as"),
        ({"method": ["ce"]}, "method: a list must have two or more methods, got 1."),
        ({"restore": True}, "restore: unknown argument"),
        ({"data_dir": Path("glue")}, "data_dir glue: must come with a published task, got demo."),
        ({"method": 3}, "method: must be a name, FILE.py:CLASS or a class, got 3."),
        ({"model": "./nothing"}, "model ./nothing: must be"),
        ({"storage": ""}, "storage: must be a folder or a URI, got ''."),
        ({"tracking": "http://"}, "tracking: must name a server or a database"),
        ({"cpus_per_trial": 999}, "cpus_per_trial 999, gpus_per_trial 0: a seed run does not fit"),
        ({"race": 0}, "race: must be greater than 0 or must be 'exact' or 'off', got 0."),
    ],
    ids=str,
)
def test_errors_name_arguments_and_not_options(
    options: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SclsearchError) as raised:
        sclsearch.tune(**{"method": "scl", **options, "seeds": 3, "gpus_per_trial": 0, **changes})
    assert str(raised.value).startswith(message)
    assert "--" not in re.sub("`.*?`", "", str(raised.value))
    assert "restored" not in str(raised.value)  # not an argument of tune


def test_commands_in_errors_keep_their_options(options: dict[str, Any]) -> None:
    with pytest.raises(SclsearchError) as raised:
        sclsearch.tune(method="scl", address="ray://head:10001", gpus_per_trial=0, **options)
    message = str(raised.value)
    assert message.startswith("address: must be auto or HOST:PORT")
    assert (
        "`ray job submit --address http://HOST:8265 -- sclsearch tune … --address auto`" in message
    )


def test_keywords_are_the_fields_of_spec_and_options() -> None:
    kinds = (CustomTask, StudySpec, RunOptions)
    known = {field.name for kind in kinds for field in fields(kind)}
    internal = {"path", "method", "task", "searched", "restored", "fresh", "first_fresh"}
    internal |= {"custom_method", "shown"}
    assert set(TuneKeywords.__annotations__) == known - internal


class Recorder(Callback):
    """Callback that records the events of a search."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def on_study(self, study: StudyRecord) -> None:
        self.events.append(("study", study.name))

    def on_configuration(self, configuration: ConfigurationRecord) -> None:
        self.events.append(("configuration", configuration.number))

    def on_seed_run(self, task: SeedRunTask, run: SeedRun, *, stored: bool) -> None:
        self.events.append(("seed run", *task.id, run.key == task.key, stored))

    def on_score(self, score: ConfigurationScore) -> None:
        self.events.append(("score", score.number, score.score))


def test_callbacks_receive_the_events_of_each_study(options: dict[str, Any]) -> None:
    expected = both(options)
    recorder = Recorder()
    found = tune(method=["ce", "scl"], callbacks=[recorder], **options)
    assert found.studies == expected.studies
    assert [report.study for report in found.reports] == ["mine-ce", "mine-scl"]
    one = [
        *(("configuration", 0), ("seed run", 0, 0, True, True), ("seed run", 0, 1, True, True)),
        *(("score", 0, 0.61), ("configuration", 1), ("seed run", 1, 0, True, True)),
        *(("seed run", 1, 1, True, True), ("score", 1, 0.65)),
    ]
    assert recorder.events == [("study", "mine-ce"), *one, ("study", "mine-scl"), *one]


def both(options: dict[str, Any]) -> StudyComparison:
    """Store results of `ce` and `scl`; return their comparison."""
    for method in ("ce", "scl"):
        finish(method=method, **{**options, "study": f"mine-{method}"})
    return compare("mine-ce", "mine-scl", storage=options["storage"])


def test_the_smallest_space_limits_the_budget_of_all_methods(options: dict[str, Any]) -> None:
    larger = {**options, "configs": 20, "space": "paper"}
    spec = StudySpec(method="ce", **fields_of(StudySpec, larger))
    run_options = RunOptions(**fields_of(RunOptions, larger))
    searches = prepare_methods(["ce", "scl", "cssl"], spec, run_options, dry=True)
    assert [search.configs for search in searches] == [6, 6, 6]
    assert len({search.study.protocol.name for search in searches}) == 1
    assert [search.options.study for search in searches] == ["mine-ce", "mine-scl", "mine-cssl"]


def test_advice_is_printed_for_the_first_trained_method_only(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    advice = list[Any]()
    trained = iter([0, 2, 2])

    def run_one(prepared: Scheduler, *_: object) -> SimpleNamespace:
        advice.append(prepared.advice)
        return SimpleNamespace(trained=next(trained), ending="complete")

    monkeypatch.setattr("sclsearch.ray_backend.start.mps_advice", lambda *_: ["start it"])
    monkeypatch.setattr("sclsearch.search.run.run_prepared", run_one)
    spec = StudySpec(method="ce", **fields_of(StudySpec, options))
    run_options = RunOptions(**fields_of(RunOptions, options))
    searches = prepare_methods(["ce", "scl", "cssl"], spec, run_options, dry=True)
    assert len(list(run_methods(searches, Console(quiet=True)))) == 3
    assert advice == [["start it"], ["start it"], ()]


def test_an_error_or_interruption_of_one_method_is_raised_after_the_others_have_run(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    both(options)
    trained = []

    def train(prepared: Scheduler, *_: object) -> str:
        trained.append(prepared.study.method.name)
        if trained == ["ce"]:
            raise SclsearchError("the storage does not respond")
        return "interrupted" if len(trained) == 3 else "out of time"

    monkeypatch.setattr("sclsearch.search.run._train", train)
    with pytest.raises(SclsearchError, match=r"^ce: the storage does not respond$"):
        tune(method=["ce", "scl"], **{**options, "configs": 3})
    assert trained == ["ce", "scl"]
    with pytest.raises(KeyboardInterrupt):
        tune(method=("ce", "scl"), **{**options, "configs": 3})


def test_a_time_budget_is_shared_by_the_methods(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets = []

    def train(scheduler: Scheduler, *_: object) -> str:
        budgets.append(scheduler.options.time_budget or 0.0)
        return "out of time"

    monkeypatch.setattr("sclsearch.search.run._train", train)
    both(options)
    tune(method=["ce", "scl"], time_budget=1000.0, **{**options, "configs": 3})
    assert 490 < budgets[0] <= 500
    assert budgets[0] < budgets[1] <= 1000
