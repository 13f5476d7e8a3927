"""The command that begins a project: init."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...context import Cli
from ...options import argument, flag
from ...output.documents import selected

if TYPE_CHECKING:
    from .....base.settings.beginnings.scaffold import PlannedFile, Scaffold

_WORDS: Final = {
    "written": "wrote",
    "replaced": "replaced",
    "extended": "added to",
    "kept": "kept as it is",
    "unchanged": "unchanged",
    "refused": "left alone",
}
_WOULD: Final = {"written": "would write", "replaced": "would replace", "extended": "would add to"}


def init(
    cli: Cli,
    folder: Path = argument("DIR", "The project's folder; this one by default.", Path()),
    force: bool = flag("--force", "Replace the files that are there."),
    dry_run: bool = flag("--dry-run", "Only show what would be written."),
) -> None:
    """Begin a project: write a configuration that fits it, a specification and a workflow.

    What is there stays as it is without --force, but for lines that .gitignore lacks.
    """
    from .....base.settings.beginnings.scaffold import SPECIFICATION, begin_project
    from ...trusting import trust_scaffold

    done = begin_project(folder, force=force, dry_run=dry_run)
    if not dry_run:
        trust_scaffold(done.folder, done.files, now=cli.outside.clock())
    there = Path.cwd() == done.folder
    following = "agentforge run" if there else f"cd {shlex.quote(str(folder))} && agentforge run"
    if cli.output.wrote(_document(done, following, dry_run=dry_run)):
        return
    from .....base.settings.beginnings.scaffold_content import described

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
    gate = done.beginning.gate
    if gate is not None:
        weak = ", of which the exit code alone is read" if gate.report == "exit-code" else ""
        cli.output.line(f"Judged by `{gate.command}` in a jail{weak}; [gate] says so.")
        if not done.in_repository:
            cli.output.line(
                "There is no git repository here, so the gate sees nothing but what an agent "
                "writes. Run `git init`, commit, and `agentforge init --force`."
            )
    cli.output.line(f"Next: {following}")
    cli.output.line(f'Then: agentforge tdflow {SPECIFICATION} --agent "claude -p"')


def _word(one: PlannedFile, *, dry_run: bool) -> str:
    change = str(one.change)
    return _WOULD.get(change, _WORDS[change]) if dry_run else _WORDS[change]


def _document(done: Scaffold, following: str, *, dry_run: bool) -> dict[str, Any]:
    facts = done.detected.facts
    gate = done.beginning.gate
    return {
        "folder": str(done.folder),
        "dry_run": dry_run,
        "changed": done.changes_something and not dry_run,
        "project": {
            **selected(facts, "language package_manager source"),
            "tests": list(facts.tests),
            "test": facts.test,
            "because": list(done.detected.because),
        },
        "gate": None if gate is None else selected(gate, "command report report_path"),
        "files": [
            {"path": one.path, "change": str(one.change), "reason": one.reason}
            for one in done.files
        ],
        "hides": None if done.hides is None else str(done.hides),
        "next": following,
    }
