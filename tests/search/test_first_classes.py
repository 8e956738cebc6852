"""Tests of protocols on the first classes of a task, from the data to the report and a rerun."""

from pathlib import Path

import pytest

from sclsearch.api import select
from sclsearch.search.prepare import prepare_study
from sclsearch.search.rerun import rerun
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.spec import RunOptions, StudySpec
from tests.in_process import train_one
from tests.workspace import Prepare

FIELDS = {"epochs": 1, "max_length": 16, "learning_rate": 1e-3}


@pytest.fixture
def prepare(dbpedia: Path, tiny_bert: Path, tmp_path: Path) -> Prepare:
    """Return a function that prepares one configuration on the first classes of DBpedia."""

    def prepare(count: int, **changes: str | None) -> PreparedStudy:
        spec = StudySpec(
            method="ce",
            task="dbpedia",
            model=str(tiny_bert),
            protocol=changes.get("protocol") or f"lacon-classes-{count}",
            settings=FIELDS,
            searched=False,
        )
        options = RunOptions(
            study=changes.get("study", "mine"),
            storage=tmp_path,
            data_dir=dbpedia,
            seeds=1,
            gpus_per_trial=0,
        )
        return prepare_study(spec, options)

    return prepare


@pytest.mark.parametrize("count", [2, 14])
def test_a_study_has_the_first_classes_and_all_their_test_rows(
    prepare: Prepare, count: int
) -> None:
    prepared = prepare(count)
    study, splits = prepared.study, prepared.splits[0]
    assert (
        len(study.data.task.labels) == len(study.seed_run_spec({}, 0, splits).task.labels) == count
    )
    assert study.data.task.labels[:2] == ("Company", "EducationalInstitution")
    assert len(splits.train.index) + len(splits.validation.index) == count * 79
    assert (splits.test.split, len(splits.test.index)) == ("test", count * 79)


def test_each_number_of_classes_has_different_seed_run_keys(prepare: Prepare) -> None:
    specs = [prepare(count).study.seed_run_spec({}, 0) for count in (2, 3, 14)]
    assert len({spec.key for spec in specs}) == len({spec.data_digest for spec in specs}) == 3


def test_both_spellings_of_a_protocol_give_the_same_study(prepare: Prepare) -> None:
    earlier, written = (prepare(3, protocol=f"lacon-classes{mark}3", study=None) for mark in "-:")
    assert written.store.name == earlier.store.name
    assert written.record.identity == earlier.record.identity
    assert written.record.identity["protocol"] == "lacon-classes-3"
    assert written.record.origin == earlier.record.origin
    keys = {one.study.seed_run_spec({}, 0).key for one in (earlier, written)}
    assert len(keys) == 1
    earlier.store.create(earlier.record)
    written.store.check(written.record)


def test_a_seed_run_is_reported_with_its_classes_and_can_be_rerun(
    prepare: Prepare, tmp_path: Path
) -> None:
    run = train_one(prepare(3))
    assert [len(row) for row in run.test["confusion"]] == [3, 3, 3]
    found = select("mine", storage=tmp_path)
    assert "classes: the first 3 classes; the paper does not say which" in found.notes
    assert [seed.key for line in found.configurations for seed in line.seeds] == [run.key]
    assert rerun(tmp_path, run.key).differing == ()
