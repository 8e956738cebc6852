"""Tests of the replays of searches on recorded tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import search
from benchmarks.search_tables import FOLDS, TABLES, at, configurations
from sclsearch.spaces.load import load_space, practical_file
from sclsearch.spaces.space import Choice, Range

RIGHT = np.log(np.array([[0.2, 0.8], [0.8, 0.2]]))


def table(rights: list[tuple[float, float]], rows: int = 40) -> dict[str, Any]:
    """Return a table of configurations that are right on shares of validation and test rows."""
    labels = np.arange(rows) % 2

    def predicted(share: float) -> Any:
        wrong = np.arange(rows) >= share * rows
        return RIGHT[np.where(wrong, labels, 1 - labels)]

    validation = np.array([predicted(share) for share, _ in rights])
    test = np.array([[predicted(share)] * FOLDS for _, share in rights])
    return {"labels": labels, "test_labels": labels, "validation": validation, "test": test}


def test_a_choice_is_scored_against_the_start() -> None:
    found = search.choices(table([(0.5, 0.6), (0.9, 0.8), (0.6, 0.9)]))
    gains = {name: round(float(gain.mean()), 3) for name, gain in found.items()}
    assert gains["accuracy"] == gains["log loss"] == gains["two errors"] == 0.2
    assert gains["other half"] == 0.3
    assert search.choices(table([(0.5, 0.6), (0.55, 0.8)]))["two errors"].mean() == 0


def test_a_replayed_search_gets_closer_to_the_best_with_more_configurations() -> None:
    tried, chosen = search.regrets("ce-demo-160", "random", 0)
    assert tried == sorted(tried, reverse=True)
    assert all(0 <= best <= picked for best, picked in zip(tried, chosen, strict=True))


def test_recorded_configurations_are_the_start_and_points_of_the_practical_space() -> None:
    space = load_space(practical_file("scl"), "scl")
    found = configurations(space)
    assert found[0] == space.published[0]
    assert all(space.contains(values) for values in found)
    assert at(Range(0.01, 1.0, "log"), 0.5) == pytest.approx(0.1)
    assert at(Choice((16, 32)), 0.99) == 32


@pytest.mark.parametrize("path", sorted(TABLES.glob("*.npz")), ids=lambda path: path.stem)
def test_a_table_has_each_validation_row_once_and_all_test_rows(path: Path) -> None:
    found = np.load(path)
    configs, folds, rows, classes = found["test"].shape
    assert (folds, rows) == (FOLDS, len(found["test_labels"]))
    assert found["validation"].shape == (configs, len(found["labels"]), classes)
    assert not np.isnan(found["validation"].astype(float)).any()
