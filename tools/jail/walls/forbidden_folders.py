"""Files and folders that are never shown to commands in a jail, judged by their real paths.

A path is refused if it is a private place, is in one or contains one. Homes themselves are refused
but not everything in them: toolchains are there (`~/.pyenv/versions/3.11`,
`~/.nvm/versions/node/v20`).
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Final

from attrs import frozen

from ...base.data_folder import state_folder
from ..errors import FolderForbidden

_SYSTEM: Final = (
    *("/run", "/var/run", "/proc", "/sys", "/dev", "/boot", "/var/lib", "/var/spool", "/var/log"),
    *("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh"),
    *("/etc/ssl/private", "/etc/pki/tls/private", "/etc/krb5.keytab", "/etc/NetworkManager"),
    *("/etc/kubernetes", "/etc/docker", "/lost+found"),
)
_SECRETS: Final = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config", ".netrc", ".npmrc"),
    *(".yarnrc", ".yarnrc.yml", ".pypirc", ".git-credentials", ".gitconfig", ".pgpass", ".my.cnf"),
    *(".password-store", ".mozilla", ".thunderbird", ".claude", ".claude.json", ".codex"),
    *(".gemini", ".cursor", ".aider", ".aider.conf.yml", ".copilot", ".continue", ".ollama"),
    *(".local/share/keyrings", ".local/share/opencode", ".local/state", ".cargo/credentials"),
    *(
        ".cargo/credentials.toml",
        ".gem/credentials",
        ".m2/settings.xml",
        ".m2/settings-security.xml",
    ),
    *(
        ".gradle/gradle.properties",
        ".terraform.d",
        ".terraformrc",
        ".vault-token",
        ".boto",
        ".s3cfg",
    ),
    *(".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".histfile"),
    *(".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".env", ".dbus", ".pki"),
    *(".oci", ".gcloud", ".databrickscfg", ".huggingface", ".cache/huggingface/token", ".kaggle"),
    *(".local/share/containers", ".subversion/auth", ".agentforge"),
)
"""Credentials and the like, by their paths below a home."""
_NAMES: Final = frozenset({".ssh", ".gnupg", ".aws", ".kube", ".agentforge"})
"""Never shown wherever they are: no component of a path may be one of them."""


@frozen(slots=False)
class PrivatePlaces:
    """The places that are never shown.

    Attributes:
        homes: Refused themselves, and with every folder that contains them.
        places: Refused in the same way and with everything in them, each with its name.
    """

    homes: tuple[Path, ...]
    places: tuple[tuple[str, Path], ...]

    def require_allowed(self, path: Path) -> Path:
        """Return the real path of a path.

        Raises:
            FolderForbidden: It is private, is in a private place, or contains one.
        """
        resolved = Path(os.path.realpath(path))
        for form in {path, resolved}:
            reason = self._reason(form)
            if reason is not None:
                raise FolderForbidden(path, resolved, reason)
        return resolved

    def require_workspace(self, path: Path) -> Path:
        """Return the real path of a workspace; it may be in a private place, but contain none.

        Raises:
            FolderForbidden: It is or contains a home, or contains a private place.
        """
        text = os.path.realpath(path)
        inside = text if text.endswith("/") else f"{text}/"
        resolved = Path(text)
        if f"\0{inside}" not in self._texts:  # this runs before every command
            return resolved
        for home in self.homes:
            if f"{home}/".startswith(inside):
                raise FolderForbidden(path, resolved, f"it is or holds the home {home}")
        for what, place in self.places:
            if str(place) != text and str(place).startswith(inside):
                raise FolderForbidden(path, resolved, f"it holds {what}")
        return resolved

    @cached_property
    def _texts(self) -> str:
        return "".join(f"\0{one}/" for one in (*self.homes, *(at for _, at in self.places)))

    def _reason(self, path: Path) -> str | None:
        named = next((part for part in path.parts if part in _NAMES), None)
        if named is not None:
            return f"{named} is private"
        for home in self.homes:
            if home.is_relative_to(path):
                return f"it is or holds the home {home}"
        for what, place in self.places:
            if path.is_relative_to(place):
                return f"it is or lies in {what}"
            if place.is_relative_to(path):
                return f"it holds {what}"
        return None


def private_places(further: Iterable[Path] = ()) -> PrivatePlaces:
    """Return the private places of this machine.

    Args:
        further: More of them, such as the sessions' directory.
    """
    homes = tuple(dict.fromkeys(_both_forms(_homes())))
    places: dict[Path, str] = {}
    for home in homes:
        for name in _SECRETS:
            if os.path.lexists(home / name):
                for form in _both_forms([home / name]):
                    places.setdefault(form, f"private files ({name})")
    for name in _SYSTEM:
        for form in _both_forms([Path(name)]):
            places.setdefault(form, name)
    for private in (*further, state_folder()):
        for form in _both_forms([private]):
            places.setdefault(form, "a folder that is kept private")
    return PrivatePlaces(homes, tuple((what, place) for place, what in places.items()))


def _both_forms(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        absolute = Path(os.path.abspath(path))
        yield absolute
        resolved = Path(os.path.realpath(absolute))
        if resolved != absolute:
            yield resolved


def _homes() -> Iterator[Path]:
    yield Path("/root")
    yield Path("/home")
    named = os.environ.get("HOME")
    if named and os.path.isabs(named) and named != "/":
        yield Path(named)
    yield from _homes_of_users()


@cache
def _homes_of_users() -> tuple[Path, ...]:
    """Return the homes of people; those of daemons are folders of the system, or none."""
    found = []
    for user in pwd.getpwall():
        home = Path(user.pw_dir)
        if (user.pw_uid == 0 or 1000 <= user.pw_uid < 65_534) and home.is_absolute():
            found.append(home)
    return tuple(home for home in found if home != Path("/"))
