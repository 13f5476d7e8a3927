"""Commands on the sandbox: run code in a workspace, and look after the files in it."""

from __future__ import annotations

import base64
import errno
import functools
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, ClassVar, Final

import typer
from attrs import asdict, frozen

from ....identifiers import completions
from ..context import Cli, cli_of
from ..errors import (
    AmbiguousSandboxSession,
    Interrupted,
    SandboxSessionNotFound,
    WorkspaceFileMissing,
    WorkspaceFileRefused,
)
from ..exit_codes import ExitCode, GuestExit
from ..on_demand import GroupOnDemand, Part, new_part
from ..options import AsJson, Yes, parse_size

if TYPE_CHECKING:
    from ....sandbox import ExecutionPolicy, Sandbox, SandboxResult

_REFUSED: Final = frozenset(
    {
        errno.ENOTEMPTY,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.EINVAL,
        errno.EEXIST,
        errno.EOVERFLOW,
        errno.EFBIG,
        errno.ENAMETOOLONG,
    }
)

_Root = Annotated[
    Path,
    typer.Option(
        "--workspace-root", metavar="DIR", help="The directory the sandbox sessions are in."
    ),
]
_SandboxId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The session's id, or an unambiguous part of it.", show_default=False
    ),
]
_IsAgent = Annotated[
    bool,
    typer.Option(
        "--agent-session",
        help="ID is that of an agent's session, as in `agentforge list`.",
        show_default=False,
    ),
]
_Session = Annotated[
    str | None,
    typer.Option(
        "--session",
        metavar="ID",
        help="A sandbox session that is there; a new one by default.",
        show_default=False,
    ),
]
_AgentSession = Annotated[
    str | None,
    typer.Option(
        "--agent-session",
        metavar="ID",
        help="The workspace of an agent's session instead.",
        show_default=False,
    ),
]
_Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="S",
        help="The most seconds it may run; 60 by default.",
        show_default=False,
    ),
]
_Fuel = Annotated[
    int | None,
    typer.Option(
        "--fuel",
        metavar="N",
        help="The most instructions it may execute; 10^12 by default.",
        show_default=False,
    ),
]
_Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="BYTES",
        help="The most memory it may hold, as in 512MB or 1GiB; 1 GiB by default.",
        show_default=False,
    ),
]
_DEFAULT_ROOT: Final = Path("workspace")
_PIECE: Final = 1 << 20


@functools.cache
def _commands() -> typer.Typer:
    part = new_part()
    part.command("exec", short_help="Run code in a session's workspace.")(execute)
    part.command("shell", short_help="Type Python at a prompt in a session's workspace.")(shell)
    part.command("list")(list_)
    part.command("ls")(ls)
    part.command("cat")(cat)
    part.command("put", short_help="Copy a file into a session's workspace.")(put)
    part.command("rm")(rm)
    part.command("delete")(delete)
    return part


class _SandboxGroup(GroupOnDemand):
    parts: ClassVar[dict[str, Part]] = dict.fromkeys(
        ("exec", "shell", "list", "ls", "cat", "put", "rm", "delete"), _commands
    )


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    group = typer.Typer(
        name="sandbox",
        cls=_SandboxGroup,
        help="Run code in the sandbox, and look after the files of its sessions.",
        short_help="Run code in the sandbox; list and change its files.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    group.callback(invoke_without_command=True)(_help)
    app.add_typer(group)


def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


# ------------------------------------------------------------------------------- which workspace


@frozen(kw_only=True)
class _Place:
    """A workspace: the directory `name` in `root`.

    Attributes:
        session_id: The session it belongs to.
        name: Its name.
        root: The directory it is in.
        agent: Whether the session is an agent's.
    """

    session_id: str
    name: str
    root: Path
    agent: bool = False

    def document(self) -> dict[str, Any]:
        """Say which workspace it is."""
        return {
            "session_id": self.session_id,
            "agent_session": self.agent,
            "workspace": self.root / self.name,
        }

    @contextmanager
    def told(self, path: str = "") -> Iterator[None]:
        """Have errors name the session and the path."""
        from ....sandbox import SandboxError, SessionWorkspaceMissing

        try:
            yield
        except SessionWorkspaceMissing:
            raise SandboxSessionNotFound(
                self.session_id, path=self.root, agent=self.agent
            ) from None
        except SandboxError:
            raise
        except FileNotFoundError:
            raise WorkspaceFileMissing(self.session_id, path) from None
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            reason = error.strerror or str(error)
            raise WorkspaceFileRefused(self.session_id, path, reason) from None


def _find(cli: Cli, shortened: str, root: Path, *, agent: bool) -> _Place:
    """Find the workspace of a session by its id or a part of it."""
    if agent:
        store = cli.store()
        whole = store.resolve(shortened)
        path = store.workspace_path(whole)
        return _Place(session_id=whole, name=path.name, root=path.parent, agent=True)
    whole = _resolve(shortened, root)
    return _Place(session_id=whole, name=whole, root=root)


def _resolve(shortened: str, root: Path) -> str:
    from ....sandbox.session_files import InvalidSessionId

    if not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", shortened):
        raise InvalidSessionId(shortened)
    fitting = completions(shortened, _session_ids(root))
    if not fitting:
        raise SandboxSessionNotFound(shortened, path=root)
    if len(fitting) > 1:
        raise AmbiguousSandboxSession(shortened, fitting)
    return fitting[0]


def _session_ids(root: Path) -> list[str]:
    """Name the sessions whose workspaces are in a directory; links and files are none."""
    from ....sandbox.session_files import InvalidSessionId, validate_session_id

    found = []
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    continue
                try:
                    found.append(validate_session_id(entry.name))
                except InvalidSessionId:
                    continue
    except FileNotFoundError:
        return []
    return sorted(found)


# ------------------------------------------------------------------------------------ running code


def execute(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE [-- ARGS]",
            help="The script, '-' for standard input; none with -c. Then its arguments.",
            show_default=False,
        ),
    ] = None,
    code: Annotated[
        str | None, typer.Option("-c", metavar="CODE", help="The code itself.", show_default=False)
    ] = None,
    session: _Session = None,
    agent_session: _AgentSession = None,
    workspace_root: _Root = _DEFAULT_ROOT,
    timeout: _Timeout = None,
    fuel: _Fuel = None,
    memory: _Memory = None,
    stdin: Annotated[
        str | None,
        typer.Option(
            "--stdin",
            metavar="FILE",
            help="What the code reads from standard input; '-' hands on this command's.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run code in a session's workspace, a new one's by default; ends with the code's exit code."""
    from ....sandbox import InvalidExecution, delete_session_workspace
    from ..sandbox_shell import GuestOutput, run_cancellable

    cli = cli_of(context, json=as_json)
    source, arguments = _source(words or [], code, stdin)
    typed = None if stdin is None else _read_local(stdin, "--stdin")
    policy = _policy(timeout, fuel, memory)
    place, sandbox, made = _open(cli, session, agent_session, workspace_root, policy)
    guest = None if cli.output.json else GuestOutput()
    try:
        with _no_interpreter_ahead():
            result = run_cancellable(
                lambda token: sandbox.execute(
                    source,
                    stdin=typed,
                    argv=arguments,
                    on_stdout=guest.callback("stdout") if guest else None,
                    on_stderr=guest.callback("stderr") if guest else None,
                    cancel=token,
                )
            )
    except InvalidExecution:
        if made:
            delete_session_workspace(place.session_id, place.root)
        raise
    if guest is None:
        cli.output.document(_result_document(place, result))
    else:
        guest.finish(result)
        for told in _remarks(result):
            cli.output.remark(told)
    if result.exit_code == 0 and not result.success:
        raise typer.Exit(ExitCode.LIMIT)
    if result.exit_code is not None:
        raise typer.Exit(GuestExit(result.exit_code))
    if result.trapped != "cancelled":
        raise typer.Exit(ExitCode.LIMIT)
    if guest is None:
        raise typer.Exit(GuestExit(ExitCode.INTERRUPTED))
    raise Interrupted(
        f"interrupted; the files of session {place.session_id} are kept",
        session_id=place.session_id,
    )


def shell(
    context: typer.Context,
    session: _Session = None,
    agent_session: _AgentSession = None,
    workspace_root: _Root = _DEFAULT_ROOT,
    timeout: _Timeout = None,
    fuel: _Fuel = None,
    memory: _Memory = None,
    as_json: AsJson = False,
) -> None:
    """Type Python at a prompt in a session's workspace; variables persist while it is open."""
    from ..sandbox_shell import Shell

    cli = cli_of(context, json=as_json)
    policy = _policy(timeout, fuel, memory)
    place, sandbox, _ = _open(cli, session, agent_session, workspace_root, policy, stateful=True)
    with sandbox:
        Shell(sandbox, cli.output, lambda result: _result_document(place, result)).run()


def _source(words: list[str], code: str | None, stdin: str | None) -> tuple[str, list[str]]:
    """Return the code and its arguments."""
    if code is not None:
        return code, words
    if not words:
        raise typer.BadParameter("there is no code: name a FILE, '-', or use -c CODE")
    if words[0] == "-" and stdin == "-":
        raise typer.BadParameter("it can't be both the code and its input", param_hint="--stdin")
    data = _read_local(words[0], "FILE")
    try:
        return data.decode("utf-8"), words[1:]
    except UnicodeDecodeError as error:
        raise typer.BadParameter(
            f"{words[0]} is not UTF-8 at byte {error.start}", param_hint="FILE"
        ) from None


def _read_local(name: str, hint: str) -> bytes:
    """Read a file of this machine, or standard input, up to what a workspace's file may have."""
    from ....sandbox.session_files import MAX_READ_BYTES

    data = bytearray()
    try:
        with ExitStack() as opened:
            stream: BinaryIO = sys.stdin.buffer
            if name != "-":
                stream = opened.enter_context(Path(name).open("rb"))
                _check_size(name, os.fstat(stream.fileno()).st_size, MAX_READ_BYTES, hint)
            while piece := stream.read(_PIECE):
                data += piece
                _check_size(name, len(data), MAX_READ_BYTES, hint)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise typer.BadParameter(f"{name} can't be read: {reason}", param_hint=hint) from None
    return bytes(data)


def _check_size(name: str, size: int, limit: int, hint: str) -> None:
    if size > limit:
        raise typer.BadParameter(f"{name} has more than {limit:,} bytes", param_hint=hint)


def _policy(timeout: float | None, fuel: int | None, memory: str | None) -> ExecutionPolicy:
    from ....sandbox import ExecutionPolicy

    limits: dict[str, Any] = {}
    if timeout is not None:
        limits["deadline_s"] = timeout
    if fuel is not None:
        limits["fuel_budget"] = fuel
    if memory is not None:
        limits["memory_bytes"] = parse_size(memory, "--memory")
    return ExecutionPolicy(**limits)


def _open(
    cli: Cli,
    session: str | None,
    agent_session: str | None,
    root: Path,
    policy: ExecutionPolicy,
    *,
    stateful: bool = False,
) -> tuple[_Place, Sandbox, bool]:
    """Return the workspace to run in, a sandbox over it, and whether it was made for this."""
    from ....sandbox import create_sandbox, create_session_sandbox, get_session_sandbox

    if session is not None and agent_session is not None:
        raise typer.BadParameter("give --session or --agent-session, not both")
    if agent_session is not None:
        place = _find(cli, agent_session, root, agent=True)
        _prepare(cli)
        workspace = place.root / place.name
        return place, create_sandbox(workspace=workspace, policy=policy, stateful=stateful), False
    if session is not None:
        place = _find(cli, session, root, agent=False)
        _prepare(cli)
        sandbox = get_session_sandbox(
            place.session_id, policy=policy, workspace_root=root, stateful=stateful
        )
        return place, sandbox, False
    _prepare(cli)
    whole, sandbox = create_session_sandbox(policy=policy, workspace_root=root, stateful=stateful)
    if not cli.output.json:
        cli.output.remark(f"Session {whole}")
    return _Place(session_id=whole, name=whole, root=root), sandbox, True


def _prepare(cli: Cli) -> None:
    """Compile the interpreter where that was never done, and say so, because it takes minutes."""
    from ....sandbox import prepare, runtime_info

    if not runtime_info().cache_warm:
        prepare(lambda line: None if cli.output.json else cli.output.remark(f"Sandbox: {line}"))


@contextmanager
def _no_interpreter_ahead() -> Iterator[None]:
    """Open no interpreter for an execution that never comes: it would hold up the end."""
    from ....sandbox import configure_pool, pool_stats

    size = pool_stats().size
    configure_pool(0)
    try:
        yield
    finally:
        configure_pool(size)


def _remarks(result: SandboxResult) -> Iterator[str]:
    if result.trapped is not None and result.trapped != "cancelled":
        yield f"stopped: {_TRAPS[result.trapped]}"
    exceeded: Any = result.metadata["quota_exceeded"]
    if exceeded:
        yield f"note: the workspace's quota refused something: {', '.join(exceeded)}"
    if result.lost_writes:
        lost = ", ".join(f"{lost.path} ({lost.errno})" for lost in result.lost_writes[:_MOST_LOST])
        more = len(result.lost_writes) - _MOST_LOST
        yield f"failed: not kept as written: {lost}" + (f" and {more} more" if more > 0 else "")
    cut: Any = result.metadata["truncated_streams"]
    if cut:
        yield f"note: the output was cut: {', '.join(cut)}"


_MOST_LOST: Final = 5
_TRAPS: Final = {
    "deadline": "it ran for longer than its deadline",
    "fuel": "it used up its fuel",
    "memory": "it ran out of memory",
    "files": "it made too many calls on files",
    "crash": "its interpreter crashed",
}


def _result_document(place: _Place, result: SandboxResult) -> dict[str, Any]:
    return {
        **place.document(),
        "success": result.success,
        "exit_code": result.exit_code,
        "trapped": result.trapped,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "truncated": result.truncated,
        "duration_s": result.duration_s,
        "fuel_consumed": result.fuel_consumed,
        "memory_peak": result.memory_peak,
        "files_created": result.files_created,
        "files_modified": result.files_modified,
        "files_deleted": result.files_deleted,
        "quota_exceeded": result.metadata["quota_exceeded"],
        "lost_writes": [asdict(lost) for lost in result.lost_writes],
        "state_lost": result.metadata["state_lost"],
    }


# ------------------------------------------------------------------------------------ its sessions


def list_(
    context: typer.Context, workspace_root: _Root = _DEFAULT_ROOT, as_json: AsJson = False
) -> None:
    """List the sandbox sessions, the last used first."""
    from ....sandbox import (
        CorruptedMetadata,
        PathEscapesWorkspace,
        SessionWorkspaceMissing,
        read_session_metadata,
    )

    cli = cli_of(context, json=as_json)
    rows: list[tuple[str, datetime | None, datetime | None, str | None]] = []
    for session_id in _session_ids(workspace_root):
        try:
            known = read_session_metadata(session_id, workspace_root)
        except (SessionWorkspaceMissing, PathEscapesWorkspace):
            continue  # it went while this looked
        except CorruptedMetadata as error:
            rows.append((session_id, None, None, error.reason))
        except OSError as error:
            rows.append((session_id, None, None, error.strerror or str(error)))
        else:
            dates = (None, None) if known is None else (known.created_at, known.updated_at)
            rows.append((session_id, *dates, None if known else "no metadata"))
    rows.sort(key=lambda row: row[2].timestamp() if row[2] else float("-inf"), reverse=True)
    if cli.output.json:
        cli.output.document(
            {
                "workspace_root": workspace_root,
                "sessions": [
                    {"session_id": one, "created_at": made, "updated_at": used, "problem": problem}
                    for one, made, used, problem in rows
                ],
            }
        )
        return
    if not rows:
        cli.output.line(f"There are no sandbox sessions in {workspace_root}.")
        return
    from .. import render

    shown = render.table("ID", "CREATED", "UPDATED", "NOTE")
    for one, made, used, problem in rows:
        shown.add_row(
            render.words(one),
            render.moment_text(made),
            render.moment_text(used),
            render.words(problem or ""),
        )
    cli.output.show(shown)


def delete(
    context: typer.Context,
    session_id: _SandboxId,
    workspace_root: _Root = _DEFAULT_ROOT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete a sandbox session with its workspace; asks first."""
    from ....sandbox import delete_session_workspace

    cli = cli_of(context, json=as_json)
    place = _find(cli, session_id, workspace_root, agent=False)
    cli.output.ask(
        f"Delete sandbox session {place.session_id} with all its files for good?",
        operation=f"deleting sandbox session {place.session_id}",
        yes=yes,
    )
    with place.told():
        delete_session_workspace(place.session_id, place.root)
    if cli.output.json:
        cli.output.document({**place.document(), "deleted": True})
    else:
        cli.output.line(f"Deleted sandbox session {place.session_id}.")


# --------------------------------------------------------------------------------------- its files


def ls(
    context: typer.Context,
    session_id: _SandboxId,
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="Only files that fit, as in '**/*.csv'.")
    ] = "**/*",
    agent_session: _IsAgent = False,
    workspace_root: _Root = _DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """List the files in a session's workspace."""
    from ....sandbox import list_session_files

    cli = cli_of(context, json=as_json)
    place = _find(cli, session_id, workspace_root, agent=agent_session)
    with place.told(pattern):
        files = list_session_files(place.name, place.root, pattern)
    if cli.output.json:
        cli.output.document({**place.document(), "pattern": pattern, "files": files})
        return
    for one in files:
        cli.output.line(one)


def cat(
    context: typer.Context,
    session_id: _SandboxId,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="In the workspace.", show_default=False)
    ],
    agent_session: _IsAgent = False,
    workspace_root: _Root = _DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Write a file of a session's workspace to standard output."""
    from ....sandbox import read_session_file
    from ..sandbox_shell import write_bytes, write_safely

    cli = cli_of(context, json=as_json)
    place = _find(cli, session_id, workspace_root, agent=agent_session)
    with place.told(path):
        data = read_session_file(place.name, path, place.root)
    if not cli.output.json:
        if sys.stdout.isatty():
            write_safely(sys.stdout, data.decode("utf-8", "replace"))
        else:
            write_bytes(sys.stdout, data)
        return
    try:
        content, encoding = data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        content, encoding = base64.b64encode(data).decode("ascii"), "base64"
    cli.output.document(
        {
            **place.document(),
            "path": path,
            "size_bytes": len(data),
            "encoding": encoding,
            "content": content,
        }
    )


def put(
    context: typer.Context,
    session_id: _SandboxId,
    local: Annotated[
        str,
        typer.Argument(
            metavar="LOCALFILE", help="On this machine; '-' for standard input.", show_default=False
        ),
    ],
    path: Annotated[
        str | None,
        typer.Argument(metavar="PATH", help="In the workspace; the file's own name by default."),
    ] = None,
    agent_session: _IsAgent = False,
    workspace_root: _Root = _DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Copy a file into a session's workspace; one that is there is replaced."""
    from ....sandbox import write_session_file

    cli = cli_of(context, json=as_json)
    if path is None and local == "-":
        raise typer.BadParameter("name the PATH that standard input is to have")
    place = _find(cli, session_id, workspace_root, agent=agent_session)
    data = _read_local(local, "LOCALFILE")
    target = path if path is not None else os.path.basename(local)
    with place.told(target):
        write_session_file(place.name, target, data, place.root)
    if cli.output.json:
        cli.output.document({**place.document(), "path": target, "size_bytes": len(data)})
    else:
        cli.output.line(f"Wrote {len(data):,} bytes to {target}.")


def rm(
    context: typer.Context,
    session_id: _SandboxId,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="In the workspace.", show_default=False)
    ],
    recursive: Annotated[
        bool,
        typer.Option("--recursive", "-r", help="A directory with its files.", show_default=False),
    ] = False,
    agent_session: _IsAgent = False,
    workspace_root: _Root = _DEFAULT_ROOT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete a file or directory of a session's workspace; asks first."""
    from ....sandbox import delete_session_path

    cli = cli_of(context, json=as_json)
    place = _find(cli, session_id, workspace_root, agent=agent_session)
    everything = " with all that is in it" if recursive else ""
    cli.output.ask(
        f"Delete {path}{everything} from the workspace of {place.session_id} for good?",
        operation=f"deleting {path}",
        yes=yes,
    )
    with place.told(path):
        delete_session_path(place.name, path, place.root, recursive=recursive)
    if cli.output.json:
        cli.output.document({**place.document(), "path": path, "deleted": True})
    else:
        cli.output.line(f"Deleted {path}.")
