"""What `[agents]` of the project's configuration says, read only where the file has it."""

# Annotations are evaluated here: each field's would be compiled if it were a text.

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..harness.token_budget import DEFAULT_TOKEN_BUDGET
from ..project.choices import DEFAULT_PARTS

if TYPE_CHECKING:
    from ..project.configuration import Configuration

_FILE = "config.toml"


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


def read_settings(data_folder: Path) -> AgentSettings:
    """Read the settings of a project.

    Raises:
        InvalidConfiguration: The file can't be used.
    """
    found = _configuration(data_folder, b"agents", b"directory", b"store")
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


def read_briefing_shows(data_folder: Path) -> tuple[str, ...]:
    """Return what of its user's data a session's briefing shows, as the project says.

    A file that can't be used withholds no briefing: then it shows the default, as the commands do,
    and `agentforge doctor` names what is wrong.
    """
    from ..project.errors import InvalidConfiguration

    try:
        found = _configuration(data_folder, b"briefing")
    except InvalidConfiguration:
        return DEFAULT_PARTS
    return DEFAULT_PARTS if found is None else found.briefing.shows


def _configuration(data_folder: Path, *words: bytes) -> "Configuration | None":
    """Read a project's configuration; None where it has none of the words, and says no more."""
    path = data_folder / _FILE
    try:
        text = path.read_bytes()
    except OSError:
        return None
    if not any(word in text for word in words):
        return None
    from ..project.configuration import configuration_of
    from ..project.configuration_file import read_configuration_file

    file = read_configuration_file(path)
    found = configuration_of(file)
    file.require_no_faults()
    return found
