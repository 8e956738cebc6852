"""Durations, settings and shares are read, or refused with the option's name."""

import pytest

from sclsearch.cli.options import fractions, seconds, settings
from sclsearch.errors import SclsearchError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("90s", 90), ("45m", 2700), ("1.5h", 5400), ("2d", 172800), (None, None)],
)
def test_a_duration_has_a_unit_or_is_in_seconds(text: str | None, expected: float | None) -> None:
    assert seconds(text, "--time-budget") == expected


@pytest.mark.parametrize("text", ["", "0", "-1", "soon", "3w", "m", "nan", "inf", "1e999", "5 m m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(SclsearchError, match=f"^--trial-timeout {text}: it must be a positive num"):
        seconds(text, "--trial-timeout")


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("tau=0.3", 0.3),
        ("learning_rate=1e-5", 1e-5),
        ("epochs=3", 3),
        ("dropouts=[0.0, 0.1]", [0.0, 0.1]),
        ("pooling=mean", "mean"),
        ("drop_last=true", True),
        (" tau = 1", 1),
        ("note=a=b", "a=b"),
    ],
)
def test_a_setting_is_read_as_yaml(pair: str, value: object) -> None:
    [(_, found)] = settings([pair]).items()
    assert found == value
    assert type(found) is type(value)


def test_settings_are_kept_apart_and_none_are_no_settings() -> None:
    assert settings(["tau=1", "lam=0"]) == {"tau": 1, "lam": 0}
    assert settings(None) == {}


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["tau"], "--set tau: it must be KEY=VALUE, as in --set tau=0.3."),
        (["=3"], "--set =3: it must be KEY=VALUE"),
        (["tau=1", "tau=2"], "--set tau: it must be set once, but it is set twice."),
        (["tau=1", " tau =1"], "--set tau: it must be set once"),
        (["dropouts=[0.0,"], "--set dropouts=[0.0,: line 1, column 6: "),
        (["epochs=2024-13-45"], "--set epochs=2024-13-45: month must be"),
    ],
)
def test_what_is_no_setting_is_refused(pairs: list[str], message: str) -> None:
    with pytest.raises(SclsearchError) as error:
        settings(pairs)
    assert str(error.value).startswith(message)


def test_shares_are_three_numbers() -> None:
    assert fractions("0.8, 0.1,0.1") == (0.8, 0.1, 0.1)
    assert fractions(None) is None


@pytest.mark.parametrize("text", ["", "0.8", "0.8,0.2", "0.7,0.1,0.1,0.1", "a,b,c", "0.8;0.1;0.1"])
def test_what_is_no_three_shares_is_refused(text: str) -> None:
    with pytest.raises(SclsearchError, match=f"^--fractions {text}: it must be three numbers"):
        fractions(text)
