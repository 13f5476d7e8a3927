"""Project files that no agent is shown: ignored files, and those that look secret; pure.

A file that looks secret is sent only if a person names exactly this file.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

from ...base.path_pattern import matches, names_any

_MAX_RULES: Final = 2000
_MAX_RULE_CHARS: Final = 500


@frozen
class _Rule:
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


def _rule(line: str) -> _Rule | None:
    text = line.rstrip()
    if not text or text.startswith("#") or len(text) > _MAX_RULE_CHARS:
        return None
    negated = text.startswith("!")
    text = text.removeprefix("!")
    directories = text.endswith("/")
    text = text.rstrip("/")
    anchored = "/" in text
    pattern = text.removeprefix("/")
    return _Rule(pattern, negated, directories, anchored) if pattern else None


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
_KEY: Final = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----")


def looks_secret(path: str) -> bool:
    """Return whether a path looks like that of a secret, by its name or a folder above."""
    *folders, name = path.lower().split("/")
    if not _FOLDERS.isdisjoint(folders):
        return True
    return names_any(_NAMES, name) and not names_any(_HARMLESS, name)


def holds_private_key(data: bytes) -> bool:
    """Return whether a file's content contains the beginning of a private key."""
    return _KEY.search(data) is not None
