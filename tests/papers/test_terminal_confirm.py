"""What is printed of a winner that was trained again, and of how far its seeds spread."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from sclsearch.papers.confirm import Confirmation
from sclsearch.papers.terminal import show_confirmation, show_spread
from sclsearch.reports.report import ConfigurationLine, Report, SeedLine
from sclsearch.selection.variance import Observation, components
from tests.papers.conftest import Printed, lines


@pytest.fixture
def confirmation() -> Confirmation:
    """Returns a winner chosen by its best two of three seeds and confirmed on three, one failed."""

    def reported(study: str, rule: str, tests: Sequence[float | None], mean: float) -> Report:
        seeds = tuple(
            SeedLine(r, f"{study}{r}", test, test, None if test is not None else "raised: a test")
            for r, test in enumerate(tests)
        )
        line = ConfigurationLine(4, "sampled", {}, {}, seeds, 0.5, (0, 1), mean, 0.01)
        return Report(
            study=study,
            storage="sclsearch-storage",
            method="scl",
            task="demo",
            model="minilm",
            model_place="minilm",
            protocol="plain",
            size=None,
            metric="accuracy",
            rule=rule,
            seeds=3,
            data="",
            without_label="",
            rows=(),
            drawn=(),
            repeats=False,
            settings={},
            configurations=(line,),
            baselines=(),
            risk=0.0,
            notes=("scaled: less",),
            weights={},
        )

    return Confirmation(
        reported("mine", "top-2", (0.8, 0.7, 0.6), 0.75),
        reported("mine-fresh", "mean", (0.7, None, 0.6), 0.65),
    )


def test_a_confirmation_tells_three_figures_their_seeds_and_the_difference(
    confirmation: Confirmation, printed: Printed
) -> None:
    text = lines(printed(show_confirmation, confirmation))
    assert text == [
        "Winner #4 of mine, test accuracy",
        "as chosen 0.7500 ± 0.0100, rule top-2",
        "all its seeds 0.7000 ± 0.1000, mean of 3 seeds",
        "fresh seeds 0.6500 ± 0.0100, mean of 2 of 3 seeds",
        "fresh - chosen -0.1000",
        "scaled: less",
    ]


def test_a_confirmation_of_which_all_seeds_failed_has_no_figure(
    confirmation: Confirmation, printed: Printed
) -> None:
    (line,) = confirmation.fresh.configurations
    failed = tuple(replace(seed, test=None, failure="raised: a test") for seed in line.seeds)
    line = replace(line, test_mean=None, test_std=None, seeds=failed)
    found = replace(confirmation, fresh=replace(confirmation.fresh, configurations=(line,)))
    text = lines(printed(show_confirmation, found))
    assert "fresh seeds none, mean of 0 of 3 seeds" in text
    assert not any("fresh - chosen" in line for line in text)


def test_a_spread_tells_shares_intervals_and_what_seeds_detect(printed: Printed) -> None:
    cells = [(i, o) for i in range(3) for o in range(3)]
    scores = [0.7 + 0.02 * o + 0.001 * ((i * o) % 2) for i, o in cells]
    observations = [
        Observation(0, i, o, score) for (i, o), score in zip(cells, scores, strict=True)
    ]
    found = components(observations)
    whole = printed(show_spread, "mine", found)
    text = lines(whole)
    assert text[0] == f"mine, its winner: 9 seed runs, mean test figure {found.mean:.4f}"
    low, high = (end**0.5 for end in found.components["order"].interval)
    share = f"{100 * found.share('order'):.0f} %"
    deviation = found.components["order"].variance ** 0.5
    assert f"order {share} {deviation:.4f} {low:.4f} … {high:.4f}" in text
    assert any(line.startswith("together ") for line in text)
    assert all(f"- {' '.join(note.split())}" in " ".join(text) for note in found.notes)
    told = " ".join(text)
    assert "10 seeds can detect" in told
    assert "by the interval of the spread" in told
    assert "--subsets" not in told
    fixed = " ".join(lines(printed(show_spread, "mine", replace(found, one_subset=True))))
    assert "all seed runs here have one training subset" in fixed
    assert all(len(line) <= 80 for line in whole.splitlines())
