"""Tests of protocol variants: fresh replicates, several splits, laptop scale, sizes by rows."""

from dataclasses import replace

import numpy as np
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import Protocol, Size
from sclsearch.protocols.rows import SAME_ROWS
from sclsearch.protocols.variants import for_rows, fresh, laptop, with_enough_updates, with_splits
from tests.protocols.conftest import labeled

PLAIN = PROTOCOLS["plain"]
NOTE = "scaled: at most 150 updates a stage, 200 validation and 500 test rows"
WITHOUT_VALIDATION = labeled(train=[0, 1] * 1000, test=[0, 1])


VARIED = [PROTOCOLS[name] for name in ("gunel-full", "supcl-seq", "lacon", "cmlm-fewshot")]
EACH = pytest.mark.parametrize("protocol", VARIED, ids=lambda protocol: protocol.name)


@EACH
def test_fresh_replicates_begin_after_those_of_the_protocol_and_the_study(
    protocol: Protocol,
) -> None:
    n = protocol.replicates
    repeated, more, fewer = fresh(protocol, 4), fresh(protocol, 4, n + 7), fresh(protocol, 4, n - 1)
    for r in range(4):
        for variant, first in ((repeated, n), (more, n + 7), (fewer, n)):
            found = variant.replicate(r)
            assert (found.number, found.subset) == (r, first + r)
            assert found.seeds == protocol.replicate(first + r).seeds
    assert (repeated.replicates, str(repeated.rule)) == (4, "mean")
    subsets = ", new subsets" if protocol.name == "cmlm-fewshot" else ""
    assert fewer.title == repeated.title == f"{protocol.name}, fresh replicates{subsets}"
    assert more.title.startswith(f"{protocol.name}, fresh replicates from {n + 7}")
    with pytest.raises(SclsearchError, match=r"^fresh replicates: .* 1, got 0"):
        fresh(protocol, 0)


@pytest.mark.parametrize(("scaled", "held_out"), [(False, 400), (True, 200)])
def test_replicates_take_several_random_splits_in_turn(scaled: bool, held_out: int) -> None:
    protocol = with_splits(PLAIN, 3)
    if scaled:
        protocol = laptop(protocol)
    found = [protocol.splits(WITHOUT_VALIDATION, None, protocol.replicate(r)) for r in range(5)]
    validation = [tuple(splits.validation.index) for splits in found]
    assert len(set(validation)) == 3
    assert validation[3:] == validation[:2]
    assert {len(rows) for rows in validation} == {held_out}
    assert len({splits.test.digest for splits in found}) == 1
    assert all((NOTE in splits.notes) == scaled for splits in found)
    assert protocol.title == f"plain{' at laptop scale' * scaled}, 3 splits"
    assert fresh(protocol, 4).title == f"{protocol.title}, fresh replicates"


def test_own_rows_decide_the_numbers_of_configurations_seeds_and_splits() -> None:
    assert for_rows(PLAIN, labeled(train=[0, 1]), None) == (PLAIN, 20)
    for rows, effort in ((1_000, (10, 5)), (2_000, (8, 3)), (5_002, (5, 2))):
        data = labeled(train=[0, 1] * (rows // 2))
        own = replace(data, task=replace(data.task, own=True))
        protocol, configs = for_rows(PLAIN, own, None)
        assert (configs, protocol.replicates) == effort
        assert protocol.title == f"plain{', 10 splits' * (rows <= 2_000)}"
        assert for_rows(PLAIN, own, 3)[0].title == "plain, 3 splits"


def test_few_rows_get_as_many_epochs_as_100_updates_take() -> None:
    protocol = with_enough_updates(PLAIN)
    assert protocol.training(40, 16) == {"epochs": 40, "post_epochs": 20}
    assert protocol.training(10_000, 16) == PLAIN.training(10_000, 16)


@EACH
def test_laptop_scale_uses_some_of_the_protocols_rows(protocol: Protocol) -> None:
    data = labeled(train=[0, 0, 0, 1] * 750, validation=[0, 1, 0, 0] * 600)
    size = Size(total=40) if protocol.few_shot else None
    replicate, small = protocol.replicate(2), laptop(protocol)
    assert small.title == f"{protocol.name} at laptop scale"
    assert (small.replicates, small.max_updates, small.evaluate) == (3, 150, "tenth")
    assert small.model == "minilm"
    small.rule.check(small.replicates)
    assert small.replicate(2) == replicate
    whole, scaled = (p.splits(data, size, replicate) for p in (protocol, small))
    assert np.array_equal(scaled.train.index, whole.train.index)
    for name, most in (("validation", 200), ("test", 500)):
        every, some = getattr(whole, name), getattr(scaled, name)
        assert set(some.index) <= set(every.index)
        assert len(some.index) == min(len(every.index), most)
        share = some.labels(data).mean()
        assert share == pytest.approx(every.labels(data).mean(), abs=1 / len(some.index))
    among = "the 200 rows that choose are among the 500 reported"
    assert scaled.notes == (*(among if n == SAME_ROWS else n for n in whole.notes), NOTE)
