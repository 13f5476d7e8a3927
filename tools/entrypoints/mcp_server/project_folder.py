"""Project of a server: the only folders that clients may name."""

from __future__ import annotations

import os
from pathlib import Path

from attrs import field, frozen

from ...base.settings.configuration import NO_REPOSITORY, RepositoryConfiguration
from .errors import InvalidArguments, OutsideProject


@frozen(kw_only=True)
class ProjectFolder:
    """Folder of a project, and how its sessions begin from a repository.

    Attributes:
        path: The folder, absolute.
        repository: The project's configuration of the repository.
    """

    path: Path
    repository: RepositoryConfiguration = field(factory=RepositoryConfiguration)

    def base_of(
        self, repo: str | None, base: str | None, *, with_uncommitted: bool
    ) -> RepositoryConfiguration:
        """Return how a session that a client requested begins from a repository.

        Raises:
            OutsideProject: The client named a repository elsewhere.
            InvalidArguments: The client named a base, but there is no repository.
        """
        named = None if repo is None else Path(repo)
        if repo is not None and named != NO_REPOSITORY:
            named = self.inside(repo)
        found = self.repository.asked_for(named, base, with_uncommitted=with_uncommitted)
        if not found.use and (base is not None or with_uncommitted):
            raise InvalidArguments(
                "session_create", ["base and with_uncommitted: are of a repository; name one"]
            )
        return found

    def inside(self, given: str) -> Path:
        """Return the path of a folder that a client named.

        Raises:
            OutsideProject: The folder is not in the project, or leads out of it.
        """
        path = Path(given)
        if path.is_absolute() or ".." in path.parts or "\0" in given:
            raise OutsideProject(given, "write it relative to the project, without ..")
        found = self.path / path
        if not Path(os.path.realpath(found)).is_relative_to(os.path.realpath(self.path)):
            raise OutsideProject(given, "a link on its way leads out of the project")
        return found

    def new_folder(self, given: str) -> Path:
        """Return the path of a new folder that a client named; never one that a program may act on.

        Raises:
            OutsideProject: The folder is not in the project, or is hidden.
        """
        found = self.inside(given)
        parts = Path(given).parts
        if not parts or any(part.startswith(".") for part in parts):
            raise OutsideProject(given, "name a new folder, of which no part begins with a dot")
        return found
