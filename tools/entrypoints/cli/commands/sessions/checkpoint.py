"""Commands on checkpoints: checkpoints, diff, rewind, fork."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..... import harness
from ...context import Cli
from ...options import SessionId, Tokens, Yes, argument, flag, option
from ...output.documents import selected
from ...output.text import counted_of, safe

if TYPE_CHECKING:
    from rich.text import Text

    from .....base.files.trees import FileChange, TreeChanges
    from .....harness.views.checkpoints import CheckpointEntry

_SHORT = 12
_BAR = 40

_CHECKPOINT = (
    "a checkpoint's number, the beginning of its snapshot's id, a phase, or an attempt as green-2"
)


def checkpoints(cli: Cli, session_id: SessionId) -> None:
    """List a session's checkpoints, with the snapshots of its workspace."""
    manager, session = _load(cli, session_id)
    found = manager.checkpoints()
    size = manager.snapshots_disk_bytes() if cli.output.json or found else 0
    document = {"session_id": session.session_id, "checkpoints": [_document(one) for one in found]}
    if cli.output.wrote({**document, "disk_bytes": size}):
        return
    for one in found:
        cli.output.line(_line(one))
    if any(one.snapshot for one in found):
        from .....prune.domain import human_bytes

        cli.output.line(f"The snapshots take up {human_bytes(size)} on the disk.")
    if not found:
        cli.output.line(f"Session {session.session_id} has no checkpoint yet.")


def diff(
    cli: Cli,
    session_id: SessionId,
    before: str | None = argument(
        "A", f"From here: {_CHECKPOINT}; by default, where work began.", None
    ),
    after: str | None = argument("B", "To here; by default, the workspace as it is now.", None),
    stat: bool = flag("--stat", "Show the files and counts only."),
) -> None:
    """Show what changed in a session's workspace between two checkpoints.

    By default all that the session changed until now is shown.
    """
    manager, session = _load(cli, session_id)
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
        _show_stat(cli, found)
    else:
        cli.output.show(_colored(text))


def rewind(
    cli: Cli,
    session_id: SessionId,
    yes: Yes,
    to: str = option("--to CHECKPOINT", f"Where to: {_CHECKPOINT}.", ...),
) -> None:
    """Take a session and all files of its workspace back to a checkpoint; asks first.

    The history only grows, and spent tokens stay spent. The workspace as it is now is kept as a
    checkpoint before, so that you can go forward to it again.
    """
    _, session = _load(cli, cli.own_id(session_id))
    cli.output.ask(
        f"Replace the workspace of session {session.session_id} by that of {to}?", yes=yes
    )
    manager, session = _load(cli, session.session_id)
    target = manager.rewind(to)
    cli.output.outcome(
        {"session_id": session.session_id, "checkpoint": _document(target)},
        f"Session {session.session_id} is back at {target.name or target.number} "
        f"(checkpoint {target.number}, {(target.snapshot or '')[:_SHORT]}).",
        f"To go on: {cli.command('resume', session.session_id)}",
    )


def fork(
    cli: Cli,
    session_id: SessionId,
    budget: Tokens,
    at: str = option("--at CHECKPOINT", f"Where to begin: {_CHECKPOINT}.", ...),
) -> None:
    """Begin a new session where another one stood at a checkpoint; the other one stays as it is.

    Without --budget it goes on with the other's budget, with what that has spent.
    """
    manager, parent = _load(cli, cli.own_id(session_id))
    forked = manager.fork(at, token_budget=budget)
    cli.output.outcome(
        {"session_id": forked.session_id, "parent_id": parent.session_id},
        f"Session {forked.session_id} begins at {at} of {parent.session_id}.",
        f"To go on: {cli.command('resume', forked.session_id)}",
    )


def _load(cli: Cli, shortened: str) -> tuple[harness.SessionManager, harness.SessionContext]:
    return cli.load(shortened, manager=cli.keeping_manager())


def _line(one: CheckpointEntry) -> str:
    when = one.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    kept = one.snapshot[:_SHORT] if one.snapshot else "-" * _SHORT
    where = f"{one.name or '-'}  attempt {one.attempt}"
    left = "" if one.in_force else "  (gone back behind)"
    why = f"  no snapshot: {one.unkept}" if one.unkept else ""
    return f"{one.number:>4}  {kept}  {when}  {one.action:<18}  {where}{left}{why}"


def _document(one: CheckpointEntry) -> dict[str, Any]:
    return selected(one, "number snapshot at action phase attempt name succeeded unkept in_force")


def _show_stat(cli: Cli, found: TreeChanges) -> None:
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


def _colored(patch: str) -> Text:
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
