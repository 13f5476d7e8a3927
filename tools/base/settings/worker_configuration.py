"""What the workers of a fleet do for those who submit: `[worker]` of a person's own configuration.

A submission names an agent, a repository, commands. Whose machine the worker runs on says which of
that it does; a project's file has no such section, since it may come with a clone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from attrs import field, frozen

from ..reading.fields import Fields
from .configuration_file import read_own_file

SECTION: Final = "worker"


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


def _paths(values: Iterable[Path | str]) -> tuple[Path, ...]:
    return tuple(Path(value) for value in values)


@frozen(kw_only=True)
class WorkerConfiguration:
    """What a worker is allowed; a submission can't widen it.

    Attributes:
        agents: The agents that it asks, as `--agent` names them: `claude` stands for all its
            models, `claude:opus` for that one; an endpoint with an address of its own, and a
            directory of recordings, stand for themselves alone.
        agent_commands: Whether it runs a command line that a submission names as its agent.
        agent_jail: Whether agent programs and such commands run in a jail.
        agent_network: Whether they have the network there.
        agent_environment: The names of the variables that they are given there.
        repositories: Folders with the repositories that sessions may begin from, absolute.
    """

    agents: tuple[str, ...] = field(default=(), converter=_texts)
    agent_commands: bool = False
    agent_jail: bool = True
    agent_network: bool = False
    agent_environment: tuple[str, ...] = field(default=(), converter=_texts)
    repositories: tuple[Path, ...] = field(default=(), converter=_paths)


def load_worker_configuration(environment: Mapping[str, str] = os.environ) -> WorkerConfiguration:
    """Read `[worker]` of the person's own `config.toml`; see `data_folder.configuration_folder`.

    No project's file is read, whatever the working directory and AGENTFORGE_CONFIG are.

    Raises:
        InvalidConfiguration: With everything that is wrong with the section.
    """
    file = read_own_file(environment)
    if file is None:
        return WorkerConfiguration()
    found = worker_of(file.top().inner(SECTION, expected=f"a table [{SECTION}]"))
    file.require_no_faults()
    return found


def worker_of(table: Fields) -> WorkerConfiguration:
    """Read the section; what is wrong with it is added to the table's faults."""
    found = WorkerConfiguration(
        agents=table.texts("agents"),
        agent_commands=table.flag("agent_commands", default=False),
        agent_jail=table.flag("agent_jail", default=True),
        agent_network=table.flag("agent_network", default=False),
        agent_environment=table.texts("agent_environment", judge=_no_name),
        repositories=map(Path, table.texts("repositories", judge=_not_absolute)),
    )
    table.done()
    return found


def _no_name(name: str) -> str | None:
    return None if name.isidentifier() and name.isascii() else "expected the name of a variable"


def _not_absolute(path: str) -> str | None:
    return None if os.path.isabs(path) else "expected an absolute path"
