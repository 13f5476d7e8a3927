"""What a task begins with: the check that judges it, the agent that does it, what is left out."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import evolve, field, frozen

from ....agents.running.logins import login_missing, variables_of
from ....base.files import OsFileSystem
from ....base.files.filesystem import DIRECTORY_FLAGS
from ....base.settings.beginnings.beginnings import beginning_of
from ....base.settings.beginnings.detection import OpenFolder, detect_project
from ....base.settings.configuration import Configuration, GateConfiguration, ProjectFacts
from ....workflows.agents.choice import PROGRAMS, is_program
from ....workflows.builtin import UNCHECKED
from ....workflows.workflow import DEFAULT_GATE_DEADLINE_S, Gate
from ..context import Cli
from ..options import misuse, option
from .agent_options import NO_JAIL, NO_WAIT, AgentOptions

if TYPE_CHECKING:
    from ....repository.git.git_repositories import UserRepository

NO_CHECK: Final = "none"
"""The name that means no check."""
_REPORTS: Final = (
    (re.compile(r"\bpytest\b"), "junit"),
    (re.compile(r"[-=]tap\b"), "tap"),
)
_FIRST_WORD: Final = re.compile(r"[\w.-]+")


@frozen(kw_only=True)
class FoundCheck:
    """The check of a task, and what its command needs.

    Attributes:
        gate: The gate that judges; `UNCHECKED` for none.
        facts: The kind of project.
        mounts: Folders of the checkout that it needs besides the commit, relative.
        because: Where the command comes from, in words; None if the person named it.
    """

    gate: Gate
    facts: ProjectFacts = field(factory=ProjectFacts)
    mounts: tuple[str, ...] = ()
    because: str | None = None

    @property
    def import_root(self) -> str | None:
        """The folder where imports of a Python project begin, or None."""
        return self.facts.source if self.facts.language == "python" else None


def find_check(
    configuration: Configuration, top: Path, named: str | None, *, timeout_s: float | None = None
) -> FoundCheck:
    """Return the check of a task: the named one, else the configuration's, else the detected one.

    Nothing is run.

    Args:
        configuration: The configuration, with what the person trusts of it.
        top: The checkout.
        named: The person's command, `NO_CHECK` or None.
        timeout_s: Its time limit, in seconds, or None for the usual one.

    Raises:
        typer.BadParameter: There is none, or it is no command.
    """
    facts, detected, mounts, files = _detected(top)
    said = configuration.gate
    because: str | None = f"{configuration.path} says so"
    if named == NO_CHECK:
        return FoundCheck(gate=UNCHECKED, facts=facts, mounts=mounts)
    if named is not None:
        said, because = GateConfiguration(command=named, report=_report_of(named)), None
    elif said.command is None and configuration.project.test is not None:
        test = configuration.project.test
        said = GateConfiguration(command=test, report=_report_of(test))
    elif said.command is None:
        said, because = detected, f"found in {', '.join(files)}"
    if said.command is None:
        raise misuse(
            "--check",
            "no command is known that tests this project; name one, as in --check 'npm test', or "
            "--check none to have the result unchecked. Nothing was started",
        )
    gate = Gate(
        kind="tests_pass",
        command=said.command,
        report=said.report,
        report_path=said.report_path,
        deadline_s=timeout_s or configuration.gate.timeout_s or DEFAULT_GATE_DEADLINE_S,
    )
    return FoundCheck(gate=gate, facts=facts, mounts=mounts, because=because)


def _detected(
    top: Path,
) -> tuple[ProjectFacts, GateConfiguration, tuple[str, ...], Sequence[str]]:
    """Return the kind of project, its test command, the folders it needs, and the evidence."""
    fs = OsFileSystem()
    fd = os.open(top, DIRECTORY_FLAGS & ~os.O_NOFOLLOW)
    try:
        folder = OpenFolder(fs, fd, top)
        found = detect_project(folder)
        beginning = beginning_of(folder, found.facts)
    finally:
        os.close(fd)
    gate = beginning.gate
    if found.facts.test is None or gate is None:
        test = found.facts.test
        if test is not None and test.startswith("pytest") and ".venv" in beginning.mounts:
            test = f".venv/bin/python -m {test}"
        report = "exit-code" if test is None else _report_of(test)
        gate = GateConfiguration(command=test, report=report)
    return found.facts, gate, beginning.mounts, found.because


def _report_of(command: str) -> str:
    """Return what can be read of a command that a person wrote."""
    return next((kind for form, kind in _REPORTS if form.search(command)), "exit-code")


def find_agent(
    configuration: Configuration,
    named: str | None,
    *,
    on_path: Callable[[str], str | None] = shutil.which,
    choose: Callable[[Sequence[str]], str] | None = None,
) -> str:
    """Return the agent of a task: the named one, else the configuration's, else a program on PATH.

    Args:
        configuration: The configuration, with what the person trusts of it.
        named: The person's agent, or None.
        on_path: Finds a program.
        choose: Asks the person which of several programs to take; None if nobody can be asked.

    Raises:
        typer.BadParameter: There is no program, or there are several and nobody can be asked.
    """
    said = configuration.run
    if named is not None:
        return named
    if said.agent is not None:
        first = _FIRST_WORD.match(said.agent)
        edits = said.agent_mode == "edit" or is_program(said.agent)
        if edits or said.agent.startswith("recorded:"):
            return said.agent
        if first is not None and first[0] in PROGRAMS:
            return first[0]
    found = [name for name in PROGRAMS if on_path(name) is not None]
    if not found:
        raise misuse(
            "--agent",
            f"no agent program is on PATH: none of {', '.join(PROGRAMS)}. Install one, or name a "
            "command that edits files, as in --agent 'aider --yes-always --message-file "
            "{prompt_file}'. Nothing was started",
        )
    if len(found) == 1:
        return found[0]
    if choose is None:
        raise misuse(
            "--agent",
            f"{', '.join(found)} are on PATH, and nobody can be asked which one to take; name it, "
            f"as in --agent {found[0]}, or have your configuration do it (agent in [run]). "
            "Nothing was started",
        )
    return choose(found)


@frozen
class TaskAgent:
    """Options for the agent of a task.

    Attributes:
        agent: claude, codex, gemini or opencode, with :MODEL for one of its models; or a command
            that edits files. The one on PATH by default.
        agent_network: Whether it has the network; a program has it by default, a command has not.
        agent_env: Give it this environment variable, too; may be repeated.
    """

    agent: str | None = option("--agent AGENT")
    agent_network: bool | None = option("--agent-network/--no-agent-network")
    agent_env: list[str] | None = option("--agent-env NAME")
    no_jail: bool = NO_JAIL
    no_wait: bool = NO_WAIT

    def options(self, cli: Cli) -> AgentOptions:
        """Return the options of an agent that edits in place.

        Raises:
            typer.BadParameter: There is no agent, or it can't be logged in.
        """
        configured = cli.configuration.run

        def choose(found: Sequence[str]) -> str:
            keys = {str(number): name for number, name in enumerate(found, 1)}
            listed = ", ".join(f"{key}) {name}" for key, name in keys.items())
            return keys[cli.output.choose(f"Which agent? {listed}:", "".join(keys))]

        agent = find_agent(
            cli.configuration, self.agent, choose=choose if cli.output.can_ask() else None
        )
        own = variables_of(agent)
        more = (*configured.agent_environment, *(self.agent_env or ()))
        hint = None if more else login_missing(agent, own)
        if hint is not None:
            raise misuse(
                "--agent",
                f"{agent} is not logged in where it works: its jail shows none of your folders, "
                f"and {hint}; or name another variable with --agent-env. Nothing was started",
            )
        network = self.agent_network
        if network is None:
            network = is_program(agent) or configured.agent_network
        cli.output.remark(f"Agent: {agent}")
        return AgentOptions(
            agent=agent,
            agent_mode="edit",
            agent_network=network,
            agent_env=[*own, *more],
            agent_timeout=configured.agent_timeout_s if agent == configured.agent else None,
            max_output=None,
            record=None,
            no_jail=self.no_jail,
            no_wait=self.no_wait,
        )


def left_out(user: UserRepository, commit: str, *, with_uncommitted: bool) -> list[str]:
    """Return what the session's checkout will not have of the person's, in sentences."""
    from ....repository.base import uncommitted_paths

    found = []
    top = user.work_tree
    if not with_uncommitted and uncommitted_paths(user, commit):
        found.append(
            "Your checkout has uncommitted work, which stays as it is and is not included; "
            "--with-uncommitted includes it."
        )
    if (top / ".gitmodules").exists():
        found.append("The folders of submodules are empty in the session's checkout.")
    if _uses_lfs(top / ".gitattributes"):
        found.append("Files of Git LFS are pointers in the session's checkout.")
    return found


def _uses_lfs(attributes: Path) -> bool:
    try:
        with attributes.open("rb") as file:
            return b"filter=lfs" in file.read(1 << 20)
    except OSError:
        return False


def shown_folders(configuration: Configuration, top: Path, mounts: Sequence[str]) -> Configuration:
    """Return a configuration whose jails show these folders, unless it says which."""
    if "jail" in configuration.given or not mounts:
        return configuration
    return evolve(
        configuration,
        root=top,
        jail=evolve(configuration.jail, mounts=tuple(mounts)),
        given=(*configuration.given, "jail"),
    )
