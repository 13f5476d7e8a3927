"""The command that begins a project: init."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ..context import cli_of
from ..options import AsJson, argument, option

if TYPE_CHECKING:
    from ....project.scaffold import PlannedFile, Scaffold

_WORDS: Final = {
    "written": "wrote",
    "replaced": "replaced",
    "extended": "added to",
    "kept": "kept as it is",
    "unchanged": "unchanged",
    "refused": "left alone",
}
_WOULD: Final = {"written": "would write", "replaced": "would replace", "extended": "would add to"}


def add_to(app: typer.Typer) -> None:
    """Add this command to the application."""
    app.command("init", short_help="Begin a project: configuration, specification, workflow.")(init)


def init(
    context: typer.Context,
    folder: Annotated[Path, argument("DIR", "The project's folder; this one by default.")] = Path(),
    force: Annotated[bool, option("--force", "Replace the files that are there.")] = False,
    dry_run: Annotated[bool, option("--dry-run", "Only show what would be written.")] = False,
    as_json: AsJson = False,
) -> None:
    """Begin a project: write a configuration that fits it, a specification and a workflow.

    What is there stays as it is without --force, but for lines that .gitignore lacks.
    """
    from ....project.scaffold import SPECIFICATION, begin_project

    cli = cli_of(context, json=as_json)
    done = begin_project(folder, force=force, dry_run=dry_run)
    there = Path.cwd() == done.folder
    following = "agentforge run" if there else f"cd {shlex.quote(str(folder))} && agentforge run"
    if cli.output.json:
        cli.output.document(_document(done, following, dry_run=dry_run))
        return
    from ....project.scaffold_content import described

    because = f" ({', '.join(done.detected.because)})" if done.detected.because else ""
    cli.output.line(f"{done.folder}: {described(done.detected.facts)}{because}")
    for one in done.files:
        reason = f": {one.reason}" if one.reason else ""
        cli.output.line(f"  {_word(one, dry_run=dry_run):<13}  {one.path}{reason}")
    if done.hides is not None:
        cli.output.line(f"Here it takes the place of {done.hides}, which was used until now.")
    if not done.changes_something:
        kept = any(one.change == "kept" for one in done.files)
        hint = " --force replaces what is there." if kept else ""
        cli.output.line(f"Nothing {'would change' if dry_run else 'was changed'}.{hint}")
    cli.output.line(f"Next: {following}")
    judged = _SCRIPT_GATE if done.detected.facts.language == "javascript" else ""
    cli.output.line(f'Then: agentforge tdflow {SPECIFICATION}{judged} --agent "claude -p"')


_SCRIPT_GATE: Final = ' --gate "node --test --test-reporter=tap" --report tap'
"""How the specification for JavaScript is judged: the sandbox runs Python."""


def _word(one: PlannedFile, *, dry_run: bool) -> str:
    change = str(one.change)
    return _WOULD.get(change, _WORDS[change]) if dry_run else _WORDS[change]


def _document(done: Scaffold, following: str, *, dry_run: bool) -> dict[str, Any]:
    facts = done.detected.facts
    return {
        "folder": str(done.folder),
        "dry_run": dry_run,
        "changed": done.changes_something and not dry_run,
        "project": {
            "language": facts.language,
            "package_manager": facts.package_manager,
            "source": facts.source,
            "tests": list(facts.tests),
            "test": facts.test,
            "because": list(done.detected.because),
        },
        "files": [
            {"path": one.path, "change": str(one.change), "reason": one.reason}
            for one in done.files
        ],
        "hides": None if done.hides is None else str(done.hides),
        "next": following,
    }
