"""Sessions: durable, resumable work of long-running agents.

from tools.harness import SessionManager

manager = SessionManager()
session = manager.create(workflow_type="tdflow", initial_phase="red", goal="…")
manager.advance_phase("green")

manager = SessionManager()              # in another process, after a crash or a context reset
manager.open(session.session_id)
print(manager.briefing(max_tokens=1500))
"""

from tools.clock import Clock
from tools.harness.asking import answers_in_words
from tools.harness.briefing import estimate_tokens
from tools.harness.disk_errors import (
    LockTimeout,
    ReadError,
    RemovalError,
    SessionUnreadable,
    WriteError,
)
from tools.harness.errors import (
    AmbiguousSessionId,
    BudgetExceeded,
    HarnessError,
    NoActiveSession,
    NoPhaseExecutor,
    NoQuestionDesk,
    QuestionWaits,
    SessionAlreadyActive,
    SessionConflict,
    SessionCorrupted,
    SessionIdTaken,
    SessionInUse,
    SessionNotFound,
    SessionTooLarge,
    UnsupportedSchema,
)
from tools.harness.ports import (
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
from tools.harness.session_manager import SessionManager
from tools.harness.session_store import SessionStore, SessionSummary, UnreadableSession

__all__ = [
    "AmbiguousSessionId",
    "BudgetExceeded",
    "BudgetState",
    "Clock",
    "HarnessError",
    "ImmutableSessionId",
    "InvalidSession",
    "InvalidSessionId",
    "InvalidStateForPhaseAdvance",
    "InvalidStateTransition",
    "LockTimeout",
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
    "ReadError",
    "RemovalError",
    "SessionAlreadyActive",
    "SessionArtifact",
    "SessionConflict",
    "SessionContext",
    "SessionCorrupted",
    "SessionHistory",
    "SessionIdTaken",
    "SessionInUse",
    "SessionManager",
    "SessionNotFound",
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
]
