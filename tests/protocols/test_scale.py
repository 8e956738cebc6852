"""A scaled protocol draws from the same rows, fewer of them, and says so."""

from collections.abc import Callable

import numpy as np
import pytest

from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import Protocol, Size
from sclsearch.protocols.splits import SAME_ROWS
from sclsearch.protocols.variants import SCALES, laptop
from sclsearch.tasks.base import TaskData

Labelled = Callable[..., TaskData]
NOTE = "scaled: at most 150 updates a stage, 200 validation and 500 test rows"


@pytest.fixture(params=["gunel-full", "gunel-fewshot", "supcl-seq", "lacon", "cmlm-fewshot"])
def protocol(request: pytest.FixtureRequest) -> Protocol:
    return PROTOCOLS[request.param]


@pytest.fixture
def large(labeled: Labelled) -> TaskData:
    """Returns a task of 3,000 training and 2,400 validation rows, a quarter of them of class 1."""
    return labeled(train=[0, 0, 0, 1] * 750, validation=[0, 1, 0, 0] * 600)


def test_rows_are_some_of_the_protocols_own(protocol: Protocol, large: TaskData) -> None:
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


def test_a_scaled_protocol_is_named_and_repeats_three_times(protocol: Protocol) -> None:
    scaled = SCALES["laptop"](protocol)
    assert scaled.title == f"{protocol.name} at laptop scale"
    assert (protocol.title, protocol.scale) == (protocol.name, None)
    assert (scaled.replicates, scaled.max_updates, scaled.evaluate) == (3, 150, "tenth")
    assert scaled.model == "minilm"
    scaled.rule.check(scaled.replicates)
    assert [scaled.replicate(r) for r in range(3)] == [protocol.replicate(r) for r in range(3)]
