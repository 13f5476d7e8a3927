"""A library prints nothing; a program that configures logging gets its events."""

import logging
import subprocess
import sys

import pytest
import structlog
from structlog.testing import capture_logs

from agentforge_sessions.base.event_log import get_logger

SESSION = """
import sys
{configuration}
from pathlib import Path
from agentforge_sessions.harness.session_manager import SessionManager
from agentforge_sessions.harness.session_store import SessionStore

manager = SessionManager(SessionStore(Path(sys.argv[1])))
manager.create("tdflow", "red", token_budget=10)
manager.record_tokens(9)
manager.complete()
"""


def run(tmp_path: object, configuration: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SESSION.format(configuration=configuration), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )


def test_a_program_that_configures_nothing_sees_nothing(tmp_path: object) -> None:
    done = run(tmp_path)
    assert done.stdout == ""
    assert done.stderr == ""


def test_a_program_that_configures_standard_logging_gets_the_events(tmp_path: object) -> None:
    done = run(tmp_path, "import logging; logging.basicConfig(level=logging.INFO)")
    assert done.stdout == ""
    assert "INFO:agentforge.session:session.created session_id=" in done.stderr
    assert "WARNING:agentforge.session:session.budget.warning session_id=" in done.stderr


def test_a_program_that_configures_structlog_keeps_its_configuration(tmp_path: object) -> None:
    done = run(
        tmp_path,
        "import structlog; structlog.configure("
        "processors=[structlog.processors.JSONRenderer()],"
        "logger_factory=structlog.PrintLoggerFactory(sys.stderr))",
    )
    assert done.stdout == ""
    assert '"event": "session.created"' in done.stderr


def test_a_records_fields_and_traceback_are_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    structlog.reset_defaults()
    log = get_logger("agentforge.test")
    with caplog.at_level(logging.INFO, "agentforge"):
        log.info("thing.done", count=2, name="the name")
        try:
            raise RuntimeError("gone")
        except RuntimeError:
            log.warning("thing.failed", exc_info=True)
    done, failed = caplog.records
    assert done.getMessage() == "thing.done count=2 name='the name'"
    assert done.event_fields == {"count": 2, "name": "the name"}  # type: ignore[attr-defined]
    assert failed.exc_info is not None
    assert failed.exc_info[0] is RuntimeError


def test_a_secret_in_an_event_is_masked(caplog: pytest.LogCaptureFixture) -> None:
    structlog.reset_defaults()
    secret = "gh" + "p_" + "a1B2" * 9
    with caplog.at_level("INFO", "agentforge"):
        get_logger("agentforge.store").warning("store.refused", error=f"no access with {secret}")
    (record,) = caplog.records
    assert record.getMessage() == "store.refused error='no access with [masked GitHub token]'"
    assert secret not in str(vars(record))


def test_events_can_be_captured_by_structlogs_own_means() -> None:
    with capture_logs() as events:
        get_logger("agentforge.test").info("thing.done", count=2)
    assert events == [{"event": "thing.done", "count": 2, "log_level": "info"}]


def test_structlog_is_loaded_with_the_first_event_that_is_heard(tmp_path: object) -> None:
    program = """
import logging, sys
{configuration}
from agentforge_sessions.base.event_log import (bound_fields, configure_when_heard, get_logger)

log = get_logger("agentforge.test")
log.info("unheard")
assert not log.is_enabled_for(logging.INFO)
log.bind().debug("unheard")
print("structlog" in sys.modules)
with bound_fields(session_id="s"):
    log.warning("heard", count=1)
print("structlog" in sys.modules)
"""
    pending = """
def configure():
    import structlog
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
from agentforge_sessions.base.event_log import configure_when_heard
configure_when_heard(configure, minimum=logging.WARNING)
"""
    for configuration, told in (
        ("logging.basicConfig()", "WARNING:agentforge.test:heard session_id='s' count=1\n"),
        (pending, "heard"),
        ("", ""),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program.format(configuration=configuration)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "False\nTrue\n"
        assert told in done.stderr
        assert "unheard" not in done.stderr
