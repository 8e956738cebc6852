"""Fixture that writes records of studies without training."""

from tests.reports.conftest import write_study

__all__ = ["write_study"]
