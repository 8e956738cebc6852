"""Fresh replicates are none that chose a winner; a crossing has every combination once."""

import pickle
from itertools import product
from typing import TYPE_CHECKING

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import Protocol
from sclsearch.protocols.variants import crossed, fresh, laptop

if TYPE_CHECKING:
    from sclsearch.protocols.base import Replicate

LEVELS = {"subset": 2, "initialization": 3, "order": 2}


@pytest.fixture(params=["gunel-full", "gunel-fewshot", "supcl-seq", "lacon", "cmlm-fewshot"])
def protocol(request: pytest.FixtureRequest) -> Protocol:
    return PROTOCOLS[request.param]


def test_fresh_replicates_go_on_where_the_protocol_ends(protocol: Protocol) -> None:
    repeated = fresh(protocol, 4)
    n = protocol.replicates
    for r in range(4):
        assert repeated.replicate(r).seeds == protocol.replicate(n + r).seeds
        assert (repeated.replicate(r).number, repeated.replicate(r).subset) == (r, n + r)
    assert (repeated.replicates, str(repeated.rule)) == (4, "mean")
    subsets = ", new subsets" if protocol.name == "cmlm-fewshot" else ""
    assert repeated.title == f"{protocol.name}, fresh replicates{subsets}"


def test_fresh_replicates_begin_after_all_that_a_study_used(protocol: Protocol) -> None:
    n = protocol.replicates
    more, fewer = fresh(protocol, 1, n + 7), fresh(protocol, 1, n - 1)
    assert more.replicate(0).seeds == protocol.replicate(n + 7).seeds
    assert more.title.startswith(f"{protocol.name}, fresh replicates from {n + 7}")
    assert fewer.replicate(0).seeds == protocol.replicate(n).seeds
    assert fewer.title == fresh(protocol, 1).title


def test_seeds_go_on_and_subsets_that_would_come_again_are_new() -> None:
    repeated = fresh(PROTOCOLS["cmlm-fewshot"], 6)
    found = [(r.subset, r.initialization) for r in map(repeated.replicate, range(6))]
    assert found == [(15, 64), (16, 64), (17, 64), (18, 64), (19, 64), (20, 75)]


@pytest.mark.parametrize("scaled", [False, True], ids=["whole", "laptop"])
@pytest.mark.parametrize("first", [None, 22])
def test_no_fresh_subset_is_one_that_chose(scaled: bool, first: int | None) -> None:
    own = PROTOCOLS["cmlm-fewshot"]
    protocol = laptop(own) if scaled else own
    chose = {protocol.replicate(r).subset for r in range(first or protocol.replicates)}
    repeated = fresh(protocol, 12, first)
    assert not chose & {repeated.replicate(r).subset for r in range(12)}
    assert repeated.title.endswith(", new subsets")


def test_where_all_rows_are_trained_on_the_subset_stays() -> None:
    repeated = fresh(PROTOCOLS["cmlm-full"], 2)
    assert (repeated.replicate(1).subset, repeated.title) == (0, "cmlm-full, fresh replicates")


def test_a_scaled_protocol_is_repeated_beyond_its_own_replicates() -> None:
    repeated = fresh(laptop(PROTOCOLS["gunel-fewshot"]), 2)
    assert repeated.title == "gunel-fewshot at laptop scale, fresh replicates"
    assert repeated.replicate(0).subset == 3


@pytest.mark.parametrize("count", [0, -1])
def test_no_fresh_replicate_is_an_error(count: int) -> None:
    with pytest.raises(
        SclsearchError, match=rf"^fresh replicates: must be at least 1, got {count}"
    ):
        fresh(PROTOCOLS["plain"], count)


def test_a_crossing_has_every_combination_once(protocol: Protocol) -> None:
    repeated = crossed(protocol, LEVELS)
    found = [repeated.replicate(number) for number in range(repeated.replicates)]
    cells = [(one.subset, one.initialization, one.order) for one in found]
    assert sorted(cells) == list(product(range(2), range(3), range(2)))
    assert [one.number for one in found] == list(range(12))
    assert all(one.noise == one.order for one in found)
    assert repeated.title == f"{protocol.name}, 2 subsets x 3 initializations x 2 orders"


def test_cells_of_equal_seeds_are_the_replicates_of_a_protocol_that_numbers_its_seeds() -> None:
    protocol = PROTOCOLS["gunel-fewshot"]
    repeated = crossed(protocol, {"subset": 3, "initialization": 3, "order": 3})
    seeds: dict[int, Replicate] = {}
    for one in map(repeated.replicate, range(repeated.replicates)):
        if one.subset == one.initialization == one.order:
            seeds[one.subset] = one
    for number, one in seeds.items():
        own = protocol.replicate(number)
        assert (one.subset, one.seeds) == (own.subset, own.seeds)
    assert sorted(seeds) == [0, 1, 2]


def test_what_does_not_vary_is_not_named_and_makes_no_other_crossing() -> None:
    protocol = PROTOCOLS["plain"]
    short = crossed(protocol, {"order": 2, "initialization": 2})
    assert short.title == crossed(protocol, {"subset": 1, "initialization": 2, "order": 2}).title
    assert short.title == "plain, 2 initializations x 2 orders"


def test_the_replicates_of_a_crossing_can_be_sent_to_workers() -> None:
    replicate = crossed(PROTOCOLS["plain"], LEVELS).replicate
    assert pickle.loads(pickle.dumps(replicate))(3) == replicate(3)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({"order": 3}, "at least two of subset, initialization, order must vary, only order does"),
        ({"order": 3, "ordre": 2}, "levels.ordre: unknown source. Did you mean 'order'?"),
        ({"order": 0, "subset": 2}, "levels.order: must be at least 1, got 0"),
    ],
    ids=["one varies", "unknown", "none"],
)
def test_a_crossing_that_says_nothing_is_refused(levels: dict[str, int], message: str) -> None:
    with pytest.raises(SclsearchError) as caught:
        crossed(PROTOCOLS["plain"], levels)
    assert message in str(caught.value)
