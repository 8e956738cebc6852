"""Protocols of SupCL-Seq, 2021, section 3 and appendix A."""

from dataclasses import replace
from functools import partial

from sclsearch.protocols.base import Protocol
from sclsearch.protocols.splits import dev_is_test, held_out_split
from sclsearch.selection.rules import Rule, Top

FULL = Protocol(
    name="supcl-seq",
    summary="SupCL-Seq: all training rows; chosen and reported on the same validation rows",
    split=dev_is_test,
    # The paper prints one score per task and does not state the number of seeds.
    replicates=5,
    rule=Rule(score=Top(), report=Top()),
    evaluate="epoch",
    keep="last",
    model="bert-base",
)

# A tenth of RTE's training rows is about the size of its validation split.
HELD_OUT = replace(
    FULL,
    name="supcl-seq-heldout",
    summary="supcl-seq chosen on a tenth of the training rows, reported on the validation rows",
    split=partial(held_out_split, share=0.1),
)
