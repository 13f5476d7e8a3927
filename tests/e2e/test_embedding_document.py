"""The code of docs/embedding.md runs as it stands there."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionManager, SessionState, SessionStore
from agentforge_sessions.questions import QuestionSessions, UserAnswer
from agentforge_sessions.sandbox import prepare
from tests.support.late import LateModule
from tests.support.repositories import new_checkout, plain_git
from tests.support.soak import SOAKING

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

rehearsing = LateModule("examples.embedding.rehearsal")

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")
SECTIONS = {
    name: re.findall(r"^```python\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
    for name, body in re.findall(r"^## (.+?)$(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
}
(TDFLOW,), (SPEC,), (OWN,), (ON,), (DATA,), (FINDING,), (REPOSITORY,), LANGGRAPH, OPENAI_AGENTS = (
    SECTIONS.values()
)


def run(code: str, monkeypatch: pytest.MonkeyPatch, **names: object) -> dict[str, object]:
    prepare()
    monkeypatch.chdir(ROOT)
    exec(compile(code, "docs/embedding.md", "exec", dont_inherit=True), names)
    return names


@contextmanager
def person(base: Path) -> Iterator[None]:
    """Somebody who answers each question session, always with the first option."""
    done = threading.Event()

    def answer() -> None:
        sessions = QuestionSessions(base)
        while not done.wait(0.05):
            for waiting in sessions.pending():
                asked = sessions.get(waiting.request.session_id).request
                sessions.save_session_answers(
                    asked.session_id,
                    [
                        UserAnswer(question_index=index, selected_option=one.options[0].label)
                        for index, one in enumerate(asked.questions)
                    ],
                )

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_sections_are_the_nine() -> None:
    assert {name: len(pieces) for name, pieces in SECTIONS.items()} == {
        "TDFLOW in ten lines": 1,
        "SPEC in ten lines": 1,
        "An agent of your own": 1,
        "Going on": 1,
        "Data of your own": 1,
        "Finding sessions": 1,
        "A repository, and the result brought home": 1,
        "As nodes of a LangGraph graph": 2,
        "As tools of the OpenAI Agents SDK": 2,
    }


@pytest.mark.parametrize(
    ("code", "file"),
    [(LANGGRAPH[0], "langgraph_node.py"), (OPENAI_AGENTS[0], "openai_agents_tool.py")],
)
def test_what_an_embedder_copies_is_the_file_that_the_document_names(code: str, file: str) -> None:
    text = (ROOT / "examples" / "embedding" / file).read_text(encoding="utf-8")
    assert text.split('"""', 2)[2].strip() == code.strip()


@pytest.mark.parametrize("code", [TDFLOW, SPEC])
def test_runners_are_embedded_in_ten_lines(code: str) -> None:
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


def test_tdflow_is_ready_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready, start = TDFLOW.split("outcome = ")
    names = run(ready, monkeypatch, base=tmp_path / "sessions")
    assert names["work"].name == "session_domain"  # type: ignore[attr-defined]
    assert start.split("\n")[0].removesuffix("agent)") in OWN


@pytest.mark.soak
@pytest.mark.skipif(not SOAKING, reason="as the agent of one's own, which takes the same phases")
def test_tdflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(TDFLOW, monkeypatch, base=tmp_path / "sessions")
    outcome = names["outcome"]
    assert outcome.state is SessionState.COMPLETED  # type: ignore[attr-defined]
    assert outcome.attempts == {"red": 1, "green": 2, "refactor": 1, "verify": 1}  # type: ignore[attr-defined]


def test_sessions_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = tmp_path / "sessions"
    manager = SessionManager(base)
    manager.create("tdflow", "red", 1_000, tags=["billing"])
    manager.record_tokens(900)
    nearly_spent = manager.current_session
    manager.pause()
    manager = SessionManager(base)
    manager.create("tdflow", "red", goal="Make the scheduler keep its retry limit")
    manager.complete()
    found = manager.current_session
    assert nearly_spent is not None
    assert found is not None
    capsys.readouterr()  # what was logged
    run(FINDING, monkeypatch, base=base)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{nearly_spent.session_id} red"
    assert lines[1].startswith(f"{found.session_id} goal Make the scheduler")
    assert len(lines) == 2


def test_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with person(tmp_path / "questions"):
        names = run(SPEC, monkeypatch, base=tmp_path / "sessions")
    outcome = names["outcome"]
    assert outcome.reason is None  # type: ignore[attr-defined]
    assert outcome.state is SessionState.COMPLETED  # type: ignore[attr-defined]
    assert outcome.attempts["draft"] == 2  # type: ignore[attr-defined]
    (product,) = (tmp_path / "sessions").glob("*/workspace/specs/slugs.yaml")
    text = product.read_text()
    assert "status: approved" in text
    assert "answer: Drop them" in text


def test_own_agent_and_going_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(OWN, monkeypatch, base=tmp_path / "sessions")
    outcome = names["outcome"]
    assert outcome.state is SessionState.COMPLETED  # type: ignore[attr-defined]
    assert outcome.attempts == {"red": 1, "green": 2, "refactor": 1, "verify": 1}  # type: ignore[attr-defined]
    run(ON, monkeypatch, **names)


def test_a_result_is_brought_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = new_checkout(tmp_path / "checkout", {"a.txt": "a\n"})
    plain_git(checkout, "config", "user.name", "Ada")
    plain_git(checkout, "config", "user.email", "ada@example.org")
    names = run(REPOSITORY, monkeypatch, base=tmp_path / "sessions", checkout=checkout)
    assert (checkout / "notes.txt").read_text() == "one\n"
    assert plain_git(checkout, "log", "-1", "--format=%s").stdout == b"Add notes\n"
    assert plain_git(checkout, "status", "--porcelain").stdout == b""
    assert (tmp_path / "exported" / "a.txt").read_text() == "a\n"
    assert len(names["planned"].paths) == 1  # type: ignore[attr-defined]


def test_langgraph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run("".join(LANGGRAPH), monkeypatch, base=tmp_path / "sessions")
    outcome = names["state"]["outcome"]  # type: ignore[index]
    assert outcome["state"] == "completed"
    assert outcome["attempts"]["draft"] == 2
    assert len(list((tmp_path / "sessions").glob("session_*"))) == 1


@pytest.mark.soak
@pytest.mark.skipif(not SOAKING, reason="as the tools' own tests, which take the same phases")
def test_openai_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "".join(OPENAI_AGENTS)
    run(code, monkeypatch, base=tmp_path / "sessions", model=rehearsing.rehearsal())
    assert "Does an underscore in a title separate words?" in capsys.readouterr().out
    (session_id,) = SessionStore(tmp_path / "sessions").list_sessions()
    session = SessionStore(tmp_path / "sessions").load(session_id)
    assert session is not None
    assert session.state is SessionState.COMPLETED


def test_data_of_your_own_is_in_the_session(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(DATA, monkeypatch, base=base)
    session = SessionStore(base).load(names["session"].session_id)  # type: ignore[attr-defined]
    assert session is not None
    assert (session.title, session.tags) == ("Import of May", ("good", "import", "nightly"))
    assert (session.metadata, session.workflow_state) == ({"pages": 3}, {"next_page": 4})
    assert session.revision == 6
