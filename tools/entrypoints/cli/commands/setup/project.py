"""Commands that set up a project and trust its configuration: init, trust, schema."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final

from ..... import harness
from .....base.data_folder import NAME, SESSIONS, find_data_folder
from .....base.files import OsFileSystem, make_durable_directory, read_regular_file
from .....base.settings.configuration import checked_configuration
from .....base.settings.configuration_file import (
    FILE_NAME,
    MAX_BYTES,
    ConfigurationFile,
    document_of,
    own_document,
)
from .....base.settings.trust_records import TrustRecords, real_place
from .....base.settings.trust_table import allowances
from ...context import Cli
from ...options import argument, flag, misuse
from ...output.documents import selected
from ...output.errors import NothingToTrust
from ...trusting import NamedFile, named_files, trust_file, trust_scaffold

if TYPE_CHECKING:
    from .....base.settings.beginnings.scaffold import Scaffold

_WORDS: Final = {
    "written": "wrote",
    "replaced": "replaced",
    "extended": "added to",
    "kept": "kept as it is",
    "unchanged": "unchanged",
    "refused": "left alone",
}
_WOULD: Final = {"written": "would write", "replaced": "would replace", "extended": "would add to"}


# ------------------------------------------------------------------------------------------ init


def init(
    cli: Cli,
    folder: Path = argument("DIR", default=Path()),
    here: bool = flag("--here"),
    force: bool = flag("--force"),
    dry_run: bool = flag("--dry-run"),
) -> None:
    """Begin a project: write a configuration that fits it, a specification and a workflow.

    What is there stays as it is without --force, but for lines that .gitignore lacks.

    Args:
        folder: The project's folder; this one by default.
        here: From now on put the project's sessions into its .agentforge/sessions, not into your
            state directory; those that are there stay there.
        force: Replace the files that are there.
        dry_run: Only show what would be written.
    """
    from .....base.settings.beginnings.scaffold import SPECIFICATION, begin_project
    from .....base.settings.beginnings.scaffold_content import described

    done = begin_project(folder, force=force, dry_run=dry_run)
    if not dry_run:
        trust_scaffold(done.folder, done.files, now=cli.outside.clock())
        if here:
            make_durable_directory(OsFileSystem(), done.folder / NAME / SESSIONS)
    there = Path.cwd() == done.folder
    following = "agentforge run" if there else f"cd {shlex.quote(str(folder))} && agentforge run"
    if cli.output.wrote(_document(done, following, dry_run=dry_run)):
        return
    line = cli.output.line
    because = f" ({', '.join(done.detected.because)})" if done.detected.because else ""
    line(f"{done.folder}: {described(done.detected.facts)}{because}")
    words = {**_WORDS, **_WOULD} if dry_run else _WORDS
    for one in done.files:
        reason = f": {one.reason}" if one.reason else ""
        line(f"  {words[one.change]:<13}  {one.path}{reason}")
    if done.hides is not None:
        line(f"Here it takes the place of {done.hides}, which was used until now.")
    if not done.changes_something:
        kept = any(one.change == "kept" for one in done.files)
        hint = " --force replaces what is there." if kept else ""
        line(f"Nothing {'would change' if dry_run else 'was changed'}.{hint}")
    gate = done.beginning.gate
    if gate is not None:
        weak = ", of which the exit code alone is read" if gate.report == "exit-code" else ""
        line(f"Judged by `{gate.command}` in a jail{weak}; [gate] says so.")
        if not done.in_repository:
            line(
                "There is no git repository here, so the gate sees nothing but what an agent "
                "writes. Run `git init`, commit, and `agentforge init --force`."
            )
    line(f"Next: {following}")
    if done.beginning.template is not None:
        line(f'Then: agentforge run tdflow {SPECIFICATION} --agent "claude -p"')


def _document(done: Scaffold, following: str, *, dry_run: bool) -> dict[str, Any]:
    facts, gate = done.detected.facts, done.beginning.gate
    return {
        "folder": done.folder,
        "dry_run": dry_run,
        "changed": done.changes_something and not dry_run,
        "project": {
            **selected(facts, "language package_manager source tests test"),
            "because": done.detected.because,
        },
        "gate": None if gate is None else selected(gate, "command report report_path"),
        "files": [selected(one, "path change reason") for one in done.files],
        "hides": done.hides,
        "next": following,
    }


# ----------------------------------------------------------------------------------------- trust


def trust(
    cli: Cli,
    folder: Path | None = argument("DIR", default=None),
    yes: bool = flag("--yes, -y"),
    show: bool = flag("--show"),
    revoke: bool = flag("--revoke"),
    listed: bool = flag("--list"),
) -> None:
    """Show what a project's configuration would run, send, read and create; allow it if you agree.

    A configuration that came with a repository is data until then. What you trust is this content
    at this place: any change, a copy elsewhere or another owner asks anew.

    Args:
        folder: The project's folder; the one of this folder by default.
        yes: Trust it without asking.
        show: Only show what it would allow.
        revoke: Trust it no more.
        listed: List what is trusted on this machine.
    """
    if sum((show, revoke, listed)) > 1 or (yes and (show or revoke or listed)):
        raise misuse("--show", "use one of --yes, --show, --revoke and --list")
    if listed:
        found = list(TrustRecords().all())
        lines = [f"{one.path}  since {one.trusted_at}" for one in found]
        nothing = "No project's configuration is trusted on this machine."
        documents = [selected(one, "path owner sha256 trusted_at") for one in found]
        cli.output.outcome({"trusted": documents}, *(lines or [nothing]))
        return
    path = _configuration_of(folder)
    if not revoke:
        _trust(cli, path, yes=yes, only_show=show)
        return
    was = TrustRecords().remove(path)
    said = "is not trusted any more" if was else "was not trusted; nothing was changed"
    cli.output.outcome({"path": path, "trusted": False, "changed": was}, f"{path} {said}.")


def _configuration_of(folder: Path | None) -> Path:
    """Return the path of a project's configuration file; the file may not exist."""
    start = Path.cwd() if folder is None else Path.cwd() / folder
    found = find_data_folder(start) if folder is None else None
    return (found if found is not None else start / NAME) / FILE_NAME


def _trust(cli: Cli, path: Path, *, yes: bool, only_show: bool) -> None:
    data = read_regular_file(OsFileSystem(), str(path), path=path, max_bytes=MAX_BYTES)
    if data is None:
        raise NothingToTrust(path)
    values = _checked(path, data)
    lines = allowances(values, own_document())
    named = named_files(values, path.parent.parent)  # read once: what is shown is what is trusted
    trusted = TrustRecords().find(path, data) is not None
    if not cli.output.json:
        _show(cli, real_place(path) or str(path), lines, named, trusted=trusted)
    if not only_show and not trusted and lines:
        cli.output.ask(f"Allow this to {path}?", yes=yes)
        trust_file(path, data, named, now=cli.outside.clock())
        trusted = True
        if not cli.output.json:
            cli.output.line(f"{path} is trusted as it is now; a change of it asks anew.")
    shown = {key: _text(one) for key, one in named.items()}
    cli.output.wrote({"path": path, "trusted": trusted, "allows": lines, "names": shown})


def _checked(path: Path, data: bytes) -> dict[str, Any]:
    """Parse a configuration and validate all its sections as if it were trusted."""
    from .....questions.config import config_of

    values, faults = document_of(data)
    file = ConfigurationFile(
        path=path, root=path.parent.parent, exists=True, above=False, values=values, faults=faults
    )
    config_of(file)
    checked_configuration(file)
    return values


def _show(
    cli: Cli, path: str, lines: list[str], named: Mapping[str, NamedFile], *, trusted: bool
) -> None:
    if not lines:
        cli.output.line(f"{path} asks for nothing that needs trust.")
        return
    cli.output.line(f"{path} {'allows' if trusted else 'would allow'}:")
    for line in lines:
        cli.output.line(f"  {line}")
    for key, one in named.items():
        cli.output.line(f"{key} says, in {one.path}:")
        cli.output.lines(indent(_text(one).rstrip(), "  "))
    if trusted:
        cli.output.line("It is trusted as it is; --revoke ends that.")


def _text(named: NamedFile) -> str:
    return named.content.decode("utf-8", "replace")


# ---------------------------------------------------------------------------------------- schema


def schema(cli: Cli) -> None:
    """Show the JSON Schema (draft 2020-12) of a session, as `show --json` writes it."""
    cli.output.lines(json.dumps(harness.session_schema(), indent=2, ensure_ascii=False))
