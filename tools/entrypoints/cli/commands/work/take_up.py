"""Open an agent program on its session, or have another take it up: `agentforge resume`.

The session becomes the one of the folder's branch, and the hooks do the rest: they bind the new
conversation to it, and give its briefing.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from .....agents.hooks.binding import FOLDER, Binding, BindingFile
from .....agents.hooks.handler import INSIDE_VARIABLE, SESSION_VARIABLE
from .....agents.hooks.project_place import find_project
from .....agents.hooks.recording import MAX_TEXT_CHARS
from .....agents.hooks.session_lookup import WORKFLOW_TYPE, candidates, session_place
from .....agents.programs import claude_code, codex, gemini, opencode
from .....agents.programs.agent_process import is_running
from .....agents.programs.registry import AgentProgram, find_program
from .....agents.setup.health import codex_trust, find_command, installed_programs
from .....agents.setup.manifest import Places
from .....agents.setup.pieces import PIECES
from .....base.data_folder import state_folder
from .....base.errors import AgentForgeError, ErrorKind
from .....base.files import ReadError
from .....base.settings.privacy import read_privacy
from .....fleet import stores
from .....harness.domain.history_events import AgentPrompted, AgentTurnEnded
from .....harness.session_domain import SessionContext, SessionState
from .....harness.views.conversations import Conversation, conversations
from .....wiring.bootstrap import open_snapshots
from .....workflows.agents.choice import is_in_repository_of
from ...checks.agent_program_checks import session_prospect
from ...context import BASE_VARIABLE, STORE_VARIABLE, Cli
from ...options import misuse
from ..session.bring_home import show_stat

_COMMAND_MARKS: Final = ("/", "!", "@", "#", "$")
"""Beginnings of a prompt that mean something else than a text in one of the programs."""


class TakeUpRefused(AgentForgeError, kind=ErrorKind.REFUSED):
    """An agent program can't be opened on a session."""

    message = "{program} was not opened on {session_id}: {reason}. Nothing was changed."
    session_id: str
    program: str
    reason: str


class _Words(NamedTuple):
    """The arguments of a program: to go on with a conversation, and to begin with a prompt."""

    resume: Callable[[str], tuple[str, ...]]
    prompt: Callable[[str], tuple[str, ...]]


_WORDS: Final[Mapping[str, _Words]] = MappingProxyType(
    {
        claude_code.NAME: _Words(lambda one: ("--resume", one), lambda text: ("--", text)),
        codex.NAME: _Words(lambda one: ("resume", one), lambda text: ("--", text)),
        gemini.NAME: _Words(
            lambda one: ("--resume", one), lambda text: (f"--prompt-interactive={text}",)
        ),
        opencode.NAME: _Words(lambda one: ("--session", one), lambda text: (f"--prompt={text}",)),
    }
)


class ProgramStart(NamedTuple):
    """How a program is started.

    Attributes:
        program: The agent program.
        command: The program's path, and its arguments.
        folder: The folder that it works in.
    """

    program: str
    command: tuple[str, ...]
    folder: Path


def _plan(
    session: SessionContext,
    named: str | None,
    places: Places,
    *,
    version: str,
) -> ProgramStart:
    """Return how a program is started on a session, in the folder of its last conversation.

    Without a program, the last conversation goes on in its own. Another program begins with the
    prompt whose turn did not end, if there is one and it may be shown there.

    Args:
        session: The session, open.
        named: The program that takes it up, or None.
        places: The folders of the person; the project's is used if no conversation of the session
            was on this machine.
        version: The version of this package.

    Raises:
        TakeUpRefused: The program is missing, does not call our hooks, or is at work on the
            session; or the folder is missing.
    """
    talks = sorted(conversations(session.history), key=lambda one: one.last)
    known = [(one, found) for one in talks if (found := _binding(session, one, places))]
    last = talks[-1] if talks else None
    name = named or (last.program if last else "no agent program")

    def refused(reason: str) -> TakeUpRefused:
        return TakeUpRefused(session.session_id, name, reason)

    program = find_program(name)
    if program is None:
        raise refused(f"none worked on it; name one: {_again(session)}")
    for one, binding in known:
        if is_running(binding.process):
            raise refused(
                f"{one.program} (process {binding.process[0]}) is at work on it; end that first"
            )
    folder = Path(known[-1][1].directory or places.project) if known else places.project
    if not folder.is_dir():
        raise refused(f"the folder {folder}, in which it was worked on, is missing")
    path = _usable(program, places._replace(project=folder), version, refused)
    if named is None and last is not None:
        if not known or known[-1][0] is not last:
            raise refused(
                f"its last conversation is not on this machine; begin one: {_again(session)}"
            )
        return ProgramStart(name, (path, *_WORDS[name].resume(last.agent_session)), folder)
    prompt = _unfinished_prompt(session, read_privacy(name, places.environment))
    return ProgramStart(name, (path, *(_WORDS[name].prompt(prompt) if prompt else ())), folder)


def _again(session: SessionContext) -> str:
    return f"agentforge resume {session.session_id} --in PROGRAM"


def _binding(session: SessionContext, talk: Conversation, places: Places) -> Binding | None:
    """Return what this machine knows of a conversation of the session; None if nothing."""
    environment = {**places.environment, "HOME": str(places.home)}
    root = state_folder(environment) / FOLDER
    for project in sorted(glob.glob(f"{glob.escape(str(root))}/*/")):
        with suppress(ValueError, ReadError):
            binding = BindingFile(Path(project), talk.program, talk.agent_session).read()
            if binding.session_id == session.session_id:
                return binding
    return None


def _usable(
    program: AgentProgram,
    places: Places,
    version: str,
    refused: Callable[[str], TakeUpRefused],
) -> str:
    """Return the path of a program that is here and calls our hooks."""
    path = find_command(program.COMMAND, places.environment)
    if path is None:
        raise refused(f"there is no {program.COMMAND} on the PATH; install it")
    if is_in_repository_of(places.project, str(path)):
        raise refused(f"PATH leads to {path}, which is in this repository; leave it out of PATH")
    found = [one for one in installed_programs(places) if one.program == program.NAME]
    if not found:
        raise refused(f"it does not call our hooks; first: agentforge install {program.NAME}")
    if all(one.problems for one in found):
        raise refused(f"{found[0].problems[0]}; again: agentforge install {program.NAME}")
    if program.NAME == codex.NAME:
        commands = [one for each in found for one in each.commands]
        trust = codex_trust(path, places.project, commands, places.environment, version=version)
        if trust.problem is None and not trust.holds:
            raise refused("you did not trust its hooks; start codex, and review them in /hooks")
    return str(path)


def _unfinished_prompt(session: SessionContext, may_show: Callable[[str], bool]) -> str:
    """Return the person's last prompt, whole, if no turn ended after it; else an empty text."""
    for entry in reversed(session.history):
        event = entry.event
        if isinstance(event, AgentTurnEnded):
            return ""
        if isinstance(event, AgentPrompted):
            is_whole = len(event.text) < MAX_TEXT_CHARS - 2
            is_text = not event.text.startswith(_COMMAND_MARKS)
            return event.text if is_whole and is_text and may_show(event.program) else ""
    return ""


def _become(start: ProgramStart, environment: Mapping[str, str]) -> None:
    """Become the program: it has this process's terminal, and its exit code.

    Raises:
        OSError: The system can't run it.
    """
    os.chdir(start.folder)
    os.execve(start.command[0], start.command, environment)  # noqa: S606 (no shell is wanted)


def is_of_programs(cli: Cli, shortened: str) -> bool:
    """Return whether agent programs lead a session, and no runner of ours."""
    from .....workflows.job import is_agent_session

    _, session = cli.load(shortened)
    is_run = is_agent_session(cli.store(), session.session_id)
    return session.workflow_type == WORKFLOW_TYPE and not is_run


def only_open(cli: Cli) -> str:
    """Return the open session that a conversation in this folder would go on with.

    Raises:
        typer.BadParameter: There is none, or there are several.
    """
    project = find_project(Path.cwd())
    found: list[str] = []
    if project is not None:
        environment = {**os.environ, BASE_VARIABLE: str(cli.store().base_path.absolute())}
        free = candidates(project, project.branch(), environment, stores)
        with closing(free.place):
            found = free.open_sessions
    if len(found) != 1:
        raise misuse("ID", "is missing, and none or several are open here; `agentforge list`")
    return found[0]


def _take_files_over(cli: Cli, session_id: str, root: Path, how: str | None) -> None:
    """Bring the files that were worked on on another machine to a work tree, if the person says so.

    Raises:
        typer.BadParameter: They differ, and the person did not say what to do and can't be asked.
        AgentForgeError: They can't be fetched or brought; the session can be taken up again.
    """
    snapshots = open_snapshots(cli.store(), cli.objects_url)
    host = snapshots.worked_on_at(session_id)
    if host is None:
        return
    manager, _ = cli.load(session_id, manager=cli.keeping_manager())
    stored = [one for one in manager.checkpoints() if one.snapshot]
    if not stored:
        return
    here = snapshots.arrive(session_id, root)
    known = set(here.ids())
    target = next((one for one in reversed(stored) if one.snapshot in known), None)
    if target is not stored[-1]:
        why = f" ({stored[-1].unkept})" if stored[-1].unkept else ""
        cli.output.remark(f"The last files of {session_id} are only on {host}{why}.")
    found = None if target is None else here.changes(here.tree_now(), target.snapshot or "")
    if target is not None and found is not None and found.files:
        cli.output.remark(f"What the files of checkpoint {target.number}, from {host}, change:")
        show_stat(cli, found)
        if how is None and not cli.output.can_ask():
            raise misuse("--files", "say bring or leave: the files here are not the session's")
        question = f"Shall {root} have these files, which you can undo? [b]ring, [l]eave"
        if (how or cli.output.choose(question, "bl"))[0] == "b":
            manager.bring(target.number)
            undo = cli.command("session", "rewind", session_id)
            cli.output.remark(f"The former files are a checkpoint; to return to them: {undo}")
    snapshots.stay(session_id)


def take_up(cli: Cli, shortened: str, program: str | None, files: str | None = None) -> None:
    """Become an agent program that works on a session; return only if that fails.

    Raises:
        typer.BadParameter: No such program is supported, or JSON is asked for, or it was not said
            what to do with the files of another machine.
        TakeUpRefused: The program can't be opened on it.
    """
    if files not in {None, "bring", "leave"}:
        raise misuse("--files", f"expected bring or leave, got {files!r}")
    if program is not None and program not in PIECES:
        raise misuse("--in", f"expected {', '.join(PIECES)}, got {program!r}")
    if cli.output.json:
        raise misuse("--json", "an agent program is opened in the terminal; leave it out")
    _, session = cli.load(cli.own_id(shortened))
    session_id = session.session_id
    places = Places(Path.home(), Path.cwd(), os.environ)
    named = program or "the agent program"
    if session.state.is_terminal:
        raise TakeUpRefused(session_id, named, f"the session is {session.state.value}")
    if cli.store().is_led(session_id):
        raise TakeUpRefused(session_id, named, "a runner leads the session now; wait for its end")
    start = _plan(session, program, places, version=metadata.version("agentforge-sessions"))
    unnamed = {SESSION_VARIABLE, INSIDE_VARIABLE}
    environment = {name: one for name, one in os.environ.items() if name not in unnamed}
    if (store := cli.named_store()) is not None:
        environment[STORE_VARIABLE] = store
    base = str(cli.store().base_path.absolute())
    named_so = {**environment, SESSION_VARIABLE: session_id, BASE_VARIABLE: base}
    prospect, project = session_prospect(start.folder, named_so), find_project(start.folder)
    if prospect.advice is not None or project is None:
        raise TakeUpRefused(session_id, start.program, f"{prospect.message}. {prospect.advice}")
    place, _ = session_place(project, environment, stores)
    with closing(place):
        environment |= {} if str(place.base) == base else {BASE_VARIABLE: base}
    if project.work_tree is not None:
        _take_files_over(cli, session_id, project.work_tree, files)
    with project.locked(environment) as lock:
        lock.choose(project.branch(), session_id)
    if session.state is SessionState.PAUSED:
        cli.change(session_id, lambda manager: manager.resume())
    cli.output.remark(f"{start.program} takes up {session_id} in {start.folder}")
    cli.opened.close()
    _become(start, environment)
