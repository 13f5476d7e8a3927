"""Which files look as if they held a secret; pure. One is sent only if it is named itself."""

from __future__ import annotations

import re
from typing import Final

from ...base.path_pattern import names_any

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
    """Return whether a path is as those of secrets are: its name, or a folder that it is in."""
    *folders, name = path.lower().split("/")
    if not _FOLDERS.isdisjoint(folders):
        return True
    return names_any(_NAMES, name) and not names_any(_HARMLESS, name)


def holds_private_key(data: bytes) -> bool:
    """Return whether a file's content has the beginning of a private key."""
    return _KEY.search(data) is not None
