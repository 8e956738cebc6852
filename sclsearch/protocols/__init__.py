"""Registry of the evaluation protocols; add a new protocol to `PROTOCOLS`."""

from collections.abc import Callable, Mapping

from sclsearch.errors import SclsearchError, suggestion
from sclsearch.protocols import papers
from sclsearch.protocols.base import Protocol

PROTOCOLS: Mapping[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        papers.GUNEL_FULL,
        papers.GUNEL_FULL_OVERLAP,
        papers.GUNEL_FEW_SHOT,
        papers.GUNEL_NOISY,
        papers.SUPCL_SEQ,
        papers.SUPCL_SEQ_HELD_OUT,
        papers.LACON,
        papers.LACON_FEW_SHOT,
        papers.CMLM_FULL,
        papers.CMLM_FEW_SHOT,
        papers.PLAIN,
    )
}
NUMBERED: Mapping[str, tuple[Callable[[int], Protocol], range, str]] = {
    "lacon-classes": (papers.lacon_classes, range(2, 1000), "the first N classes of a task"),
    "lacon-imbalance": (papers.lacon_imbalance, range(1, 1000), "N times as many rows of a class"),
}
"""Protocols whose names end with a number: function, valid numbers and summary."""


def find_protocol(name: str) -> Protocol:
    """Return the protocol of a name, for example `gunel-full` or `lacon-classes:4`."""
    family, _, number = name.partition(":")
    if family in NUMBERED and number in map(str, NUMBERED[family][1]):
        return NUMBERED[family][0](int(number))
    if name not in PROTOCOLS:
        raise SclsearchError(f"Unknown protocol {name!r}.{suggestion(name, protocol_summaries())}")
    return PROTOCOLS[name]


def protocol_summaries() -> dict[str, str]:
    """Return the summary of each protocol by name."""
    numbered = {f"{name}:N": f"Zhang et al.: {text}" for name, (*_, text) in NUMBERED.items()}
    return {name: protocol.summary for name, protocol in PROTOCOLS.items()} | numbered
