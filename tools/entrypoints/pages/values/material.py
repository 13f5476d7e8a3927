"""Reads a page's material besides the session itself: steps, files, differences.

A part that can't be read doesn't fail the page; the page shows the reason in its place. Without
snapshots, the changes of an attempt are derived from the agent's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from attrs import evolve, field, frozen

from ....base.errors import AgentForgeError
from ....base.files import FileSystem, OsFileSystem, ReadError, read_beneath
from ....base.files.trees import TreeChanges
from ....base.question import Option, Question
from ....harness import SessionContext
from ....harness.domain.history_events import InputsPlaced
from ....harness.session_ports import SessionRepository
from ....harness.steps.step_views import ProgramView, program_view
from ....harness.views.question_entries import questions_asked
from ....harness.views.session_filter import SessionFilter
from ....harness.views.session_head import SessionSummary
from ....harness.views.work_state import NOTHING_KNOWN, KnownWork
from ....workflows.agents.port import AgentAnswer
from ....workflows.converters import made
from ....workflows.gates.verdict import Verdict
from ....workflows.job import SPECIFICATION_NAME
from ....workflows.prompts.answers import parse_answer
from ....workflows.run.step_journal import StepJournal, StoredAnswer
from .asked_questions import options_by_prompt
from .attempts import AttemptView, ChangeView, Step, attempts_of, with_steps
from .contents import MAX_FILE_TEXT, Content, ImageContent, NoContent, TextContent, content_of
from .patches import FileDiff, file_difference, read_patch

_FROM_ANSWERS = (
    "As far as the agent's answers say: there is no snapshot of the workspace to compare."
)


def answered_files(
    attempts: Iterable[AttemptView],
) -> tuple[dict[int, ChangeView], dict[str, bytes]]:
    """Return each attempt's changes by its number, and the files after the last attempt by path.

    Attempts must come oldest first. A file's content before its first answer is unknown, so the
    file counts as added.
    """
    files: dict[str, bytes] = {}
    changes: dict[int, ChangeView] = {}
    for attempt in attempts:
        applied = _applied(attempt)
        found = [
            difference
            for path, content in sorted(applied.items())
            if (difference := file_difference(path, files.get(path), content)) is not None
        ]
        for path, content in applied.items():
            if content is None:
                files.pop(path, None)
            else:
                files[path] = content
        if found:
            changes[attempt.number] = ChangeView(files=tuple(found), note=_FROM_ANSWERS)
    return changes, files


def _applied(attempt: AttemptView) -> dict[str, bytes | None]:
    """Return the contents that an attempt wrote, by path; None for a deleted file.

    If the verdict lists written and deleted paths, all others are left out.
    """
    applied: dict[str, bytes | None] = {}
    for call in attempt.calls:
        if call.stored is not None:
            applied |= _in_answer(call.stored.answer)
    facts = attempt.verdict.facts if isinstance(attempt.verdict, Verdict) else {}
    if "written" not in facts:
        return applied
    taken = {str(path) for key in ("written", "deleted") for path in facts.get(key) or ()}
    return {path: content for path, content in applied.items() if path in taken}


def _in_answer(answer: AgentAnswer) -> dict[str, bytes | None]:
    if answer.change is None:
        said = parse_answer(answer.text)
        written: dict[str, bytes | None] = {one.path: one.content.encode() for one in said.files}
        return written | dict.fromkeys(said.deleted)
    edited = {one.path: one.content for one in answer.change.written}
    found = edited | dict.fromkeys(answer.change.deleted)
    refused = {path for path, _ in answer.change.refused}
    return {path: content for path, content in found.items() if path not in refused}


Differences: TypeAlias = Callable[[int | None, int], TreeChanges]
"""Compares the workspace at two checkpoints, given by number (None for the state in which the work
began), and returns the changed lines too."""
AskedUnder: TypeAlias = Callable[[str], Sequence[Question]]
"""Returns the questions asked under an id."""

MAX_ATTEMPTS: Final = 50
"""Maximum number of attempts shown in full; the last ones are."""
MAX_FILES: Final = 200
"""Maximum number of files shown with their contents."""
MAX_CHILDREN: Final = 50
"""Maximum number of child sessions shown."""
_NOTHING_KNOWN: Final = KnownWork(work=NOTHING_KNOWN, changed="", steps=())
_MAX_TEXT: Final = 2_000_000
_MAX_IMAGES: Final = 4 << 20
_MAX_READ: Final = 4 << 20
_ENOUGH: Final = "the page shows no more files; they are in the session's workspace"


@frozen(kw_only=True)
class SessionMaterial:
    """The material of a session's page besides the session itself.

    Attributes:
        attempts: The attempts, oldest first; the last `MAX_ATTEMPTS` with their stored steps.
        contents: The contents of the files that the session made, by path.
        specification: The specification that it works from, or None.
        offered: The answers that questions offered, by the question's text.
        children: The child sessions that changed last, as `PageSource.children` returns them.
        work: The state of the work, for its briefing.
        program: The program that leads it, or None.
    """

    attempts: tuple[AttemptView, ...] = ()
    contents: Mapping[str, Content] = field(factory=dict, repr=False)
    specification: Content | None = None
    offered: Mapping[str, tuple[Option, ...]] = field(factory=dict)
    children: tuple[SessionSummary, ...] = ()
    work: KnownWork = _NOTHING_KNOWN
    program: ProgramView | None = None


@frozen
class PageSource:
    """Reader of the material of a session's page.

    Attributes:
        session: The session.
        sessions: The repository that holds it.
        workspace: Its workspace, or None if that is on another machine.
        differences: Compares its checkpoints; if None, changes are derived from answers.
        questions: Returns the questions asked under an id; None if they are not available.
        work: Returns the state of the work; None if it is not available.
        fs: The file system of the workspace.
    """

    session: SessionContext
    sessions: SessionRepository
    workspace: Path | None = field(default=None, kw_only=True)
    differences: Differences | None = field(default=None, kw_only=True)
    questions: AskedUnder | None = field(default=None, kw_only=True)
    work: Callable[[], KnownWork] | None = field(default=None, kw_only=True)
    fs: FileSystem = field(factory=OsFileSystem, kw_only=True)

    def read(self) -> SessionMaterial:
        """Read all material except the child sessions.

        Raises:
            ReadError: The steps can't be listed.
        """
        attempts = attempts_of(self.session)
        steps = self._steps(attempts[-MAX_ATTEMPTS:])
        shown = [with_steps(one, steps) for one in attempts[-MAX_ATTEMPTS:]]
        changes, files = answered_files(shown)
        changed = [evolve(one, change=self._change(one, changes.get(one.number))) for one in shown]
        return SessionMaterial(
            attempts=(*attempts[:-MAX_ATTEMPTS], *changed),
            contents=self._contents(files),
            specification=self._specification(),
            offered=options_by_prompt(self._questions(steps.values())),
            work=_NOTHING_KNOWN if self.work is None else self.work(),
            program=program_view(self.sessions, self.session),
        )

    def children(self) -> tuple[SessionSummary, ...]:
        """Return the child sessions, at most the `MAX_CHILDREN` that changed last.

        Separate from `read` because it reads the heads of all sessions.

        Raises:
            ReadError: The sessions can't be listed.
        """
        wanted = SessionFilter(parent_id=self.session.session_id)
        return self.sessions.page(wanted, limit=MAX_CHILDREN).sessions

    # ----------------------------------------------------------------------------------- the steps

    def _steps(self, attempts: Sequence[AttemptView]) -> dict[str, Step]:
        journal = StepJournal(self.sessions, self.session.session_id)
        wanted = tuple(f"{one.key.serial:04d}-{one.key.phase}-" for one in attempts)
        found: dict[str, Step] = {}
        for name in journal.names():
            if name.startswith(wanted):
                try:
                    found[name] = _step(journal, name)
                except ReadError as error:
                    found[name] = error
        return found

    def _questions(self, steps: Iterable[Step]) -> Iterator[Question]:
        """Yield the questions that agents asked, as far as they can be read."""
        for step in steps:
            if isinstance(step, StoredAnswer):
                yield from step.answer.questions
        if self.questions is None:
            return
        for question_id in sorted(questions_asked(self.session)):
            with suppress(AgentForgeError, OSError):  # maybe deleted; the history has the rest
                yield from self.questions(question_id)

    # ----------------------------------------------------------------------------- the differences

    def _change(self, attempt: AttemptView, answered: ChangeView | None) -> ChangeView | None:
        """Return an attempt's changes, from its snapshots if there are any, else from answers."""
        if self.differences is None or attempt.after is None:
            return answered
        if attempt.after == attempt.before:
            return ChangeView(by_snapshots=True)
        try:
            found = self.differences(attempt.before, attempt.after)
        except (AgentForgeError, OSError) as error:
            known = answered or ChangeView()
            return evolve(known, note=f"The snapshots can't be compared: {error}")
        files = _files_of(found)
        if attempt.before is None:
            files = self._without_inputs(files)
        return ChangeView(files=files, by_snapshots=True)

    def _without_inputs(self, files: Iterable[FileDiff]) -> tuple[FileDiff, ...]:
        """Leave out inputs placed before the first attempt that the session did not change."""
        made = {one.path for one in self.session.artifacts}
        placed = {
            path
            for entry in self.session.history
            if isinstance(event := entry.event, InputsPlaced)
            for path in event.paths
        }
        return tuple(one for one in files if one.path in made or one.path not in placed)

    # ----------------------------------------------------------------------------------- the files

    def _contents(self, answered: Mapping[str, bytes]) -> dict[str, Content]:
        text, images = _MAX_TEXT, _MAX_IMAGES
        found: dict[str, Content] = {}
        for path in dict.fromkeys(one.path for one in reversed(self.session.artifacts)):
            if len(found) >= MAX_FILES or text <= 0:
                found[path] = NoContent(_ENOUGH)
                continue
            content = self._content(path, answered.get(path), text)
            if isinstance(content, TextContent):
                text -= len(content.text)
            elif isinstance(content, ImageContent):
                images -= content.size
                content = content if images >= 0 else NoContent(_ENOUGH)
            found[path] = content
        return found

    def _content(self, path: str, answered: bytes | None, room: int) -> Content:
        if self.workspace is None or not self.workspace.is_dir():
            data, missing = answered, "its workspace is not here"
        else:
            missing = "it is not in the workspace any more"
            try:
                data = read_beneath(self.fs, self.workspace, path, max_bytes=_MAX_READ)
            except (ReadError, OSError) as error:
                data, missing = None, f"it can't be read: {error}"
        if data is None:
            return NoContent(missing)
        return content_of(data, max_text=min(room, MAX_FILE_TEXT))

    def _specification(self) -> Content | None:
        try:
            data = self.sessions.read_attachment(self.session.session_id, SPECIFICATION_NAME)
        except ReadError as error:
            return NoContent(f"it can't be read: {error}")
        return None if data is None else content_of(data)


def _step(journal: StepJournal, name: str) -> Step:
    """Read and validate a stored step.

    Raises:
        ReadError: The file can't be read or holds no valid step.
    """
    value = journal.read(name) or {}
    return journal.made(name, lambda: _STEPS[name.split(".")[-2]](value))


def _prompt(value: Mapping[str, Any]) -> str:
    if not isinstance(prompt := value["prompt"], str):
        raise TypeError("the prompt is no text")
    return prompt


_STEPS: Final[Mapping[str, Callable[[Mapping[str, Any]], Step]]] = {
    "prompt": _prompt,
    "answer": StoredAnswer.from_json,
    "verdict": partial(made, Verdict),
}


def _files_of(found: TreeChanges) -> tuple[FileDiff, ...]:
    """Return the files of a comparison, with their changed lines if the patch holds them."""
    lines = {one.path: one for one in read_patch(found.patch)}
    return tuple(
        evolve(lines[one.path], kind=one.kind)
        if one.path in lines
        else FileDiff(path=one.path, kind=one.kind, is_binary=one.insertions is None)
        for one in found.files
    )
