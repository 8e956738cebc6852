"""Tests of protocol variants: fresh replicates, several splits, laptop scale."""

from dataclasses import replace

import numpy as np
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import Protocol, Size
from sclsearch.protocols.rows import SAME_ROWS
from sclsearch.protocols.variants import SCALES, fresh, laptop, with_splits
from sclsearch.tasks import load_task
from sclsearch.tasks.base import TaskData
from tests.protocols.conftest import Labeled

PLAIN = PROTOCOLS["plain"]
NOTE = "scaled: at most 150 updates a stage, 200 validation and 500 test rows"


@pytest.fixture(params=["gunel-full", "gunel-fewshot", "supcl-seq", "lacon", "cmlm-fewshot"])
def protocol(request: pytest.FixtureRequest) -> Protocol:
    return PROTOCOLS[request.param]


def test_fresh_replicates_begin_after_those_of_the_protocol(protocol: Protocol) -> None:
    repeated = fresh(protocol, 4)
    n = protocol.replicates
    for r in range(4):
        assert repeated.replicate(r).seeds == protocol.replicate(n + r).seeds
        assert (repeated.replicate(r).number, repeated.replicate(r).subset) == (r, n + r)
    assert (repeated.replicates, str(repeated.rule)) == (4, "mean")
    subsets = ", new subsets" if protocol.name == "cmlm-fewshot" else ""
    assert repeated.title == f"{protocol.name}, fresh replicates{subsets}"


def test_fresh_replicates_begin_after_those_of_a_study(protocol: Protocol) -> None:
    n = protocol.replicates
    more, fewer = fresh(protocol, 1, n + 7), fresh(protocol, 1, n - 1)
    assert more.replicate(0).seeds == protocol.replicate(n + 7).seeds
    assert more.title.startswith(f"{protocol.name}, fresh replicates from {n + 7}")
    assert fewer.replicate(0).seeds == protocol.replicate(n).seeds
    assert fewer.title == fresh(protocol, 1).title


@pytest.mark.parametrize("scaled", [False, True], ids=["whole", "laptop"])
@pytest.mark.parametrize("first", [None, 22])
def test_fresh_subsets_differ_from_those_of_the_selection(scaled: bool, first: int | None) -> None:
    own = PROTOCOLS["cmlm-fewshot"]
    protocol = laptop(own) if scaled else own
    used = {protocol.replicate(r).subset for r in range(first or protocol.replicates)}
    repeated = fresh(protocol, 12, first)
    assert not used & {repeated.replicate(r).subset for r in range(12)}
    assert repeated.title.endswith(", new subsets")


@pytest.mark.parametrize("count", [0, -1])
def test_fewer_than_one_fresh_replicate_is_an_error(count: int) -> None:
    with pytest.raises(
        SclsearchError, match=rf"^fresh replicates: must be at least 1, got {count}"
    ):
        fresh(PROTOCOLS["plain"], count)


@pytest.fixture
def data() -> TaskData:
    """Return a task with training and test rows only."""
    demo = load_task("demo")
    return replace(demo, splits={name: demo.splits[name] for name in ("train", "test")})


def test_replicates_take_several_random_splits_in_turn(data: TaskData) -> None:
    protocol = with_splits(PLAIN, 3)
    found = [protocol.splits(data, None, protocol.replicate(number)) for number in range(5)]
    validation = [tuple(splits.validation.index) for splits in found]
    assert len(set(validation)) == 3
    assert validation[3:] == validation[:2]
    assert all(len(splits.validation.index) == 400 for splits in found)
    assert all(splits.test.digest == found[0].test.digest for splits in found)
    assert protocol.title == "plain, 3 splits"
    assert fresh(protocol, 4).title == "plain, 3 splits, fresh replicates"


def test_splits_at_laptop_scale_are_limited_and_differ(data: TaskData) -> None:
    protocol = laptop(with_splits(PLAIN, 3))
    found = [protocol.splits(data, None, protocol.replicate(number)) for number in range(3)]
    assert protocol.title == "plain at laptop scale, 3 splits"
    assert {len(splits.validation.index) for splits in found} == {200}
    assert len({splits.validation.digest for splits in found}) == 3
    assert all(NOTE in splits.notes for splits in found)


@pytest.mark.parametrize(
    ("name", "count", "message"),
    [
        ("gunel-full", 5, "--splits 5: needs --protocol plain, because gunel-full"),
        ("plain", 1, "--splits: must be at least 2, got 1."),
    ],
)
def test_invalid_splits_are_refused(name: str, count: int, message: str) -> None:
    with pytest.raises(SclsearchError, match=message):
        with_splits(PROTOCOLS[name], count)


@pytest.fixture
def large(labeled: Labeled) -> TaskData:
    """Return a task of 3,000 training and 2,400 validation rows, a quarter of them of class 1."""
    return labeled(train=[0, 0, 0, 1] * 750, validation=[0, 1, 0, 0] * 600)


def test_laptop_scale_uses_some_of_the_protocols_rows(protocol: Protocol, large: TaskData) -> None:
    size = Size(total=40) if protocol.few_shot else None
    replicate = protocol.replicate(2)
    whole, scaled = (p.splits(large, size, replicate) for p in (protocol, laptop(protocol)))
    assert np.array_equal(scaled.train.index, whole.train.index)
    for name, most in (("validation", 200), ("test", 500)):
        every, some = getattr(whole, name), getattr(scaled, name)
        assert set(some.index) <= set(every.index)
        assert len(some.index) == min(len(every.index), most)
        if len(every.index) > most:
            share = some.labels(large).mean()
            assert share == pytest.approx(every.labels(large).mean(), abs=1 / len(some.index))
    among = "the 200 rows that choose are among the 500 reported"
    assert scaled.notes == (*(among if n == SAME_ROWS else n for n in whole.notes), NOTE)


def test_laptop_scale_sets_title_replicates_updates_and_model(protocol: Protocol) -> None:
    scaled = SCALES["laptop"](protocol)
    assert scaled.title == f"{protocol.name} at laptop scale"
    assert (protocol.title, protocol.scale) == (protocol.name, None)
    assert (scaled.replicates, scaled.max_updates, scaled.evaluate) == (3, 150, "tenth")
    assert scaled.model == "minilm"
    scaled.rule.check(scaled.replicates)
    assert [scaled.replicate(r) for r in range(3)] == [protocol.replicate(r) for r in range(3)]
