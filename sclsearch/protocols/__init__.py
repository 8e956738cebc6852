"""Protocols as literals. A line here is all that a new protocol needs."""

from collections.abc import Mapping
from types import MappingProxyType

from sclsearch.protocols import gunel, plain, supcl_seq
from sclsearch.protocols.base import Protocol

PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {
        protocol.name: protocol
        for protocol in (
            gunel.FULL,
            gunel.FULL_OVERLAP,
            gunel.FEW_SHOT,
            supcl_seq.FULL,
            plain.PLAIN,
        )
    }
)
