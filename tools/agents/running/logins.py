"""How agent programs are logged in where they see no home, and how they say that they are not."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

_SAID: Final = re.compile(
    r"api[ _-]?key|/login\b|not logged in|\b401\b|unauthori[sz]ed|auth method|"
    r"authentication[_ ]?(error|failed)|ProviderAuthError|OAuth token",
    re.IGNORECASE,
)
_SAID_CHARS: Final = 300


class Login(NamedTuple):
    """The variables of one program.

    Attributes:
        keys: Each of them logs it in.
        more: Those that select its model, given with them.
        hint: What a person does; "" for a program that may need no key.
    """

    keys: tuple[str, ...]
    more: tuple[str, ...]
    hint: str


LOGINS: Final[Mapping[str, Login]] = MappingProxyType(
    {
        "claude": Login(
            ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
            ("ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"),
            "set ANTHROPIC_API_KEY or, for an account, CLAUDE_CODE_OAUTH_TOKEN to what "
            "`claude setup-token` prints",
        ),
        "codex": Login(
            ("OPENAI_API_KEY", "CODEX_API_KEY"), ("OPENAI_BASE_URL",), "set OPENAI_API_KEY"
        ),
        "gemini": Login(
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            ("GOOGLE_GEMINI_BASE_URL", "GEMINI_MODEL"),
            "set GEMINI_API_KEY",
        ),
        "opencode": Login(
            ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
            ("OPENCODE_API_KEY", "OPENCODE_CONFIG_CONTENT"),
            "",
        ),
    }
)
"""By the program's name."""


def variables_of(program: str, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the names of the set variables that a program needs; its model may follow its name.

    Empty for anything else than a program.
    """
    login = LOGINS.get(program.partition(":")[0])
    return tuple(one for one in (*login.keys, *login.more) if environment.get(one)) if login else ()


def adapted(program: str, given: Mapping[str, str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the variables, and the first files of its own folder, by which a program uses these.

    Codex takes a key from a variable of its own, and the address of its model from a file alone.
    Gemini CLI, given another address, takes it for a gateway's, which no key logs in.
    """
    name = program.partition(":")[0]
    files: dict[str, str] = {}
    if name == "codex":
        if "OPENAI_API_KEY" in given:
            given = {"CODEX_API_KEY": given["OPENAI_API_KEY"], **given}
        if "OPENAI_BASE_URL" in given:
            address = json.dumps(given["OPENAI_BASE_URL"])
            files["config.toml"] = f"openai_base_url = {address}\n"
    elif name == "gemini" and "GEMINI_API_KEY" in given:
        login = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
        files[".gemini/settings.json"] = json.dumps(login)
    return given, files


def login_missing(program: str, given: Collection[str]) -> str | None:
    """Return what logs a program in, if no variable that it gets does; else None."""
    login = LOGINS.get(program.partition(":")[0])
    return None if login is None or set(login.keys).intersection(given) else login.hint or None


def login_problem(program: str, output: str) -> str | None:
    """Return why a program can't be asked, if the output with which it ended is about its login."""
    login = LOGINS.get(program.partition(":")[0])
    if login is None or not _SAID.search(output):
        return None
    said = " ".join(output.split())[-_SAID_CHARS:]
    return f"it is not logged in ({said}); {login.hint or 'set the key of its provider'}"
