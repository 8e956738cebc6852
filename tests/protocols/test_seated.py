"""Blocks divide the replicates in their order, and a seat depends on the block's size alone."""

from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from sclsearch.protocols.replicates import Replicate, all_seeds, seated


def replicate(number: int) -> Replicate:
    return Replicate(number, 1, 2, 3, noise=100 + number)


def test_a_block_of_one_has_no_seats() -> None:
    assert [seated(all_seeds, number, 1) for number in range(3)] == [*map(all_seeds, range(3))]


@pytest.mark.parametrize("block", [2, 3, 4, 7])
def test_every_replicate_has_a_seat_of_its_own_among_s(block: int) -> None:
    seats = [seated(replicate, number, block).seat for number in range(12)]
    assert [seat and seat.number for seat in seats] == [number % block for number in range(12)]
    together = [len([*same]) for _, same in groupby(seats, key=lambda seat: seat and seat.noise)]
    assert together[:-1] == [block] * (12 // block if 12 % block else 12 // block - 1)


def test_each_has_its_own_seeds_beside_those_of_its_block() -> None:
    found = seated(replicate, 6, 4)
    assert found.seat is not None
    assert (found.seat.block, found.seat.number) == (4, 2)
    assert replace(found, seat=None) == replicate(6)


@pytest.mark.parametrize("source", ["subset", "order", "noise"])
def test_a_block_with_another_sibling_has_other_noise(source: str) -> None:
    changed: dict[str, Any] = {source: 7}

    def other(number: int) -> Replicate:
        return replace(replicate(number), **changed) if number == 3 else replicate(number)

    one, another = seated(replicate, 0, 4), seated(other, 0, 4)
    assert one.seat != another.seat
    assert replace(one, seat=None) == replace(another, seat=None)
    assert seated(replicate, 4, 4) == seated(other, 4, 4)
