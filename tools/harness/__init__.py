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
    from ..base.question import Question as Question
    from .disk_errors import SessionUnreadable as SessionUnreadable
    from .disk_errors import WriteError as WriteError
    from .domain.history_events import PersonAnswer as PersonAnswer
    from .domain.history_events import QuestionAnswered as QuestionAnswered
    from .domain.history_events import QuestionEnded as QuestionEnded
    from .domain.session_observer import SessionEvent as SessionEvent
    from .domain.session_observer import SessionObserver as SessionObserver
    from .errors import HarnessError as HarnessError
    from .errors import NoActiveSession as NoActiveSession
    from .errors import PhaseWaits as PhaseWaits
    from .errors import QuestionWaits as QuestionWaits
    from .errors import SessionConflict as SessionConflict
    from .errors import SessionCorrupted as SessionCorrupted
    from .errors import SessionFenced as SessionFenced
    from .errors import SessionIdTaken as SessionIdTaken
    from .errors import SessionInUse as SessionInUse
    from .errors import SessionNotFound as SessionNotFound
    from .format.session_document import session_from_dict as session_from_dict
    from .format.session_schema import session_schema as session_schema
    from .ports import PhaseExecutor as PhaseExecutor
    from .ports import PhaseResult as PhaseResult
    from .ports import QuestionChannel as QuestionChannel
    from .session_domain import InvalidSession as InvalidSession
    from .session_domain import InvalidSessionId as InvalidSessionId
    from .session_domain import InvalidStateTransition as InvalidStateTransition
    from .session_domain import SessionArtifact as SessionArtifact
    from .session_domain import SessionContext as SessionContext
    from .session_domain import SessionHistory as SessionHistory
    from .session_domain import SessionState as SessionState
    from .session_domain import TokenBudget as TokenBudget
    from .session_manager import SessionManager as SessionManager
    from .session_ports import LocalSessions as LocalSessions
    from .session_ports import SessionRepository as SessionRepository
    from .session_store import SessionStore as SessionStore
    from .views.question_entries import answers_in_words as answers_in_words
    from .views.session_filter import SessionFilter as SessionFilter
    from .views.session_head import SessionSummary as SessionSummary
    from .views.session_head import UnreadableSession as UnreadableSession
    from .views.session_page import SessionOrder as SessionOrder
    from .views.session_page import SessionPage as SessionPage
else:
    __getattr__ = on_first_use(
        __name__,
        {
            "session_manager": "SessionManager",
            "session_store": "SessionStore",
            "session_domain": "InvalidSession InvalidSessionId InvalidStateTransition "
            "SessionArtifact SessionContext SessionHistory SessionState TokenBudget",
            "ports": "PhaseExecutor PhaseResult QuestionChannel",
            "errors": "HarnessError NoActiveSession PhaseWaits QuestionWaits SessionConflict "
            "SessionCorrupted SessionFenced SessionIdTaken SessionInUse SessionNotFound",
            "session_ports": "LocalSessions SessionRepository",
            "domain.session_observer": "SessionEvent SessionObserver",
            "views.session_head": "SessionSummary UnreadableSession",
            ".base.question": "Question",
            "domain.history_events": "PersonAnswer QuestionAnswered QuestionEnded",
            "views.session_filter": "SessionFilter",
            "disk_errors": "SessionUnreadable WriteError",
            "views.session_page": "SessionOrder SessionPage",
            "format.session_document": "session_from_dict",
            "format.session_schema": "session_schema",
            "views.question_entries": "answers_in_words",
        },
    )
