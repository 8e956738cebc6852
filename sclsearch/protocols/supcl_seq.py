"""The protocol of SupCL-Seq, 2021, section 3 and appendix A."""

from sclsearch.protocols.base import Protocol
from sclsearch.protocols.splits import dev_is_test
from sclsearch.selection.rules import Rule, Top

FULL = Protocol(
    name="supcl-seq",
    summary="SupCL-Seq: all training rows; chosen and reported on the same validation rows",
    split=dev_is_test,
    # The paper prints one figure and no number of seeds.
    replicates=5,
    rule=Rule(score=Top(), report=Top()),
    evaluate="epoch",
    keep="last",
    model="bert-base",
)
