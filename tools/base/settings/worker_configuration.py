"""What the workers of a fleet do for those who submit: `[worker]` of a person's own configuration.

A submission names an agent, a repository, commands. Whose machine the worker runs on says which of
that it does; a project's file has no such section, since it may come with a clone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from .configuration_file import read_own_file
from .declared_keys import flag, read_keys, section_of, texts

SECTION: Final = "worker"


def _no_name(name: str) -> str | None:
    return None if name.isidentifier() and name.isascii() else "expected the name of a variable"


def _not_absolute(path: str) -> str | None:
    return None if os.path.isabs(path) else "expected an absolute path"


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

    agents: tuple[str, ...] = texts(converter=tuple)
    agent_commands: bool = flag()
    agent_jail: bool = flag(default=True)
    agent_network: bool = flag()
    agent_environment: tuple[str, ...] = texts(_no_name, converter=tuple)
    repositories: tuple[Path, ...] = texts(_not_absolute, converter=_paths)


def load_worker_configuration(environment: Mapping[str, str] = os.environ) -> WorkerConfiguration:
    """Read `[worker]` of the person's own `config.toml`; see `data_folder.configuration_folder`.

    No project's file is read, whatever the working directory and AGENTFORGE_CONFIG are.

    Raises:
        InvalidConfiguration: With everything that is wrong with the section.
    """
    file = read_own_file(environment)
    if file is None:
        return WorkerConfiguration()
    found: WorkerConfiguration = read_keys(
        WorkerConfiguration, section_of(file.top(), SECTION), Path()
    )
    file.require_no_faults()
    return found
