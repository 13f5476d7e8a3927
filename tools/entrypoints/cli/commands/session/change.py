"""Commands that change one session: its state, budget and labels, and its place in its history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..... import harness
from .....harness.views.checkpoints import last_kept
from ...context import Cli
from ...options import (
    CHECKPOINT,
    METADATA,
    TAGS,
    Reason,
    SessionId,
    Tokens,
    Yes,
    argument,
    flag,
    misuse,
    option,
    parse_metadata,
)
from ...output.documents import labels_document, selected, state_document
from ...output.text import counted_of, some_of

if TYPE_CHECKING:
    from .....harness.views.checkpoints import CheckpointEntry


def pause(cli: Cli, session_id: SessionId, reason: Reason) -> None:
    """Stop an active session until it is resumed."""
    _lead(cli, session_id, lambda manager: manager.pause(reason))


def abort(cli: Cli, session_id: SessionId, reason: Reason, yes: Yes) -> None:
    """Abort a session for good; asks first."""
    _, session = cli.load(session_id)
    if not session.state.is_terminal:
        cli.output.ask(f"Abort session {session.session_id} for good?", yes=yes)
    _lead(cli, session.session_id, lambda manager: manager.abort(reason))


def complete(cli: Cli, session_id: SessionId) -> None:
    """Mark an active session as completed, for good."""
    _lead(cli, session_id, lambda manager: manager.complete())


def _lead(cli: Cli, session_id: str, act: Callable[[harness.SessionManager], Any]) -> None:
    manager, session = cli.change(session_id, act)
    paused = session.state.value == "paused"
    cli.output.outcome(
        state_document(session, manager.store),
        f"Session {session.session_id} is {session.state.value}.",
        f"To go on: {cli.command('resume', session.session_id)}" if paused else None,
    )


def set_labels(
    cli: Cli,
    session_id: SessionId,
    title: str | None = option("--title TEXT"),
    tags: list[str] | None = TAGS,
    untag: list[str] | None = option("--untag NAME"),
    metadata: list[str] | None = METADATA,
    unset: list[str] | None = option("--unset KEY"),
) -> None:
    """Change a session's title, tags and metadata; what is not named stays as it is.

    Args:
        title: What people call the session; '' takes the title away.
        untag: A tag to take away; may be repeated.
        unset: A field of the metadata to take away; may be repeated.
    """
    from .....harness.domain.session_description import UNCHANGED

    fields = parse_metadata(metadata)
    if title is None and not (tags or untag or fields or unset):
        raise typer.BadParameter(
            "name what to change: --title, --tag, --untag, --metadata or --unset"
        )
    manager, session = cli.change(
        session_id,
        lambda manager: manager.describe(
            title=UNCHANGED if title is None else title or None,
            add_tags=tags or (),
            remove_tags=untag or (),
            metadata=fields,
            remove_metadata=unset or (),
        ),
    )
    found = {**state_document(session, manager.store), **labels_document(session)}
    if cli.output.wrote(found):
        return
    from ...output import render

    cli.output.show(render.field("session", render.words(session.session_id, "bold")))
    cli.output.show(*render.labels_lines(session))


_SHORT = 12
_NAMED = 10


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


def rewind(
    cli: Cli,
    session_id: SessionId,
    step: str | None = argument("STEP", default=None),
    *,
    yes: Yes,
    to: str | None = option(
        "--to CHECKPOINT", f"Where to: {CHECKPOINT}; by default the last with other files."
    ),
    in_turn: bool = flag("--in-turn"),
) -> None:
    """Take a session and all files of its workspace back to a checkpoint; asks first.

    The history only grows, and spent tokens stay spent. The workspace as it is now is kept as a
    checkpoint before, so that you can go forward to it again. In an agent's session these are the
    files of your own folder.

    With STEP, a program's session goes back to before that step, and keeps its files.

    Args:
        step: A step of the program that leads the session, as draft#3, or draft for all of them.
        in_turn: Also while an agent's turn is under way: the one that asks, or an interrupted one.
    """
    from .....wiring.bootstrap import open_snapshots

    if step is not None:
        if to is not None or in_turn:
            raise misuse("STEP", "is of a program's steps; leave out --to and --in-turn")
        _rewind_steps(cli, cli.own_id(session_id), step, yes=yes)
        return
    manager, session = _load(cli, cli.own_id(session_id))
    before = last_kept(session).snapshot
    if to is None:
        to = _last_other(manager)
    found = manager.diff(to).files
    tree = open_snapshots(manager.store, cli.objects_url).work_tree(session.session_id)
    where = "the workspace" if tree is None else str(tree)
    others = () if before is None or tree is None else manager.diff(before).files
    changed = {one.path for one in others} & {one.path for one in found}
    if changed:
        cli.output.remark(
            f"Changed since the last turn, and stored as a checkpoint first: "
            f"{some_of(sorted(changed), _NAMED)}"
        )
    cli.output.ask(
        f"Bring {counted_of(len(found), 'file')} of {where} back to checkpoint {to} of session "
        f"{session.session_id}?",
        yes=yes,
    )
    position = len(session.history)
    target = manager.rewind(to, in_turn=in_turn)
    known = [one for one in manager.checkpoints() if one.snapshot]
    left = [one.number for one in known if one.position >= position or one.snapshot == before]
    undo = cli.command("session", "rewind", session.session_id, "--to", f"{max(left, default=0)}")
    cli.output.outcome(
        {
            "session_id": session.session_id,
            "checkpoint": _document(target),
            "files": [one.path for one in found],
            "left": max(left, default=None),
        },
        f"Session {session.session_id} is back at {target.name or target.number} "
        f"(checkpoint {target.number}, {(target.snapshot or '')[:_SHORT]}).",
        f"To undo it: {undo}" if undo else None,
        None if tree else f"To go on: {cli.command('resume', session.session_id)}",
    )


def _rewind_steps(cli: Cli, session_id: str, step: str, *, yes: bool) -> None:
    from .....harness.steps.branches import first_entry_of, rewind_before
    from .....harness.steps.step_views import words_to_go_on

    store = cli.store()
    _, again = first_entry_of(store, session_id, step)
    cli.output.ask(
        f"Run {counted_of(again, 'step')} of session {session_id} again, {step} and what was "
        "recorded after it?",
        yes=yes,
    )
    again = rewind_before(store, session_id, step, clock=cli.outside.clock)
    cli.output.outcome(
        {"session_id": session_id, "step": step, "steps_again": again},
        f"Session {session_id} is back before {step}: {counted_of(again, 'step')} run again. "
        "What they cost stays spent; files are as they were.",
        f"To go on: {cli.command(*words_to_go_on(store, session_id))}",
    )


def _last_other(manager: harness.SessionManager) -> str:
    """Return the last checkpoint in force whose files differ from the present ones."""
    found = [one for one in manager.checkpoints() if one.in_force and one.snapshot]
    for one in reversed(found):
        if manager.diff(one.number).files:
            return str(one.number)
    raise misuse("--to", "no checkpoint has other files than there are now; nothing was changed")


def fork(
    cli: Cli,
    session_id: SessionId,
    step: str | None = argument("STEP", default=None),
    *,
    budget: Tokens,
    at: str | None = option("--at CHECKPOINT", f"Where to begin: {CHECKPOINT}."),
    key: str | None = option("--key KEY"),
    branch: str | None = option("--branch NAME"),
    folder: Path | None = option("--to DIR"),
) -> None:
    """Begin a new session where another one stood at a checkpoint; the other one stays as it is.

    Without --budget it goes on with the other's budget, with what that has spent. The files of an
    agent's session go into a new work tree of your repository, on a new branch: agents that work
    there work in the new session.

    With STEP, the new session of a program has what was recorded before that step.

    Args:
        step: A step of the program that leads the session, as draft#3, or draft for all of them.
        key: The key of a program's new session; the other's with a number after it by default.
        branch: The new branch, for an agent's session.
        folder: The new work tree; beside the other one, by default, with the branch in its name.
    """
    if step is not None:
        if at is not None or branch is not None or folder is not None:
            raise misuse("STEP", "is of a program's steps; leave out --at, --branch and --to")
        _fork_steps(cli, cli.own_id(session_id), step, key, budget)
        return
    if at is None or key is not None:
        name, text = ("--key", "is of a program's steps; name one")
        if at is None:
            name, text = ("--at", "name a checkpoint, or a step of a program's session")
        raise misuse(name, text)
    from .....agents.hooks.project_place import BRANCH, COMMIT
    from .....wiring.bootstrap import open_snapshots

    manager, parent = _load(cli, cli.own_id(session_id))
    snapshots = open_snapshots(manager.store, cli.objects_url)
    tree = snapshots.work_tree(parent.session_id)
    if tree is None:
        if branch is not None or folder is not None:
            raise misuse("--branch", "only an agent's session works in a folder of yours")
        forked = manager.fork(at, token_budget=budget)
        next_step = f"To go on: {cli.command('resume', forked.session_id)}"
    else:
        if branch is None:
            raise misuse("--branch", "name a new branch for the files of the new session")
        folder = (folder or tree.with_name(f"{tree.name}-{branch.replace('/', '-')}")).absolute()
        manager.diff(at)  # before anything is made
        snapshots.add_work_tree(parent.session_id, folder, branch)
        forked = manager.fork(at, token_budget=budget)
        tag = snapshots.work_in(forked.session_id, last_kept(forked).snapshot or "", folder)
        others = [one for one in forked.tags if one.startswith((BRANCH, COMMIT))]
        manager.describe(remove_tags=others, add_tags=[tag] if tag else ())
        next_step = f"To go on: start the agent in {folder}, on branch {branch}."
    cli.output.outcome(
        {
            "session_id": forked.session_id,
            "parent_id": parent.session_id,
            "folder": None if folder is None else str(folder),
        },
        f"Session {forked.session_id} begins at {at} of {parent.session_id}.",
        next_step,
    )


def _fork_steps(cli: Cli, session_id: str, step: str, key: str | None, budget: int | None) -> None:
    from .....harness.steps.branches import fork_before
    from .....harness.steps.step_views import words_to_go_on

    store = cli.store()
    forked, program = fork_before(
        store, session_id, step, key=key, token_budget=budget, clock=cli.outside.clock
    )
    cli.output.outcome(
        {"session_id": forked.session_id, "parent_id": session_id, "key": program.key},
        f"Session {forked.session_id} has what {session_id} recorded before {step}; its key is "
        f"{program.key}.",
        f"To go on: {cli.command(*words_to_go_on(store, forked.session_id))}",
    )


def _load(cli: Cli, shortened: str) -> tuple[harness.SessionManager, harness.SessionContext]:
    return cli.load(shortened, manager=cli.keeping_manager())


def _line(one: CheckpointEntry) -> str:
    when = one.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    files = one.snapshot[:_SHORT] if one.snapshot else "-" * _SHORT
    where = f"{one.name or '-'}  attempt {one.attempt}"
    left = "" if one.in_force else "  (gone back behind)"
    why = f"  no snapshot: {one.unkept}" if one.unkept else ""
    return f"{one.number:>4}  {files}  {when}  {one.action:<18}  {where}{left}{why}"


def _document(one: CheckpointEntry) -> dict[str, Any]:
    return selected(one, "number snapshot at action phase attempt name succeeded unkept in_force")
