"""Tests of restoring a study's specification from its stored records."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.search.prepare import prepare_study
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.studies import ConfigurationRecord
from sclsearch.study.restore import check_unchanged, restore_data_dir, restore_spec
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks import load_task
from sclsearch.tasks.custom import CustomTask
from tests.workspace import MakeSpec, Prepare

OWN_SPACE = """
method: Smoothed
source: a test
published: [{smoothing: 0.1}]
space:
  smoothing: {type: choice, values: [0.0, 0.1]}
"""


def stored(thing: Any) -> Any:
    """Return a value after a round trip through JSON, which turns tuples into lists."""
    return json.loads(json.dumps(thing))


def origin_of(prepared: Scheduler) -> Mapping[str, Any]:
    origin: Mapping[str, Any] = stored(prepared.record.origin)
    return origin


def test_the_default_encoder_is_recorded_by_name(
    make_spec: MakeSpec, minilm: Path, tmp_path: Path
) -> None:
    spec = make_spec(model=None, scale="laptop", space=None)
    options = RunOptions(storage=tmp_path, gpus_per_trial=0)
    assert origin_of(prepare_study(spec, options))["model"] == "minilm"


def winner_of(prepared: Scheduler) -> ConfigurationRecord:
    scheduler = replace(prepared)
    scheduler.refill()
    return ConfigurationRecord(**stored(asdict(scheduler.state.configurations[-1])))


def keys(prepared: Scheduler, values: Mapping[str, Any]) -> list[str]:
    study = prepared.study
    return [study.seed_run_spec(values, r, splits).key for r, splits in prepared.splits.items()]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"train_size": 20},
        {"shots": 4, "scale": "laptop"},
        {"method": "tapt", "space": None, "train_size": 20, "unlabeled": 40},
        {"protocol": "supcl-seq", "settings": {"pooling": "cls_raw"}},
    ],
    ids=str,
)
def test_a_restored_configuration_has_the_same_seed_runs(
    make_spec: MakeSpec, prepare: Prepare, changes: dict[str, Any]
) -> None:
    before = prepare(make_spec(**changes), seeds=3)
    winner = winner_of(before)
    spec = restore_spec(origin_of(before), winner.fields)
    again = prepare(spec, seeds=3)
    assert keys(again, {}) == keys(before, winner.values)
    assert again.study.fields({}) == before.study.fields(winner.values)
    assert not again.study.space.parameters
    once_more = restore_spec(origin_of(again), winner_of(again).fields)
    assert prepare(once_more, seeds=3).study.default_name() == again.study.default_name()


def test_a_task_of_the_users_files_is_restored_exactly(
    toy: CustomTask, make_spec: MakeSpec, prepare: Prepare, tmp_path: Path
) -> None:
    header, *rows = toy.path.read_text(encoding="utf-8").splitlines()
    files = {}
    for name, some in {"train": rows[:60], "validation": rows[60:80], "test": rows[80:]}.items():
        files[name] = tmp_path / f"{name}.csv"
        files[name].write_text("\n".join([header, *some]), encoding="utf-8")
    by_files = CustomTask(
        files["train"],
        text=("text",),
        label="label",
        validation=files["validation"],
        test=files["test"],
        metric="macro_f1",
    )
    by_shares = replace(toy, split_column=None, fractions=(0.6, 0.2, 0.2))
    for task in (by_files, by_shares):
        before = prepare(make_spec(task=task))
        winner = winner_of(before)
        spec = restore_spec(origin_of(before), winner.fields)
        assert spec.task == task
        assert keys(prepare(spec), {}) == keys(before, winner.values)


def test_a_stored_field_out_of_bounds_is_reported_as_a_damaged_record(
    make_spec: MakeSpec, prepare: Prepare
) -> None:
    before = prepare(make_spec())
    damaged = {**winner_of(before).fields, "max_length": -5}
    message = rf"^{before.record.name}: the record is damaged: max_length: .*got -5\. Restore"
    with pytest.raises(SclsearchError, match=message):
        restore_spec(origin_of(before), damaged)


def test_a_custom_method_is_restored_without_its_space_file(
    custom_method: str, make_spec: MakeSpec, prepare: Prepare, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(custom_method, encoding="utf-8")
    space = tmp_path / "space.yaml"
    space.write_text(OWN_SPACE, encoding="utf-8")
    before = prepare(make_spec(method=f"{file}:Smoothed", space=space))
    winner = winner_of(before)
    space.unlink()
    again = prepare(restore_spec(origin_of(before), winner.fields))
    assert keys(again, {}) == keys(before, winner.values)


def test_stored_lists_become_tuples_and_files_become_paths(tmp_path: Path, tiny_bert: Path) -> None:
    file = tmp_path / "paraphrases.jsonl"
    texts = dict.fromkeys(load_task("demo").splits["train"].texts)
    lines = [json.dumps({"text": text, "paraphrases": [text, text]}) for text in texts]
    file.write_text("\n".join(['{"paraphrases": 1, "source": "by hand"}', *lines]))
    spec = StudySpec(method="cssl", task="demo", model=str(tiny_bert), paraphrases=file)
    prepared = prepare_study(spec, RunOptions(storage=tmp_path, seeds=1, gpus_per_trial=0))
    origin = {**origin_of(prepared), "method": "supcl-seq"}  # its fields have a list
    again = restore_spec(origin, {"dropouts": [0.0, 0.1], "tau": 0.5})
    assert (again.settings, again.paraphrases) == ({"dropouts": (0.0, 0.1), "tau": 0.5}, file)


def test_fresh_replicates_begin_after_those_of_the_study(
    make_spec: MakeSpec, prepare: Prepare
) -> None:
    before = prepare(make_spec(train_size=20), seeds=12)
    winner = winner_of(before)
    spec = restore_spec(origin_of(before), winner.fields, fresh=2, first_fresh=12)
    fresh = prepare(spec, seeds=None)
    assert set(keys(fresh, {})).isdisjoint(keys(before, winner.values))
    longer = prepare(make_spec(train_size=20), seeds=14)
    assert keys(fresh, {}) == keys(longer, winner.values)[12:]
    assert origin_of(fresh)["first_fresh"] == 12


def test_every_changed_field_is_named() -> None:
    before = {"data": "a", "weights": "b", "engine": 1}
    check_unchanged("mine", "the study", before, {**before, "numerics": "cpu-fp32"})
    with pytest.raises(SclsearchError, match=r"^mine: data, engine changed since the study"):
        check_unchanged("mine", "the study", before, {"weights": "b", "data": "c"})


def test_the_data_folder_is_the_given_or_stored_one_and_refused_if_unused() -> None:
    cola, demo = ({"task": task, "data_dir": "before"} for task in ("cola", "demo"))
    assert restore_data_dir(cola, Path("now")) == Path("now")
    assert [restore_data_dir(one, None) for one in (cola, demo)] == [Path("before")] * 2
    with pytest.raises(SclsearchError, match=r"^--data-dir now: .* got demo"):
        restore_data_dir(demo, Path("now"))
