"""What a worker does of what a submission asks for: that alone which its person allowed; pure."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from attrs import evolve

from ..base.errors import ErrorKind
from ..base.settings.choices import ISOLATIONS
from ..base.settings.worker_configuration import WorkerConfiguration
from ..harness import HarnessError
from .agents.choice import PROGRAMS
from .agents.port import AgentChoice

COMMAND: Final = "command"
"""What a worker serves that runs command lines of submissions."""
REPOSITORY: Final = "repository"
"""What a worker serves on whose machine sessions may begin from repositories."""
_RECORDED: Final = "recorded"
_OTHER: Final = "other"
_KNOWN: Final = frozenset({*PROGRAMS, "openai", "anthropic", _RECORDED})


class NotAllowedHere(HarnessError, kind=ErrorKind.REFUSED, kw_only=True):
    """Base of the refusals of a worker whose own configuration does not allow what is needed."""

    needs: str
    """What, as the queues of the workers that allow it have it."""


class AgentNotAllowed(NotAllowedHere, kw_only=True):
    """A submission names an agent that this worker does not run."""

    message = """this worker asks no agent {agent} for those who submit. Nothing was changed, and
    the session waits for a worker that does: {setting} in [worker] of its own configuration."""
    agent: str
    """The agent, or what kind it is of: a command line may hold secrets."""

    @property
    def setting(self) -> str:
        """What allows it."""
        return "agent_commands = true" if self.needs == COMMAND else f"agents = [{self.agent!r}]"


class ExecutorNotAllowed(NotAllowedHere, kw_only=True):
    """A submission names an executor of a plugin, which no worker runs for those who submit."""

    message = (
        f"workers run scripts in {' or '.join(ISOLATIONS)}, and not by {{executor}}: how sealed "
        "that is, nobody knows. Nothing was run; submit the workflow with another isolation."
    )
    executor: str
    needs: str = _OTHER


class RepositoryNotAllowed(NotAllowedHere, kw_only=True):
    """A submission names a repository or wheel of this machine that the worker does not read."""

    message = """this worker reads nothing of {repository} for those who submit. Nothing was
    changed, and the session waits for a worker that does: its folder in repositories in [worker] of
    its own configuration, or the folder that it is started in."""
    repository: str
    """The checkout or wheel that was named."""
    needs: str = REPOSITORY


def served_by(allowed: WorkerConfiguration) -> tuple[str, ...]:
    """Return what sessions may need that a worker takes, as their queues have it."""
    found = [_needs_of(one) for one in allowed.agents]
    if allowed.agent_commands:
        found.append(COMMAND)
    if allowed.repositories:
        found.append(REPOSITORY)
    return tuple(dict.fromkeys(found))


def granted(choice: AgentChoice, allowed: WorkerConfiguration) -> AgentChoice:
    """Return the agent that a submission names, with what the worker gives it and nothing else.

    Raises:
        AgentNotAllowed: The worker does not run it.
    """
    if choice.kind == "command":
        if not allowed.agent_commands:
            raise AgentNotAllowed(agent="by a command line", needs=COMMAND)
    elif not _is_named(choice.text, allowed.agents):
        raise AgentNotAllowed(agent=choice.text, needs=_needs_of(choice.text))
    return evolve(choice, network=allowed.agent_network, environment=allowed.agent_environment)


def require_repository(work_tree: str, folders: Collection[Path]) -> None:
    """Refuse a repository that lies in none of these folders, links followed.

    Raises:
        RepositoryNotAllowed: It does not.
    """
    real = Path(os.path.realpath(work_tree))
    if not any(real.is_relative_to(os.path.realpath(folder)) for folder in folders):
        raise RepositoryNotAllowed(repository=work_tree)


def _needs_of(text: str) -> str:
    """Return what kind of worker takes an agent: never words that a submission has made up."""
    name = text.partition(":")[0]
    return name if name in _KNOWN else _OTHER


def _is_named(text: str, names: Collection[str]) -> bool:
    """Return whether one of the names stands for an agent.

    A short name never stands for an address or a folder: what is sent there, or read, is the
    submitter's choice then, and the worker's key would go along.
    """
    short = _needs_of(text)
    return text in names or (short in names and "@" not in text and short != _RECORDED)
