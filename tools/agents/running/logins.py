"""How agent programs are logged in where they see no home, and how they say that they are not."""

from __future__ import annotations

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
