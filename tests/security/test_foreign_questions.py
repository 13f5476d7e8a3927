"""Question sessions that came with a clone: nobody is shown them, waits for them or is answered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.questions import (
    Option,
    Question,
    QuestionSessions,
    UserAnswer,
    load_config,
)
from agentforge_sessions.questions.errors import QuestionNotAdopted
from tests.support.foreign_sessions import OVERRIDE, cloned, git
from tests.support.late import LateModule

if TYPE_CHECKING:
    import mcp

    from agentforge_sessions.entrypoints.mcp_server import serving
else:
    mcp = LateModule("mcp")
    serving = LateModule("agentforge_sessions.entrypoints.mcp_server.serving")

ASKED = [Question(prompt=OVERRIDE, title="T", options=[Option(label="a"), Option(label="b")])]
ANSWER = [UserAnswer(question_index=0, selected_option="a")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    theirs = tmp_path / "theirs"
    asked = QuestionSessions(theirs / ".agentforge" / "questions")
    for name in ("1", "2"):
        asked.ask(ASKED, session_id=f"{name * 8}-1111-4111-8111-111111111111")
    folder = cloned(theirs, tmp_path / "mine")
    monkeypatch.chdir(folder)
    return folder


FIRST = f"{'1' * 8}-1111-4111-8111-111111111111"


def test_they_are_in_no_list_and_can_not_be_read_waited_for_or_answered(clone: Path) -> None:
    del clone
    sessions = QuestionSessions()
    mine = sessions.ask(ASKED).session_id
    assert [one.session_id for one in sessions.pending()] == [mine]
    assert sessions.store.names() == [mine]
    assert next(sessions.changes()) == {mine}
    assert not sessions.exists(FIRST)
    for use in (
        lambda: sessions.get(FIRST),
        lambda: sessions.wait_for(FIRST, 0),
        lambda: sessions.save_session_answers(FIRST, ANSWER),
        lambda: sessions.reject_session(FIRST),
        lambda: sessions.store.read_record(FIRST),
    ):
        with pytest.raises(QuestionNotAdopted, match=f"agentforge session adopt {FIRST}"):
            use()
    assert sessions.came_with_repository() is not None


def test_what_another_program_of_mine_asks_there_is_mine(clone: Path) -> None:
    """It writes the same files without a mark of ours."""
    base = clone / ".agentforge" / "questions"
    other = f"{'3' * 8}-1111-4111-8111-111111111111"
    shutil.copytree(base / FIRST, base / other)
    for file in (base / other).iterdir():
        file.write_text(file.read_text().replace(FIRST, other))
    sessions = QuestionSessions()
    assert [one.session_id for one in sessions.pending()] == [other]
    sessions.save_session_answers(other, ANSWER)
    assert sessions.get(other).answers is not None


def test_a_folder_of_questions_that_is_a_submodule_is_not_mine(clone: Path) -> None:
    base = clone / ".agentforge" / "questions"
    git(base, "init", "-q")
    git(base, "add", "-A")
    assert QuestionSessions().pending() == []


def test_the_commands_say_so_once_and_adopting_makes_them_mine(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        ["questions", "history"],
        ["questions", "history", FIRST],
        ["answer", FIRST, "--reject"],
    ):
        assert run(words) != 0 or words == ["questions", "history"]
        captured = capsys.readouterr()
        assert OVERRIDE not in captured.out + captured.err
        if words[0] == "history":
            assert captured.err.count("2 question sessions came with this repository") == 1
    assert run(["session", "adopt", FIRST]) == 2
    assert OVERRIDE in capsys.readouterr().out
    assert run(["session", "adopt", FIRST, "--yes"]) == 0
    sessions = QuestionSessions()
    assert [one.session_id for one in sessions.pending()] == [FIRST]
    capsys.readouterr()
    assert run(["session", "adopt", "--all", "--yes", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["questions"]) == 1
    assert len(sessions.pending()) == 2
    assert sessions.came_with_repository() is None
    file = clone / ".agentforge" / "questions" / FIRST / "request.json"
    file.write_text(file.read_text().replace('"T"', '"U"'))
    git(clone, "add", "-A", "-f")  # as a commit of another person that is pulled
    assert len(sessions.pending()) == 1


def test_one_that_changed_since_it_was_shown_is_not_adopted(clone: Path) -> None:
    store = QuestionSessions().store
    shown = store.read_foreign(FIRST)
    file = clone / ".agentforge" / "questions" / FIRST / "request.json"
    file.write_text(file.read_text().replace('"T"', '"U"'))
    with pytest.raises(QuestionNotAdopted, match="has changed"):
        store.make_own(shown)
    assert FIRST in store.foreign()


@pytest.mark.anyio
async def test_no_tool_shows_them_and_the_first_answer_says_so(clone: Path) -> None:
    places = serving.McpPlaces(sessions=clone / "s", questions=clone / ".agentforge" / "questions")
    async with mcp.Client(serving.server_of(serving.McpServices.at(places))) as client:
        told = [await client.call_tool("session_list", {}) for _ in range(2)]
        found = await client.call_tool("get_answered_questions", {"session_id": FIRST})
    texts = [one.model_dump_json() for one in (*told, found)]
    assert OVERRIDE not in "".join(texts)
    assert ["2 question sessions came" in one for one in texts] == [True, False, False]


@pytest.mark.parametrize("link", [".agentforge", ".agentforge/questions"])
@pytest.mark.parametrize("is_repository", [False, True])
def test_no_link_leads_my_questions_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str, *, is_repository: bool
) -> None:
    (root := tmp_path / "project").mkdir()
    (root / link).parent.mkdir(exist_ok=True)
    (tmp_path / "elsewhere" / "questions").mkdir(parents=True)
    (root / link).symlink_to(tmp_path / "elsewhere")
    if is_repository:
        git(root, "init", "-q")
    monkeypatch.chdir(root)
    found = load_config().directory
    assert found is not None
    assert not found.resolve().is_relative_to(tmp_path / "elsewhere")
    (root / "src").mkdir()
    monkeypatch.chdir(root / "src")
    again = load_config().directory
    assert again is None or not again.resolve().is_relative_to(tmp_path / "elsewhere")
