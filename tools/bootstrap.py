"""Where the parts meet: the harness's ports, served by the sandbox and the question sessions."""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast

from attrs import define, frozen

from .harness import (
    PersonQuestion,
    PersonReply,
    PhaseResult,
    QuestionDesk,
    QuestionWaits,
    SessionManager,
    SessionNotFound,
    SessionState,
    SessionStore,
)
from .harness.prune_target import HarnessTarget
from .prune import PruneTarget
from .workflows import RunObserver, WorkflowRunner

if TYPE_CHECKING:
    from .adapters.question_channel import PersonDesk
    from .sandbox import CancelToken, ExecutionPolicy, Sandbox
    from .workflows.gate_port import GateSandbox

DEFAULT_ENDED_HOURS: Final = 30 * 24.0
"""How long agent sessions stay after they ended when nobody names a rule, in hours."""

DEFAULT_ASK_WAIT_S: Final = 30.0
"""How long code in the sandbox waits for a person in one call, in seconds: half of the deadline
that an execution has by default."""
DEFAULT_KEPT: Final = 16
"""How many sandboxes at rest an executor keeps."""


@define
class _Kept:
    """A sandbox that is used again.

    Attributes:
        sandbox: The sandbox.
        users: How many executions are using it now.
    """

    sandbox: Sandbox
    users: int = 0


class SandboxPhaseExecutor:
    """Runs phase work in the sandbox, with the session's workspace as its only directory.

    Implements `harness.PhaseExecutor`. The sandbox is loaded at the first execution. One
    sandbox is kept for each workspace; phases in one workspace run one after another. May be used
    from any thread, and as a context manager that closes it.
    """

    def __init__(
        self,
        store: SessionStore,
        policy: ExecutionPolicy | None = None,
        *,
        kept: int = DEFAULT_KEPT,
        tools: Sequence[Callable[..., Any]] = (),
        cancel: CancelToken | None = None,
    ) -> None:
        """Make an executor; nothing runs yet.

        Args:
            store: Says where a session's workspace is.
            policy: Limits and environment of phases that name none; the sandbox's default if
                None.
            kept: The most sandboxes kept while nothing runs in them; the one used longest ago is
                closed first.
            tools: Functions of the host that the code may call; see `create_sandbox()`.
            cancel: Stops whatever runs, from any thread; its result then says so.

        Raises:
            ValueError: `kept` is negative.
        """
        if kept < 0:
            raise ValueError(f"kept: expected 0 or more, got {kept}")
        self._store = store
        self._policy = policy
        self._most_kept = kept
        self._tools = tools
        self._cancel = cancel
        self._lock = threading.Lock()
        self._kept: OrderedDict[Path, _Kept] = OrderedDict()
        self._closed = False

    def __enter__(self) -> SandboxPhaseExecutor:
        """This executor; it is closed when the block is left."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the executor."""
        self.close()

    @property
    def kept_sandboxes(self) -> int:
        """How many sandboxes there are now, those that something runs in included."""
        with self._lock:
            return len(self._kept)

    def close(self) -> None:
        """Close the sandboxes at rest now, and each other one when what runs in it has ended.

        Nothing is kept from then on; an execution after this has a sandbox for itself. Calling it
        again does nothing.
        """
        with self._lock:
            self._closed = True
            self._trim()

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
    ) -> PhaseResult:
        """Run code in the workspace of a session, which is made (mode 0700) if it is missing.

        Args:
            code: Python source.
            session_id: Whose workspace the code sees.
            deadline_s: Wall-clock limit in seconds; the policy's if None.
            fuel: Limit in WebAssembly instructions; the policy's if None.

        Returns:
            What became of it, whatever the code did.

        Raises:
            InvalidSessionId: It is no id; nothing ran.
            SessionNotFound: The session is gone; nothing ran.
            InvalidExecution: A limit or the code is none that the sandbox takes; nothing ran.
            WorkspaceError: The workspace can't be used; nothing ran.
            WorkspaceBusy: Others ran in the workspace for too long; nothing ran.
            SandboxUnavailable: This machine or process can't run guests; nothing ran.
        """
        workspace = self._store.workspace_path(session_id)
        try:
            os.mkdir(workspace, 0o700)
        except FileExistsError:
            pass
        except FileNotFoundError:
            raise SessionNotFound(session_id, path=self._store.base_path) from None
        with self._sandbox(workspace) as sandbox:
            result = sandbox.execute(code, timeout=deadline_s, fuel=fuel, cancel=self._cancel)
        return PhaseResult(
            success=result.success,
            exit_code=result.exit_code,
            trapped=result.trapped,
            stdout=result.stdout,
            stderr=result.stderr,
            truncated=result.truncated,
            duration_s=result.duration_s,
            fuel_consumed=result.fuel_consumed,
            files_created=result.files_created,
            files_modified=result.files_modified,
            files_deleted=result.files_deleted,
            workspace=result.workspace_path,
            quota_exceeded=cast("tuple[str, ...]", result.metadata["quota_exceeded"]),
            lost_writes=tuple(f"{lost.path} ({lost.errno})" for lost in result.lost_writes),
        )

    @contextmanager
    def _sandbox(self, workspace: Path) -> Iterator[Sandbox]:
        """Lend the sandbox of a workspace; it is not closed meanwhile."""
        from .sandbox import create_sandbox

        workspace = workspace.parent.resolve() / workspace.name  # wherever the process goes next
        with self._lock:
            kept = self._kept.get(workspace)
            if kept is None:
                sandbox = create_sandbox(
                    workspace=workspace, policy=self._policy, tools=tuple(self._tools)
                )
                kept = self._kept[workspace] = _Kept(sandbox)
            self._kept.move_to_end(workspace)
            kept.users += 1
        try:
            yield kept.sandbox
        finally:
            with self._lock:
                kept.users -= 1
                self._trim()

    def _trim(self) -> None:
        """Close the sandboxes at rest that are too many, the one used longest ago first."""
        most = 0 if self._closed else self._most_kept
        resting = [workspace for workspace, kept in self._kept.items() if not kept.users]
        for workspace in resting[: max(len(resting) - most, 0)]:
            self._kept.pop(workspace).sandbox.close()


@frozen(kw_only=True)
class PruneKind:
    """A kind of sessions that can be pruned.

    Attributes:
        target: Where they are and how they are dated.
        max_age_hours: How old they get, in hours, before they go when nobody names a rule; None
            where the configuration keeps them for ever, whatever rule is named.
        states: The states they may be in; none where the kind has no states.
    """

    target: PruneTarget
    max_age_hours: float | None
    states: frozenset[str] = frozenset()


def prune_kinds(
    base_path: Path | str | None = None,
    *,
    workspace_root: Path | str | None = None,
    questions_dir: Path | str | None = None,
) -> dict[str, PruneKind]:
    """Name the kinds of sessions that can be pruned.

    Args:
        base_path: Where the agent sessions are; `.agentforge/sessions` if None.
        workspace_root: Where the sandbox sessions are; `workspace` if None.
        questions_dir: Where the question sessions are; as the configuration says if None.

    Raises:
        questions.InvalidConfig: The configuration can't be used.
    """
    from .questions.config import load_config
    from .questions.prune_target import QuestionTarget
    from .questions.session_status import SessionStatus
    from .questions.store import DEFAULT_BASE_DIR
    from .sandbox.prune_target import DEFAULT_AGE_HOURS, SandboxTarget
    from .sandbox.session_files import DEFAULT_ROOT

    sandboxes = SandboxTarget(DEFAULT_ROOT if workspace_root is None else Path(workspace_root))
    sessions = HarnessTarget(SessionStore(base_path).base_path)
    config = load_config()
    directory = questions_dir if questions_dir is not None else config.directory
    questions = QuestionTarget(DEFAULT_BASE_DIR if directory is None else Path(directory))
    kept_s = config.questions.retention_s
    return {
        sandboxes.kind: PruneKind(target=sandboxes, max_age_hours=DEFAULT_AGE_HOURS),
        sessions.kind: PruneKind(
            target=sessions,
            max_age_hours=DEFAULT_ENDED_HOURS,
            states=frozenset(state.value for state in SessionState),
        ),
        questions.kind: PruneKind(
            target=questions,
            max_age_hours=kept_s / 3600 if kept_s > 0 else None,
            states=frozenset(state.value for state in SessionStatus),
        ),
    }


def ask_user_tool(
    manager: SessionManager, *, wait_s: float = DEFAULT_ASK_WAIT_S
) -> Callable[..., dict[str, object]]:
    """Make the host function `ask_user`, for `create_sandbox(tools=[...])`.

    Code in the sandbox calls it as `from host import tools; tools.ask_user(...)`. The deadline of
    an execution goes on while it waits; so it waits for `wait_s` only, and what is not answered by
    then is found by the next execution that asks the same.

    Args:
        manager: Leads the session in whose name is asked.
        wait_s: The longest wait of one call, in seconds.
    """

    def ask_user(
        prompt: str, options: list[str], title: str = "", multi_select: bool = False
    ) -> dict[str, object]:
        """Ask the person that this work is for, and wait for the answer.

        Args:
            prompt: The whole question.
            options: The answers to choose from, two to four; own words may always be given.
            title: A word or two for lists; the beginning of the prompt if empty.
            multi_select: Whether several may be chosen.
        """
        question = PersonQuestion(
            prompt=prompt,
            title=title or prompt[:24],
            options=options,
            multi_select=multi_select,
        )
        try:
            reply = manager.ask([question], timeout_s=wait_s)
        except QuestionWaits as waits:
            return {"outcome": "waiting", "question_id": waits.question_id}
        answer = reply.answers[0] if reply.answers else None
        return {
            "outcome": reply.outcome,
            "question_id": reply.question_id,
            "selected": [] if answer is None else list(answer.selected),
            "own_words": None if answer is None else answer.text,
            "text": reply.text,
            "reason": reply.reason,
        }

    return ask_user


def build_manager(
    base_path: Path | str | None = None,
    *,
    policy: ExecutionPolicy | None = None,
    questions_dir: Path | str | None = None,
    ask_user: bool = False,
) -> SessionManager:
    """Make a manager whose phases run in the sandbox, and which can ask a person.

    Args:
        base_path: Where the sessions are; `.agentforge/sessions` if None.
        policy: Limits and environment of phases that name none; the sandbox's default if None.
        questions_dir: Where the question sessions are; as the configuration says if None.
        ask_user: Whether code in the sandbox may ask, too; see `ask_user_tool()`.
    """
    store = SessionStore(base_path)
    tools: list[Callable[..., Any]] = []
    manager = SessionManager(
        store,
        executor=SandboxPhaseExecutor(store, policy, tools=tools),
        desk=_LateDesk(questions_dir),
    )
    if ask_user:
        tools.append(ask_user_tool(manager))
    return manager


class _LateDesk:
    """The desk that the configuration names, made when it is first needed."""

    def __init__(self, questions_dir: Path | str | None) -> None:
        self._directory = questions_dir
        self._made: PersonDesk | None = None

    @property
    def _desk(self) -> PersonDesk:
        if self._made is None:
            from .adapters.question_channel import PersonDesk, open_questions
            from .questions import Notifier, load_config

            config = load_config()
            sessions = open_questions(self._directory, config=config)
            teller = Notifier(config.notify, sessions.base_dir, terminal=sys.stderr)
            self._made = PersonDesk(sessions, teller)
        return self._made

    def id_for(self, key: str) -> str:
        return self._desk.id_for(key)

    def check(self, questions: Sequence[PersonQuestion]) -> None:
        self._desk.check(questions)

    def put(
        self,
        question_id: str,
        questions: Sequence[PersonQuestion],
        *,
        call_id: str | None,
        session: Path | None = None,
    ) -> None:
        self._desk.put(question_id, questions, call_id=call_id, session=session)

    def withdraw(self, question_id: str, reason: str) -> None:
        self._desk.withdraw(question_id, reason)

    def wait(self, question_id: str, timeout_s: float | None) -> PersonReply | None:
        return self._desk.wait(question_id, timeout_s)


def build_runner(
    base_path: Path | str | None = None,
    *,
    policy: ExecutionPolicy | None = None,
    observer: RunObserver | None = None,
) -> WorkflowRunner:
    """Make a runner of workflows whose phases run in the sandbox.

    Args:
        base_path: Where the sessions are; `.agentforge/sessions` if None.
        policy: Limits and environment of phases that name none; the sandbox's default if None.
        observer: Observes the runs.
    """
    return build_agent_runner(
        policy=policy, manager=build_manager(base_path, policy=policy), observer=observer
    )


def build_agent_runner(
    base_path: Path | str | None = None,
    *,
    policy: ExecutionPolicy | None = None,
    manager: SessionManager | None = None,
    gates: GateSandbox | None = None,
    desk: QuestionDesk | None = None,
    observer: RunObserver | None = None,
    answers_timeout_s: float = 0.0,
) -> WorkflowRunner:
    """Make a runner of agents' work whose gates run in the sandbox.

    Args:
        base_path: Where the sessions are; `.agentforge/sessions` if None.
        policy: Limits and environment of gates; the sandbox's default if None.
        manager: Leads the sessions, and asks a person at its own desk; a new one at `base_path`
            if None.
        gates: Where gates run; the sandbox if None.
        desk: Where the new manager puts questions to a person, as `QuestionSessionPerson`;
            without one a run pauses where a person is needed.
        observer: Observes the runs.
        answers_timeout_s: How long to wait for a person's answers before the session pauses for
            them, in seconds.

    Raises:
        ValueError: `desk` was given beside a manager, which has its own.
    """
    if manager is not None and desk is not None:
        raise ValueError("desk: is the manager's own; give it to SessionManager(desk=...)")
    from .adapters.gate_sandbox import SandboxGates
    from .workflows.agents.choice import make_agent

    return WorkflowRunner(
        manager if manager is not None else SessionManager(SessionStore(base_path), desk=desk),
        gates if gates is not None else SandboxGates(policy),
        agents=make_agent,
        observer=observer,
        answers_timeout_s=answers_timeout_s,
    )
