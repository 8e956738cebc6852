"""What is printed says how each figure was obtained, and fits a terminal of 80 columns."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sclsearch.reports.report import report
from sclsearch.reports.terminal import rule_in_words, show
from sclsearch.selection.rules import parse_rule
from sclsearch.store.studies import StudyStore

Write = Callable[..., Path]

LONG = {
    "dropouts": [0.0, 0.1, 0.2, 0.3, 0.4],
    "learning_rate": 0.00012345678,
    "batch_size": 160,
    "probe_encoder_mode": "train",
    "probe_learning_rate": 0.0123456,
    "batch_sampling": "balanced",
}


def printed(storage: Path, rule: str = "mean", *, seeds: int | None = None, most: int = 20) -> str:
    console = Console(file=StringIO(), width=80)
    show(console, report(storage, "made-up", parse_rule(rule), seeds), most=most)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_a_report_opens_with_what_was_searched(write_study: Write) -> None:
    first = printed(write_study([(70, 60), (80, 50)])).splitlines()[0]
    assert first == "scl on cola, 100 training examples, minilm, protocol gunel-fewshot"


def test_winner_and_figures_come_with_their_rule_and_seeds(write_study: Write) -> None:
    text = printed(write_study([(70, 50), (80, 60), (60, 10)]), "top-2")
    assert "Winner #0 tau=0.1" in text
    assert "  validation accuracy 0.7500, mean of the top 2 of 3 seeds (rule top-2)" in text
    assert "  test accuracy 0.5500 ± 0.0707, mean ± std of these 2 seeds" in text
    assert "  test accuracy 0.4000 ± 0.2646 over all seeds, none picked" in text


def test_a_mean_of_all_seeds_says_so(write_study: Write) -> None:
    text = printed(write_study([(70, 50), (80, 60)]))
    assert "validation accuracy 0.7500, mean of 2 seeds (rule mean)" in text
    assert "test accuracy 0.5500 ± 0.0707, mean ± std of all 2 seeds" in text
    assert "over all seeds" not in text


def test_a_best_seed_is_said_to_be_picked_by_validation_and_has_no_deviation(
    write_study: Write,
) -> None:
    text = printed(write_study([(70, 90), (80, 60)]), "mean/best")
    assert "validation accuracy 0.7500, mean of 2 seeds (rule mean/best)" in text
    assert "test accuracy 0.6000, of the seed with the best validation score" in text
    assert "test accuracy 0.7500 ± 0.2121 over all seeds" in text


def test_what_is_set_by_hand_is_said(write_study: Write) -> None:
    text = printed(write_study([(70, 60)], settings={"epochs": 8, "dropouts": [0.0, 0.1]}))
    assert "  set by hand: dropouts=[0,0.1] epochs=8\n" in text
    assert "tied" not in text


def test_a_tie_is_said(write_study: Write) -> None:
    text = printed(write_study([(70, 60)], [(70, 10)], [(60, 10)], [(70, 90)]))
    assert "Winner #0" in text
    assert "  tied by validation with #1, #3: the lowest number wins\n" in text


def test_one_seed_is_no_mean_and_has_no_deviation(write_study: Write) -> None:
    text = printed(write_study([(70, 60)]))
    assert "validation accuracy 0.7000, one seed (rule mean)" in text
    assert "test accuracy 0.6000, of one seed" in text


def test_one_seed_of_several_is_said_to_be_the_only_one(write_study: Write) -> None:
    text = printed(write_study([(70, 60), "raised"]))
    assert "test accuracy 0.6000, of the only seed that finished" in text
    assert "±" not in text


def test_the_table_ranks_and_marks_what_is_published_and_what_is_unfinished(
    write_study: Write,
) -> None:
    text = printed(write_study([(50, 40), (50, 40)], [(99, 99), None], [(60, 30), (60, 30)]))
    rows = [" ".join(line.split()) for line in text.splitlines()[3:6]]
    assert rows == [
        "2 0.6000 0.3000 ± 0.0000 2/2 tau=0.3",
        "0 0.5000 0.4000 ± 0.0000 2/2 tau=0.1 (published)",
        "1 ~0.9887 … 1/2 tau=0.2",
    ]


def test_failed_seeds_are_counted_and_their_part_is_told(write_study: Write) -> None:
    text = " ".join(printed(write_study([*[(70, 60)] * 9, "loss ce is nan"])).split())
    assert "9/10" in text
    assert "9 of 10 seeds; a failed one counts as the metric's minimum in the score" in text
    assert "test accuracy 0.6000 ± 0.0000, mean ± std of these 9 seeds" in text


def test_a_winner_without_a_seed_that_finished_has_no_test_figure(write_study: Write) -> None:
    text = printed(write_study(["raised", "raised"]))
    assert "validation accuracy 0.0000, mean of 2 seeds (rule mean)" in text
    assert "test accuracy none, no seed finished" in text
    assert "0 of 2 seeds" in text
    assert "sclsearch rerun" not in text


def test_a_study_without_a_finished_configuration_says_so(write_study: Write) -> None:
    text = printed(write_study([(70, 60), None]))
    assert text.endswith("No configuration is finished yet.\n")
    assert "Winner" not in text


def test_notes_are_printed_with_the_winner(write_study: Write) -> None:
    storage = write_study([(70, 60)], notes=("chosen and reported on the same rows",))
    assert "\n  chosen and reported on the same rows\n" in printed(storage)


def test_more_configurations_than_fit_are_counted_and_the_winner_is_shown(
    write_study: Write,
) -> None:
    text = printed(write_study(*([(percent, 1)] for percent in range(30, 60))), most=5)
    assert "… and 25 more (--json shows all)" in text
    assert "Winner #29" in text
    assert len([line for line in text.splitlines() if " 1/1 " in line]) == 5


def test_without_weights_the_command_that_writes_them_is_told(write_study: Write) -> None:
    storage = write_study([(70, 60), (80, 50)])
    key = report(storage, "made-up").configurations[0].seeds[1].key
    text = printed(storage, "best")
    command = f"sclsearch rerun {key[:12]} --storage {storage} --weights FILE"
    assert f"  {command} writes its weights\n" in text


def test_weights_are_named_by_their_folder_and_keys(write_study: Write) -> None:
    storage = write_study([(70, 60)])
    store = StudyStore(storage, "made-up")
    key = report(storage, "made-up").configurations[0].seeds[0].key
    store.save_weights_file(key, Path.touch)
    assert f"  weights {store.folder}/weights: {key[:12]}…\n" in printed(storage)


def test_everything_but_names_and_paths_fits_80_columns(write_study: Write) -> None:
    storage = write_study(
        [(70, 60), (60, 50), "raised"],
        [(70, 61), None, None],
        values=[LONG, LONG],
        notes=("validation: 138 rows, fewer than the protocol's 500",),
        study_notes=("search space: an explanation that is " + "rather " * 20 + "long",),
    )
    lines = printed(storage).splitlines()
    assert max(len(line) for line in lines[1:] if str(storage) not in line) <= 80
    text = "".join("".join(lines).split())
    assert "probe_learning_rate=0.01235" in text
    assert "dropouts=[0,0.1,0.2,0.3,0.4]" in text


def test_square_brackets_of_names_and_values_are_text(write_study: Write) -> None:
    storage = write_study(
        [(70, 60)], values=[{"pooling": "[red]"}], model="/models/[old]/bert", notes=("[bold]n",)
    )
    text = printed(storage)
    assert "/models/[old]/bert" in text
    assert text.count("pooling=[red]") == 2
    assert "  [bold]n\n" in text


@pytest.mark.parametrize(
    ("top", "seeds", "words"),
    [
        ("mean", 10, "mean of 10 seeds"),
        ("best", 10, "best of 10 seeds"),
        ("top-3", 10, "mean of the top 3 of 10 seeds"),
        ("mean", 1, "one seed"),
        ("best", 1, "one seed"),
    ],
)
def test_half_a_rule_is_said_in_words(top: str, seeds: int, words: str) -> None:
    assert rule_in_words(top, seeds) == words
