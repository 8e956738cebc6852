"""Tests of the importance of hyperparameters."""

import random

import pytest

from sclsearch.search.importance import hyperparameter_importance

SPACE = {
    "parameters": [
        {"name": "tau", "type": "log", "low": 0.01, "high": 1.0},
        {"name": "dropouts", "type": "choice", "values": [[0.0, 0.1], [0.1, 0.1]]},
        {"name": "epochs", "type": "int", "low": 1, "high": 9, "step": 4},
        {"name": "probe", "type": "float", "low": 0.0, "high": 1.0},
    ]
}


def drawn(count: int) -> list[dict[str, object]]:
    draw = random.Random(0)
    return [
        {
            "tau": 10 ** draw.uniform(-2, 0),
            "dropouts": draw.choice([[0.0, 0.1], [0.1, 0.1]]),
            "epochs": draw.choice([1, 5, 9]),
            **({"probe": draw.random()} if number % 2 else {}),
        }
        for number in range(count)
    ]


def test_the_only_decisive_hyperparameter_has_almost_all_importance() -> None:
    scored = [(values, float(values["dropouts"] == [0.1, 0.1])) for values in drawn(40)]
    importance = hyperparameter_importance(SPACE, scored)
    assert next(iter(importance)) == "dropouts"
    assert importance["dropouts"] > 0.9
    assert sum(importance.values()) == pytest.approx(1)


def test_a_hyperparameter_that_some_configurations_lack_is_left_out() -> None:
    scored = [(values, float(str(values["epochs"]))) for values in drawn(20)]
    assert hyperparameter_importance(SPACE, scored).keys() == {"tau", "dropouts", "epochs"}


def test_the_importance_is_deterministic() -> None:
    scored = [(values, float(str(values["tau"]))) for values in drawn(15)]
    first = hyperparameter_importance(SPACE, scored)
    assert first == hyperparameter_importance(SPACE, scored)


def test_equal_scores_have_no_importance() -> None:
    assert hyperparameter_importance(SPACE, [(values, 0.5) for values in drawn(12)]) == {}
