"""Upload of an export to the Hugging Face hub."""

from pathlib import Path

from sclsearch.encoders.models import CARD, ENCODER
from sclsearch.errors import SclsearchError
from sclsearch.reports.export import PARTS
from sclsearch.reports.export_record import DIGESTS

OWN_FILES = [
    *(CARD, DIGESTS, PARTS, "config.json", "model.safetensors", "modules.json"),
    "pooled_classifier.py",
    *("tokenizer.json", "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json"),
    *(f"{ENCODER}/*", "1_Pooling/*", "[0-9]_Dense/*", "seed-[0-9]*/*"),
]
"""Patterns of the files that an export may have, except vocabularies."""


def check_repository(repository: str) -> None:
    """Raise SclsearchError if a name is not `owner/name` as on the hub."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise SclsearchError(
            f"--push {repository}: must be owner/name of a repository on the hub: {error} Give "
            "another name."
        ) from error


def push(folder: Path, repository: str, *, public: bool = False) -> str:
    """Upload a folder to a model repository on the hub, and create a missing repository.

    The hub's address and token are those of huggingface_hub: HF_ENDPOINT, HF_TOKEN or its login.

    Args:
        folder: Folder written by `export`.
        repository: `owner/name`, or `name` for the token's owner.
        public: Create a public repository, or accept that the existing one is public.

    Returns:
        The address of the upload.

    Raises:
        SclsearchError: The hub cannot be reached or refuses, or the repository is public and
            `public` is False.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    check_repository(repository)
    api = HfApi()
    try:
        created = api.create_repo(repository, private=not public, exist_ok=True)
        name = created.repo_id
        if not public and not api.model_info(name).private:
            raise SclsearchError(
                f"--push {repository}: the repository is public. Pass --public to upload there, "
                f"or name another one. The export is in {folder}."
            )
        # Files of an earlier export that this one lacks would answer in its place.
        earlier = CARD in api.list_repo_files(name)
        sent = api.upload_folder(
            repo_id=name,
            folder_path=folder,
            commit_message="Upload an export of sclsearch",
            delete_patterns=OWN_FILES if earlier else None,
        )
    # Errors of a connection derive from the base of HfHubHTTPError in the hub's HTTP library. The
    # hub's answer on an invalid README.md is a ValueError.
    except (OSError, ValueError, *HfHubHTTPError.__bases__) as error:  # type: ignore[misc]
        reason = " ".join(str(error).split()).rstrip(".")
        raise SclsearchError(
            f"--push {repository}: {api.endpoint} did not accept the upload: {reason}. Check the "
            "network and HF_TOKEN; "
            f"the export is in {folder}, and `hf upload {repository} {folder}` uploads it."
        ) from error
    return str(sent)
