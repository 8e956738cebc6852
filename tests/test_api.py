"""Tests of the Python API: tune, train, select, compare and their errors."""

import inspect
import pydoc
import re
import shutil
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from sclsearch import Callback, Classifier, compare, export, select, train, tune
from sclsearch.api import chosen, in_turn
from sclsearch.arguments import declared, fields_of, type_text
from sclsearch.errors import SclsearchError
from sclsearch.reports.commands import search_command, winner_spec
from sclsearch.reports.comparison import StudyComparison
from sclsearch.reports.comparison_tables import winner_table
from sclsearch.reports.report import finished_winner
from sclsearch.search.prepare import prepare_several, variants
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import SeedRun
from sclsearch.store.studies import StudyRecord
from sclsearch.study.spec import SEARCH_OPTIONS, RunOptions, StudySpec
from sclsearch.study.state import ConfigurationScore, SeedRunTask
from sclsearch.tasks.custom import CustomTask
from tests.studies import TRAIN, rising
from tests.studies import finish as finish_study

Options = dict[str, Any]


@pytest.fixture
def options(tmp_path: Path, tiny_encoder: Path) -> Options:
    """Return keyword arguments of `tune` for a study named `mine`."""
    return {
        "task": "demo",
        "model": str(shutil.copytree(tiny_encoder, tmp_path / "encoder")),
        "study": "mine",
        "storage": tmp_path / "storage",
        "configs": 2,
        "seeds": 2,
        "tracking": "none",
        "progress": False,
    }


def described(options: Options) -> tuple[StudySpec, RunOptions]:
    return (
        StudySpec(**fields_of(StudySpec, options)),
        RunOptions(**fields_of(RunOptions, options)),
    )


def finish(method: str, options: Options, **changes: Any) -> None:
    """Store results of all seed runs; later ones have higher scores."""
    finish_study(*described({"method": method, **options, **changes}), rising)


def finish_both(options: Options) -> None:
    """Store results of `ce` and `scl`, as a search of both does."""
    for method in ("ce", "scl"):
        finish(method, options, study=f"mine-{method}")


def test_tune_on_a_finished_study_returns_the_stored_report(options: Options) -> None:
    finish("scl", options, rule="best")
    report = tune(method="scl", **options)
    assert [line.number for line in report.configurations] == [1, 0]
    assert finished_winner(report).test_mean == pytest.approx(0.65)
    # The rule of an earlier run is not used by tune, but by select.
    assert report.rule == "mean"
    assert tune(method="scl", rule="mean/best", **options).rule == "mean/best"
    assert select("mine", storage=options["storage"]).rule == "best"
    assert report == select("mine", storage=options["storage"], rule="mean")


def test_a_search_starts_from_the_best_configurations_of_another_and_with_a_sampler_of_a_file(
    options: Options,
) -> None:
    finish("scl", options)
    first = select("mine", storage=options["storage"])
    file = options["storage"].parent / "own.py"
    file.write_text("def tpe(seed):\n    import optuna\n    return optuna.samplers.TPESampler()\n")
    other = {**options, "study": "other", "start_from": "mine", "sampler": f"{file}:tpe"}
    spec, run_options = chosen(
        "demo", "scl", {n: v for n, v in other.items() if n not in {"progress", "task"}}
    )
    finish_study(spec, run_options, rising)
    report = tune(method="scl", **other)
    found = sorted(report.configurations, key=lambda line: line.number)
    assert [line.values for line in found] == [line.values for line in first.configurations]
    assert {line.origin for line in found} == {"start"}
    assert f"--sampler {file}:tpe" in search_command(report)
    with pytest.raises(SclsearchError, match="mine: none of its 2 best configurations is in"):
        tune(method="supcl-seq", **{**options, "study": "none", "start_from": "mine"})
    for body, message in (("1 / 0", "it raised ZeroDivisionError"), ("0", "got int")):
        wrong = file.with_name("wrong.py")
        wrong.write_text(f"def make(seed):\n    return {body}\n")
        with pytest.raises(SclsearchError, match=message):
            tune(method="scl", **{**options, "study": "none", "sampler": f"{wrong}:make"})
    file.write_text(file.read_text() + "#")
    with pytest.raises(SclsearchError, match=r"sampler must stay 'own\.py:tpe .*', got 'own\.py"):
        tune(method="scl", **other)


def test_train_has_one_configuration_with_the_starting_point_and_the_settings(
    options: Options,
) -> None:
    finish("scl", options, searched=False, settings={"epochs": 3})
    del options["configs"]
    [line] = train(method="scl", settings={"epochs": 3}, **options).configurations
    assert line.values.items() >= {"tau": 0.3, "lam": 0.9, "batch_size": 16, "epochs": 3}.items()
    with pytest.raises(SclsearchError, match=r"^configs, race: only searches have this\. Leave it"):
        train(method="scl", task="demo", race=2.5, configs=3)  # type: ignore[call-arg]


def test_train_from_a_study_has_every_field_of_the_winner(options: Options) -> None:
    finish("scl", options)
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
    with pytest.raises(SclsearchError, match=r"^epoch: unknown argument"):
        train(from_study="mine", epoch=3, **shared)  # type: ignore[call-arg]
    with pytest.raises(SclsearchError, match=r"^task: must be given without from_study"):
        train(method="scl")


def test_wrong_studies_are_errors_that_create_nothing(tmp_path: Path) -> None:
    with pytest.raises(SclsearchError, match="Unknown study 'mine'"):
        export("mine", tmp_path / "out", storage=tmp_path / "mien")
    assert not (tmp_path / "mien").exists()
    with pytest.raises(SclsearchError, match=r"^study \['mine', 'yours'\]: must be"):
        compare(["mine", "yours"], storage=tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": {"tua": 1}}, "settings tua: unknown key."),
        ({"method": "ce,scl"}, "method 'ce,scl': must be one name. Pass several as"),
        ({"restore": True}, "restore: unknown argument"),
        ({"method": 3}, "method: must be a name, FILE.py:CLASS or a class, got 3."),
        ({"model": 3}, "model: must be text or "),
        ({"cpus_per_trial": 999}, "cpus_per_trial 999, gpus_per_trial 0: a seed run does not fit"),
        ({"address": "ray://head:1"}, "address: must be auto or HOST:PORT"),
    ],
    ids=str,
)
def test_errors_name_arguments_and_commands_in_them_keep_their_options(
    options: Options, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SclsearchError) as raised:
        tune(**{"method": "scl", **options, "seeds": 3, "gpus_per_trial": 0, **changes})
    found = str(raised.value)
    assert found.startswith(message)
    assert "--" not in re.sub("`.*?`", "", found)
    assert ("sclsearch tune … --address auto`" in found) == ("address" in changes)


def test_signatures_list_every_option_with_the_types_and_defaults_of_the_fields() -> None:
    fields = declared(CustomTask, StudySpec, RunOptions)
    signature = inspect.signature(tune)
    own = {"task", "method", "progress", "callbacks"}
    assert {*signature.parameters} == {*fields, *own}
    for name, (field, _, _) in fields.items():
        shown = signature.parameters[name]
        if name not in own:
            assert shown.default == ({} if field.default is MISSING else field.default)
            # A keyword may be given in further forms, such as text for a path or for `off`.
            stored = {*type_text(field.type).split(" | ")}
            stored -= {"tuple[float, float, float]", "Literal['off']"}
            assert stored <= {*shown.annotation.split(" | ")}
    assert {*signature.parameters} - {*inspect.signature(train).parameters} == {*SEARCH_OPTIONS}
    assert "options" not in inspect.signature(Classifier).parameters
    text = pydoc.plain(pydoc.render_doc(tune))
    assert "race: \"float | Literal['exact', 'off'] | None\" = None" in text


class Recorder(Callback):
    """Callback that records the events of a search."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def on_study(self, study: StudyRecord) -> None:
        self.events.append(("study", study.name))

    def on_seed_run(self, task: SeedRunTask, run: SeedRun, *, stored: bool) -> None:
        self.events.append(("seed run", *task.id, run.key == task.key, stored))

    def on_score(self, score: ConfigurationScore) -> None:
        self.events.append(("score", score.number, score.score))


def test_several_methods_are_compared_and_callbacks_receive_the_events_of_each(
    options: Options,
) -> None:
    finish_both(options)
    recorder = Recorder()
    found = tune(method=["ce", "scl"], callbacks=[recorder], **options)
    again = compare("mine-ce", "mine-scl", storage=options["storage"])
    assert isinstance(again, StudyComparison)
    assert found.studies == again.studies
    assert [report.study for report in found.reports] == ["mine-ce", "mine-scl"]
    one = [
        *(("seed run", 0, 0, True, True), ("seed run", 0, 1, True, True), ("score", 0, 0.61)),
        *(("seed run", 1, 0, True, True), ("seed run", 1, 1, True, True), ("score", 1, 0.65)),
    ]
    assert recorder.events == [("study", "mine-ce"), *one, ("study", "mine-scl"), *one]


def test_several_encoders_are_compared_with_size_and_speed_and_the_smallest_in_noise_is_named(
    options: Options, tmp_path: Path
) -> None:
    first = Path(options["model"])
    other = shutil.copytree(first, tmp_path / "other")
    weights = load_file(other / "model.safetensors")
    save_file({n: 0.9 * t for n, t in weights.items()}, other / "model.safetensors")
    for model in (first, other):
        finish("scl", options, model=str(model), study=f"mine-{model.name}")
    found: Any = tune(method="scl", **{**options, "model": [first, str(other)]})
    assert [one.study for one in found.studies] == ["mine-encoder", "mine-other"]
    assert found.of_encoders
    millions = sum(t.numel() for t in weights.values()) / 1e6
    assert "encoder is the smallest encoder within noise of the best" in repr(found)
    assert "No encoder is clearly best on demo." in repr(found)
    table = winner_table(found)
    assert [*table["encoder"]] == ["encoder", "other"]
    assert [*table["weights"]] == [f"{millions:.3g} M"] * 2
    assert all(float(speed) > 0 for speed in table["texts/s"])
    run_options = RunOptions(storage=options["storage"])
    given = in_turn(["scl"], [str(other), "mine-encoder"], run_options)
    assert [*given] == ["other", "mine-encoder"]
    assert Path(given["mine-encoder"]["model"]).parent.name == "encoders"
    copied = shutil.copytree(first, tmp_path / "copied")
    for methods, models, message in (
        (["ce", "scl"], f"{first},{other}", "only one of them may have several values, got 2"),
        ("scl", f"{first},{first}", f"model: their names must differ, got {first}, {first}"),
        ("scl", f"{first},{copied}", "model encoder,copied: two have the same weights"),
    ):
        with pytest.raises(SclsearchError, match=message):
            tune(method=methods, **{**options, "model": models, "study": "copies"})
    with pytest.raises(SclsearchError, match="must be one encoder; only tune takes several"):
        train(task="demo", model=f"{first},{other}")


def test_the_smallest_space_limits_the_budget_of_all_methods_so_that_budgets_are_equal(
    options: Options,
) -> None:
    spec, run_options = described({"method": "ce", **options, "configs": 20, "space": "paper"})
    given = variants(["ce", "scl", "cssl"], [None])
    searches = [*prepare_several(given, spec, run_options, dry=True).values()]
    assert [(search.configs, search.options.seeds) for search in searches] == [(6, 2)] * 3
    assert len({search.study.protocol.name for search in searches}) == 1
    assert [search.options.study for search in searches] == ["mine-ce", "mine-scl", "mine-cssl"]


def test_an_own_method_has_the_space_beside_its_file_and_the_budget_of_the_built_in_ones(
    options: Options, own_methods: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(own_methods["mine.py"], encoding="utf-8")
    space = "method: Smoothed\nsource: mine\npublished: []\n"
    values = "space: {smoothing: {type: choice, values: [0.0, 0.1, 0.2]}}\n"
    (tmp_path / "mine.yaml").write_text(space + values, encoding="utf-8")
    own = f"{tmp_path}/mine.py:Smoothed"
    given: Options = {"method": "ce", **options, "configs": 20, "space": None}
    searches = prepare_several(variants(["ce", own], [None]), *described(given), dry=True)
    assert {name: search.configs for name, search in searches.items()} == {"ce": 3, "Smoothed": 3}
    parameters = searches["Smoothed"].study.space.parameters
    assert list(parameters) == ["smoothing"]


def test_methods_share_a_time_budget_and_an_error_of_one_is_raised_after_the_others_have_run(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish_both(options)
    budgets: list[float] = []

    def train(scheduler: Scheduler, *_: object) -> str:
        budgets.append(scheduler.options.time_budget or 0.0)
        if len(budgets) == 1:
            raise SclsearchError("the storage does not respond")
        return "interrupted" if len(budgets) == 3 else "out of time"

    monkeypatch.setattr(TRAIN, train)
    search: Options = {"method": ["ce", "scl"], "time_budget": 1000.0, **options, "configs": 3}
    with pytest.raises(SclsearchError, match=r"^ce: the storage does not respond$"):
        tune(**search)
    assert 490 < budgets[0] <= 500
    assert budgets[0] < budgets[1] <= 1000
    with pytest.raises(KeyboardInterrupt):
        tune(**search)
