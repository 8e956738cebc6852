"""Registry of the evaluation protocols; add a new protocol to `PROTOCOLS`."""

from collections.abc import Mapping
from types import MappingProxyType

from sclsearch.errors import lookup
from sclsearch.protocols import cmlm, lacon, standard
from sclsearch.protocols.base import Protocol

PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {
        protocol.name: protocol
        for protocol in (
            standard.GUNEL_FULL,
            standard.GUNEL_FULL_OVERLAP,
            standard.GUNEL_FEW_SHOT,
            standard.GUNEL_NOISY,
            standard.SUPCL_SEQ,
            standard.SUPCL_SEQ_HELD_OUT,
            lacon.FULL,
            lacon.FEW_SHOT,
            cmlm.FULL,
            cmlm.FEW_SHOT,
            standard.PLAIN,
            *map(lacon.imbalanced, (1, 3, 5, 10, 20)),
            *map(lacon.first_classes, range(2, 15)),
        )
    }
)


def find_protocol(name: str) -> Protocol:
    """Return the protocol of a name, for example `gunel-full` or `lacon-classes:4`."""
    return lookup(PROTOCOLS, name, "protocol")


def protocol_summaries() -> dict[str, str]:
    """Return the summary of each protocol by name."""
    return {name: protocol.summary for name, protocol in PROTOCOLS.items()}
