"""Means are of the updates since the last reading; the first term that is not finite is named."""

import math
import re

import pytest
import torch

from sclsearch.training.watch import NonFiniteLossError, TermWatch


def fault(watch: TermWatch) -> str:
    (reading,) = watch.read()
    assert isinstance(reading, NonFiniteLossError)
    return str(reading)


def test_nothing_seen_is_nothing_read() -> None:
    assert TermWatch("fine-tuning", 4, 2).read() == [{}, {}]


def test_a_reading_gives_each_terms_mean_and_starts_anew() -> None:
    watch = TermWatch("fine-tuning", 4)
    for update in range(4):
        watch.see(update, {"ce": torch.tensor(float(update)), "scl": torch.tensor(2.0)})
    assert watch.read() == [{"ce": 1.5, "scl": 2.0}]
    watch.see(4, {"ce": torch.tensor(7.0), "scl": torch.tensor(0.5)})
    assert watch.read() == [{"ce": 7.0, "scl": 0.5}]


def test_a_term_is_let_go_of_its_graph() -> None:
    watch = TermWatch("fine-tuning", 4)
    watch.see(0, {"ce": torch.tensor(1.0, requires_grad=True) * 2})
    assert watch.sums is not None
    assert not watch.sums.requires_grad


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_the_first_bad_update_of_a_term_is_named(value: float) -> None:
    watch = TermWatch("contrast", 3)
    for update in range(8):
        bad = update in {4, 6}
        watch.see(update, {"ce": torch.tensor(1.0), "scl": torch.tensor(value if bad else 0.1)})
    told = r"^contrast: scl must be finite, but it is not at epoch 2, update 2 of 3$"
    assert re.match(told, fault(watch))


def test_of_two_bad_terms_the_earlier_is_named() -> None:
    watch = TermWatch("contrast", 9)
    for update in range(4):
        ce, scl = (math.nan if update >= first else 1.0 for first in (3, 2))
        watch.see(update, {"ce": torch.tensor(ce), "scl": torch.tensor(scl)})
    assert re.search(r"scl must be finite, .* epoch 1, update 3 of 9", fault(watch))


def test_a_term_that_was_bad_before_a_reading_that_did_not_happen_is_still_named() -> None:
    watch = TermWatch("probe", 2)
    watch.see(0, {"ce": torch.tensor(math.nan)})
    watch.see(1, {"ce": torch.tensor(1.0)})
    assert "epoch 1, update 1 of 2" in fault(watch)


def test_each_seed_run_has_means_and_a_fault_of_its_own() -> None:
    watch = TermWatch("joint", 4, 3)
    for update in range(2):
        ce = torch.tensor([1.0 + update, math.inf if update else 1.0, 5.0])
        watch.see(update, {"ce": ce, "scl": torch.tensor([2.0, 3.0, 4.0])})
    first, second, third = watch.read()
    assert (first, third) == ({"ce": 1.5, "scl": 2.0}, {"ce": 5.0, "scl": 4.0})
    assert "ce must be finite, but it is not at epoch 1, update 2" in str(second)
