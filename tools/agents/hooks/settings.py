"""The `[agents]` section of the project's configuration, read only if the file has one."""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...base.data_folder import configuration_folder, read_plain
from ...base.settings.choices import DEFAULT_AGENT_BUDGET, DEFAULT_PARTS

if TYPE_CHECKING:
    from ...base.settings.configuration import Configuration

_FILE = "config.toml"
_MOST_BYTES = 1024 * 1024


class AgentSettings(NamedTuple):
    """The hook's settings, beyond recording.

    Attributes:
        sessions: The directory of the sessions, or None for the default one.
        store: The address of the store that they are in, or None for that directory's files.
        objects: The address of the object store of their files, or None.
        create: Whether a prompt creates a session if the branch has no open one.
        token_budget: The budget of such a session, in tokens.
        gate: The command that judges the end of a turn, or None.
        gate_rounds: How often, at most, the gate sends the agent back to work for one prompt.
        gate_timeout_s: The gate's time limit, in seconds.
    """

    sessions: Path | None = None
    store: str | None = None
    objects: str | None = None
    create: bool = True
    token_budget: int = DEFAULT_AGENT_BUDGET
    gate: str | None = None
    gate_rounds: int = 3
    gate_timeout_s: float = 300.0


def read_settings(data_folder: Path, environment: Mapping[str, str] = os.environ) -> AgentSettings:
    """Read the settings that apply in a project: the person's own, and what they trust of its file.

    Raises:
        InvalidConfiguration: The file can't be used.
    """
    if not _has(data_folder, environment, b"agents", b"directory", b"store"):
        return AgentSettings()
    found = _configuration(data_folder, environment)
    agents, gate = found.agents, found.gate
    sessions = found.sessions
    if sessions is not None and not sessions.is_absolute():
        sessions = data_folder.parent / sessions
    return AgentSettings(
        sessions=sessions,
        store=found.store.url,
        objects=found.store.objects,
        create=agents.create,
        token_budget=agents.token_budget,
        gate=gate.command if agents.gate else None,
        gate_rounds=agents.gate_rounds,
        gate_timeout_s=gate.timeout_s or 300.0,
    )


def read_left_out(
    data_folder: Path, environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Return the keys of a project's file that do not apply because the person has not trusted it.

    Empty for a file that can't be used: its faults are reported elsewhere.
    """
    if not os.path.lexists(data_folder / _FILE):
        return ()
    from ...base.settings.configuration_file import InvalidConfiguration, read_configuration_file

    try:
        return read_configuration_file(folder=data_folder.parent, environment=environment).left_out
    except InvalidConfiguration:
        return ()


def names_receivers(data_folder: Path, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the settings that apply in a project name receivers of events."""
    if not _has(data_folder, environment, b"webhooks"):
        return False
    from ...base.settings.configuration_file import InvalidConfiguration, read_configuration_file

    try:
        file = read_configuration_file(folder=data_folder.parent, environment=environment)
    except InvalidConfiguration:
        return False
    return bool(file.values.get("webhooks"))


def read_briefing_shows(
    data_folder: Path, environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Return which parts of its user's data a session's briefing shows, by the project's file.

    A file that can't be used does not suppress the briefing: it then shows the default, as the
    commands do, and `agentforge doctor` reports the fault.
    """
    if not _has(data_folder, environment, b"briefing"):
        return DEFAULT_PARTS  # before the module of the error is loaded, which takes long
    from ...base.settings.configuration_file import InvalidConfiguration

    try:
        return _configuration(data_folder, environment).briefing.shows
    except InvalidConfiguration:
        return DEFAULT_PARTS


def _configuration(data_folder: Path, environment: Mapping[str, str]) -> "Configuration":
    """Read the settings that apply in a project."""
    from ...base.settings.configuration import checked_configuration
    from ...base.settings.configuration_file import InvalidConfiguration, read_configuration_file

    try:
        file = read_configuration_file(folder=data_folder.parent, environment=environment)
    except InvalidConfiguration:  # a broken project file does not disable the person's own settings
        file = read_configuration_file(folder=Path(os.devnull), environment=environment)
    return checked_configuration(file)


def _has(data_folder: Path, environment: Mapping[str, str], *words: bytes) -> bool:
    files = (data_folder / _FILE, configuration_folder(environment) / _FILE)
    return any(word in text for text in map(_text_of, files) for word in words)


def _text_of(path: Path) -> bytes:
    try:
        return read_plain(os.fspath(path), most=_MOST_BYTES)
    except OSError:
        return b""
