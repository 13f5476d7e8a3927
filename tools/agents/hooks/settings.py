"""What `[agents]` of the project's configuration says, read only where the file has it."""

# Annotations are evaluated here: each field's would be compiled if it were a text.

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...base.data_folder import configuration_folder, read_plain
from ...base.settings.choices import DEFAULT_PARTS
from ...harness.domain.token_budget import DEFAULT_TOKEN_BUDGET

if TYPE_CHECKING:
    from ...base.settings.configuration import Configuration

_FILE = "config.toml"
_MOST_BYTES = 1024 * 1024


class AgentSettings(NamedTuple):
    """What the hook does beyond recording.

    Attributes:
        sessions: The directory of the sessions, or None for the default one.
        store: The address of the store that they are in, or None: they are in its files.
        create: Whether a prompt begins a session where the project has no open one.
        token_budget: The budget of such a session, in tokens.
        gate: The command that judges the end of a turn, or None.
        gate_rounds: How often a prompt's work is sent on by it, at most.
        gate_timeout_s: Its time limit, in seconds.
    """

    sessions: Path | None = None
    store: str | None = None
    create: bool = False
    token_budget: int = DEFAULT_TOKEN_BUDGET
    gate: str | None = None
    gate_rounds: int = 3
    gate_timeout_s: float = 300.0


def read_settings(data_folder: Path, environment: Mapping[str, str] = os.environ) -> AgentSettings:
    """Read the settings that hold in a project: the person's own, and what they trust of its file.

    Raises:
        InvalidConfiguration: The file can't be used.
    """
    found = _configuration(data_folder, environment, b"agents", b"directory", b"store")
    if found is None:
        return AgentSettings()
    agents, gate = found.agents, found.gate
    sessions = found.sessions
    if sessions is not None and not sessions.is_absolute():
        sessions = data_folder.parent / sessions
    return AgentSettings(
        sessions=sessions,
        store=found.store.url,
        create=agents.create,
        token_budget=agents.token_budget,
        gate=gate.command if agents.gate else None,
        gate_rounds=agents.gate_rounds,
        gate_timeout_s=gate.timeout_s or 300.0,
    )


def read_left_out(
    data_folder: Path, environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Return the keys of a project's file that do not hold, since the person has not trusted it.

    A file that can't be used has none: what is wrong with it is said elsewhere.
    """
    from ...base.settings.errors import InvalidConfiguration

    if not os.path.lexists(data_folder / _FILE):
        return ()
    from ...base.settings.configuration_file import read_configuration_file

    try:
        return read_configuration_file(folder=data_folder.parent, environment=environment).left_out
    except InvalidConfiguration:
        return ()


def names_receivers(data_folder: Path, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether what holds in a project names receivers of events."""
    if not _has(data_folder, environment, b"webhooks"):
        return False
    from ...base.settings.configuration_file import read_configuration_file
    from ...base.settings.errors import InvalidConfiguration

    try:
        file = read_configuration_file(folder=data_folder.parent, environment=environment)
    except InvalidConfiguration:
        return False
    return bool(file.values.get("webhooks"))


def read_briefing_shows(
    data_folder: Path, environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Return what of its user's data a session's briefing shows, as the project says.

    A file that can't be used withholds no briefing: then it shows the default, as the commands do,
    and `agentforge doctor` names what is wrong.
    """
    from ...base.settings.errors import InvalidConfiguration

    try:
        found = _configuration(data_folder, environment, b"briefing")
    except InvalidConfiguration:
        return DEFAULT_PARTS
    return DEFAULT_PARTS if found is None else found.briefing.shows


def _configuration(
    data_folder: Path, environment: Mapping[str, str], *words: bytes
) -> "Configuration | None":
    """Read what holds in a project; None where no file has any of the words, and says no more."""
    if not _has(data_folder, environment, *words):
        return None
    from ...base.settings.configuration import checked_configuration
    from ...base.settings.configuration_file import read_configuration_file
    from ...base.settings.errors import InvalidConfiguration

    try:
        file = read_configuration_file(folder=data_folder.parent, environment=environment)
    except InvalidConfiguration:  # a project's file takes nothing away from what is the person's
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
