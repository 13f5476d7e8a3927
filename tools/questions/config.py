"""The configuration file: `.agentforge/config.toml`, where each key changes what it names only.

    [questions]
    directory = ".agentforge/questions"   # relative to the folder that has .agentforge
    shared = true                         # instead: one directory for all projects and programs
    max_sessions = 100                    # and the other values of QuestionsConfig, by their names
    [notify]
    bell = true
    title = true
    desktop = false
    on_question = "command"

A missing file is an empty one. An unknown section or key is an error that names the nearest one.
"""

from __future__ import annotations

import difflib
import os
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import evolve, field, fields, frozen

from ..data_folder import data_folder_above
from ..durable import FileSystem, OsFileSystem, ReadError, read_regular_file
from .errors import InvalidConfig
from .rules import QuestionsConfig
from .service import QuestionSessions
from .store import DEFAULT_BASE_DIR

DEFAULT_CONFIG_PATH: Final = Path(".agentforge/config.toml")
CONFIG_VARIABLE: Final = "AGENTFORGE_CONFIG"
"""The environment variable that names another configuration file."""
DIRECTORY_VARIABLE: Final = "AGENTFORGE_QUESTIONS"
"""The environment variable that says where the question sessions are; it beats the file."""
SHARED_VARIABLE: Final = "AUQ_SESSION_DIR"
"""The environment variable that names the shared directory, for both programs."""
_MAX_BYTES: Final = 1024 * 1024


@frozen(kw_only=True)
class NotifyConfig:
    """How a person is notified of a new question.

    Attributes:
        bell: Ring the terminal's bell.
        title: Set the terminal's title.
        desktop: Show a desktop notification through `notify-send`, where that is installed.
        on_question: A command line for `sh -c`, or None; see `questions.notify`.
    """

    bell: bool = True
    title: bool = True
    desktop: bool = False
    on_question: str | None = None

    def __attrs_post_init__(self) -> None:
        faults = [
            f"{name}: expected true or false, got {getattr(self, name)!r}"
            for name in ("bell", "title", "desktop")
            if not isinstance(getattr(self, name), bool)
        ]
        command: object = self.on_question
        if command is not None and not (isinstance(command, str) and command.strip()):
            faults.append(f"on_question: expected a command, got {command!r}")
        if faults:
            raise InvalidConfig(faults)


@frozen(kw_only=True)
class Config:
    """Everything that the configuration file says.

    Attributes:
        directory: Where the question sessions are, or None for the default place.
        questions: Limits and times of question sessions.
        notify: How a person is notified.
    """

    directory: Path | None = None
    questions: QuestionsConfig = field(factory=QuestionsConfig)
    notify: NotifyConfig = field(factory=NotifyConfig)


def shared_directory(
    environment: Mapping[str, str] = os.environ,
    *,
    platform: str = sys.platform,
    home: Path | None = None,
) -> Path:
    """Return the directory of questions that all projects and programs of this user share.

    It is that of ask-user-questions-mcp, which writes the same files: either program answers what
    the other one asked.

    Args:
        environment: The environment variables.
        platform: The operating system, as `sys.platform` names it.
        home: The user's own directory; the one of this user if None.
    """
    own = home if home is not None else Path.home()
    named = environment.get(SHARED_VARIABLE)
    if named:
        return own / named[1:].lstrip("/") if named.startswith("~") else Path(named)
    return _data_directory(environment, platform, own) / "auq" / "sessions"


def _data_directory(environment: Mapping[str, str], platform: str, home: Path) -> Path:
    if platform == "darwin":
        return home / "Library" / "Application Support"
    if platform == "win32":
        return Path(environment.get("APPDATA") or environment.get("USERPROFILE") or home)
    return Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")


def load_config(
    path: Path | str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    fs: FileSystem | None = None,
) -> Config:
    """Read the configuration.

    Args:
        path: The file; by default what AGENTFORGE_CONFIG names, else `.agentforge/config.toml` in
            the working directory or, where that is a folder of a project, in the project's. A file
            that was named must exist.
        environment: The environment variables.
        fs: The file system.

    Raises:
        InvalidConfig: With everything that is wrong with it.
    """
    named = path if path is not None else environment.get(CONFIG_VARIABLE) or None
    project = None if named is not None else data_folder_above(Path.cwd())
    where = Path(named) if named is not None else DEFAULT_CONFIG_PATH
    if project is not None:
        where = project / where.name
    try:
        data = read_regular_file(
            fs if fs is not None else OsFileSystem(), str(where), path=where, max_bytes=_MAX_BYTES
        )
    except ReadError as error:
        raise InvalidConfig([str(error)], path=where) from error
    if data is None:
        if named is not None:
            raise InvalidConfig(["there is no such file"], path=where)
        data = b""
    config = _parse(data, where, environment)
    directory = environment.get(DIRECTORY_VARIABLE)
    if directory:
        return evolve(config, directory=Path(directory))
    if project is not None:
        said = config.directory or DEFAULT_BASE_DIR
        return evolve(config, directory=project.parent / said)
    return config


def _parse(data: bytes, path: Path, environment: Mapping[str, str]) -> Config:
    try:
        document = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidConfig([f"it is no TOML: {error}"], path=path) from error
    faults = _unknown("", document, ["questions", "notify"])
    sections = {}
    for name in ("questions", "notify"):
        section = document.get(name, {})
        if not isinstance(section, dict):
            faults.append(f"{name}: expected a section [{name}], got {section!r}")
            section = {}
        sections[name] = dict(section)
    directory = sections["questions"].pop("directory", None)
    if directory is not None and not (isinstance(directory, str) and directory.strip()):
        faults.append(f"questions.directory: expected a path, got {directory!r}")
        directory = None
    shared = sections["questions"].pop("shared", False)
    if not isinstance(shared, bool):
        faults.append(f"questions.shared: expected true or false, got {shared!r}")
    elif shared and directory is not None:
        faults.append("questions.shared: it names another place than questions.directory")
    elif shared:
        directory = str(shared_directory(environment))
    others = ["directory", "shared"]
    questions = _build("questions", QuestionsConfig, sections["questions"], faults, others)
    notify = _build("notify", NotifyConfig, sections["notify"], faults, [])
    if faults or questions is None or notify is None:
        raise InvalidConfig(faults, path=path)
    return Config(
        directory=None if directory is None else Path(directory), questions=questions, notify=notify
    )


def _build(
    section: str, kind: Any, values: dict[str, Any], faults: list[str], others: list[str]
) -> Any:
    known = [one.name for one in fields(kind)]
    faults += _unknown(f"{section}.", values, known + others)
    try:
        return kind(**{name: value for name, value in values.items() if name in known})
    except InvalidConfig as error:
        faults += [f"{section}.{fault}" for fault in error.faults]
        return None


def _unknown(prefix: str, given: Iterable[str], known: list[str]) -> list[str]:
    faults = []
    for name in given:
        if name in known:
            continue
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}"
        faults.append(f"{prefix}{name}: there is no such key; {hint}")
    return faults


def open_sessions(
    directory: Path | str | None = None, *, config: Config | None = None, **given: Any
) -> QuestionSessions:
    """Make the service as the configuration says.

    Args:
        directory: Where the sessions are; as the configuration says if None.
        config: The configuration; read if None.
        **given: More for `QuestionSessions`, as a clock.

    Raises:
        InvalidConfig: The configuration can't be used.
    """
    chosen = config if config is not None else load_config()
    base = directory if directory is not None else chosen.directory
    return QuestionSessions(base, config=chosen.questions, **given)
