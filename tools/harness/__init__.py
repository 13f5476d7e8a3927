"""Sessions: durable, resumable work of long-running agents.

from agentforge_sessions.harness import SessionManager

manager = SessionManager()
session = manager.create(workflow_type="tdflow", initial_phase="red", goal="…")
manager.advance_phase("green")

manager = SessionManager()              # in another process, after a crash or a context reset
manager.open(session.session_id)
print(manager.briefing(max_tokens=1500))
"""

from typing import TYPE_CHECKING

from ..base.exports import on_first_use

if TYPE_CHECKING:
    from ..base.clock import Clock
    from ..base.question import Option, Question
    from .disk_errors import (
        LockTimeout,
        ReadError,
        RemovalError,
        SessionUnreadable,
        WriteError,
    )
    from .domain.history_events import (
        PersonAnswer,
        QuestionAbandoned,
        QuestionAnswered,
        QuestionEnded,
        QuestionRejected,
        QuestionTimedOut,
    )
    from .domain.session_data import SessionLabels
    from .domain.session_description import UNCHANGED
    from .domain.session_observer import SessionEvent, SessionObserver
    from .errors import (
        BudgetExceeded,
        ChangedSinceShown,
        ChangesUnsaved,
        HarnessError,
        NoActiveSession,
        NoPhaseExecutor,
        NoQuestionChannel,
        QuestionWaits,
        SessionAlreadyActive,
        SessionConflict,
        SessionCorrupted,
        SessionFenced,
        SessionIdTaken,
        SessionInUse,
        SessionNotAdopted,
        SessionNotFound,
        SessionTooLarge,
        UnsupportedSchema,
    )
    from .events.event_feed import EventFeed
    from .format.session_document import session_from_dict
    from .format.session_schema import session_schema
    from .ports import (
        PhaseExecutor,
        PhaseResult,
        QuestionChannel,
        TokenCounter,
    )
    from .session_domain import (
        BudgetState,
        ImmutableSessionId,
        InvalidSession,
        InvalidSessionId,
        InvalidStateForPhaseAdvance,
        InvalidStateTransition,
        SessionArtifact,
        SessionContext,
        SessionHistory,
        SessionState,
        TokenBudget,
    )
    from .session_manager import SessionManager
    from .session_ports import LocalSessions, SessionPlaces, SessionRepository
    from .session_store import SessionStore
    from .views.briefing import estimate_tokens
    from .views.entry_events import EntryEvent
    from .views.question_entries import answers_in_words
    from .views.session_filter import BudgetLeft, SessionFilter
    from .views.session_head import SessionSummary, UnreadableSession
    from .views.session_page import InvalidCursor, SessionCursor, SessionOrder, SessionPage
else:
    __getattr__ = on_first_use(
        __name__,
        {
            ".base.clock": "Clock",
            ".base.question": "Option Question",
            "views.briefing": "estimate_tokens",
            "disk_errors": "LockTimeout ReadError RemovalError SessionUnreadable WriteError",
            "errors": "BudgetExceeded ChangedSinceShown ChangesUnsaved HarnessError "
            "NoActiveSession NoPhaseExecutor NoQuestionChannel QuestionWaits SessionAlreadyActive "
            "SessionConflict SessionCorrupted SessionFenced SessionIdTaken SessionInUse "
            "SessionNotAdopted SessionNotFound SessionTooLarge UnsupportedSchema",
            "domain.history_events": "PersonAnswer QuestionAbandoned QuestionAnswered "
            "QuestionEnded QuestionRejected QuestionTimedOut",
            "ports": "PhaseExecutor PhaseResult QuestionChannel TokenCounter",
            "views.question_entries": "answers_in_words",
            "domain.session_data": "SessionLabels",
            "domain.session_description": "UNCHANGED",
            "session_domain": "BudgetState ImmutableSessionId InvalidSession InvalidSessionId "
            "InvalidStateForPhaseAdvance InvalidStateTransition SessionArtifact "
            "SessionContext SessionHistory SessionState TokenBudget",
            "views.session_filter": "BudgetLeft SessionFilter",
            "views.session_head": "SessionSummary UnreadableSession",
            "format.session_document": "session_from_dict",
            "session_manager": "SessionManager",
            "domain.session_observer": "SessionEvent SessionObserver",
            "views.entry_events": "EntryEvent",
            "events.event_feed": "EventFeed",
            "views.session_page": "InvalidCursor SessionCursor SessionOrder SessionPage",
            "session_ports": "LocalSessions SessionPlaces SessionRepository",
            "format.session_schema": "session_schema",
            "session_store": "SessionStore",
        },
    )

__all__ = [
    "UNCHANGED",
    "BudgetExceeded",
    "BudgetLeft",
    "BudgetState",
    "ChangedSinceShown",
    "ChangesUnsaved",
    "Clock",
    "EntryEvent",
    "EventFeed",
    "HarnessError",
    "ImmutableSessionId",
    "InvalidCursor",
    "InvalidSession",
    "InvalidSessionId",
    "InvalidStateForPhaseAdvance",
    "InvalidStateTransition",
    "LocalSessions",
    "LockTimeout",
    "NoActiveSession",
    "NoPhaseExecutor",
    "NoQuestionChannel",
    "Option",
    "PersonAnswer",
    "PhaseExecutor",
    "PhaseResult",
    "Question",
    "QuestionAbandoned",
    "QuestionAnswered",
    "QuestionChannel",
    "QuestionEnded",
    "QuestionRejected",
    "QuestionTimedOut",
    "QuestionWaits",
    "ReadError",
    "RemovalError",
    "SessionAlreadyActive",
    "SessionArtifact",
    "SessionConflict",
    "SessionContext",
    "SessionCorrupted",
    "SessionCursor",
    "SessionEvent",
    "SessionFenced",
    "SessionFilter",
    "SessionHistory",
    "SessionIdTaken",
    "SessionInUse",
    "SessionLabels",
    "SessionManager",
    "SessionNotAdopted",
    "SessionNotFound",
    "SessionObserver",
    "SessionOrder",
    "SessionPage",
    "SessionPlaces",
    "SessionRepository",
    "SessionState",
    "SessionStore",
    "SessionSummary",
    "SessionTooLarge",
    "SessionUnreadable",
    "TokenBudget",
    "TokenCounter",
    "UnreadableSession",
    "UnsupportedSchema",
    "WriteError",
    "answers_in_words",
    "estimate_tokens",
    "session_from_dict",
    "session_schema",
]
