"""Sessions: durable, resumable work of long-running agents.

from tools.harness import SessionManager

manager = SessionManager()
session = manager.create(workflow_type="tdflow", initial_phase="red", goal="…")
manager.advance_phase("green")

manager = SessionManager()              # in another process, after a crash or a context reset
manager.load(session.session_id)
print(manager.briefing(max_tokens=1500))
"""

from tools.harness.asking import answers_in_words
from tools.harness.errors import (
    AmbiguousSessionId,
    HarnessError,
    NoActiveSession,
    NoPhaseExecutor,
    NoQuestionDesk,
    QuestionWaits,
    SessionAlreadyActive,
    SessionConflict,
    SessionCorrupted,
    SessionInUse,
    SessionNotFound,
    SessionTooLarge,
    UnsupportedSchema,
)
from tools.harness.ports import (
    Clock,
    OfferedOption,
    PersonAnswer,
    PersonQuestion,
    PersonReply,
    PhaseExecutor,
    PhaseResult,
    QuestionDesk,
    TokenCounter,
)
from tools.harness.session_domain import (
    InvalidSession,
    InvalidSessionId,
    InvalidStateTransition,
    SessionArtifact,
    SessionContext,
    SessionHistory,
    SessionState,
    TokenBudget,
)
from tools.harness.session_manager import SessionManager
from tools.harness.session_store import SessionStore, SessionSummary, UnreadableSession

__all__ = [
    "AmbiguousSessionId",
    "Clock",
    "HarnessError",
    "InvalidSession",
    "InvalidSessionId",
    "InvalidStateTransition",
    "NoActiveSession",
    "NoPhaseExecutor",
    "NoQuestionDesk",
    "OfferedOption",
    "PersonAnswer",
    "PersonQuestion",
    "PersonReply",
    "PhaseExecutor",
    "PhaseResult",
    "QuestionDesk",
    "QuestionWaits",
    "SessionAlreadyActive",
    "SessionArtifact",
    "SessionConflict",
    "SessionContext",
    "SessionCorrupted",
    "SessionHistory",
    "SessionInUse",
    "SessionManager",
    "SessionNotFound",
    "SessionState",
    "SessionStore",
    "SessionSummary",
    "SessionTooLarge",
    "TokenBudget",
    "TokenCounter",
    "UnreadableSession",
    "UnsupportedSchema",
    "answers_in_words",
]
