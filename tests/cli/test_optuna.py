"""`export-optuna` writes the trials of a study and names the program that shows them."""

from collections.abc import Callable
from subprocess import CompletedProcess

import optuna

Call = Callable[..., CompletedProcess[str]]


def test_a_study_is_written_for_the_dashboard(sclsearch: Call, finished: tuple[str, ...]) -> None:
    done = sclsearch("export-optuna", "mine", "sqlite:///optuna.db", "--rule", "best")
    message = "2 trials written. Show them: optuna-dashboard sqlite:///optuna.db\n"
    assert (done.returncode, done.stdout) == (0, message)
    found = optuna.load_study(study_name="mine", storage="sqlite:///optuna.db")
    assert [trial.value for trial in found.trials] == [0.62, 0.64]
    assert found.trials[1].user_attrs["seed 1 failure"] == "non-finite: ce at update 7"
