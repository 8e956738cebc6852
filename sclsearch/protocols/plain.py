"""Default protocol for a user's own files; it follows no paper."""

from sclsearch.protocols.base import Protocol
from sclsearch.protocols.splits import plain_split
from sclsearch.selection.rules import Rule, Top

PLAIN = Protocol(
    name="plain",
    summary="your own data: its splits, 5 seeds, ranked and reported by their mean",
    split=plain_split,
    replicates=5,
    rule=Rule(score=Top(), report=Top()),
    evaluate="epoch",
    keep="best",
    model="minilm",
)
