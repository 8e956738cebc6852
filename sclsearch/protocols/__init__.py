"""Registry of the evaluation protocols; add a new protocol to `PROTOCOLS`."""

from collections.abc import Mapping
from types import MappingProxyType

from sclsearch.protocols import cmlm, gunel, lacon, plain, supcl_seq
from sclsearch.protocols.base import Protocol

PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {
        protocol.name: protocol
        for protocol in (
            gunel.FULL,
            gunel.FULL_OVERLAP,
            gunel.FEW_SHOT,
            gunel.NOISY,
            supcl_seq.FULL,
            supcl_seq.HELD_OUT,
            lacon.FULL,
            lacon.FEW_SHOT,
            *lacon.IMBALANCED,
            *lacon.BY_CLASSES,
            cmlm.FULL,
            cmlm.FEW_SHOT,
            plain.PLAIN,
        )
    }
)
