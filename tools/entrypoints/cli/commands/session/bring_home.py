"""Commands that bring a session's result home: diff, apply, export, report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from attrs import frozen

from ..... import harness
from .....base.errors import listed
from .....base.files import DirectoryLock, OsFileSystem, replace_file
from .....repository.apply.applied import Applied
from .....repository.apply.apply import abort_apply, continue_apply
from .....repository.apply.apply_plan import ApplyOptions
from .....wiring.bootstrap import open_snapshots, session_results
from ...asking import question_sessions
from ...context import Cli
from ...options import (
    CHECKPOINT,
    QuestionPlace,
    SessionId,
    argument,
    complete_session_ids,
    flag,
    misuse,
    option,
)
from ...output.documents import selected
from ...output.errors import ExitCode
from ...output.text import counted_of, safe, some_of
from ...signatures import given

if TYPE_CHECKING:
    from rich.text import Text

    from .....base.files.trees import FileChange, TreeChanges
    from .....questions import QuestionSessions

_AT: Final = option(
    "--at CHECKPOINT", "The result at this checkpoint; the workspace's last by default."
)
_SHOWN = 50
_NAMED = 10
_BAR = 40


def diff(
    cli: Cli,
    session_id: SessionId,
    before: str | None = argument(
        "A", f"From here: {CHECKPOINT}; by default, where work began.", None
    ),
    after: str | None = argument("B", default=None),
    stat: bool = flag("--stat"),
) -> None:
    """Show what changed in a session's workspace between two checkpoints.

    By default all that the session changed until now is shown.

    Args:
        after: To here; by default, the workspace as it is now.
        stat: Show the files and counts only.
    """
    manager, session = cli.load(session_id, manager=cli.keeping_manager())
    found = manager.diff(before, after, patch=not stat)
    text = found.patch.decode("utf-8", "backslashreplace")
    columns = "path kind old_mode new_mode insertions deletions"
    document = {
        "session_id": session.session_id,
        "before": before,
        "after": after,
        "files": [selected(one, columns) for one in found.files],
        **selected(found, "insertions deletions"),
        **({} if stat else {"patch": text}),
    }
    if cli.output.wrote(document):
        return
    if stat or not found.files:
        show_stat(cli, found)
    else:
        cli.output.show(colored(text))


def show_stat(cli: Cli, found: TreeChanges) -> None:
    """Write the changed files, with how much changed in each."""
    most = max((_size(one) for one in found.files), default=0)
    for one in found.files:
        cli.output.line(f"{one.path} | {_bar(one, most)}")
    if not found.files:
        cli.output.line("Nothing changed.")
        return
    cli.output.line(
        f"{counted_of(len(found.files), 'file')} changed, {counted_of(found.insertions, 'line')} "
        f"added, {counted_of(found.deletions, 'line')} removed"
    )


def _size(one: FileChange) -> int:
    return (one.insertions or 0) + (one.deletions or 0)


def _bar(one: FileChange, most: int) -> str:
    kind = "" if one.kind == "modified" else f" ({one.kind})"
    if one.insertions is None or one.deletions is None:
        return f"binary{kind}"
    scale = 1.0 if most <= _BAR else _BAR / most
    plus = -(-one.insertions * scale // 1)
    minus = -(-one.deletions * scale // 1)
    return f"{_size(one)} {'+' * int(plus)}{'-' * int(minus)}{kind}"


def colored(patch: str) -> Text:
    """Return a patch in colours, each line made safe for a terminal."""
    from rich.text import Text

    text = Text()
    for line in patch.split("\n")[:-1]:
        text.append(f"{safe(line)}\n", style=_style(line))
    text.rstrip()
    return text


def _style(line: str) -> str:
    if line.startswith(("diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "old mode")):
        return "bold"
    if line.startswith("@@"):
        return "cyan"
    return {"+": "green", "-": "red"}.get(line[:1], "")


@frozen
class Applying:
    """Options that select what to apply of a session's result, and how.

    Attributes:
        session_id: The session's id, or a part of it.
        files: Only these paths, as in '*.py' or src/**; may be repeated.
        commit: Commit it; the commit holds nothing else.
        message: The commit's message.
        branch: Commit it on this new branch, from where the session began; the checkout stays as it
            is.
        merge: Where you and the session changed the same lines, write both between conflict
            markers, as git does.
        hooks: With --commit: commit by your own git, with its hooks and signing.
        filters: Run the filter programs of your git, such as Git LFS.
        dry_run: Only show what would change.
    """

    session_id: str | None = argument("ID", default=None, autocompletion=complete_session_ids)
    at: str | None = _AT
    files: list[str] | None = option("--files GLOB")
    commit: bool = flag("--commit")
    message: str | None = option("--message, -m TEXT")
    branch: str | None = option("--branch NAME")
    merge: bool = flag("--merge")
    hooks: bool = flag("--hooks")
    filters: bool = flag("--filters")
    dry_run: bool = flag("--dry-run")

    def require_consistent(self) -> None:
        """Reject options that have no meaning together.

        Raises:
            typer.BadParameter: An option conflicts with another, or lacks the one it needs.
        """
        if self.hooks and not self.commit:
            raise misuse("--hooks", "hooks run at a commit; add --commit")
        if self.branch is not None and (self.commit or self.hooks):
            raise misuse(
                "--branch", "a branch gets its commit by itself, without --commit and --hooks"
            )
        if self.merge and (self.commit or self.branch is not None):
            raise misuse("--merge", "conflicts can't be committed; leave --commit and --branch out")
        if self.message is not None and not (self.commit or self.branch is not None):
            raise misuse("--message", "only a commit has a message; add --commit or --branch")


def apply(
    cli: Cli,
    *,
    applying: Applying,
    repo: Path | None = option("--repo PATH"),
    go_on: bool = flag("--continue"),
    abort: bool = flag("--abort"),
) -> None:
    """Bring a session's result into your checkout: as a whole, or not at all.

    What the session changed is merged with your commit, written to the files and staged. Where
    that would touch work that is not committed, nothing is done, and every such path is named.

    Args:
        repo: The checkout; the one that the session began from by default.
        go_on: Finish an apply that was interrupted.
        abort: Undo an apply that was interrupted.
    """
    if go_on or abort:
        _require_alone(applying, both=go_on and abort)
        _take_up(cli, repo or Path(), forward=go_on)
        return
    if applying.session_id is None:
        raise misuse("ID", "name a session; run `agentforge list` to see them")
    applying.require_consistent()
    options = ApplyOptions(
        files=tuple(applying.files or ()),
        **selected(applying, "commit message branch merge hooks"),
        run_filters=applying.filters,
    )
    _, session = cli.load(cli.own_id(applying.session_id))
    results = session_results(cli.store(), cli.objects_url)
    applied = results.apply(
        session, options, at=applying.at, checkout=repo, dry_run=applying.dry_run
    )
    if applied.left_out and not (applied.paths or applied.already or applied.ignored):
        raise misuse(
            "--files",
            f"no changed path matches, so nothing was done. Changed: "
            f"{some_of(applied.left_out, _NAMED)}",
        )
    show_applied(cli, applied, session.session_id)
    if applied.conflicts and not applied.dry_run:
        raise typer.Exit(ExitCode.NOT_DONE)


def _require_alone(applying: Applying, *, both: bool) -> None:
    """Reject all other options with --continue or --abort: the journal says what the apply does."""
    others = given(applying)
    if both or others:
        named = "a session" if others[:1] == ["ID"] else "".join(others[:1])
        raise misuse(
            "--continue/--abort",
            f"an interrupted apply is finished or undone as it was begun; leave out {named}"
            if others
            else "finish the apply or undo it: not both",
        )


def _take_up(cli: Cli, checkout: Path, *, forward: bool) -> None:
    applied = continue_apply(checkout) if forward else abort_apply(checkout)
    done = "finished" if forward else "undone"
    cli.output.outcome(
        {**applied_document(applied), "outcome": done},
        f"The apply to {applied.checkout} is {done}: "
        f"{counted_of(len(applied.paths), 'path')} {'changed' if forward else 'as before'}.",
    )


def show_applied(cli: Cli, applied: Applied, session_id: str) -> None:
    """Write what an apply did."""
    if cli.output.wrote({"session_id": session_id, **applied_document(applied)}):
        return
    line = cli.output.line
    signs = {"added": "A", "modified": "M", "deleted": "D"}
    shown = [f"{signs[one.change]} {one.path}" for one in applied.paths]
    shown += [f"C {path}" for path in applied.conflicts]
    for text in shown[:_SHOWN]:
        line(text)
    if len(shown) > _SHOWN:
        line(f"and {len(shown) - _SHOWN} more")
    if applied.ignored:
        name = "it" if len(applied.ignored) == 1 else "them"
        line(
            f"{counted_of(len(applied.ignored), 'new file')} stayed out, since your ignore rules "
            f"name {name}: {listed(applied.ignored, most=_NAMED, what='')}"
        )
    if applied.left_out:
        line(f"{counted_of(len(applied.left_out), 'changed path')} stayed out by --files.")
    line(_outcome(applied))


def _outcome(applied: Applied) -> str:
    """Return what an apply did, in a sentence."""
    count = counted_of(len(applied.paths), "path")
    if applied.conflicts:
        count += f" and {len(applied.conflicts)} in conflict"
    if applied.nothing_to_do:
        if applied.already:
            return f"Applied already: {applied.checkout} has all of it."
        return f"There is nothing to apply: {applied.checkout} has all that the session changed."
    if applied.dry_run:
        return f"Nothing was done; {count} would change in {applied.branch or applied.checkout}."
    commit = (applied.commit or "")[:12]
    if applied.branch is not None:
        return f"Committed {count} on branch {applied.branch} ({commit})."
    if commit:
        what = count if applied.paths else "what was staged before"
        return f"Committed {what} in {applied.checkout} ({commit})."
    end = ". Resolve the conflicts and `git add` them" if applied.conflicts else ""
    return f"Applied {count} to {applied.checkout}, staged and not committed{end}."


def applied_document(applied: Applied) -> dict[str, Any]:
    """Return what an apply did, as JSON."""
    return {
        "checkout": applied.checkout,
        "paths": [selected(one, "path change") for one in applied.paths],
        **selected(
            applied, "conflicts already ignored left_out commit branch dry_run nothing_to_do"
        ),
    }


def export(
    cli: Cli,
    session_id: SessionId,
    folder: Path = argument("DIR"),
    at: str | None = _AT,
) -> None:
    """Write a session's files to a new folder, which appears whole.

    Args:
        folder: The new folder; nothing may be there.
    """
    _, session = cli.load(session_id)
    snapshot = session_results(cli.store(), cli.objects_url).export(session, folder, at=at)
    cli.output.outcome(
        {"session_id": session.session_id, "snapshot": snapshot, "folder": folder.resolve()},
        f"The files of {session.session_id} are in {folder}.",
    )


def report(
    cli: Cli,
    session_id: SessionId,
    out: Path | None = option("--out, -o FILE"),
) -> None:
    """Write the story of a session as one HTML page that opens without a network.

    Args:
        out: Where to write it; to ID.html here by default, - is standard output.
    """
    if out == Path("-"):
        if cli.output.json:
            raise typer.BadParameter("the page and --json can't share standard output")
        cli.output.page(_page(cli, session_id)[1])
        return
    place = _report_place(out) if out is not None else None
    session, page = _page(cli, session_id)
    place = place or _report_place(Path(f"{session.session_id}.html"))
    fs = OsFileSystem()
    with DirectoryLock(fs, place.parent, follow=True) as lock:
        replace_file(fs, lock.fd, place.name, [page.encode()], path=place)
    cli.output.outcome(
        {"session_id": session.session_id, "path": str(place)}, f"Wrote {out or place.name}"
    )


def _page(cli: Cli, shortened: str) -> tuple[harness.SessionContext, str]:
    """Return a session and its HTML page."""
    from .....agents.hooks.messages import known_work
    from ....pages.session_page import session_report
    from ....pages.values.material import PageSource

    def questions() -> QuestionSessions:
        return question_sessions(cli, QuestionPlace(None, shared=False))

    manager, session = cli.load(shortened, manager=cli.keeping_manager())
    snapshots = open_snapshots(cli.store(), cli.objects_url)
    is_here = snapshots.is_here(session.session_id)
    source = PageSource(
        session,
        manager.store,
        workspace=manager.store.workspace_path(session.session_id) if is_here else None,
        differences=lambda before, after: manager.diff(before, after, patch=True),
        questions=lambda one: questions().get(one).request.questions,
        work=lambda: known_work(cli.store(), session, lambda _: True),
    )
    return session, session_report(source, now=cli.outside.clock())


def _report_place(path: Path) -> Path:
    """Return the file to write, with links resolved; reject what a file must not replace.

    The page replaces what has that name: a device there would be destroyed.
    """
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        raise misuse("--out", f"{place} is there and is no regular file; nothing was written")
    return place
