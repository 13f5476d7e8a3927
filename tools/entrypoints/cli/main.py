"""The application `agentforge`: global options, commands, and the boundary that handles errors."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import typer

from ...base.data_folder import configuration_folder, find_data_folder
from ...base.errors import AgentForgeError
from .context import BASE_VARIABLE, OBJECTS_VARIABLE, STORE_VARIABLE, Cli, CliEnvironment
from .default_sessions import default_base
from .on_demand import GroupOnDemand, commands_in
from .options import flag, misuse, option
from .output.errors import ExitCode, GuestExitCode, Interrupted, OutputLost, epilog, exit_code_of
from .output.output import Output, discard, public_fields, remark
from .output.text import counted_of, safe_lines

if TYPE_CHECKING:
    from ...base.settings.configuration import Configuration

_NAME = "agentforge"
_FILES_OF_PEOPLE = frozenset({"InvalidConfiguration", "InvalidWorkflow", "InvalidSpecification"})
_LINE = re.compile(r"line (\d+): ")
_DEBUG_VARIABLE = "AGENTFORGE_DEBUG"
_OWN_FIELDS: Final = frozenset({"type", "message", "exit_code"})
"""Fields of every error's JSON; they hide an error's own fields of the same names."""

_LISTED: Final = (
    ("init", "setup.project", "Begin a project: configuration, specification, workflow."),
    ("do", "work.do", "Have an agent do a task; a check judges it, and you apply the result."),
    ("trust", "setup.project", "Show what a project's configuration would allow; allow it."),
    ("run", "work.work", "Run a workflow in a new session."),
    ("resume", "work.work", "Resume a session after a pause, a failure or a crash."),
    ("retry", "work.work", "Begin another attempt at a session's failed phase."),
    ("submit", "work.fleet:group", "Have the workers run a workflow, or an agent's work."),
    ("worker", "work.fleet", "Run the sessions that were submitted."),
    ("workers", "work.fleet", "List the workers of the fleet."),
    ("jobs", "work.fleet", "List what the fleet runs, and what waits or failed."),
    ("cancel", "work.fleet", "Have the fleet work on a session no more."),
    ("tdflow", "work.agent_work", "Have an agent develop a component test first."),
    ("spec", "work.agent_work", "Have an agent write a specification with you."),
    ("drive", "work.agent_work", "Have an agent work through a workflow of your own."),
    ("report", "sessions.bring_home", "Write the story of a session as one HTML page."),
    (
        "list",
        "sessions.find:list_sessions",
        "List the sessions, the last changed first by default.",
    ),
    ("search", "sessions.find", "Find sessions and questions by words."),
    ("show", "sessions.look", "Show one session."),
    ("log", "sessions.look", "Show a session's history, the oldest entry first."),
    ("brief", "sessions.look", "Write the briefing of a session for its next worker."),
    ("artifacts", "sessions.look", "List the files that a session's phases produced."),
    ("schema", "setup.project", "Show the JSON Schema of a session."),
    ("checkpoints", "sessions.change", "List a session's checkpoints."),
    ("diff", "sessions.bring_home", "Show what changed in a session's workspace."),
    ("rewind", "sessions.change", "Take a session and its files back to a checkpoint."),
    ("fork", "sessions.change", "Begin a new session at a checkpoint of another."),
    ("adopt", "sessions.adopt", "Make a session yours that came with a clone; asks first."),
    ("pause", "sessions.change", "Stop an active session until it is resumed."),
    ("abort", "sessions.change", "Abort a session for good; asks first."),
    ("complete", "sessions.change", "Mark an active session as completed, for good."),
    ("budget", "sessions.change", "Show or extend a token budget, or record tokens."),
    ("set", "sessions.change:set_labels", "Change a session's title, tags and metadata."),
    ("apply", "sessions.bring_home", "Bring a session's result into your checkout, whole."),
    ("export", "sessions.bring_home", "Write a session's files to a new folder."),
    ("cleanup", "prune.group", "Delete sessions that ended long ago; asks first."),
    ("setup", "setup.machine", "Compile the sandbox's interpreter; safe to repeat."),
    ("doctor", "setup.machine", "Check this machine and the sessions."),
    ("store", "setup.store:group", "Where the sessions are: its tables, and copies of it."),
    ("webhooks", "setup.webhooks:group", "Who is told of events: what waits for them, and a test."),
    ("prune", "prune.group:group", "Remove old sessions of every kind; asks first."),
    ("ask", "people.ask", "Ask a person and wait for the answer."),
    ("answer", "people.questions", "Answer a question session."),
    ("reject", "people.questions", "Reject a question session: you will not answer it."),
    ("history", "people.questions", "List the question sessions, or show one."),
    ("mcp", "people.serve", "Serve sessions, the sandbox and questions to AI clients."),
    (
        "install",
        "setup.machine",
        "Put sessions into an agent program: hooks, tools, a skill.",
    ),
    ("uninstall", "setup.machine", "Take out of an agent program what install put there."),
    ("hook", "setup.machine", "Handle one event of an agent program; the programs call it."),
    ("questions", "people.questions", "Show waiting questions and answer them."),
    ("ui", "people.serve", "Show all sessions in a browser on this machine."),
    ("sandbox", "sandbox.group:group", "Run code in the sandbox; list and change its files."),
)
"""Each command, its module in `entrypoints.cli.commands` and its help, in the order listed.

The function has the command's name unless one is named.
"""


class _Commands(GroupOnDemand):
    group: ClassVar = "commands"
    listed: ClassVar = commands_in(f"{__package__}.commands", _LISTED)


app = typer.Typer(
    name=_NAME,
    cls=_Commands,
    help="Sessions of long-running agents: durable, resumable, with a budget and an audit trail.",
    epilog=epilog(),
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _global_options(
    context: typer.Context,
    base: str | None = option(
        "--base PATH",
        "Directory of the sessions; by default the configuration's; in a git repository your own "
        "directory for it, unless it has .agentforge/sessions; else .agentforge/sessions here or "
        "in the nearest parent directory that has a .agentforge.",
        envvar=BASE_VARIABLE,
    ),
    store: str | None = option(
        "--store URL",
        "Where the sessions are, if not in the base's files: "
        "postgresql://user@host/database?sslmode=verify-full; by default the configuration's.",
        envvar=STORE_VARIABLE,
    ),
    objects: str | None = option(
        "--objects URL",
        "Where workspaces are that several machines work in, with a store in a database: "
        "s3://bucket/prefix, gs://…, az://… or file:///folder; by default the configuration's.",
        envvar=OBJECTS_VARIABLE,
    ),
    verbose: bool = flag("--verbose, -v", "Log every event to standard error."),
    no_color: bool = flag("--no-color", "Use no colour; the variable NO_COLOR does the same."),
    as_json: bool = flag("--json", "Write JSON for programs, including errors."),
    version: bool = flag("--version", "Show the version."),
) -> None:
    if base == "":
        raise misuse("--base", "the path is empty")
    if store == "":
        raise misuse("--store", "the address is empty")
    outside = context.obj if isinstance(context.obj, CliEnvironment) else CliEnvironment()
    color = not (no_color or os.environ.get("NO_COLOR"))
    output = Output(json=as_json, color=color)
    configured = _configured()
    usable = None if isinstance(configured, AgentForgeError) else configured
    context.obj = Cli(
        base=Path(base) if base else default_base(usable),
        output=output,
        verbose=verbose,
        objects_url=objects or (None if usable is None else usable.store.objects),
        outside=outside,
        base_given=bool(base),
        configured=configured,
        store_url=store or (None if usable is None else usable.store.url),
        store_given=bool(store),
    )
    context.call_on_close(context.obj.opened.close)
    if version:
        from importlib import metadata

        number = metadata.version("agentforge-sessions")
        output.outcome({"version": number}, f"{_NAME} {number}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit
    from .output.logs import configure_logs

    configure_logs(verbose=verbose)
    told = context.invoked_subcommand in _TELL_THEMSELVES
    if usable is not None and usable.left_out and not told:
        from ...base.settings.trust_table import ignored

        output.remark(ignored(usable.left_out, usable.path))


_TELL_THEMSELVES: Final = frozenset({"init", "trust", "doctor"})
"""Commands that report by themselves which parts of the project's configuration are invalid."""


def _configured() -> Configuration | AgentForgeError | None:
    """Return the project's configuration, the error that makes it unusable, or None."""
    folders = (find_data_folder(Path.cwd()), configuration_folder())
    files = [folder / "config.toml" for folder in folders if folder is not None]
    if not os.environ.get("AGENTFORGE_CONFIG") and not any(map(os.path.lexists, files)):
        return None
    from ...base.settings.configuration import load_configuration
    from ...base.settings.configuration_file import InvalidConfiguration

    try:
        return load_configuration()
    except InvalidConfiguration as error:
        return error


# -------------------------------------------------------------------------------- the boundary


def run(arguments: Sequence[str], outside: CliEnvironment | None = None) -> int:
    """Run one command line and return its exit code.

    Reports every error itself: as one line that says what to do or, with `--json`, as JSON.

    Args:
        arguments: The command line without the program's name.
        outside: The clocks, the pause and the executors; the real ones by default.
    """
    as_json = _wants_json(arguments)
    code: int
    try:
        value = _command().main(
            args=list(arguments), prog_name=_NAME, standalone_mode=False, obj=outside
        )
        code = value if isinstance(value, int) else ExitCode.OK
        if code == ExitCode.INTERRUPTED and not isinstance(code, GuestExitCode):
            _report_error(Interrupted(), as_json=as_json)  # how the framework reports Ctrl-C
    except (KeyboardInterrupt, typer.Abort):
        code = _report_error(Interrupted(), as_json=as_json)
    except Exception as error:  # noqa: BLE001 (the boundary: every error is reported in one line)
        code = _report_error(error, as_json=as_json)
    return _flushed(code)


# A process that runs several command lines builds each command that they name once.
_command = functools.cache(functools.partial(typer.main.get_command, app))


def main() -> None:
    """Run the command line of this process."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (until the end)
        reconfigure = getattr(getattr(sys, name), "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    if any(name.startswith("OTEL_") for name in os.environ):
        from ...integrations.telemetry import begin_telemetry

        begin_telemetry()
    try:
        code = run(sys.argv[1:])
    finally:
        for module, end in _ENDS:
            if module in sys.modules:
                getattr(sys.modules[module], end)()
    if "wasmtime" in sys.modules:  # only then does the end of the engine's threads matter
        from ...sandbox.process_exit import end_process

        end_process(code)
    sys.exit(code)


_ENDS: Final = (
    ("agentforge_sessions.sandbox.interpreters.process_pool", "close_pool"),
    ("agentforge_sessions.integrations.telemetry", "end_telemetry"),
)
"""Closers of loaded modules: first the open interpreters, while their engine still works; then the
traces that are not sent yet, within a time limit."""


def _wants_json(arguments: Sequence[str]) -> bool:
    """Return whether errors are written as JSON, even those raised before options are parsed."""
    return "--json" in takewhile(lambda one: one != "--", arguments)


def _report_error(error: BaseException, *, as_json: bool) -> ExitCode:
    usage = isinstance(error, typer.TyperException)
    code = ExitCode.USAGE if usage else exit_code_of(error)
    if os.environ.get(_DEBUG_VARIABLE) == "1":
        import traceback

        sys.stderr.write(f"{safe_lines(''.join(traceback.format_exception(error)))}")
    message = _message(error, code)
    if as_json and not isinstance(error, OutputLost):
        fields = {} if usage else public_fields(error)
        payload = {
            "type": type(error).__name__,
            "message": message,
            "exit_code": int(code),
            "session_id": None,
            "path": None,
            **{name: value for name, value in fields.items() if name not in _OWN_FIELDS},
        }
        Output(json=True).document({"error": payload})
    else:
        faults = () if usage else _fault_lines(error)
        for line in faults:
            remark(line)
        if faults:
            counted = counted_of(len(faults), "fault")
            message = f"{counted} in {getattr(error, 'path', '')}; nothing was begun"
        remark(f"error: {message}" if code is not ExitCode.INTERRUPTED else message)
    return code


def _fault_lines(error: BaseException) -> list[str]:
    """Return each fault of a person's own file as `file:line: …`, as compilers write it."""
    path, faults = getattr(error, "path", None), getattr(error, "faults", ())
    if path is None or type(error).__name__ not in _FILES_OF_PEOPLE:
        return []
    found = []
    for fault in faults:
        line = _LINE.match(fault)
        found.append(f"{path}:{line[1]}: {fault[line.end() :]}" if line else f"{path}: {fault}")
    return found


def _message(error: BaseException, code: ExitCode) -> str:
    if isinstance(error, typer.TyperException):
        text = error.format_message().rstrip(".?!")
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else _NAME
        return f"{text}. Try '{path} --help'."
    if code is ExitCode.UNEXPECTED:
        return (
            f"unexpected {type(error).__name__}: {error}. This is a fault in agentforge; "
            f"run again with {_DEBUG_VARIABLE}=1 to see where."
        )
    if type(error) is FileNotFoundError and error.filename is not None:
        return f"there is no {error.filename}. Make it, or name another place, then try again."
    if type(error).__module__ == "builtins":
        return f"{error}. Free the disk or fix its permissions, then try again."
    return str(error)


def _flushed(code: int) -> int:
    """Flush the output while an error can still be reported; return the exit code."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)
    except (OSError, ValueError) as error:
        discard(sys.stdout)
        remark(f"error: could not write the output: {error}")
        return ExitCode.STORAGE if code == ExitCode.OK else code
    return code
