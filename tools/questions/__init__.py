"""Question sessions: an agent asks, a person answers, files connect them.

`QuestionSessions` is the service. A session is a directory of JSON files that any program may read
(docs/questions.md); any number of processes may use this package at once.
"""

from ..base.question import Option, Question, QuestionError
from .askers import Asker, current_directory
from .config import Config, load_config, open_sessions, shared_directory
from .disk_errors import AtomicReadError, SessionCorrupted
from .domain import QuestionSession, UserAnswer
from .errors import (
    AnswersTimeout,
    InvalidAnswers,
    InvalidConfig,
    NoAnswers,
    SessionEnded,
    SessionExists,
    SessionNotFound,
    SessionRejected,
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
    format_submission,
    format_user_response,
)
from .listing import UnreadableQuestion
from .notify import Notifier, Notify
from .repository import QuestionRepository
from .rules import QuestionsConfig, check_questions
from .service import QuestionSessions
from .session_status import SessionStatus

__all__ = [
    "DEFAULT_BASE_DIR",
    "AnswersTimeout",
    "Asker",
    "AtomicReadError",
    "Config",
    "InvalidAnswers",
    "InvalidConfig",
    "NoAnswers",
    "Notifier",
    "Notify",
    "Option",
    "Question",
    "QuestionError",
    "QuestionRepository",
    "QuestionSession",
    "QuestionSessions",
    "QuestionsConfig",
    "SessionCorrupted",
    "SessionEnded",
    "SessionExists",
    "SessionNotFound",
    "SessionRejected",
    "SessionStatus",
    "UnreadableQuestion",
    "UserAnswer",
    "check_questions",
    "current_directory",
    "format_elaborate_request",
    "format_inactive",
    "format_pending",
    "format_rejected",
    "format_rejection",
    "format_rephrase_request",
    "format_submission",
    "format_user_response",
    "load_config",
    "open_sessions",
    "parse_answers",
    "parse_questions",
    "shared_directory",
]
