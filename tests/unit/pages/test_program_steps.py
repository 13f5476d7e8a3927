"""The steps of a program on a session's page and in its report."""

from __future__ import annotations

from pathlib import Path

from agentforge_sessions.base.files.log_frames import encode_log
from agentforge_sessions.entrypoints.pages.session_page import session_report
from agentforge_sessions.entrypoints.pages.values.material import PageSource
from agentforge_sessions.harness import LocalSessions, SessionManager, SessionStore
from agentforge_sessions.testing import MemorySessions
from tests.support.pages import PageReader
from tests.support.recorded_programs import begin_program, fail_attempt, recording

HOSTILE = "</td><script>alert(1)</script>\u202e"


def report(store: LocalSessions, session_id: str) -> str:
    session = store.load(session_id)
    assert session is not None
    page = session_report(PageSource(session, store))
    PageReader.of(page)
    return page


def test_the_page_has_the_last_steps_and_why_they_failed(base: Path) -> None:
    store = MemorySessions(base)
    session_id = begin_program(store, key=HOSTILE)
    with recording(store, session_id) as record:
        record("outline#1", f"draft {HOSTILE}#1")
        record("publish#1", error=("ValueError", HOSTILE))
    fail_attempt(store, session_id, "mail#1", "TimeoutError: slow")
    page = report(store, session_id)
    assert "<script" not in page.partition("<body")[2]
    assert "\u202e" not in page
    for words in ("Steps", "outline#1", "ValueError: &lt;/td&gt;", "TimeoutError: slow", "failing"):
        assert words in page
    assert "Steps of the program, newest first" in page, "the briefing has them, too"


def test_a_log_that_can_not_be_read_does_not_fail_the_page(base: Path) -> None:
    store = SessionStore(base)
    session_id = begin_program(store)
    with recording(store, session_id) as record:
        record("outline#1")
    session = store.load(session_id)
    assert session is not None
    log = store.session_directory(session_id) / "streams" / "steps.log"
    log.write_bytes(encode_log([(b'["of another program"]', b"")]))
    page = session_report(PageSource(session, SessionStore(base)))
    assert "The steps can't be read: the log of the steps" in page


def test_a_session_of_no_program_has_no_such_section(base: Path) -> None:
    store = MemorySessions(base)
    assert 'id="steps"' not in report(store, SessionManager(store).create().session_id)
