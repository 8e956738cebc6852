"""Texts beside the labeled rows: paraphrases and unlabeled texts."""

from sclsearch.errors import SclsearchError
from sclsearch.methods import NamedMethod
from sclsearch.protocols.base import Protocol
from sclsearch.protocols.draws import Unlabeled, check_unlabeled
from sclsearch.study.spec import StudySpec
from sclsearch.tasks.paraphrases import READ, ParaphraseSource, paraphrase_source


def paraphrases_of(
    spec: StudySpec, method: NamedMethod, protocol: Protocol, *, read: bool
) -> ParaphraseSource | None:
    """Return the source of paraphrases, or None if the study reads none.

    Args:
        spec: The study specification.
        method: The method.
        protocol: The protocol.
        read: Whether the method has a stage that reads paraphrases.

    Raises:
        SclsearchError: The user gives a file that nothing reads, or the file has errors.
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
    """Return the size of the unlabeled text pool; None means the training rows only.

    Args:
        spec: The study specification.
        method: The method.
        protocol: The protocol.
        read: Whether the method has a stage that reads no labels.

    Raises:
        SclsearchError: `spec.unlabeled` is set but no stage reads it, or paraphrases join the
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
    """Return a note on the unlabeled training rows that a study does not use.

    Args:
        rows: Number of these rows.
        reader: Whether the method has a stage that could read them.
    """
    options = "; --unlabeled all gives them to the stages that read no labels" if reader else ""
    return f"training rows without a label that are not read: {rows}{options}"
