"""The files of a project that are no part of the work: ignored, secret, or made by tools.

The rules are those of the `.gitignore` files, read by descriptors and through no link.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from ..files import FileSystem, ReadError, read_regular_file
from ..files.safe_path import directory_beneath
from ..text.path_pattern import matches, names_any

_MAX_RULES: Final = 2000
_MAX_RULE_CHARS: Final = 500
_NAMES: Final = (
    *(".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".npmrc", ".yarnrc", ".yarnrc.yml"),
    *(".pypirc", ".pgpass", ".my.cnf", ".htpasswd", ".git-credentials", ".dockercfg", ".boto"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.asc"),
    *("*.gpg", "*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*", "*.ovpn", "*.jwk"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "credentials", "credentials.*"),
    *("*_credentials.*", "*-credentials.*", "secret", "secrets", "secret.*", "secrets.*"),
    *("*.secret", "*.secrets", "*_secret.*", "*_secrets.*", "client_secret*.json", "kubeconfig"),
    *("service-account*.json", "service_account*.json", ".vault_pass*", "*.token", "auth.json"),
)
_HARMLESS: Final = (".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub")
_FOLDERS: Final = frozenset(
    {".aws", ".azure", ".docker", ".gcloud", ".gnupg", ".kube", ".ssh", "secrets", ".secrets"}
)
_MAX_IGNORE_BYTES: Final = 64 * 1024
NEVER: Final = frozenset(
    {
        *(".git", ".hg", ".svn", ".agentforge", "node_modules", ".venv", "venv", "__pycache__"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".eggs"),
        *(".idea", ".vscode", ".ds_store"),
    }
)
NEVER_STORED: Final = NEVER - {".idea", ".vscode"}


class _IgnoreRule(NamedTuple):
    pattern: str
    negated: bool
    directories: bool
    anchored: bool


class IgnoreRules:
    """The rules of one .gitignore, for paths relative to its folder."""

    def __init__(self, text: str) -> None:
        self._rules = [
            rule for line in text.splitlines()[:_MAX_RULES] if (rule := _rule(line)) is not None
        ]

    def judge(self, path: str, *, is_directory: bool) -> bool | None:
        """Return whether a path is ignored; None if no rule matches it."""
        name = path.rpartition("/")[2]
        for rule in reversed(self._rules):
            if rule.directories and not is_directory:
                continue
            if matches(rule.pattern, path if rule.anchored else name):
                return not rule.negated
        return None


def _rule(line: str) -> _IgnoreRule | None:
    text = line.rstrip()
    if not text or text.startswith("#") or len(text) > _MAX_RULE_CHARS:
        return None
    negated = text.startswith("!")
    text = text.removeprefix("!")
    directories = text.endswith("/")
    text = text.rstrip("/")
    anchored = "/" in text
    pattern = text.removeprefix("/")
    return _IgnoreRule(pattern, negated, directories, anchored) if pattern else None


def looks_secret(path: str) -> bool:
    """Return whether a path looks like that of a secret, by its name or a folder above."""
    *folders, name = path.lower().split("/")
    return not _FOLDERS.isdisjoint(folders) or _is_secret_name(name)


def _is_secret_name(name: str) -> bool:
    return _secret_names().match(name) is not None and not names_any(_HARMLESS, name)


@cache
def _secret_names() -> re.Pattern[str]:
    """Return one expression for all names: snapshots test thousands of files."""
    return re.compile("|".join(map(fnmatch.translate, _NAMES)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FolderRules:
    """The rules of a folder and of the folders below, each read once.

    Attributes:
        fs: The file system.
        fd: The folder, open.
        path: Its path, for messages.
    """

    fs: FileSystem
    fd: int
    path: Path
    _rules: dict[tuple[str, ...], IgnoreRules] = field(default_factory=dict, init=False, repr=False)

    def judged(self, names: tuple[str, ...], is_directory: bool) -> bool:
        """Return whether the rules of the folders above a path ignore it."""
        ignored: bool | None = None
        for depth in range(len(names)):
            rules = self._rules_in(names[:depth])
            judged = rules.judge("/".join(names[depth:]), is_directory=is_directory)
            ignored = ignored if judged is None else judged
        return bool(ignored)

    def _rules_in(self, above: tuple[str, ...]) -> IgnoreRules:
        if above not in self._rules:
            with (
                suppress(OSError),  # a missing folder has no rules
                directory_beneath(self.fs, self.fd, above) as directory_fd,
            ):
                self.read(above, directory_fd)
        return self._rules.setdefault(above, IgnoreRules(""))

    def read(self, above: tuple[str, ...], directory_fd: int) -> None:
        """Read a folder's .gitignore, once."""
        if above in self._rules:
            return
        try:
            data = read_regular_file(
                self.fs,
                ".gitignore",
                path=self.path.joinpath(*above, ".gitignore"),
                max_bytes=_MAX_IGNORE_BYTES,
                directory_fd=directory_fd,
            )
        except ReadError:
            data = None
        self._rules[above] = IgnoreRules((data or b"").decode("utf-8", "replace"))

    def leaves_out(self, path: bytes, is_directory: bool) -> bool:
        """Return whether an entry is no part of the work: ignored, secret, or made by tools.

        Its folders were tested before.
        """
        names = tuple(os.fsdecode(path).split("/"))
        name = names[-1].lower()
        if name in NEVER_STORED or self.judged(names, is_directory):
            return True
        return name in _FOLDERS if is_directory else _is_secret_name(name)


class WorkTreeFiles(NamedTuple):
    """Chooses what snapshots store of a person's work tree: what is neither ignored nor secret.

    Attributes:
        at_once: The most entries to list again, and files to store, in one call; any if None.
    """

    at_once: int | None = None

    def of(self, fs: FileSystem, root_fd: int, path: Path) -> Callable[[bytes, bool], bool]:
        """Return a test of whether an entry is left out, by its path and whether it is a folder."""
        return FolderRules(fs=fs, fd=root_fd, path=path).leaves_out
