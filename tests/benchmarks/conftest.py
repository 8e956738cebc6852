"""Studies of records alone, as the tests of reports write them."""

from tests.reports.conftest import write_study

__all__ = ["write_study"]
