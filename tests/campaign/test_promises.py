"""Test of README's promise that test rows choose nothing."""

from dataclasses import replace
from pathlib import Path

from sclsearch.reports.report import report
from tests.studies import in_process
from tests.workspace import Workspace


def test_only_validation_rows_choose_configurations_seeds_and_checkpoints(
    workspace: Workspace, tmp_path: Path
) -> None:
    task = workspace.spec.task
    assert not isinstance(task, str)
    lines = Path(str(task.path)).read_text(encoding="utf-8").splitlines()
    swapped = {"n,test": "y,test", "y,test": "n,test"}
    flipped = [line[:-6] + swapped.get(line[-6:], line[-6:]) for line in lines]
    (tmp_path / "flipped.csv").write_text("\n".join(flipped) + "\n", encoding="utf-8")
    other = workspace.elsewhere(tmp_path, task=replace(task, path=tmp_path / "flipped.csv"))
    found, tests = [], []
    with in_process():
        for one in (workspace, other):
            one.run(study="mine", configs=2, rule="best", tracking="none", race="off")
            chosen = report(one.storage, "mine")
            assert chosen.winner is not None
            runs = [run for runs in one.seed_runs("mine").values() for run in runs if run]
            checkpoints = [(run.kept, run.validation) for run in runs]
            found.append((chosen.winner.values, chosen.winner.reported, checkpoints))
            tests.append([run.test["confusion"] for run in runs])
    assert found[0] == found[1]
    assert tests[0] != tests[1]
