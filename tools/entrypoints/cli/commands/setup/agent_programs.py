"""Commands that connect agent programs: install, uninstall, hook."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from attrs import frozen

from .....agents.setup import installation
from .....agents.setup.installation import Step, manifest_path, own_commands
from .....agents.setup.manifest import Places, Scope, read_manifest
from .....agents.setup.pieces import PIECES
from ....hook import main as hook_main
from ...context import Cli
from ...options import argument, flag, misuse, option
from ...output.documents import selected


@frozen
class Installing:
    """Options that select the agent program and the scope of an installation."""

    program: str = argument("PROGRAM", "claude-code, codex, gemini or opencode.")
    scope: str = option(
        "--scope SCOPE", "Whose conversations: of this user, or of this project alone.", "user"
    )
    dry_run: bool = flag("--dry-run", "Only show what would be changed.")

    def places(self) -> tuple[Places, Scope, Path]:
        """Return the places of agent programs' files, the scope, and the path of the manifest.

        Raises:
            typer.BadParameter: There is no such scope or program.
        """
        places = Places(Path.home(), Path.cwd(), os.environ)
        try:
            scope = Scope(self.scope)
        except ValueError:
            raise misuse("--scope", "expected user or project") from None
        if self.program not in PIECES:
            known = ", ".join(PIECES)
            raise misuse("PROGRAM", f"expected {known}, got {self.program!r}")
        return places, scope, manifest_path(places, self.program, scope)


def install(cli: Cli, asked: Installing) -> None:
    """Put sessions into an agent program: the hooks, the MCP server, a skill, commands.

    Files of yours keep every byte of theirs; what is put there is remembered, so that uninstall
    takes it away exactly. No decision about trust is made for you.
    """
    places, scope, manifest_file = asked.places()
    pieces = PIECES[asked.program](places, scope, own_commands(sys.argv[0]))
    steps = installation.plan_install(pieces, read_manifest(manifest_file))
    if not asked.dry_run:
        installation.install(pieces, steps, manifest_file)
    _report(cli, asked, steps, next_step=pieces.next_step)


def uninstall(cli: Cli, asked: Installing) -> None:
    """Take out of an agent program what install put there, and nothing else.

    A file of ours that you changed is copied aside first. Sessions stay.
    """
    _, _, manifest_file = asked.places()
    manifest = read_manifest(manifest_file)
    steps = []
    if manifest is not None:
        kept_in = manifest_file.parent / f"{asked.program}-kept"
        steps = installation.plan_uninstall(manifest, kept_in)
        if not asked.dry_run:
            installation.uninstall(manifest, steps, manifest_file)
    _report(cli, asked, steps, next_step=None)


def hook(program: str = argument("PROGRAM", "The agent program.")) -> None:
    """Handle one event of an agent program: JSON on standard input, JSON on standard output.

    The same as agentforge-hook, which starts sooner.
    """
    data = sys.stdin.buffer.read(hook_main.MAX_INPUT_BYTES + 1)
    text = hook_main.run([program], data, os.environ)
    if text:
        sys.stdout.write(f"{text}\n")


def _report(cli: Cli, asked: Installing, steps: list[Step], *, next_step: str | None) -> None:
    document = {
        **selected(asked, "program scope dry_run"),
        "changed": bool(steps) and not asked.dry_run,
        "files": [selected(one, "change path kept") for one in steps],
        "next": next_step,
    }
    if cli.output.wrote(document):
        return
    would = "would " if asked.dry_run else ""
    for one in steps:
        kept = "" if one.kept is None else f" as {one.kept}"
        cli.output.line(f"  {would}{one.change.value:<11}  {one.path}{kept}")
    if not steps:
        cli.output.line(f"Nothing {'would change' if asked.dry_run else 'was changed'}.")
    if next_step is not None and not asked.dry_run:
        cli.output.line(f"Next: {next_step}")
