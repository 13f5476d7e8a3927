"""An agent that edits in place: its program runs in a jail, on a copy of the session's workspace.

Without walls, if a person said so, it runs as that person's user, on such a copy too.

    copy      the workspace, without any `.git`
    run       the program, in its own git repository whose first commit is the copy
    compare   the result with the copy; the difference is the answer
    remove    the copy

So the session's workspace does not change until the answer is on disk, whatever the program does,
and a worker that is killed meanwhile leaves nothing to restore. The `.git` is created and read by
what runs in the copy only. It has the prompt and the program's state, too: no answer takes those.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from attrs import evolve

from ...base.files import OsFileSystem
from ...base.files.filesystem import DIRECTORY_FLAGS
from ...base.files.safe_path import Missing, directory_beneath
from ...base.program_run import listening
from ...harness.session_ports import SessionPlaces
from ...workflows.agents.choice import require_own_program
from ...workflows.agents.port import (
    AgentAnswer,
    AgentChoice,
    AgentCrashed,
    AgentFailed,
    AgentIdentity,
    AgentRequest,
    AgentTimeout,
    AgentUnavailable,
)
from ...workflows.gate_port import GateUnavailable
from .activity import Activity
from .agent_command import AgentStates, editing_command, filled_words, keeps_state, words_faults
from .command import DEFAULT_TIMEOUT_S, call_variables
from .edited_workspace import change_between, look_at
from .logins import adapted, login_files, login_paths, login_problem
from .printed_output import no_answer, program_output, said_usage, usage_of
from .program import program_identity
from .scratch_folder import GIT, copy_workspace, put_file, scratch_folder

if TYPE_CHECKING:
    from ...jail import CommandWalls, JailPolicy, JailResult
    from ...workflows.agents.port import TokenUsage, WorkspaceChange

BEGIN: Final = f"{GIT}/agent-begin"
PROMPT: Final = f"{GIT}/agent-prompt.md"
STATE: Final = "agent-state"
_KEPT_OUTPUT: Final = 16_384
_NOT_FOUND: Final = 127
_SCRIPT: Final = b"""\
#!/bin/sh
# A repository of the agent's own, in which it sees what it changes; nobody else reads it.
if command -v git >/dev/null 2>&1; then
    {
        git init -q && git config user.name agent && git config user.email agent@localhost &&
        git config commit.gpgSign false && git config gc.auto 0 &&
        git add -A && git commit -q --no-verify --allow-empty -m 'The files as they are'
    } </dev/null >/dev/null 2>&1
fi
exec "$@"
"""


class JailedAgent:
    """Runs a command in a jail for each request, in a copy of the session's workspace.

    Implements `workflows.agents.port.PhaseAgent`. The command reads the prompt from standard input;
    the changes in its folder are its answer, and its output is the answer's text. Exit code 0 means
    that there is an answer. The command sees the system's programs, its own toolchain, files that
    its words name by absolute path, and what the policy shows; of the environment it gets the
    variables that the choice names. It has a network only if the choice grants it.
    """

    def __init__(
        self,
        store: SessionPlaces,
        choice: AgentChoice,
        policy: JailPolicy | None = None,
        *,
        own: bool = True,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Check the command line; nothing runs yet.

        Args:
            store: Where the sessions are.
            choice: A program by its name, or a command line, split as a shell splits words; no
                shell runs. It may have the placeholders of `agent_command`.
            policy: Limits and visible paths; the jail's default if None. Its network setting is
                ignored.
            own: Whether it works for this process's person: it sees the files that its words name
                by absolute path, and a program with the network gets a copy of its login files.
            variables: The source of those variables; this process's environment if None.

        Raises:
            ValueError: The command is empty, has an unclosed quote or an unknown placeholder.
            AgentUnavailable: The program is in the repository; see `require_own_program`.
        """
        from ...jail import JailPolicy

        require_own_program(choice)
        if choice.kind == "program":
            words = editing_command(choice.value)
        else:
            words = shlex.split(choice.value)
        faults = words_faults(words) if words else ["is empty"]
        if faults:
            raise ValueError(f"command: {'; '.join(faults)}")
        timeout_s = DEFAULT_TIMEOUT_S if choice.timeout_s is None else choice.timeout_s
        if not timeout_s > 0:
            raise ValueError(f"timeout_s: expected more than 0, got {timeout_s!r}")
        self._store = store
        self._choice = choice
        self._words = words
        self._policy = JailPolicy() if policy is None else policy
        self._timeout_s = timeout_s
        self._own = own
        self._variables = os.environ if variables is None else variables
        self._made: CommandWalls | None = None

    @property
    def description(self) -> str:
        """The program's name and whether it is sealed; no arguments, which may hold secrets."""
        where = (
            "in a jail, with the network, not sealed"
            if self._choice.network
            else "in a jail, sealed"
        )
        if not self._policy.walls:
            where = "without a jail, not sealed"
        return f"{os.path.basename(self._program)}, editing {where}"

    @property
    def identity(self) -> AgentIdentity:
        """The program that does the work."""
        return program_identity(os.path.basename(self._program))

    @property
    def _program(self) -> str:
        """The program that does the work, even if started through `env`."""
        words = self._words
        if os.path.basename(words[0]) == "env":
            for word in words[1:]:
                if not word.startswith("-") and "=" not in word:
                    return word
        return words[0]

    def check(self) -> None:
        """Check that a jail can be created and has the program, without running it.

        Raises:
            AgentUnavailable: A jail, the program or a variable is missing.
        """
        from ...jail import JailError

        self._given()
        try:
            self._walls().check()
        except JailError as error:
            raise self._unavailable(str(error)) from error

    def answer(self, request: AgentRequest) -> AgentAnswer:
        """Run the command; return its changes and its text.

        Raises:
            AgentTimeout: It took too long.
            AgentCrashed: It ended with another exit code than 0.
            AgentFailed: It exceeded a limit of the jail, or left something that can't be examined.
            AgentUnavailable: The command does not exist, or no jail can be created for it.
        """
        from ...jail import JailError

        workspace = self._store.workspace_path(request.session_id)
        states = AgentStates(self._store.session_directory(request.session_id))
        name = f"{request.phase}-{request.turn}-{request.call}"
        try:
            with scratch_folder() as (folder, root):
                copy_workspace(workspace, root)
                before = look_at(root)
                os.mkdir(GIT, 0o700, dir_fd=root)
                with directory_beneath(
                    OsFileSystem(), root, [GIT, STATE], missing=Missing.MADE
                ) as state_fd:
                    continued = states.bring(request.state, state_fd)
                prompt = request.prompt.encode("utf-8", "replace")
                login = self._login()
                for path, text in () if continued else self._given(login)[1].items():
                    put_file(root, f"{GIT}/{STATE}/{path}", text.encode())
                for path, data in login.items():
                    put_file(root, f"{GIT}/{STATE}/{path}", data, mode=0o600)
                put_file(root, BEGIN, _SCRIPT)
                put_file(root, PROMPT, prompt)
                result = self._run(request, folder, prompt, continued=continued)
                text, usage = self._printed(self._said(result))
                change = self._changed(request, workspace, root, before, result)
                kept = self._keep_state(states, root, name, request.state)
        except JailError as error:
            raise self._unavailable(str(error)) from error
        except GateUnavailable as error:
            raise self._unavailable(error.problem) from error
        except OSError as error:
            raise self._unavailable(f"its folder: {error}") from error
        return AgentAnswer(text=text, usage=usage, change=change, state=kept)

    # -------------------------------------------------------------------------------------- the run

    def _run(
        self, request: AgentRequest, folder: Path, prompt: bytes, *, continued: bool
    ) -> JailResult:
        walls = self._walls()
        seen = walls.sees(folder)
        words = filled_words(
            self._words,
            prompt_file=f"{seen}/{PROMPT}",
            state=f"{seen}/{GIT}/{STATE}",
            continued=continued,
        )
        with listening(Activity(request.tell).feed):
            return walls.run(
                ["sh", BEGIN, *words],
                workspace=folder,
                stdin=prompt,
                environment={**self._given()[0], **call_variables(request)},
                deadline_s=self._timeout_s,
            )

    def _said(self, result: JailResult) -> str:
        """Return the output of a run that ended well; raise the error of any other."""
        from ...jail import StopReason

        output = (result.stderr or result.stdout)[-_KEPT_OUTPUT:].decode("utf-8", "replace")
        if result.stopped is StopReason.DEADLINE:
            raise AgentTimeout(agent=self.description, timeout_s=self._timeout_s, output=output)
        if result.stopped is not None:
            raise AgentFailed(
                f"the agent ({self.description}) was ended by the limit on {result.stopped.value}",
                agent=self.description,
                output=output,
            )
        answered = bool(result.stdout.strip())
        if result.exit_code == _NOT_FOUND and not answered:
            missing = self._walls().missing(result)
            hint = "" if missing is None else f"; {missing.hint}"
            said = " ".join(output.split())[-300:] or "its command was not found"
            raise self._unavailable(f"{said}{hint}")
        if result.exit_code != 0:
            self._require_login(output)
            raise AgentCrashed(
                agent=self.description,
                exit_code=-1 if result.exit_code is None else result.exit_code,
                output=output,
                answered=answered,
            )
        return result.stdout.decode("utf-8", "replace").removeprefix("\ufeff")

    def _require_login(self, said: str) -> None:
        """Raise `AgentUnavailable` if a program ended for want of a login."""
        problem = login_problem(self._choice.value, said)
        if problem is not None and self._choice.kind == "program":
            raise self._unavailable(problem)

    def _printed(self, printed: str) -> tuple[str, TokenUsage | None]:
        """Return the program's text, from its JSON if it prints that, and its usage."""
        found = program_output(printed)
        if found is None:
            return printed, said_usage(printed)
        if found.problem is not None:
            self._require_login(found.problem)
            raise no_answer(found, agent=self.description, output=printed[-_KEPT_OUTPUT:])
        return found.text, usage_of(found)

    def _changed(
        self,
        request: AgentRequest,
        workspace: Path,
        root: int,
        before: Mapping[bytes, tuple[int, ...]],
        result: JailResult,
    ) -> WorkspaceChange:
        original = os.open(workspace, DIRECTORY_FLAGS)
        try:
            change = change_between(
                original, root, before, refuse=request.refuse, anything=request.anything
            )
        finally:
            os.close(original)
        return evolve(change, sealed=result.sealed)

    def _keep_state(
        self, states: AgentStates, root: int, name: str, former: str | None
    ) -> str | None:
        """Save the program's own state, but no login; None if its command names no state folder."""
        if not keeps_state(self._words):
            return None
        with (
            suppress(FileNotFoundError, NotADirectoryError),
            directory_beneath(OsFileSystem(), root, [GIT, STATE]) as fd,
        ):
            own = login_paths(self._choice.value) if self._choice.kind == "program" else ()
            return states.keep(name, fd, former=former, left_out=own)
        return None

    # ------------------------------------------------------------------------------------ the walls

    def _login(self) -> Mapping[str, bytes]:
        """Return the person's login files, which a program of theirs gets to use the network."""
        choice = self._choice
        if not (self._own and choice.network and choice.kind == "program"):
            return {}
        found = login_files(choice.value, choice.environment, self._variables)
        return {} if found is None else found.files

    def _given(
        self, login: Mapping[str, bytes] = MappingProxyType({})
    ) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the variables of the program, and the first files of its own folder."""
        names = self._choice.environment
        missing = [name for name in names if name not in self._variables]
        if missing:
            raise self._unavailable(f"its variable {missing[0]} is not set")
        given = {name: self._variables[name] for name in names}
        if self._choice.kind != "program":
            return given, {}
        return adapted(self._choice.value, given, by_file=bool(login))

    def _walls(self) -> CommandWalls:
        from ...jail import command_walls

        if self._made is None:
            policy = self._policy
            named = [
                Path(word)
                for word in self._words
                if self._own
                and os.path.isabs(word)
                and word != self._program
                and os.path.isfile(word)
            ]
            self._made = command_walls(
                evolve(
                    policy,
                    network=self._choice.network,
                    read=(*policy.read, *named),
                    private=(*policy.private, Path(os.path.abspath(self._store.base_path))),
                ),
                programs=(self._program,),
            )
        return self._made

    def _unavailable(self, problem: str) -> AgentUnavailable:
        return AgentUnavailable(agent=self.description, problem=problem)
