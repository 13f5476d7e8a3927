"""The commands for the agent programs that people run: install, uninstall, hook."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...context import Cli, cli_of
from ...options import AsJson, argument, option

if TYPE_CHECKING:
    from .....agents.setup.installation import Step
    from .....agents.setup.places import Places, Scope

ProgramName = Annotated[str, argument("PROGRAM", "claude-code, codex, gemini or opencode.")]
ScopeName = Annotated[
    str, option("--scope SCOPE", "Whose conversations: of this user, or of this project alone.")
]
DryRun = Annotated[bool, option("--dry-run", "Only show what would be changed.")]


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command("install", short_help="Put sessions into an agent program: hooks, tools, a skill.")(
        install
    )
    app.command("uninstall", short_help="Take out of an agent program what install put there.")(
        uninstall
    )
    app.command("hook", short_help="Handle one event of an agent program; the programs call it.")(
        hook
    )


def install(
    context: typer.Context,
    program: ProgramName,
    scope: ScopeName = "user",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put sessions into an agent program: the hooks, the MCP server, a skill, commands.

    Files of yours keep every byte of theirs; what is put there is remembered, so that uninstall
    takes it away exactly. No decision about trust is made for you.
    """
    from .....agents.setup import installation
    from .....agents.setup.manifest import read_manifest
    from .....agents.setup.own_commands import own_commands
    from .....agents.setup.pieces import PIECES

    cli = cli_of(context, json=as_json)
    places, where = _places(), _scope(scope)
    _require_known(program)
    pieces = PIECES[program](places, where, own_commands(sys.argv[0]))
    manifest_file = installation.manifest_path(places, program, where)
    steps = installation.plan_install(pieces, read_manifest(manifest_file))
    if not dry_run:
        installation.install(pieces, steps, manifest_file)
    _report(cli, program, where, steps, dry_run=dry_run, next_step=pieces.next_step)


def uninstall(
    context: typer.Context,
    program: ProgramName,
    scope: ScopeName = "user",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Take out of an agent program what install put there, and nothing else.

    A file of ours that you changed is copied aside first. Sessions stay.
    """
    from .....agents.setup import installation
    from .....agents.setup.manifest import read_manifest

    cli = cli_of(context, json=as_json)
    places, where = _places(), _scope(scope)
    _require_known(program)
    manifest_file = installation.manifest_path(places, program, where)
    manifest = read_manifest(manifest_file)
    steps = []
    if manifest is not None:
        kept_in = manifest_file.parent / f"{program}-kept"
        steps = installation.plan_uninstall(manifest, kept_in)
        if not dry_run:
            installation.uninstall(manifest, steps, manifest_file)
    _report(cli, program, where, steps, dry_run=dry_run, next_step=None)


def hook(
    program: Annotated[str, argument("PROGRAM", "The agent program.")],
) -> None:
    """Handle one event of an agent program: JSON on standard input, JSON on standard output.

    The same as agentforge-hook, which starts sooner.
    """
    from ....hook import main as hook_main

    data = sys.stdin.buffer.read(hook_main.MAX_INPUT_BYTES + 1)
    text = hook_main.run([program], data, os.environ)
    if text:
        sys.stdout.write(f"{text}\n")


def _places() -> Places:
    from .....agents.setup.places import Places

    return Places(Path.home(), Path.cwd(), os.environ)


def _scope(name: str) -> Scope:
    from .....agents.setup.places import Scope

    try:
        return Scope(name)
    except ValueError:
        raise typer.BadParameter("expected user or project", param_hint="--scope") from None


def _require_known(program: str) -> None:
    from .....agents.setup.pieces import PIECES

    if program not in PIECES:
        known = ", ".join(PIECES)
        raise typer.BadParameter(f"expected {known}, got {program!r}", param_hint="PROGRAM")


def _report(
    cli: Cli,
    program: str,
    scope: Scope,
    steps: list[Step],
    *,
    dry_run: bool,
    next_step: str | None,
) -> None:
    if cli.output.json:
        cli.output.document(
            {
                "program": program,
                "scope": scope.value,
                "dry_run": dry_run,
                "changed": bool(steps) and not dry_run,
                "files": [
                    {
                        "change": one.change.value,
                        "path": str(one.path),
                        "kept": None if one.kept is None else str(one.kept),
                    }
                    for one in steps
                ],
                "next": next_step,
            }
        )
        return
    for one in steps:
        kept = "" if one.kept is None else f" as {one.kept}"
        cli.output.line(f"  {'would ' if dry_run else ''}{one.change.value:<11}  {one.path}{kept}")
    if not steps:
        cli.output.line(f"Nothing {'would change' if dry_run else 'was changed'}.")
    if next_step is not None and not dry_run:
        cli.output.line(f"Next: {next_step}")
