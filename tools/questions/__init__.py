"""Question sessions: an agent asks, a person answers, files between them.

`QuestionSessions` is the service. A session is a directory of JSON files that any program may read
(docs/questions.md); everything here may be used by any number of processes at once.
"""

from ..base.question import InvalidQuestions, Option, Question, QuestionError
from .askers import Asker, current_directory
from .config import Config, NotifyConfig, load_config, open_sessions, shared_directory
from .disk_errors import AtomicReadError, AtomicWriteError, SessionBusy, SessionCorrupted
from .domain import (
    CleanupResult,
    QuestionSession,
    SessionAnswers,
    SessionRequest,
    StatusRecord,
    UserAnswer,
    ValidationReport,
)
from .errors import (
    AnswersTimeout,
    CallIdMismatch,
    InvalidAnswers,
    InvalidConfig,
    InvalidSessionId,
    NoAnswers,
    QuestionNotAdopted,
    QuestionStoreError,
    QuestionsUnavailable,
    SessionEnded,
    SessionExists,
    SessionNotFound,
    SessionRejected,
    TooManySessions,
)
from .files.session_files import DEFAULT_BASE_DIR
from .files.wire import parse_answers, parse_questions
from .formatting import (
    format_elaborate_request,
    format_inactive,
    format_pending,
    format_rejected,
    format_rejection,
    format_rephrase_request,
    format_status,
    format_submission,
    format_user_response,
)
from .listing import UnreadableQuestion
from .notify import Notifier, Notify
from .repository import QuestionRepository
from .rules import QuestionsConfig, check_questions, is_request_to_asker, validate_answers
from .service import QuestionSessions
from .session_status import SessionStatus

__all__ = [
    "DEFAULT_BASE_DIR",
    "AnswersTimeout",
    "Asker",
    "AtomicReadError",
    "AtomicWriteError",
    "CallIdMismatch",
    "CleanupResult",
    "Config",
    "InvalidAnswers",
    "InvalidConfig",
    "InvalidQuestions",
    "InvalidSessionId",
    "NoAnswers",
    "Notifier",
    "Notify",
    "NotifyConfig",
    "Option",
    "Question",
    "QuestionError",
    "QuestionNotAdopted",
    "QuestionRepository",
    "QuestionSession",
    "QuestionSessions",
    "QuestionStoreError",
    "QuestionsConfig",
    "QuestionsUnavailable",
    "SessionAnswers",
    "SessionBusy",
    "SessionCorrupted",
    "SessionEnded",
    "SessionExists",
    "SessionNotFound",
    "SessionRejected",
    "SessionRequest",
    "SessionStatus",
    "StatusRecord",
    "TooManySessions",
    "UnreadableQuestion",
    "UserAnswer",
    "ValidationReport",
    "check_questions",
    "current_directory",
    "format_elaborate_request",
    "format_inactive",
    "format_pending",
    "format_rejected",
    "format_rejection",
    "format_rephrase_request",
    "format_status",
    "format_submission",
    "format_user_response",
    "is_request_to_asker",
    "load_config",
    "open_sessions",
    "parse_answers",
    "parse_questions",
    "shared_directory",
    "validate_answers",
]
