"""Registry of the paraphrasing back-ends; add a new back-end to it."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sclsearch.papers.augmentation.backends import EDA, Backend, Options
from sclsearch.papers.augmentation.marian import Marian

BACKENDS: Mapping[str, Callable[[Options], Backend]] = MappingProxyType(
    {"marian": Marian, "eda": EDA}
)
