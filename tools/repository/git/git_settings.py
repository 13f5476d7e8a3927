"""A person's git configuration, as far as it affects what git writes into a checkout."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import field, frozen

from ...base.program_run import ProgramRun
from .git_repositories import UserRepository

_TRUE: Final = frozenset({"", "true", "yes", "on", "1"})
_CONVERTING: Final = ("core.autocrlf", "core.eol", "core.filemode", "core.symlinks")
_PROGRAMS: Final = ("clean", "smudge", "process")


@frozen
class GitSettings:
    """The configuration, by keys in lower case except for their middle part; the last value counts.

    Attributes:
        values: The keys and their values.
        environment: The person's environment, which has their home directory.
    """

    values: Mapping[str, str]
    environment: Mapping[str, str] = field(repr=False)

    def converting(self) -> dict[str, str]:
        """Return the configuration by which git turns contents into files and back."""
        found = {name: self.values[name] for name in _CONVERTING if name in self.values}
        return {
            **found,
            "core.safecrlf": "false",  # a warning that no one would read
            "core.attributesfile": self._file("core.attributesfile", "attributes"),
        }

    def ignoring(self) -> dict[str, str]:
        """Return the configuration by which git ignores files everywhere."""
        return {"core.excludesfile": self._file("core.excludesfile", "ignore")}

    def has_filter(self, name: str) -> bool:
        """Return whether a filter of this name is a program, or is required."""
        prefix = f"filter.{name}"
        if any(self.values.get(f"{prefix}.{key}") for key in _PROGRAMS):
            return True
        return self.values.get(f"{prefix}.required", "false").lower() in _TRUE

    def filters(self) -> dict[str, str]:
        """Return the configuration of all filters."""
        return {key: value for key, value in self.values.items() if key.startswith("filter.")}

    @property
    def trusts_modes(self) -> bool:
        """Whether a file's own executable bit counts, and not that of the index."""
        return self.values.get("core.filemode", "true").lower() in _TRUE

    @property
    def sparse(self) -> bool | None:
        """Whether a sparse checkout is of folders, or of patterns; None where all is checked out.

        Folders are the default, as in git since 2.37.
        """
        if self.values.get("core.sparsecheckout", "false").lower() not in _TRUE:
            return None
        return self.values.get("core.sparsecheckoutcone", "true").lower() in _TRUE

    @property
    def identity(self) -> tuple[str, str] | None:
        """The name and the address for commits, or None if one is missing."""
        name, address = self.values.get("user.name", ""), self.values.get("user.email", "")
        return (name, address) if name.strip() and address.strip() else None

    def _file(self, key: str, default: str) -> str:
        given = self.values.get(key)
        home = self.environment.get("HOME", "")
        if given is None:
            above = self.environment.get("XDG_CONFIG_HOME") or (home and f"{home}/.config")
            return f"{above}/git/{default}" if above else os.devnull
        if given.startswith("~/") and home:
            return f"{home}/{given[2:]}"
        return given or os.devnull


def read_settings(repository: UserRepository, environment: Mapping[str, str]) -> GitSettings:
    """Read a person's configuration: the system's, theirs and the repository's.

    It is read as text alone: nothing that it names runs.

    Args:
        repository: The repository.
        environment: The person's environment, which determines where their files are.

    Raises:
        GitFailed: A file of it can't be read.
    """
    values: dict[str, str] = {}
    for path in _files(environment):
        if os.access(path, os.R_OK):
            values |= _listed(repository, environment, "--file", os.fspath(path))
    return GitSettings(values | _listed(repository, environment), {"HOME": "", **environment})


def _listed(
    repository: UserRepository, environment: Mapping[str, str], *where: str
) -> dict[str, str]:
    """Return one file's configuration, or the repository's own."""
    output = repository.git.run(
        ["config", "--list", "-z", "--includes", *where],
        git_dir=repository.git_dir,
        environment={
            "GIT_DIR": os.fspath(repository.git_dir),
            "HOME": environment.get("HOME", "/nonexistent"),
        },
        configuration={},
        options=ProgramRun((), {}),
    )
    return _parsed(output.stdout)


def _files(environment: Mapping[str, str]) -> list[Path]:
    """Return the configuration files above the repository's, the strongest last."""
    found = []
    if environment.get("GIT_CONFIG_NOSYSTEM", "false").lower() not in _TRUE - {""}:
        found.append(Path(environment.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig"))
    given = environment.get("GIT_CONFIG_GLOBAL")
    if given is not None:
        return [*found, Path(given)] if given else found
    home = environment.get("HOME", "")
    above = environment.get("XDG_CONFIG_HOME") or (home and f"{home}/.config")
    if above:
        found.append(Path(above) / "git" / "config")
    return [*found, Path(home) / ".gitconfig"] if home else found


def _parsed(output: bytes) -> dict[str, str]:
    values = {}
    for item in output.split(b"\0")[:-1]:
        key, _, value = item.partition(b"\n")
        values[os.fsdecode(key)] = os.fsdecode(value)
    return values
