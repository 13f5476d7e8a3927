"""`agentforge sandbox exec` and `shell`: run code in a session's workspace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from attrs import asdict, frozen

from ..... import sandbox
from .....sandbox.live.requests import encode_suspension
from .....sandbox.session_workspaces.session_files import MAX_READ_BYTES
from ...context import Cli
from ...options import argument, misuse, option, parse_size, read_given_text
from ...output.documents import selected
from ...output.errors import ExitCode, GuestExitCode, Interrupted
from ...output.text import some_of
from ...running.sandbox_shell import GuestOutput, Shell, run_cancellable
from .files import WorkspaceFolder, WorkspaceRoot, find_place, read_local

if TYPE_CHECKING:
    from .....sandbox.executor import SandboxOptions

_TRAPS: Final = {
    "deadline": "it ran for longer than its deadline",
    "fuel": "it used up its fuel",
    "memory": "it ran out of memory",
    "files": "it made too many calls on files",
    "crash": "its interpreter crashed",
}


@frozen
class RunLimits:
    """Options of an execution: the workspace and the limits.

    Attributes:
        session: An existing sandbox session; a new one by default.
        agent_session: The workspace of an agent's session instead.
        timeout: Time limit in seconds; 60 by default.
        fuel: Maximum number of instructions; 10^12 by default.
        memory: Memory limit, as in 512MB or 1GiB; 1 GiB by default.
    """

    workspace_root: WorkspaceRoot
    session: str | None = option("--session ID")
    agent_session: str | None = option("--agent-session ID")
    timeout: float | None = option("--timeout S")
    fuel: int | None = option("--fuel N")
    memory: int | None = option("--memory BYTES", parser=parse_size)

    def policy(self) -> sandbox.ExecutionPolicy:
        """Return the limits as a policy; an option that was not given has its default."""
        given = {
            "deadline_s": self.timeout,
            "fuel_budget": self.fuel,
            "memory_bytes": self.memory,
        }
        limits: dict[str, Any] = {name: one for name, one in given.items() if one is not None}
        return sandbox.ExecutionPolicy(**limits)

    def open(
        self, cli: Cli, *, durable: bool = False
    ) -> tuple[WorkspaceFolder, sandbox.Sandbox, bool]:
        """Return the workspace, an open sandbox over it, and whether the session is new.

        The program of a durable one lasts with its sandbox session; over an agent's workspace it
        lasts in memory.
        """
        root, policy = self.workspace_root, self.policy()
        kind: SandboxOptions = {"stateful": durable, "durable": durable}
        if self.session is not None and self.agent_session is not None:
            raise typer.BadParameter("give --session or --agent-session, not both")
        named = self.session if self.agent_session is None else self.agent_session
        if named is None:
            whole, opened = sandbox.create_session_sandbox(
                policy=policy, workspace_root=root, **kind
            )
            if not cli.output.json:
                cli.output.remark(f"Session {whole}")
            return WorkspaceFolder(session_id=whole, name=whole, root=root), opened, True
        place = find_place(cli, named, root, agent=self.agent_session is not None)
        if place.agent:
            workspace = place.root / place.name
            opened = sandbox.create_sandbox(workspace=workspace, policy=policy, **kind)
        else:
            opened = sandbox.get_session_sandbox(
                place.session_id, policy=policy, workspace_root=root, **kind
            )
        return place, opened, False


def execute(
    cli: Cli,
    *,
    words: list[str] | None = argument("FILE [-- ARGS]", default=None),
    code: str | None = option("-c CODE"),
    execution: RunLimits,
    stdin: str | None = option("--stdin FILE"),
) -> None:
    """Run code in a session's workspace, by default a new one; returns the code's exit code.

    Args:
        words: The script, '-' for standard input; none with -c. Then its arguments.
        code: The code itself.
        stdin: Standard input of the code; '-' passes on this command's.
    """
    source, arguments = _source(words or [], code, stdin)
    typed = None if stdin is None else read_local(stdin, "--stdin")
    place, opened, made = execution.open(cli)
    guest = None if cli.output.json else GuestOutput()
    try:
        with _no_interpreter_ahead(), _announced(cli):
            result = run_cancellable(
                lambda token: opened.execute(
                    source,
                    stdin=typed,
                    argv=arguments,
                    on_stdout=guest.callback("stdout") if guest else None,
                    on_stderr=guest.callback("stderr") if guest else None,
                    cancel=token,
                )
            )
    except sandbox.InvalidExecution:
        if made:
            sandbox.delete_session_workspace(place.session_id, place.root)
        raise
    if guest is None:
        cli.output.document(_result_document(place, result))
    else:
        guest.finish(result)
        for text in _remarks(result):
            cli.output.remark(text)
    if result.exit_code == 0 and not result.success:
        raise typer.Exit(ExitCode.TIMEOUT)
    if result.exit_code is not None:
        raise typer.Exit(GuestExitCode(result.exit_code))
    if result.trapped != "cancelled":
        raise typer.Exit(ExitCode.TIMEOUT)
    if guest is None:
        raise typer.Exit(GuestExitCode(ExitCode.INTERRUPTED))
    raise Interrupted(
        f"interrupted; the files of session {place.session_id} are kept",
        session_id=place.session_id,
    )


def shell(cli: Cli, execution: RunLimits) -> None:
    """Type Python at a prompt in a session's workspace; it goes on where an earlier one ended."""
    place, opened, _ = execution.open(cli, durable=True)
    with opened, _announced(cli):
        Shell(opened, cli.output, lambda result: _result_document(place, result)).run()


def _source(words: list[str], code: str | None, stdin: str | None) -> tuple[str, list[str]]:
    """Return the code and its arguments."""
    if code is not None:
        return code, words
    if not words:
        raise typer.BadParameter("there is no code: name a FILE, '-', or use -c CODE")
    if words[0] == "-" and stdin == "-":
        raise misuse("--stdin", "it can't be both the code and its input")
    return read_given_text(Path(words[0]), option="FILE", most=MAX_READ_BYTES), words[1:]


def _announced(cli: Cli) -> AbstractContextManager[None]:
    """Show what the first execution on a machine waits for: its interpreter is compiled."""
    return sandbox.announced(
        lambda line: None if cli.output.json else cli.output.remark(f"Sandbox: {line}")
    )


@contextmanager
def _no_interpreter_ahead() -> Iterator[None]:
    """Start no spare interpreter: no execution follows, and it would delay the exit."""
    from .....sandbox.interpreters import process_pool  # needed only where code runs

    size = process_pool.pool_stats().size
    process_pool.configure_pool(0)
    try:
        yield
    finally:
        process_pool.configure_pool(size)


def _remarks(result: sandbox.SandboxResult) -> Iterator[str]:
    if result.trapped is not None and result.trapped != "cancelled":
        yield f"stopped: {_TRAPS[result.trapped]}"
    exceeded: Any = result.metadata["quota_exceeded"]
    if exceeded:
        yield f"note: the workspace's quota refused something: {', '.join(exceeded)}"
    if result.lost_writes:
        lost = [f"{lost.path} ({lost.errno})" for lost in result.lost_writes]
        yield f"failed: not kept as written: {some_of(lost)}"
    cut: Any = result.metadata["truncated_streams"]
    if cut:
        yield f"note: the output was cut: {', '.join(cut)}"


def _result_document(place: WorkspaceFolder, result: sandbox.SandboxResult) -> dict[str, Any]:
    columns = (
        "success exit_code trapped stdout stderr truncated duration_s fuel_consumed memory_peak "
        "files_created files_modified files_deleted"
    )
    return {
        **place.document(),
        **selected(result, columns),
        "quota_exceeded": result.metadata["quota_exceeded"],
        "lost_writes": [asdict(lost) for lost in result.lost_writes],
        "suspended": None if result.suspended is None else encode_suspension(result.suspended),
        "turn_lost": result.metadata["turn_lost"],
    }
