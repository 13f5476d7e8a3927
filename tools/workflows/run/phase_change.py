"""The effect of an agent's answer on the workspace, as text or edited in place; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import field, frozen

from ..agents.port import EditedFile, WorkspaceChange
from ..converters import as_tuple
from ..gates.verdict import Verdict, not_taken
from ..prompts.answers import MAX_FILE_BYTES, MAX_FILES, Answer

_NAMED = 20


@frozen(kw_only=True)
class PhaseChange:
    """The changes of an attempt, as far as its phase allows them.

    Attributes:
        written: The files to write, by path.
        deleted: The paths to remove.
        contested: Tests that no implementation can pass, each with the reason.
        refused: Paths that the agent may not change but changed in place, each with the reason.
        dropped: Other changes that are not taken and are no fault: caches, ignored files.
        sealed: Whether the agent worked without any network; None if it was not in a jail.
        said: What the agent said besides.
    """

    written: Mapping[str, EditedFile] = field(factory=dict, hash=False)
    deleted: tuple[str, ...] = field(default=(), converter=as_tuple)
    contested: tuple[tuple[str, str], ...] = field(default=(), converter=as_tuple)
    refused: tuple[tuple[str, str], ...] = field(default=(), converter=as_tuple)
    dropped: tuple[str, ...] = field(default=(), converter=as_tuple)
    sealed: bool | None = None
    said: str = ""

    @property
    def touched(self) -> tuple[str, ...]:
        """The paths to write or remove."""
        return (*self.written, *self.deleted)

    @property
    def says_something(self) -> bool:
        """Whether it changes anything, tried to, or contests a test."""
        return bool(self.written or self.deleted or self.contested or self.refused)


def change_of_answer(answer: Answer, said: str) -> PhaseChange:
    """Return the changes of a text answer, whose paths were checked when it was parsed."""
    return PhaseChange(
        written={
            one.path: EditedFile(path=one.path, content=one.content.encode(), executable=None)
            for one in answer.files
        },
        deleted=answer.deleted,
        contested=answer.contested,
        said=said.strip(),
    )


def change_of_edit(
    change: WorkspaceChange, answer: Answer, said: str, refuse: Callable[[str], str | None]
) -> PhaseChange:
    """Return the changes of an agent that edited in place, by the rules for an answer's files.

    Args:
        change: Its changes.
        answer: Its text, parsed.
        said: Its text.
        refuse: Returns why a path may not be written, or None.
    """
    refused = dict(change.refused)
    for path in (*(one.path for one in change.written), *change.deleted):
        problem = refuse(path)
        if problem is not None:
            refused.setdefault(path, problem)
    for one in change.written:
        if len(one.content) > MAX_FILE_BYTES:
            refused.setdefault(one.path, f"it has more than {MAX_FILE_BYTES:,} bytes")
    kept = [one for one in change.written if one.path not in refused]
    for late in kept[MAX_FILES:]:
        refused[late.path] = f"the change has more than {MAX_FILES} files"
    return PhaseChange(
        written={one.path: one for one in kept[:MAX_FILES]},
        deleted=[path for path in change.deleted if path not in refused],
        contested=answer.contested,
        refused=refused.items(),
        dropped=change.dropped,
        sealed=change.sealed,
        said=said.strip(),
    )


def refused_answer(answer: Answer, call: int) -> Verdict:
    """Return the verdict on a rejected answer."""
    if answer.faults:
        count = len(answer.faults)
        summary = f"the answer can't be taken: {answer.faults[0]}"
        if count > 1:
            summary += f" (and {count - 1} more)"
        evidence = [*answer.faults, "Nothing of it was applied. Give all files again."]
    else:
        summary = "the answer holds no file"
        evidence = [
            "The answer holds no fenced block whose mark names a path. See the form of the answer.",
            *answer.notes,
        ]
    return not_taken(summary, evidence, calls=call)


def unchanged_files(change: PhaseChange, call: int) -> Verdict:
    """Return the verdict on an agent that edits in place and changed nothing."""
    evidence = ["The files are as they were. Change them in the folder that you work in."]
    if change.dropped:
        evidence.append(
            f"Not taken, since the project's rules ignore them: {', '.join(change.dropped[:20])}"
        )
    return not_taken("the agent changed no file", evidence, calls=call)


def put_back(change: PhaseChange, phase: str) -> Verdict | None:
    """Return the verdict on a change that was partly undone; None if nothing was."""
    if not change.refused:
        return None
    first, count = change.refused[0][0], len(change.refused)
    more = f" and {count - 1} more" if count > 1 else ""
    named = change.refused[:_NAMED]
    evidence = [f"Put back, {_plain(path)}: {_plain(reason)}" for path, reason in named]
    if count > _NAMED:
        evidence.append(f"And {count - _NAMED} more were put back.")
    evidence.append(
        "What else you changed was kept. Change nothing but what this phase may write; the gate "
        "has not judged yet."
    )
    return not_taken(
        f"the agent changed what phase {phase} may not: {_plain(first)}{more}, put back",
        evidence,
        put_back=[_plain(path) for path, _ in change.refused],
    )


def _plain(text: str) -> str:
    """Escape what UTF-8 can't encode, and terminal control characters."""
    shown = text.encode("utf-8", "backslashreplace").decode()
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in shown)
