"""Registry of the evaluation protocols; add a new protocol to `PROTOCOLS`."""

from collections.abc import Mapping

from sclsearch.errors import lookup
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
        *papers.LACON_IMBALANCED,
        *papers.LACON_CLASSES,
    )
}


def find_protocol(name: str) -> Protocol:
    """Return the protocol of a name, for example `gunel-full` or `lacon-classes:4`."""
    return lookup(PROTOCOLS, name, "protocol")


def protocol_summaries() -> dict[str, str]:
    """Return the summary of each protocol by name."""
    return {name: protocol.summary for name, protocol in PROTOCOLS.items()}
