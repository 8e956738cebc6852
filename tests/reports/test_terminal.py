"""Tests of the printed report: origin of each score, warnings, width of 80 columns."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sclsearch.reports.report import report
from sclsearch.reports.studies import StudyLine, studies
from sclsearch.reports.terminal import BINS, histogram, histogram_axis, show
from sclsearch.selection.rules import parse_rule
from sclsearch.store.studies import StudyStore
from tests.reports.conftest import WriteStudy

LONG = {
    "dropouts": [0.0, 0.1, 0.2, 0.3, 0.4],
    "learning_rate": 0.00012345678,
    "batch_size": 160,
    "probe_epochs": 20,
    "probe_learning_rate": 0.0123456,
    "class_weights": "balanced",
}


def printed(storage: Path, rule: str = "mean", *, most: int = 20) -> str:
    console = Console(file=StringIO(), width=80)
    show(console, report(storage, "made-up", parse_rule(rule)), most=most)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


@pytest.mark.parametrize(
    ("seeds", "rule", "expected"),
    [
        (
            [(70, 50), (80, 60), (60, 10)],
            "top-2",
            [
                "validation accuracy 0.7500, mean of the top 2 of 3 seeds (rule top-2)",
                "test accuracy 0.5500 ± 0.0707, mean ± std of these 2 seeds",
                "test accuracy 0.4000 ± 0.2646 over all seeds, none left out",
            ],
        ),
        (
            [(70, 50), (80, 60)],
            "mean",
            [
                "validation accuracy 0.7500, mean of 2 seeds (rule mean)",
                "test accuracy 0.5500 ± 0.0707, mean ± std of all 2 seeds",
            ],
        ),
        (
            [(70, 90), (80, 60)],
            "mean/best",
            [
                "validation accuracy 0.7500, mean of 2 seeds (rule mean/best)",
                "test accuracy 0.6000, of the seed with the best validation score",
                "test accuracy 0.7500 ± 0.2121 over all seeds, none left out",
            ],
        ),
        (
            [(70, 60)],
            "best",
            [
                "validation accuracy 0.7000, one seed (rule best)",
                "test accuracy 0.6000, of one seed",
            ],
        ),
        (
            [(70, 60), "raised"],
            "mean",
            [
                "validation accuracy 0.3500, mean of 2 seeds (rule mean)",
                "test accuracy 0.6000, of the only seed that finished",
            ],
        ),
    ],
    ids=["top-2", "mean", "mean/best", "one seed", "one finished"],
)
def test_scores_come_with_their_rule_and_seeds(
    write_study: WriteStudy, seeds: list[tuple[int, int] | str], rule: str, expected: list[str]
) -> None:
    lines = [line.strip() for line in printed(write_study(seeds), rule).splitlines()]
    assert [line for line in lines if line.startswith(("validation acc", "test acc"))] == expected


def test_settings_and_a_tie_are_printed(write_study: WriteStudy) -> None:
    hand = {"epochs": 8, "dropouts": [0.0, 0.1]}
    text = printed(write_study([(70, 60)], [(70, 10)], [(60, 10)], [(70, 90)], settings=hand))
    assert "  set by hand: dropouts=[0,0.1] epochs=8\n" in text
    assert "Winner #0" in text
    tie = "  tied by validation with #1, #3; the lowest number decides. More"
    assert tie in text


def test_the_lowest_validation_loss_decides_between_equal_scores(write_study: WriteStudy) -> None:
    storage = write_study(
        [(70, 60)], [(70, 10)], [(70, 20)], [(60, 90)], losses=[0.2, 0.15, 0.12, 0]
    )
    text = printed(storage)
    assert "Winner #2" in text
    tie = "tied by validation with #1, #0; the lowest validation loss decides: 0.12, 0.15, 0.2. "
    assert tie in " ".join(text.split())
    rows = [line.split()[0] for line in text.splitlines()[3:7]]
    assert rows == ["2", "1", "0", "3"]
    (line,) = studies(storage)
    assert isinstance(line, StudyLine)
    assert line.winner == 2


def test_the_table_marks_published_and_unfinished_configurations(
    write_study: WriteStudy,
) -> None:
    text = printed(write_study([(50, 40), (50, 40)], [(99, 99), None], [(60, 30), (60, 30)]))
    rows = [" ".join(line.split()) for line in text.splitlines()[3:6]]
    assert rows == [
        "2 0.6000 0.3000 ± 0.0000 2/2 tau=0.3",
        "0 0.5000 0.4000 ± 0.0000 2/2 tau=0.1 (published)",
        "1 0.9900 (1 seed) … 1/2 tau=0.2",
    ]


def test_failed_seeds_are_counted_and_explained(write_study: WriteStudy) -> None:
    text = " ".join(printed(write_study([*[(70, 60)] * 9, "loss ce is nan"])).split())
    assert "9/10" in text
    assert "9 of 10 seeds; a failed one counts as the metric's minimum in the score" in text
    assert "test accuracy 0.6000 ± 0.0000, mean ± std of these 9 seeds" in text


def test_a_study_without_a_finished_configuration_has_no_winner(write_study: WriteStudy) -> None:
    text = printed(write_study([(70, 60), None]))
    assert text.endswith("No configuration is finished yet.\n")
    assert "Winner" not in text


def test_a_study_without_a_successful_seed_run_has_no_winner(write_study: WriteStudy) -> None:
    text = printed(write_study(["it broke", "it too"], ["it broke", "again"]))
    assert text.splitlines()[-3:] == [
        "No configuration finished a seed run; 4 failed.",
        "  first failure: raised: it broke",
        "  Fix the cause, then run the same command with --retry-failed.",
    ]
    assert "Winner" not in text


def test_a_failed_configuration_never_wins_a_tie(write_study: WriteStudy) -> None:
    text = printed(write_study(["it broke", "it too"], [(0, 10), (0, 20)]))
    assert "Winner #1" in text
    assert "tied" not in text


def test_omitted_configurations_are_counted_and_the_winner_is_shown(
    write_study: WriteStudy,
) -> None:
    text = printed(write_study(*([(percent, 1)] for percent in range(30, 60))), most=5)
    assert "… and 25 more (--json shows all)" in text
    assert "Winner #29" in text
    assert len([line for line in text.splitlines() if " 1/1 " in line]) == 5


def test_the_report_names_the_stored_weights(write_study: WriteStudy) -> None:
    storage = write_study([(70, 60)])
    store = StudyStore(storage, "made-up")
    key = report(storage, "made-up").configurations[0].seeds[0].key
    store.weights(key).save_file(Path.touch)
    assert f"  weights {store.folder}/weights: {key[:12]}…\n" in printed(storage)


def test_everything_but_names_and_paths_fits_80_columns(write_study: WriteStudy) -> None:
    storage = write_study(
        [(70, 60), (60, 50), "raised"],
        [(70, 61), None, None],
        values=[LONG, LONG],
        notes=("validation: 138 rows, fewer than the protocol's 500",),
        study_notes=("search space: an explanation that is " + "rather " * 20 + "long",),
    )
    lines = printed(storage).splitlines()
    assert lines[0] == "scl on cola, 100 training examples, minilm, protocol gunel-fewshot"
    assert max(len(line) for line in lines[1:] if str(storage) not in line) <= 80
    text = "".join("".join(lines).split())
    assert "probe_learning_rate=0.01235" in text
    assert "dropouts=[0,0.1,0.2,0.3,0.4]" in text


def test_square_brackets_in_names_and_values_are_printed_as_text(write_study: WriteStudy) -> None:
    storage = write_study(
        [(70, 60)], values=[{"pooling": "[red]"}], model="/models/[old]/bert", notes=("[bold]n",)
    )
    text = printed(storage)
    assert "/models/[old]/bert" in text
    assert text.count("pooling=[red]") == 2
    assert "  [bold]n\n" in text


def test_a_histogram_has_each_seed_in_the_bin_of_its_score() -> None:
    assert histogram([0.0, 0.05, 0.5, 1.0], 0.0, 1.0) == "▄    ▂    ▂"
    assert histogram([0.0] * 9, 0.0, 1.0) == "█" + " " * (BINS - 1)


def test_histograms_need_several_seeds_of_several_configurations() -> None:
    assert histogram_axis([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]) == (0.1, 0.6)
    for scores in ([[0.1, 0.2, 0.3], [0.4, 0.5]], [[0.5] * 3, [0.5] * 3], []):
        assert histogram_axis(scores) is None


def test_a_terminal_shows_histograms_of_seed_scores_and_plain_text_does_not(
    write_study: WriteStudy,
) -> None:
    storage = write_study([(50, 40), (60, 40), (70, 40)], [(50, 40), (50, 40), (60, 40)])
    assert not set(printed(storage)) & set("▂▄▆█\x1b")
    console = Console(file=StringIO(), width=80, force_terminal=True, color_system=None)
    show(console, report(storage, "made-up"))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "0.50–0.70" in lines[2]
    assert "▂    ▂    ▂" in lines[3]
    assert "▄    ▂     " in lines[4]
    assert max(len(line) for line in lines if str(storage) not in line) <= 80
