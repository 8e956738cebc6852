"""What is read beside the labelled rows: paraphrases, and texts without labels."""

from sclsearch.errors import SclsearchError
from sclsearch.methods import NamedMethod
from sclsearch.protocols.base import Protocol
from sclsearch.protocols.draws import Unlabeled, check_unlabeled
from sclsearch.study.spec import StudySpec
from sclsearch.tasks.paraphrases import READ, ParaphraseSource, paraphrase_source


def paraphrases_of(
    spec: StudySpec, method: NamedMethod, protocol: Protocol, *, read: bool
) -> ParaphraseSource | None:
    """Returns where paraphrases come from; None where none are read.

    Args:
        spec: What is asked for.
        method: The method.
        protocol: The protocol.
        read: Whether a stage of the method reads paraphrases.

    Raises:
        SclsearchError: A file is given and nothing reads it, or it has faults.
    """
    if read or protocol.joined:
        return paraphrase_source(spec.paraphrases, max(READ, protocol.joined))
    if spec.paraphrases is not None:
        raise SclsearchError(
            f"--paraphrases {spec.paraphrases}: it must come with a method or a protocol that "
            f"reads paraphrases, but {method.name} and {protocol.name} read none. cssl and "
            "gunel-noisy do."
        )
    return None


def unlabeled_of(
    spec: StudySpec, method: NamedMethod, protocol: Protocol, *, read: bool
) -> Unlabeled | None:
    """Returns how many texts the stages without labels have; None for the training rows alone.

    Args:
        spec: What is asked for.
        method: The method.
        protocol: The protocol.
        read: Whether a stage of the method reads no labels.

    Raises:
        SclsearchError: They are asked for and there is no such stage, or paraphrases join the
            training rows.
    """
    if spec.unlabeled is not None and not read:
        raise SclsearchError(
            f"--unlabeled {spec.unlabeled}: it must come with a method that has a stage without "
            f"labels, but {method.name} reads them in all. cmlm, tapt, cssl and simcse have one."
        )
    check_unlabeled(protocol, spec.unlabeled)
    return spec.unlabeled


def unread(rows: int, *, reader: bool) -> str:
    """Returns the note on training rows without a label that a study leaves out.

    Args:
        rows: How many.
        reader: Whether a stage of its method could read them.
    """
    options = "; --unlabeled all gives them to the stages that read no labels" if reader else ""
    return f"training rows without a label that are not read: {rows}{options}"
