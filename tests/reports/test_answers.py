"""Tests that the sentences of a report agree with its table, under every rule and with failures."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

import sclsearch
from sclsearch.errors import INCOMPLETE, SclsearchError
from sclsearch.exports.export import export
from sclsearch.papers.confirm import prepare_confirmation
from sclsearch.reports.commands import winner_spec
from sclsearch.reports.comparison import compare_studies
from sclsearch.reports.differences import ScoredSeed, difference
from sclsearch.reports.report import DamagedStudyError, Report, report
from sclsearch.reports.summary import nearest_baseline, summarize, summarize_comparison
from sclsearch.reports.words import order_of
from sclsearch.selection.rules import parse_rule
from sclsearch.store.studies import StudyStore
from sclsearch.study.spec import RunOptions
from sclsearch.training.baselines import LOGISTIC, MAJORITY
from tests.made_up import WriteStudy

RULES = ("mean", "top-3", "best")
FAILED = "raised"
GOOD, LOW = [(88, 85)] * 3 + [(86, 84)] * 7, [(90, 88)] * 3 + [(55, 52)] * 7


def read(storage: Path, rule: str = "mean", name: str = "made-up") -> Report:
    return report(storage, name, parse_rule(rule))


def points_of(sentence: str, end: str) -> float:
    found = re.search(rf"([\d.]+|under 0.1) points {end}", sentence)
    assert found is not None, sentence
    return 0.0 if found[1] == "under 0.1" else float(found[1])


@pytest.mark.parametrize("seed", range(12))
def test_no_sentence_contradicts_the_table(write_study: WriteStudy, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, with_rows = int(rng.integers(1, 11)), bool(seed % 2)

    def seed_run() -> Any:
        failed = rng.random() < 0.15
        return FAILED if failed else tuple(map(int, rng.integers(40, 100, 2)))

    storage = write_study(
        *([seed_run() for _ in range(count)] for _ in range(4)),
        rows={"train": "a" * count, "test": "t", "validation": "v"},
        baselines={MAJORITY: 50, LOGISTIC: 65},
        with_rows=with_rows,
    )
    for rule in RULES[: 1 if count < 3 else 3]:
        found = read(storage, rule)
        if found.winner is not None:
            check_sentences(found)
            check_leads(found, for_rows=with_rows)


def check_sentences(found: Report) -> None:
    summary = summarize(found)
    winner, *others = found.configurations
    text = " ".join(summary.lines)
    failed = sum(line.failed for line in found.configurations)
    assert (f"{failed} of {len(found.seed_runs)} seed runs failed" in text) == bool(failed)
    assert summary.command.endswith("--retry-failed") == bool(failed and not found.verdict)
    assert "points lower" not in text
    if re.search(rf"#{others[0].number} (is behind|may be as good)", text):
        lead = 100 * (winner.score - others[0].score)  # type: ignore[operator]
        assert points_of(text, "higher") == pytest.approx(lead, abs=0.051)
    if found.verdict is not None and found.verdict.above:
        assert "No configuration" not in summary.answer


def check_leads(found: Report, *, for_rows: bool) -> None:
    winner, *others = found.configurations
    useful = {
        line.origin: winner.test_mean - line.test_mean  # type: ignore[operator]
        for line in found.baselines
    }
    assert {one.name: one.lead.difference for one in found.against} == pytest.approx(useful)
    assert bool(found.verdict) <= (min(useful.values()) <= 0)
    assert found.over_next is not None
    lead = winner.score - others[0].score  # type: ignore[operator]
    assert found.over_next.difference == pytest.approx(lead)
    nearest = nearest_baseline(found)
    assert nearest is not None
    for one in (found.over_next, nearest.lead):
        if one.interval is not None:
            low, high = one.interval
            assert low <= one.difference - 0.01
            assert high >= one.difference + 0.01
            assert one.for_rows == for_rows


def test_the_lead_and_the_verdict_are_those_of_the_top_3(write_study: WriteStudy) -> None:
    baselines = {MAJORITY: 50, LOGISTIC: 70}
    storage = write_study(LOW, GOOD, rows={"train": "a" * 10, "test": "t"}, baselines=baselines)
    top = read(storage, "top-3")
    assert top.winner is not None
    assert (top.winner.number, top.verdict) == (0, None)
    assert "the frozen encoder, 18.0 points, is not reliable" in summarize(top).answer
    mean = read(storage)
    assert mean.winner is not None
    assert mean.winner.number == 1


def test_a_useless_winner_beside_a_useful_configuration_is_not_all_there_is(
    write_study: WriteStudy,
) -> None:
    scores = [(90, 60), (90, 61), (90, 59)], [(85, 80)] * 3
    storage = write_study(*scores, baselines={MAJORITY: 50, LOGISTIC: 70})
    found = read(storage)
    assert found.verdict is not None
    answer = summarize(found).answer
    assert answer.startswith("#0 wins by the rule mean, but its test accuracy is 10.0 points")
    assert "#1 is above it, though the rule mean did not choose it: test accuracy 0.8000." in answer


def test_a_careful_rule_keeps_the_start_unless_another_one_is_reliably_better(
    write_study: WriteStudy,
) -> None:
    start, near = [(70, 60), (75, 62), (80, 64)], [(79, 1), (70, 1), (82, 1)]
    storage = write_study(start, near, name="kept")
    write_study(start, [(90, 70), (96, 70), (99, 70)], name="better")
    assert read(storage, "mean", "kept").configurations[0].number == 1
    kept, better = (read(storage, "careful", name) for name in ("kept", "better"))
    assert (kept.configurations[0].number, better.configurations[0].number) == (0, 1)
    summary = summarize(kept)
    assert summary.answer.startswith("#0, the start, wins among 2 configurations of scl on cola: ")
    assert (
        "#1 is 2.0 points above it by validation accuracy, less than two standard errors, so the "
        "start is kept." in summary.certainty
    )
    assert "#1 is the best of 2 configurations" in summarize(better).answer
    assert [order_of(one) for one in (kept, better)] == [
        "winner first, then by score",
        "best first",
    ]


def test_a_start_with_failed_seeds_is_not_kept(write_study: WriteStudy) -> None:
    storage = write_study([(88, 88), (88, 88), FAILED], [(90, 90), (91, 90), (90, 90)])
    assert read(storage, "careful").configurations[0].number == 1


def test_a_winner_with_too_few_finished_seeds_has_no_interval(write_study: WriteStudy) -> None:
    failed = [(90, 90), *[FAILED] * 4]
    rows = {"train": "aaaaa", "test": "t"}
    storage = write_study(failed, rows=rows, baselines={LOGISTIC: 70})
    (against,) = read(storage, "best").against
    assert (against.lead.interval, against.lead.n) == (None, 1)


def test_the_better_mean_of_unequal_seeds_is_not_clearly_better(write_study: WriteStudy) -> None:
    rows = {"train": "abcdefgh", "test": "t"}
    seeds = [(90, 90 - n % 2) for n in range(7)]
    write_study([*seeds, FAILED], name="without", rows=rows)
    worse = [(v, t + 1) for v, t in seeds]
    storage = write_study([*worse, (90, 50)], name="collapsed", method="ce", rows=rows)
    pair = compare_studies([read(storage, name=name) for name in ("without", "collapsed")])
    assert pair.pairs[0].better == "without"
    assert pair.pairs[0].comparison.difference < 0
    assert not pair.pairs[0].clear


def test_one_row_of_difference_is_no_claim(write_study: WriteStudy) -> None:
    storage = write_study([(70, 60), (71, 60), (72, 60)], [(69, 60), (70, 60), (71, 60)])
    found = read(storage)
    assert found.over_next is not None
    assert found.over_next.interval == pytest.approx((0.0, 0.02), abs=1e-6)
    assert "#1 may be as good" in summarize(found).certainty


def test_failed_seeds_are_on_the_first_screen(write_study: WriteStudy) -> None:
    failed, fine = [FAILED, FAILED, (90, 88), (90, 88)], [(77, 76)] * 4
    storage = write_study(fine, failed, rows={"train": "aaaa", "test": "t"})
    found = summarize(read(storage))
    assert "2 of 8 seed runs failed (2 of #1): a failed one counts as 0 in" in found.certainty
    higher = "over its finished seeds, #1 has a higher mean validation accuracy."
    assert f"It wins because seed runs failed: {higher}" in found.answer
    assert "may be as good" not in found.certainty.partition("32.0 points higher")[0][:40]
    assert found.next_step == "train the failed seed runs again:"


def test_the_interval_for_other_seeds_is_students(write_study: WriteStudy) -> None:
    winner, following = [(60, 60), (62, 60), (67, 60)], [(50, 60)] * 3
    storage = write_study(winner, following, rows={"train": "aaa", "test": "t"})
    found = read(storage).over_next
    assert found is not None
    assert found.interval is not None
    low, high = t.interval(0.95, 2, 0.13, np.std([0.1, 0.12, 0.17], ddof=1) / 3**0.5)
    assert found.interval == pytest.approx((low, high), abs=0.007)  # of 1,000 bootstrap samples


def test_intervals_are_for_other_rows_where_predictions_are_stored(
    write_study: WriteStudy,
) -> None:
    scores = [(90, 84), (90, 85), (91, 86)], [(60, 60)] * 3
    rows = {"train": "aaa", "test": "t", "validation": "v"}
    given: Any = {"baselines": {LOGISTIC: 70}, "rows": rows}
    alone = write_study(*scores, name="alone", **given)
    storage = write_study(*scores, name="stored", with_rows=True, **given)
    seeds, both = (read(storage, name=name).against[0].lead for name in ("alone", "stored"))
    assert alone == storage
    assert (seeds.for_rows, both.for_rows) == (False, True)
    assert seeds.interval is not None
    assert both.interval is not None
    assert both.interval[0] < seeds.interval[0]
    assert "95 % for other seeds alone: " in summarize(read(storage, name="alone")).answer
    write_study(*scores, name="lacon", method="lacon", with_rows=True, **given)
    pair = compare_studies([read(storage, name=name) for name in ("stored", "lacon")])
    assert pair.pairs[0].comparison.for_rows
    assert "No method is clearly best" in summarize_comparison(pair).answer


@pytest.mark.parametrize("rule", RULES)
def test_the_interval_has_the_variances_of_seeds_and_rows(rule: str) -> None:
    rng = np.random.default_rng(0)
    y = np.zeros(50, int)

    def seeds(share: float) -> list[ScoredSeed]:
        predicted = [(rng.random(50) > share).astype(int) for _ in range(6)]
        return [
            ScoredSeed(float(rng.random()), float((one == 0).mean()), (y, one)) for one in predicted
        ]

    a, b = seeds(0.8), seeds(0.6)
    digests = [{"train": "a", "test": "t"}] * 6
    found = difference(a, b, parse_rule(rule), "accuracy", "test", digests)
    assert found is not None
    assert found.interval is not None
    middle, half = sum(found.interval) / 2, (found.interval[1] - found.interval[0]) / 2
    assert middle == pytest.approx(found.difference)
    if rule == "mean":
        hits = np.array([(one.rows[1] == 0) * 1.0 for one in a]) - np.array(  # type: ignore[index]
            [(one.rows[1] == 0) * 1.0 for one in b]  # type: ignore[index]
        )
        of_seeds, of_rows = hits.mean(1).var(ddof=1) / 6, hits.mean(0).var(ddof=1) / 50
        assert half == pytest.approx(2.2 * (of_seeds + of_rows) ** 0.5, rel=0.2)


def test_a_comparison_uses_the_seeds_of_the_last_command(write_study: WriteStudy) -> None:
    storage = write_study([(60, 60), (60, 60), (99, 99)], [(70, 70), (70, 70), (40, 40)])
    assert read(storage).configurations[0].number == 0
    StudyStore(storage, "made-up").save_start(None, 2, 2)
    found = read(storage)
    assert (found.seeds, found.stored_seeds, found.configurations[0].number) == (2, 3, 1)
    assert report(storage, "made-up", seeds=3).configurations[0].number == 0


def test_a_damaged_file_that_may_hide_the_winner_stops_what_uses_it(
    write_study: WriteStudy, tmp_path: Path
) -> None:
    storage = write_study([(90, 90), (91, 90)], [(60, 60), (61, 60)])
    found = read(storage)
    assert found.winner is not None
    record = storage / "runs" / f"{found.winner.seeds[0].key}.json"
    record.write_text(record.read_text(encoding="utf-8")[:-9], encoding="utf-8")
    damaged = read(storage)
    uses = (
        lambda: export(damaged, tmp_path / "model"),
        lambda: prepare_confirmation("made-up", 2, RunOptions(storage=storage), dry=True),
        lambda: winner_spec(damaged, {}),
        lambda: sclsearch.tune(
            task="demo", storage=storage, start_from="made-up", progress=False, tracking="none"
        ),
    )
    for use in uses:
        with pytest.raises(DamagedStudyError, match="damaged files may hide its winner") as caught:
            use()
        assert caught.value.code == INCOMPLETE
    assert SclsearchError.code == 2


def test_a_resume_command_keeps_tracking_and_checkpoints(write_study: WriteStudy) -> None:
    storage = write_study([(70, 60), None], tracking="none", checkpoint_every=300)
    command = summarize(read(storage)).command
    assert "--tracking none" in command
    assert "--checkpoint-every 300" in command
