"""Protocols of Gunel et al. (2021) and SupCL-Seq (2021), and `plain` for a user's own files.

- Gunel et al., sections 4.1 and 4.2 (arXiv v1).
- SupCL-Seq, section 3 and appendix A.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from sclsearch.protocols.base import Protocol, least_epochs
from sclsearch.protocols.draws import draw_subset
from sclsearch.protocols.splits import dev_is_test, held_out_split, plain_split, split_dev
from sclsearch.selection.rules import MEAN, Rule, Top

# Gunel et al. report accuracy everywhere, on CoLA too.
ACCURACY: Mapping[str, str] = dict.fromkeys(("cola", "mrpc", "qqp"), "accuracy")
GUNEL_VALIDATION = 500


def gunel_few_shot_training(rows: int, batch_size: int) -> Mapping[str, object]:
    """Return the epochs of training and of a linear probe: at least 100 updates and 10 epochs.

    The paper does not state its training length. With 20 rows an epoch has two updates, so the 10
    epochs of full data are far too few.
    """
    epochs = max(10, least_epochs(rows, batch_size))
    return {"epochs": epochs, "probe_epochs": epochs}


MOST_UPDATES = 1_500
"""Updates after which `plain` ends, if that leaves 3 epochs."""


def plain_training(rows: int, batch_size: int) -> Mapping[str, object]:
    """Return 10 epochs, on many rows fewer: 1,500 updates or 3 epochs, whichever is more."""
    return {"epochs": min(10, max(3, MOST_UPDATES // -(-rows // batch_size)))}


GUNEL_FULL = Protocol(
    name="gunel-full",
    summary="Gunel et al.: all training rows, 10 seeds, ranked by their mean, best seed reported",
    split=partial(split_dev, cap=GUNEL_VALIDATION),
    replicates=10,
    rule=Rule(score=Top(), report=Top(1)),
    evaluate="epoch",
    keep="best",
    model="roberta-large",
    metrics=ACCURACY,
)

GUNEL_FULL_OVERLAP = replace(
    GUNEL_FULL,
    name="gunel-full-overlap",
    summary="gunel-full with 500 validation rows even where they overlap the test rows",
    split=partial(split_dev, cap=GUNEL_VALIDATION, overlap=True),
)

GUNEL_FEW_SHOT = replace(
    GUNEL_FULL,
    name="gunel-fewshot",
    summary="Gunel et al.: N training rows, 10 subsets, top 3 of 10 by validation",
    rule=Rule(score=Top(3), report=Top(3)),
    evaluate=20,  # "at various epochs" (section 4.1); with 20 rows an epoch is 2 updates
    few_shot=True,
    sizes=("20", "100", "1000"),
    draw=draw_subset,
    training=gunel_few_shot_training,
)

# Section 4.2: three augmented examples per supervised example.
GUNEL_NOISY = replace(
    GUNEL_FEW_SHOT,
    name="gunel-noisy",
    summary="gunel-fewshot with three paraphrases of each training row among them",
    joined=3,
)

SUPCL_SEQ = Protocol(
    name="supcl-seq",
    summary="SupCL-Seq: all training rows; chosen and reported on the same validation rows",
    split=dev_is_test,
    # The paper prints one score per task and does not state the number of seeds.
    replicates=5,
    rule=MEAN,
    evaluate="epoch",
    keep="last",
    model="bert-base",
    pretrained_pooler=True,
)

# A tenth of RTE's training rows is about the size of its validation split.
SUPCL_SEQ_HELD_OUT = replace(
    SUPCL_SEQ,
    name="supcl-seq-heldout",
    summary="supcl-seq chosen on a tenth of the training rows, reported on the validation rows",
    split=partial(held_out_split, share=0.1),
)

PLAIN = Protocol(
    name="plain",
    summary="your own data: its splits, 5 seeds, ranked and reported by their mean",
    split=plain_split,
    replicates=5,
    rule=MEAN,
    evaluate="epoch",
    keep="best",
    model="minilm",
    training=plain_training,
)
