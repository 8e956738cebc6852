"""Back-ends that paraphrase texts. A line here is all that a new one needs."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sclsearch.papers.augmentation.base import Backend, Options
from sclsearch.papers.augmentation.eda import EDA
from sclsearch.papers.augmentation.marian import Marian

BACKENDS: Mapping[str, Callable[[Options], Backend]] = MappingProxyType(
    {"marian": Marian, "eda": EDA}
)
