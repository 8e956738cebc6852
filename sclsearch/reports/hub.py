"""Upload of an export to the Hugging Face hub."""

from pathlib import Path

from sclsearch.errors import SclsearchError


def push(folder: Path, repository: str) -> str:
    """Upload a folder to a model repository on the hub; return the address of the upload.

    A missing repository becomes a private one. The repository then has the folder's files alone.
    The hub's address and token are those of huggingface_hub: HF_ENDPOINT, HF_TOKEN or its login.

    Raises:
        SclsearchError: The hub cannot be reached, or refuses.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi()
    try:
        name = api.create_repo(repository, private=True, exist_ok=True).repo_id
        # Files of an earlier export that this one lacks would answer in its place.
        return str(api.upload_folder(repo_id=name, folder_path=folder, delete_patterns="*"))
    # Errors of a connection derive from the base of HfHubHTTPError in the hub's HTTP library.
    except (OSError, ValueError, *HfHubHTTPError.__bases__) as error:  # type: ignore[misc]
        raise SclsearchError(
            f"--push {repository}: {api.endpoint} did not accept the upload: "
            f"{' '.join(str(error).split()).rstrip('.')}. The export is in {folder}; "
            f"`hf upload {repository} {folder}` uploads it."
        ) from error
