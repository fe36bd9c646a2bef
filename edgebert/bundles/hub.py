"""The model hub, as far as a download needs it. Nothing here is used but by ``edgebert pull``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edgebert.errors import BundleError, DamagedBundleError, EdgeBertError, InputError
from edgebert.formats.manifest import MANIFEST_NAME

CLIENTS_FOLDER = ".cache"
"""Where the hub's client keeps notes, in the folder that it downloads to."""

_OF_THE_HUB = {  # the client's errors that are the caller's to mend -> what to do
    "HFValidationError": "give it as OWNER/NAME",
    "RepositoryNotFoundError": "check the name; for a private one log in with `hf auth login`",
    "GatedRepoError": "ask for access on its page, then log in with `hf auth login`",
    "RevisionNotFoundError": "give a branch, a tag or a commit that it has",
    "OfflineModeIsEnabled": "unset HF_HUB_OFFLINE",
}


class Repository:
    """One commit of a repository.

    Attributes:
        commit: Its hash.
        sizes: Of the files that it has, in bytes, by path; None where the hub doesn't say.
    """

    def __init__(self, repo_id: str, revision: str | None) -> None:
        """Ask the hub what there is.

        Raises:
            InputError: The repository or revision doesn't exist, or can't be had.
            BundleError: It has no manifest.
            EdgeBertError: The hub can't be reached, or its client is not installed.
        """
        self._repo_id = repo_id
        try:
            from huggingface_hub import HfApi
        except ModuleNotFoundError as error:
            raise EdgeBertError(
                "edgebert pull needs the package 'huggingface_hub', which is not installed. "
                "Install it with: pip install huggingface_hub"
            ) from error
        self._api: Any = HfApi()  # its types need the package, which is optional
        with self._errors():
            info = self._api.model_info(repo_id, revision=revision, files_metadata=True)
        self.commit = str(info.sha)
        self.sizes: dict[str, int | None] = {
            file.rfilename: file.size for file in info.siblings or ()
        }
        if MANIFEST_NAME not in self.sizes:
            raise BundleError(
                f"{repo_id} is no bundle: it has no {MANIFEST_NAME}. Make one of the model with "
                f"`python -m compress.export --model {repo_id} --output-dir OUT`."
            )

    def check_sizes(self, expected: dict[str, int]) -> None:
        """Make sure, before anything large is downloaded, that all files can be right.

        Raises:
            DamagedBundleError: One is missing, or has another size.
        """
        for path, size_bytes in sorted(expected.items()):
            if path not in self.sizes:
                raise DamagedBundleError(
                    f"{self._repo_id} lacks the file {path!r} that its {MANIFEST_NAME} lists; "
                    "tell its owner, or take an earlier --revision."
                )
            found = self.sizes[path]
            if found is not None and found != size_bytes:
                raise DamagedBundleError(
                    f"{path!r} of {self._repo_id} has {found} bytes, expected {size_bytes}; tell "
                    "its owner, or take an earlier --revision."
                )

    def fetch(self, paths: Iterable[str], folder: Path, *, most: int | None = None) -> None:
        """Download files, each to its path below a folder.

        Args:
            paths: Relative, and safe: checked by the manifest, or ours.
            folder: Where to.
            most: Largest size in bytes of each.

        Raises:
            BundleError: A file is larger.
            EdgeBertError: The hub failed.
        """
        for path in paths:
            size = self.sizes.get(path)
            if most is not None and size is not None and size > most:
                raise BundleError(
                    f"{path} of {self._repo_id} has {size} bytes; up to {most} are taken."
                )
            with self._errors():
                self._api.hf_hub_download(
                    self._repo_id, path, revision=self.commit, local_dir=folder
                )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # of three HTTP libraries over the client's releases
            names = [kind.__name__ for kind in type(error).__mro__]
            remedy = next((_OF_THE_HUB[name] for name in names if name in _OF_THE_HUB), None)
            if remedy is not None:
                raise InputError(
                    f"{self._repo_id!r} can't be had from the hub ({names[0]}); {remedy}."
                ) from error
            raise EdgeBertError(
                f"The hub failed on {self._repo_id} ({names[0]}: {_one_line(error)}). Nothing was "
                "written; try again."
            ) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
