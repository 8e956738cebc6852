"""Tests of the simulation: it replays known scores through the decisions of a search."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.search.simulate import ScoreTable, read_table, simulate, write_table


def table(configs: int = 20, seconds: float = 1.0) -> ScoreTable:
    draw = np.random.default_rng(1)
    rates = np.exp(draw.uniform(np.log(1e-5), np.log(1e-2), configs))
    means = 0.85 - 0.02 * np.log10(rates / 1e-3) ** 2
    scores = means[:, None] + 0.02 * draw.standard_normal((configs, 10))
    values = tuple(
        {"learning_rate": float(rate), "dropout": int(number % 3) / 10}
        for number, rate in enumerate(rates)
    )
    return ScoreTable("made up", scores.round(3), np.full(scores.shape, seconds), values)


def test_without_a_race_a_simulation_trains_everything_and_finds_the_winner() -> None:
    result = simulate([table()], race=None, slots=3, searches=4)
    assert (result.seed_runs, result.wrong, result.stated, result.regret) == (1.0, 0, 0.0, 0.0)
    assert result.time == pytest.approx(1.0, abs=0.02)
    assert result.interval[0] == 0.0


def test_a_race_costs_less_and_its_time_depends_on_the_workers() -> None:
    two, many = (simulate([table()], race=0.05, slots=slots, searches=6) for slots in (2, 16))
    exact = simulate([table()], race=0.0, slots=2, searches=6)
    assert two.seed_runs < exact.seed_runs < 1
    assert two.time < many.time < 1  # some of many workers wait for running seed runs
    assert exact.wrong == exact.stated == 0
    assert 0 < two.stated <= 0.05


def test_tpe_finds_configurations_at_least_as_good_as_random() -> None:
    options: dict[str, Any] = {"race": 0.05, "configs": 20, "searches": 12}
    tpe, random = (
        simulate([table(60)], sampler=sampler, **options) for sampler in ("tpe", "random")
    )
    assert tpe.configurations == 20
    assert tpe.regret <= random.regret


def test_a_table_survives_a_file_round_trip(tmp_path: Path) -> None:
    write_table(table(), path := tmp_path / "made up.csv")
    read = read_table(path)
    assert read.name == "made up"
    assert np.array_equal(read.scores, table().scores)
    assert read.values == table().values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.5,0.6\n0.4,0.3\n0.1,0.2\n", "got 2 rows with 0 such columns"),
        ("seed 0,seed 1\n0.5,0.6\n", "got 1 rows with 2 such columns"),
        ("seed 0,seed 1\n0.5,a\n0.5,0.6\n", "could not convert string to float: 'a'"),
        ("seed 0,seed 1\n0.5\n0.5,0.6\n", "cannot be read as a table of scores"),
        ("seed 0,seed 1\n0.5,nan\n0.5,0.6\n", "at least two rows of numbers"),
        ("seed 0,seed 1\n0.5,0.4,9\n0.5,0.6\n", "row 1: must have as many cells as the header"),
        ("seed 0,seed 1\n50,40\n50,60\n", "must be between -1 and 1, got 60.0. Divide"),
        ("", "got 0 rows"),
    ],
)
def test_an_invalid_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (path := tmp_path / "scores.csv").write_text(text, encoding="utf-8")
    with pytest.raises(SclsearchError, match=r"scores\.csv") as caught:
        read_table(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"configs": 1}, "--configs: must be between 2 and 20, got 1."),
        ({"configs": 21}, "--configs: must be between 2 and 20, got 21."),
        ({"sampler": "tpe"}, "--sampler tpe: needs the hyperparameters of each configuration"),
        ({"rule": "worst"}, "Unknown rule 'worst'"),
        ({"rule": "top-20"}, "--seeds: rule top-20 needs at least 20, got 10."),
        ({"race": 2.0}, "--race: must be off, or from 0 to below 1, got 2.0."),
        ({"slots": 0}, "--slots: must be at least 1, got 0."),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    plain = ScoreTable("plain", table().scores, table().seconds, ({},) * 20)
    with pytest.raises(SclsearchError) as caught:
        simulate([plain], **options)
    assert str(caught.value).startswith(message)
