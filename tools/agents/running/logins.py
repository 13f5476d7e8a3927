"""How agent programs are logged in where they see no home, and how they say that they are not.

A variable logs a program in; where none is set, a copy of the files does that the program wrote in
the person's home when the person logged in.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

_SAID: Final = re.compile(
    r"api[ _-]?key|/login\b|not logged in|\b401\b|unauthori[sz]ed|auth method|"
    r"authentication[_ ]?(error|failed)|ProviderAuthError|OAuth token",
    re.IGNORECASE,
)
_SAID_CHARS: Final = 300
_MOST_BYTES: Final = 64 << 10


class Login(NamedTuple):
    """What logs one program in.

    Attributes:
        keys: Variables; each of them logs it in.
        more: Those that select its model, given with them.
        folder: The variable that names the program's folder, and where it is in a home otherwise.
        files: The files in that folder that log it in; the others go with the first.
        hint: What a person does; "" for a program that may need no key.
    """

    keys: tuple[str, ...]
    more: tuple[str, ...]
    folder: tuple[str, str]
    files: tuple[str, ...]
    hint: str


class LoginFiles(NamedTuple):
    """The person's login files of a program.

    Attributes:
        path: The path of the first, as a person writes it.
        files: The content of each by its path in the program's folder; none if they can't be given.
        problem: Why they can't; "" if they can.
    """

    path: str
    files: Mapping[str, bytes]
    problem: str


LOGINS: Final[Mapping[str, Login]] = MappingProxyType(
    {
        "claude": Login(
            ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
            ("ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"),
            ("CLAUDE_CONFIG_DIR", ".claude"),
            (".credentials.json",),
            "set ANTHROPIC_API_KEY or, for an account, CLAUDE_CODE_OAUTH_TOKEN to what "
            "`claude setup-token` prints",
        ),
        "codex": Login(
            ("OPENAI_API_KEY", "CODEX_API_KEY"),
            ("OPENAI_BASE_URL",),
            ("CODEX_HOME", ".codex"),
            ("auth.json",),
            "set OPENAI_API_KEY",
        ),
        "gemini": Login(
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            ("GOOGLE_GEMINI_BASE_URL", "GEMINI_MODEL"),
            ("GEMINI_CLI_HOME", ""),
            (".gemini/oauth_creds.json", ".gemini/google_accounts.json"),
            "set GEMINI_API_KEY",
        ),
        "opencode": Login(
            ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
            ("OPENCODE_API_KEY", "OPENCODE_CONFIG_CONTENT"),
            ("XDG_DATA_HOME", ".local/share"),
            ("opencode/auth.json",),
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


def login_paths(program: str) -> tuple[str, ...]:
    """Return the paths of a program's login files in its folder; empty for anything else."""
    login = LOGINS.get(program.partition(":")[0])
    return login.files if login else ()


def login_files(
    program: str, given: Collection[str], environment: Mapping[str, str] = os.environ
) -> LoginFiles | None:
    """Return the person's login files of a program, or None if one of its variables logs it in.

    Only a regular file of the person is read, of at most 64 KiB, and no link.

    Args:
        program: The program; its model may follow its name.
        given: The names of the variables that it gets.
        environment: Locates the person's home, and the program's folder.
    """
    login = LOGINS.get(program.partition(":")[0])
    if login is None or set(login.keys).intersection(given):
        return None
    variable, below = login.folder
    home = os.path.join(environment.get("HOME", ""), "")
    named = environment.get(variable, "")
    folder = named if os.path.isabs(named) else os.path.join(home, below)
    path = os.path.join(folder, login.files[0])
    shown = f"~/{path[len(home) :]}" if path.startswith(home) else path
    files = {}
    for one in login.files:
        try:
            files[one] = _own_file(os.path.join(folder, one))
        except (FileNotFoundError, NotADirectoryError):
            problem = "is not there"
        except OSError as error:
            problem = f"can't be given: {error.strerror}"
        else:
            continue
        if one == login.files[0]:
            return LoginFiles(shown, {}, problem)
    return LoginFiles(shown, files, "")


def _own_file(path: str) -> bytes:
    if not os.path.isabs(path):
        raise FileNotFoundError(path)
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        data = os.read(fd, _MOST_BYTES + 1) if stat.S_ISREG(status.st_mode) else None
    finally:
        os.close(fd)
    if data is None or status.st_uid != os.geteuid() or len(data) > _MOST_BYTES:
        raise OSError(errno.EPERM, "it is no regular file of yours of at most 64 KiB", path)
    return data


def adapted(
    program: str, given: Mapping[str, str], *, by_file: bool = False
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the variables, and the first files of its own folder, by which a program uses these.

    Codex takes a key from a variable of its own, and the address of its model from a file alone.
    Gemini CLI, given another address, takes it for a gateway's, which no key logs in; it uses its
    login files only if its settings name them.

    Args:
        program: The program; its model may follow its name.
        given: The variables that it gets.
        by_file: Whether it gets its login files.
    """
    name = program.partition(":")[0]
    files: dict[str, str] = {}
    if name == "codex":
        if "OPENAI_API_KEY" in given:
            given = {"CODEX_API_KEY": given["OPENAI_API_KEY"], **given}
        if "OPENAI_BASE_URL" in given:
            address = json.dumps(given["OPENAI_BASE_URL"])
            files["config.toml"] = f"openai_base_url = {address}\n"
    elif name == "gemini" and (by_file or "GEMINI_API_KEY" in given):
        kind = "oauth-personal" if by_file else "gemini-api-key"
        files[".gemini/settings.json"] = json.dumps({"security": {"auth": {"selectedType": kind}}})
    return given, files


def login_missing(
    program: str, given: Collection[str], environment: Mapping[str, str] = os.environ
) -> str | None:
    """Return what logs a program in, if neither a variable that it gets nor a file does."""
    found = login_files(program, given, environment)
    hint = LOGINS[program.partition(":")[0]].hint if found is not None else ""
    if found is None or found.files or not hint:
        return None
    return f"{found.path} {found.problem}. To log it in, {hint}"


def login_problem(program: str, output: str) -> str | None:
    """Return why a program can't be asked, if the output with which it ended is about its login."""
    login = LOGINS.get(program.partition(":")[0])
    if login is None or not _SAID.search(output):
        return None
    said = " ".join(output.split())[-_SAID_CHARS:]
    return f"it is not logged in ({said}); {login.hint or 'set the key of its provider'}"
