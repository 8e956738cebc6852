"""Test of a protocol on the first classes of a task, from the data to the report and a rerun."""

from pathlib import Path

from sclsearch.api import select
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import rerun
from sclsearch.study.spec import RunOptions, StudySpec
from tests.in_process import train_one


def test_a_seed_run_is_reported_with_its_classes_and_can_be_rerun(
    dbpedia: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    spec = StudySpec(
        method="ce",
        task="dbpedia",
        model=str(tiny_bert),
        protocol="lacon-classes:3",
        settings={"epochs": 1, "max_length": 16, "learning_rate": 1e-3},
        searched=False,
    )
    options = RunOptions(
        study="mine", storage=tmp_path, data_dir=dbpedia, seeds=1, gpus_per_trial=0
    )
    run = train_one(prepare_study(spec, options))
    assert [len(row) for row in run.test["confusion"]] == [3, 3, 3]
    found = select("mine", storage=tmp_path)
    assert "classes: the first 3 classes; the paper does not say which" in found.notes
    assert [seed.key for line in found.configurations for seed in line.seeds] == [run.key]
    assert rerun(tmp_path, run.key).differing == ()
