"""The application `agentforge`: global options, commands, and the boundary that handles errors."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import typer

from ...base.data_folder import configuration_folder, find_data_folder
from ...base.errors import AgentForgeError
from .context import BASE_VARIABLE, OBJECTS_VARIABLE, STORE_VARIABLE, Cli, CliEnvironment
from .default_sessions import default_base
from .on_demand import GroupOnDemand
from .options import flag, misuse, option
from .output.errors import ExitCode, GuestExitCode, Interrupted, OutputLost, exit_code_of
from .output.output import Output, discard, public_fields, remark
from .output.text import counted_of, safe_lines
from .signatures import expanded
from .tree import TREE, instead

if TYPE_CHECKING:
    from ...base.settings.configuration import Configuration

_NAME = "agentforge"
_FILES_OF_PEOPLE = frozenset({"InvalidConfiguration", "InvalidWorkflow", "InvalidSpecification"})
_LINE = re.compile(r"line (\d+): ")
_DEBUG_VARIABLE = "AGENTFORGE_DEBUG"
_OWN_FIELDS: Final = frozenset({"type", "message", "exit_code"})
"""Fields of every error's JSON; they hide an error's own fields of the same names."""


class _Commands(GroupOnDemand):
    group: ClassVar = "commands"
    listed: ClassVar = TREE[""]

    def get_params(self, ctx: Any) -> Any:
        """Return the global options; the help leaves out those for shell completion."""
        found = super().get_params(ctx)
        for one in found:
            one.hidden = one.hidden or one.name in {"install_completion", "show_completion"}
        return found

    def instead(self, group: str, word: str) -> str:
        """Return what to type instead of a word that names no command of a group."""
        return instead(group, word)


app = typer.Typer(
    name=_NAME,
    cls=_Commands,
    help="Sessions of long-running agents: durable, resumable, with a budget and an audit trail.",
    epilog="`agentforge` alone says what to do next; --install-completion completes words for you.",
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _global_options(
    context: typer.Context,
    base: str | None = option("--base PATH", envvar=BASE_VARIABLE, show_envvar=False),
    store: str | None = option("--store URL", envvar=STORE_VARIABLE, show_envvar=False),
    objects: str | None = option("--objects URL", envvar=OBJECTS_VARIABLE, show_envvar=False),
    verbose: bool = flag("--verbose, -v"),
    no_color: bool = flag("--no-color"),
    as_json: bool = flag("--json"),
    version: bool = flag("--version"),
) -> None:
    """Read the global options before each command.

    Args:
        base: Directory of the sessions; by default your own of this repository.
        store: Where the sessions are: postgresql://user@host/db?sslmode=verify-full.
        objects: Where workspaces are, with such a store: s3://bucket/prefix, gs://….
        verbose: Log every event to standard error.
        no_color: Use no colour; the variable NO_COLOR does the same.
        as_json: Write JSON for programs, including errors.
        version: Show the version.
    """
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
    from .output.logs import configure_logs

    configure_logs(verbose=verbose)
    if context.invoked_subcommand is None:
        from .next_steps import show_next_steps

        show_next_steps(context.obj)
        raise typer.Exit
    told = context.invoked_subcommand in _TELL_THEMSELVES
    if usable is not None and usable.left_out and not told:
        from ...base.settings.trust_table import ignored

        output.remark(ignored(usable.left_out, usable.path))


app.callback(invoke_without_command=True)(expanded(_global_options))

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
