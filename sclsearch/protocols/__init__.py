"""Registry of the evaluation protocols; add a new protocol to `FIXED`."""

from collections.abc import Mapping
from types import MappingProxyType

from sclsearch.errors import SclsearchError, suggestion
from sclsearch.protocols import cmlm, lacon, standard
from sclsearch.protocols.base import Family, Protocol

FIXED: tuple[Protocol, ...] = (
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
)
FAMILIES: tuple[Family, ...] = (lacon.IMBALANCE, lacon.CLASSES)

PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {
        protocol.name: protocol
        for protocol in (
            *FIXED,
            *(family.make(value) for family in FAMILIES for value in family.values),
        )
    }
)
"""All protocols by name, every number of a family included."""


def find_protocol(name: str) -> Protocol:
    """Return the protocol of a name, for example `gunel-full` or `lacon-classes:4`.

    Raises:
        SclsearchError: The name is unknown, or its family has no such number. The message lists
            the known names or the possible numbers.
    """
    if name in PROTOCOLS:
        return PROTOCOLS[name]
    for family in FAMILIES:
        if name.partition(":")[0] == family.name:
            value = name[len(family.name) + 1 :]
            problem = f"unknown number {value!r}" if value else "the number is missing"
            raise SclsearchError(
                f"--protocol {name}: {problem}. Write {family.name}:{family.parameter} with "
                f"{family.parameter} one of {', '.join(map(str, family.values))}."
            )
    raise SclsearchError(f"Unknown protocol {name!r}.{suggestion(name, protocol_summaries())}")


def protocol_summaries() -> dict[str, str]:
    """Return the summary of each protocol or family, by the name to write on the command line."""
    fixed = {protocol.name: protocol.summary for protocol in FIXED}
    return fixed | {f"{one.name}:{one.parameter}": one.summary for one in FAMILIES}
