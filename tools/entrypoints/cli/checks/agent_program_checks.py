"""Check agent programs, and what a prompt in one would do, for `agentforge doctor`.

Calls no model.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from attrs import field, frozen

from ....agents.hooks.project_place import ProjectPlace, find_project
from ....agents.programs import codex
from ....base.errors import AgentForgeError
from .findings import Finding, ok, warn

if TYPE_CHECKING:
    from ....agents.programs.registry import AgentProgram
    from ....agents.setup.health import HookTrust, Installed
    from ....harness.session_domain import SessionContext


class Prospect(NamedTuple):
    """Effect that a prompt would have.

    Attributes:
        message: What the prompt would do, or why it would not create a session.
        advice: How to change that; None if a session begins or continues.
    """

    message: str
    advice: str | None = None


def no_session(because: str, advice: str) -> Prospect:
    """Return the prospect that no session will begin."""
    return Prospect(f"no session will begin here, because {because}", advice)


def session_prospect(folder: Path, environment: Mapping[str, str]) -> Prospect:
    """Return what a first prompt would do in a folder, if the agent program calls the hook.

    Applies the hook's own rules; creates and changes nothing.

    Args:
        folder: The working directory of the agent program, absolute.
        environment: The environment of the agent program.
    """
    project = find_project(folder)
    if project is None:
        return no_session(
            f"{folder} is in no Git repository and has no folder .agentforge",
            "Make one of both: git init, or agentforge init",
        )
    try:
        return _named(project.data_folder, environment) or _found(project, environment)
    except AgentForgeError as error:
        return no_session(str(error).rstrip("."), "Mend this, then check again.")


def _named(data_folder: Path, environment: Mapping[str, str]) -> Prospect | None:
    from ....agents.hooks.session_lookup import SESSION_VARIABLE, named_session
    from ....fleet import stores

    found = named_session(data_folder, environment, stores)
    if found is None:
        return None
    with closing(found.place):
        session = found.place.sessions.load(found.session_id)
    if session is None or session.state.is_terminal:
        state = "not there" if session is None else session.state.value
        return no_session(
            f"{SESSION_VARIABLE} names {found.session_id}, which is {state}",
            f"Name an open one in {SESSION_VARIABLE}, or unset it.",
        )
    return _of_session(session)


def _found(project: ProjectPlace, environment: Mapping[str, str]) -> Prospect:
    from ....agents.hooks.session_lookup import candidates
    from ....fleet import stores

    found = candidates(project, project.branch(), environment, stores)
    with closing(found.place):
        if len(found.open_sessions) == 1:
            session = found.place.sessions.load(found.open_sessions[0])
            if session is not None:
                return _of_session(session)
    if found.open_sessions:
        return no_session(
            f"several are open ({', '.join(found.open_sessions)}), and none is chosen",
            "Choose one in the agent program: agentforge:switch ID",
        )
    if found.unreadable:
        return no_session(str(found.unreadable[0].error).rstrip("."), "Mend it, or begin another.")
    if found.settings.create:
        return Prospect("a prompt begins a session")
    return no_session(
        "none is open and [agents] create is false", "Set create = true, or remove the key."
    )


def _of_session(session: SessionContext) -> Prospect:
    from ....agents.hooks.messages import extend_command

    if session.token_budget.is_exhausted:
        return Prospect(
            f"a prompt is refused, because the token budget of {session.session_id} is spent",
            f"Extend it: {extend_command(session)}",
        )
    return Prospect(f"a prompt goes on with {session.session_id} ({session.state.value})")


_DISTRIBUTION: Final = "agentforge-sessions"


@frozen
class AgentProgramChecks:
    """Checks of a person's and a project's agent programs; a check runs each program once.

    Attributes:
        folder: The working directory of agent programs.
        environment: The environment of agent programs.
        agent: The value of `[run] agent`, or None.
    """

    folder: Path = field(factory=Path.cwd)
    environment: Mapping[str, str] = field(default=os.environ, repr=False)
    agent: str | None = None

    @cached_property
    def _installed(self) -> list[Installed]:
        from ....agents.setup.health import installed_programs
        from ....agents.setup.manifest import Places

        return installed_programs(Places(Path.home(), self.folder, self.environment))

    @cached_property
    def _trust(self) -> HookTrust | None:
        """Whether Codex trusts our hooks; None if it has none or can't be asked."""
        from ....agents.setup.health import codex_trust, find_command

        commands = [one for each in self._installed_in(codex.NAME) for one in each.commands]
        program = find_command(codex.COMMAND, self.environment) if commands else None
        if program is None:
            return None
        return codex_trust(
            program,
            self.folder,
            commands,
            self.environment,
            version=importlib.metadata.version(_DISTRIBUTION),
        )

    def _installed_in(self, program: str) -> list[Installed]:
        return [one for one in self._installed if one.program == program]

    def check_installed(self) -> Finding:
        """Check that everything installed into agent programs exists and can be run."""
        broken = [one for one in self._installed if one.problems]
        if broken:
            return warn(
                "; ".join(f"{one.program}: {'; '.join(one.problems)}" for one in broken),
                f"Install again: agentforge install {broken[0].program} "
                f"--scope {broken[0].scope.value}",
            )
        shown = ", ".join(f"{one.program} ({one.scope.value})" for one in self._installed)
        return ok(shown or "none; `agentforge install claude-code` puts sessions into one")

    def check_versions(self) -> Finding | None:
        """Compare the programs' versions with the tested ones; None if no program is used."""
        from ....agents.setup.health import find_command, said_version

        shown, silent = [], []
        for program in self._used():
            command = program.COMMAND
            path = find_command(command, self.environment)
            if path is None:
                shown.append(f"{command} is not on the path")
                continue
            said = said_version(path, self.environment)
            if said.version is None:
                silent.append(path)
                shown.append(f"{command}: {said.problem}")
            elif said.version == program.TRIED:
                shown.append(f"{command} {said.version}")
            else:
                shown.append(f"{command} {said.version}, tried with {program.TRIED}")
        if silent:
            return warn("; ".join(shown), f"See what it says: {silent[0]} --version")
        return ok("; ".join(shown)) if shown else None

    def _used(self) -> Iterator[AgentProgram]:
        """Yield the programs that have our hook, and the one that runs use."""
        from ....agents.programs.registry import PROGRAMS, find_program
        from ....workflows.agents.choice import is_program

        agent = self.agent or ""
        asked = agent.partition(":")[0] if is_program(agent) else None
        for program in filter(None, map(find_program, PROGRAMS)):
            if asked == program.COMMAND or self._installed_in(program.NAME):
                yield program

    def check_trust(self) -> Finding | None:
        """Check that Codex runs our hooks; None if it has none."""
        if not self._installed_in(codex.NAME):
            return None
        trust = self._trust
        if trust is None:
            return ok("not asked: codex is not on the path")
        if trust.problem is not None:
            return warn(f"codex could not be asked: {trust.problem}", "Look in codex: /hooks")
        if trust.holds:
            return ok("codex runs all hooks of agentforge")
        return warn(_distrust(trust), _REVIEW)

    def check_hooks(self) -> Finding:
        """Check whether a prompt in an agent program would begin or continue a session here."""
        programs = dict.fromkeys(one.program for one in self._installed)
        if not programs:
            return ok(no_session("no agent program has the hook", "").message)
        silent = {one: why for one in programs if (why := self._why_silent(one)) is not None}
        found = session_prospect(self.folder, self.environment)
        if len(silent) == len(programs) and found.advice is None:
            found = no_session("; ".join(silent.values()), "See the checks agents and hook trust.")
        if found.advice is not None:
            return warn(found.message, found.advice)
        calling = ", ".join(one for one in programs if one not in silent)
        but = "".join(f"; not in {one}: {why}" for one, why in silent.items())
        return ok(f"in {calling}, {found.message}{but}")

    def _why_silent(self, program: str) -> str | None:
        """Return why a program does not call the hook; None if it does, as far as known."""
        installed = self._installed_in(program)
        if all(one.problems for one in installed):
            return f"{program}: {installed[0].problems[0]}"
        if program != codex.NAME or self._trust is None or self._trust.problem is not None:
            return None
        return None if self._trust.holds else _distrust(self._trust)


_REVIEW: Final = "Start codex, enter /hooks, and review those of agentforge."


def _distrust(trust: HookTrust) -> str:
    if not trust.listed:
        return "codex does not list the hooks of agentforge"
    return f"codex does not run hooks of agentforge: they are {', '.join(trust.refused)}"
