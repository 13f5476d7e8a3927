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
    events = ["session.completed"]        # what else to notify of, besides questions
    on_event = "command"

`base.settings.configuration` reads the other sections of the file. A missing file counts as empty.
An unknown section or key is an error that names the nearest one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from attrs import evolve, field, fields, frozen

from ..base.data_folder import find_data_folder, folder_apart, project_folder
from ..base.files import FileSystem
from ..base.reading.fields import Fields
from ..base.settings.configuration_file import (
    DEFAULT_PATH,
    ConfigurationFile,
    InvalidConfiguration,
    read_configuration_file,
)
from .errors import InvalidConfig
from .files.session_files import DEFAULT_BASE_DIR
from .rules import QuestionsConfig
from .service import QuestionSessions

_Section = TypeVar("_Section", QuestionsConfig, "NotifyConfig")
DEFAULT_CONFIG_PATH: Final = DEFAULT_PATH
DIRECTORY_VARIABLE: Final = "AGENTFORGE_QUESTIONS"
"""The environment variable with the directory of the question sessions; it overrides the file."""
SHARED_VARIABLE: Final = "AUQ_SESSION_DIR"
"""The environment variable that names the shared directory, for both programs."""


DEFAULT_EVENTS: Final = ("session.paused", "session.completed", "session.aborted")
"""The session events that a person is notified of, where the configuration names none."""


def _as_names(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@frozen(kw_only=True)
class NotifyConfig:
    """How a person is notified of new questions and of session events.

    Attributes:
        bell: Ring the terminal's bell.
        title: Set the terminal's title.
        desktop: Show a desktop notification through `notify-send`, where that is installed.
        on_question: A command line for `sh -c`, or None; see `questions.notify`.
        events: The session events to notify of, by `desktop` and `on_event`; `*` matches any part
            of a name.
        on_event: A command line for `sh -c`, or None; see `integrations.observers.person_observer`.
    """

    bell: bool = True
    title: bool = True
    desktop: bool = False
    on_question: str | None = None
    events: tuple[str, ...] = field(default=DEFAULT_EVENTS, converter=_as_names)
    on_event: str | None = None

    def __attrs_post_init__(self) -> None:
        faults = [
            f"{name}: expected true or false, got {getattr(self, name)!r}"
            for name in ("bell", "title", "desktop")
            if not isinstance(getattr(self, name), bool)
        ]
        for name in ("on_question", "on_event"):
            command: object = getattr(self, name)
            if command is not None and not (isinstance(command, str) and command.strip()):
                faults.append(f"{name}: expected a command, got {command!r}")
        events: object = self.events
        if not isinstance(events, tuple) or not all(isinstance(one, str) for one in events):
            faults.append(f"events: expected a list of names, got {events!r}")
        if faults:
            raise InvalidConfig(faults)


@frozen(kw_only=True)
class Config:
    """The configuration file's sections about questions.

    Attributes:
        directory: The directory of the question sessions, or None for the default.
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

    It is that of ask-user-questions-mcp, which writes the same files: either program answers the
    questions of the other.

    Args:
        environment: The environment variables.
        platform: The operating system, as `sys.platform` names it.
        home: The user's home directory; that of this user if None.
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
        path: The file; by default the one that AGENTFORGE_CONFIG names, else
            `.agentforge/config.toml` in the working directory or, where that is a folder of a
            project, in the project's. A file that was named must exist. A repository without
            `.agentforge` gets no directory: its questions are in the person's folder for it.
        environment: The environment variables.
        fs: The file system.

    Raises:
        InvalidConfig: It names every fault.
    """
    try:
        file = read_configuration_file(path, environment=environment, fs=fs)
    except InvalidConfiguration as error:
        raise InvalidConfig(error.faults, path=error.path) from error
    if file.own is not None:
        _checked(file.own, environment)
    config = _checked(file, environment)
    directory = environment.get(DIRECTORY_VARIABLE)
    if directory:
        return evolve(config, directory=Path(directory))
    if config.directory is None:
        inside = file.root / DEFAULT_BASE_DIR
        if inside.is_symlink() or inside.parent.is_symlink():  # no link redirects questions
            apart = folder_apart(Path.cwd() / file.root, environment) / DEFAULT_BASE_DIR.name
            return evolve(config, directory=apart)
        project = project_folder(Path.cwd(), environment)
        if project is not None and find_data_folder(Path.cwd()) is None:  # as the sessions are
            return evolve(config, directory=project / DEFAULT_BASE_DIR.name)
    if file.above:
        return evolve(config, directory=file.root / (config.directory or DEFAULT_BASE_DIR))
    return config


def _checked(file: ConfigurationFile, environment: Mapping[str, str]) -> Config:
    file.refuse_unknown_sections()
    config = config_of(file, environment)
    if config is None or file.faults:
        raise InvalidConfig(file.faults.sorted(), path=file.path)
    return config


def config_of(
    file: ConfigurationFile, environment: Mapping[str, str] = os.environ
) -> Config | None:
    """Read the sections of questions; add their faults to those of the file."""
    before = len(file.faults)
    top = file.top()
    asking, notifying = (
        top.inner(name, expected=f"a section [{name}]") for name in ("questions", "notify")
    )
    directory = asking.text("directory")
    if asking.flag("shared"):
        if directory is not None:
            asking.fault("shared", "it names another place than questions.directory")
        directory = str(shared_directory(environment))
    questions, notify = _built(QuestionsConfig, asking), _built(NotifyConfig, notifying)
    if len(file.faults) > before or questions is None or notify is None:
        return None
    return Config(
        directory=None if directory is None else Path(directory), questions=questions, notify=notify
    )


def _built(kind: type[_Section], table: Fields) -> _Section | None:
    """Build the value of a section, which checks its fields."""
    given = {name: table.take(name) for name in [one.name for one in fields(kind)]}
    table.done()
    try:
        return kind(**{name: one for name, one in given.items() if one is not None})
    except InvalidConfig as error:
        for fault in error.faults:
            name, _, problem = fault.partition(": ")
            table.fault(name, problem)
    return None


def open_sessions(
    directory: Path | str | None = None, *, config: Config | None = None, **given: Any
) -> QuestionSessions:
    """Return the service, set up by the configuration.

    Args:
        directory: The directory of the sessions; the configured one if None.
        config: The configuration; read if None.
        **given: More arguments for `QuestionSessions`, such as a clock.

    Raises:
        InvalidConfig: The configuration can't be used.
    """
    chosen = config if config is not None else load_config()
    base = directory if directory is not None else chosen.directory
    return QuestionSessions(base, config=chosen.questions, **given)
