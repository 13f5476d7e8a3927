"""What a worker does for a submission: only what its person allowed; pure."""

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
"""The need that a worker serves if it runs command lines from submissions."""
REPOSITORY: Final = "repository"
"""The need that a worker serves if it starts sessions from repositories on its machine."""
_RECORDED: Final = "recorded"
_OTHER: Final = "other"
_KNOWN: Final = frozenset({*PROGRAMS, "openai", "anthropic", _RECORDED})


class NotAllowedHere(HarnessError, kind=ErrorKind.REFUSED, kw_only=True):
    """Base of the refusals of a worker whose own configuration does not allow what is needed."""

    needs: str
    """What is needed, in the words of the queues of workers that allow it."""


class AgentNotAllowed(NotAllowedHere, kw_only=True):
    """A submission names an agent that this worker does not run."""

    message = """this worker asks no agent {agent} for those who submit. Nothing was changed, and
    the session waits for a worker that does: {setting} in [worker] of its own configuration."""
    agent: str
    """The agent, or only its kind, because a command line may hold secrets."""

    @property
    def setting(self) -> str:
        """The setting that allows it."""
        return "agent_commands = true" if self.needs == COMMAND else f"agents = [{self.agent!r}]"


class ExecutorNotAllowed(NotAllowedHere, kw_only=True):
    """A submission names a plugin's executor, which no worker runs for submissions."""

    message = (
        f"workers run scripts in {' or '.join(ISOLATIONS)}, and not by {{executor}}: how sealed "
        "that is, nobody knows. Nothing was run; submit the workflow with another isolation."
    )
    executor: str
    needs: str = _OTHER


class RepositoryNotAllowed(NotAllowedHere, kw_only=True):
    """A submission names a repository or wheel that this worker may not read."""

    message = """this worker reads nothing of {repository} for those who submit. Nothing was
    changed, and the session waits for a worker that does: its folder in repositories in [worker] of
    its own configuration, or the folder that it is started in."""
    repository: str
    """The checkout or wheel that was named."""
    needs: str = REPOSITORY


def served_by(allowed: WorkerConfiguration) -> tuple[str, ...]:
    """Return the needs of sessions that a worker serves, as queues name them."""
    found = [_needs_of(one) for one in allowed.agents]
    if allowed.agent_commands:
        found.append(COMMAND)
    if allowed.repositories:
        found.append(REPOSITORY)
    return tuple(dict.fromkeys(found))


def granted(choice: AgentChoice, allowed: WorkerConfiguration) -> AgentChoice:
    """Return a submission's agent with only the network and variables that the worker grants.

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
    """Reject a repository outside all of these folders, after resolving links.

    Raises:
        RepositoryNotAllowed: It is outside of them.
    """
    real = Path(os.path.realpath(work_tree))
    if not any(real.is_relative_to(os.path.realpath(folder)) for folder in folders):
        raise RepositoryNotAllowed(repository=work_tree)


def _needs_of(text: str) -> str:
    """Return the kind of worker that an agent needs; never words invented by a submission."""
    name = text.partition(":")[0]
    return name if name in _KNOWN else _OTHER


def _is_named(text: str, names: Collection[str]) -> bool:
    """Return whether one of the names stands for an agent.

    A short name never stands for an address or a folder, because then the submitter would choose
    where the worker's key is sent, or what is read.
    """
    short = _needs_of(text)
    return text in names or (short in names and "@" not in text and short != _RECORDED)
