"""The blocks of docs/embedding.md run as they are pasted, each in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionContext, SessionManager, SessionState, SessionStore
from agentforge_sessions.questions import QuestionSessions, UserAnswer
from agentforge_sessions.sandbox import prepare
from agentforge_sessions.wiring.bootstrap import build_agent_runner
from agentforge_sessions.workflows import TDFLOW as WORKFLOW
from agentforge_sessions.workflows import AgentWork
from agentforge_sessions.workflows.agents.choice import parse_agent
from tests.support.repositories import new_checkout, plain_git
from tests.support.soak import SOAKING

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")
SECTIONS = {
    name: re.findall(r"^```python\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
    for name, body in re.findall(r"^## (.+?)$(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
}
(TDFLOW,), (SPEC,), (OWN,), (ON,), (DATA,), (FINDING,), (REPOSITORY,), LANGGRAPH, OPENAI_AGENTS = (
    SECTIONS.values()
)
RUN_LIMIT_S = 600


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what the document says to copy there, and nothing else."""
    made = tmp_path / "folder"
    made.mkdir()
    (made / "examples").symlink_to(ROOT / "examples")
    return made


def run(code: str, folder: Path) -> list[str]:
    """Run a block as a program; return the lines that it prints, without those of the log."""
    prepare()
    program = folder / "program.py"
    program.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program.name],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if "PYTHONPATH" not in name},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
        check=False,
    )
    program.unlink()
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return [line for line in done.stdout.splitlines() if not re.match(r"\d{4}-\d\d-\d\d ", line)]


def only_session(folder: Path) -> SessionContext:
    store = SessionStore(folder / ".agentforge" / "sessions")
    (session_id,) = store.list_sessions()
    session = store.load(session_id)
    assert session is not None
    return session


@contextmanager
def person(folder: Path) -> Iterator[None]:
    """Somebody who answers each question session, always with the first option."""
    done = threading.Event()

    def answer() -> None:
        sessions = QuestionSessions(folder / ".agentforge" / "questions")
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


def test_tdflow_is_ready_to_start(folder: Path) -> None:
    """All but its start, which the agent of one's own takes, too."""
    ready, start = TDFLOW.split("outcome = ")
    assert run(f"{ready}print(work.name)\n", folder) == ["session_domain"]
    assert start.split("\n")[0].removesuffix("agent)") in OWN


@pytest.mark.soak
@pytest.mark.skipif(not SOAKING, reason="as the agent of one's own, which takes the same phases")
def test_tdflow(folder: Path) -> None:
    (line,) = run(TDFLOW, folder)
    assert line == "completed ('red', 'green', 'refactor', 'verify') None"


def test_spec(folder: Path) -> None:
    with person(folder):
        lines = run(SPEC, folder)
    assert lines[-1].startswith("completed ")
    assert lines[-1].endswith(" None")
    (product,) = (folder / ".agentforge" / "sessions").glob("*/workspace/specs/slugs.yaml")
    text = product.read_text()
    assert "status: approved" in text
    assert "answer: Drop them" in text


def test_own_agent(folder: Path) -> None:
    lines = run(OWN, folder)
    assert lines[-1] == "completed {'red': 1, 'green': 2, 'refactor': 1, 'verify': 1}"
    assert only_session(folder).state is SessionState.COMPLETED
    assert run(ON, folder) == [], "there is nothing to go on with"


def test_going_on_says_what_a_session_lacks(folder: Path) -> None:
    document = (ROOT / "examples" / "specs" / "slugs.yaml").read_bytes()
    agent = parse_agent("recorded:examples/recordings/slugs")
    work = AgentWork(workflow=WORKFLOW, name="slugs", specification=document, agent=agent)
    base = folder / ".agentforge" / "sessions"
    session_id = build_agent_runner(base).begin(work, token_budget=1)
    manager = SessionManager(base)
    if manager.open(session_id).state is SessionState.ACTIVE:
        manager.pause()
    (line,) = run(ON, folder)
    assert line.startswith("paused the next call of phase 'red' takes about ")
    assert "extend the budget by " in line


def test_data_of_your_own_is_in_the_session(folder: Path) -> None:
    run(DATA, folder)
    session = only_session(folder)
    assert (session.title, session.tags) == ("Import of May", ("good", "import", "nightly"))
    assert (session.metadata, session.workflow_state) == ({"pages": 3}, {"next_page": 4})
    assert session.revision == 6


def test_sessions_are_found(folder: Path) -> None:
    assert run(FINDING, folder) == [], "a folder without sessions"
    base = folder / ".agentforge" / "sessions"
    manager = SessionManager(base)
    nearly_spent = manager.create("tdflow", "red", 1_000, tags=["billing"]).session_id
    manager.record_tokens(900)
    manager.pause()
    manager = SessionManager(base)
    found = manager.create("tdflow", "red", goal="Make the scheduler keep its retry limit")
    manager.complete()
    lines = run(FINDING, folder)
    assert lines[0] == f"{nearly_spent} red"
    assert lines[1].startswith(f"{found.session_id} goal Make the scheduler")
    assert len(lines) == 2


def test_a_result_is_brought_home(tmp_path: Path) -> None:
    checkout = new_checkout(tmp_path / "checkout", {"a.txt": "a\n"})
    plain_git(checkout, "config", "user.name", "Ada")
    plain_git(checkout, "config", "user.email", "ada@example.org")
    lines = run(REPOSITORY, checkout)
    assert (checkout / "notes.txt").read_text() == "one\n"
    assert plain_git(checkout, "log", "-1", "--format=%s").stdout == b"Add notes\n"
    changed = plain_git(checkout, "status", "--porcelain").stdout.splitlines()
    assert changed in ([], [b"?? .agentforge/"])
    assert (tmp_path / "exported" / "a.txt").read_text() == "a\n"
    assert lines[0] == "[('notes.txt', 'added')]"


def test_langgraph(folder: Path) -> None:
    (folder / "langgraph_node.py").write_text(LANGGRAPH[0], encoding="utf-8")
    assert run(LANGGRAPH[0], folder) == []
    assert run(LANGGRAPH[1], folder)[-1] == "completed None"
    assert only_session(folder).state is SessionState.COMPLETED


def test_openai_agents_are_ready_to_be_asked(folder: Path) -> None:
    """All but what is said, for which the soak campaigns run the whole."""
    (folder / "openai_agents_tool.py").write_text(OPENAI_AGENTS[0], encoding="utf-8")
    assert run(OPENAI_AGENTS[0], folder) == []
    ready, said = OPENAI_AGENTS[1].split("print(asyncio.run", 1)
    assert run(f"{ready}print(foreman.name)\nconversation.close()\n", folder) == ["foreman"]
    assert said.endswith("conversation.close()\n")


@pytest.mark.soak
@pytest.mark.skipif(not SOAKING, reason="as the tools' own tests, which take the same phases")
def test_openai_agents(folder: Path) -> None:
    (folder / "openai_agents_tool.py").write_text(OPENAI_AGENTS[0], encoding="utf-8")
    lines = run(OPENAI_AGENTS[1], folder)
    assert "Does an underscore in a title separate words?" in "\n".join(lines)
    assert only_session(folder).state is SessionState.COMPLETED
