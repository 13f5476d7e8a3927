"""What a fleet's workers do for submitters: `[worker]` of a person's own configuration.

A submission names an agent, a repository, commands. The owner of the worker's machine decides which
of these it accepts; a project's file has no such section, since it may come with a clone.
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
    """The permissions of a worker; a submission can't extend them.

    Attributes:
        agents: The agents that it uses, as `--agent` names them: `claude` allows all its models,
            `claude:opus` that one; an endpoint with an address of its own, and a directory of
            recordings, must be named exactly.
        agent_commands: Whether it runs a command line that a submission names as its agent.
        agent_jail: Whether agent programs and such commands run in a jail.
        agent_network: Whether they have the network there.
        agent_environment: The names of the variables that they get there.
        repositories: Folders with the repositories that sessions may start from, absolute.
    """

    agents: tuple[str, ...] = texts(converter=tuple)
    agent_commands: bool = flag()
    agent_jail: bool = flag(default=True)
    agent_network: bool = flag()
    agent_environment: tuple[str, ...] = texts(_no_name, converter=tuple)
    repositories: tuple[Path, ...] = texts(_not_absolute, converter=_paths)


def load_worker_configuration(environment: Mapping[str, str] = os.environ) -> WorkerConfiguration:
    """Read `[worker]` of the person's own `config.toml`; see `data_folder.configuration_folder`.

    Project files are ignored, regardless of the working directory and AGENTFORGE_CONFIG.

    Raises:
        InvalidConfiguration: With all faults of the section.
    """
    file = read_own_file(environment)
    if file is None:
        return WorkerConfiguration()
    found: WorkerConfiguration = read_keys(
        WorkerConfiguration, section_of(file.top(), SECTION), Path()
    )
    file.require_no_faults()
    return found
