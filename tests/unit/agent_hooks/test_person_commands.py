"""What a person says to us in a prompt: `agentforge:new` and the other commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from agentforge_sessions.agents.ledger import SCOPE_NAMES
from agentforge_sessions.harness import SessionState
from agentforge_sessions.questions import Asker, SessionStatus
from agentforge_sessions.wiring.bootstrap import open_questions
from tests.support.agent_conversations import (
    CodexConversation,
    Conversation,
    GeminiConversation,
    OpencodeConversation,
    Repository,
)
from tests.support.questions import QUESTIONS

REASON = {"codex": "reason", "claude-code": "reason", "gemini": "reason", "opencode": "refuse"}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Repository(tmp_path / "calculator")


@pytest.fixture
def talk(repository: Repository) -> Conversation:
    return Conversation(repository)


def tell(talk: Conversation, text: str) -> str:
    """Say a command to us, and return the answer; the program sends nothing to the model."""
    answer = talk.prompt(text)
    assert set(answer) <= {"decision", "reason", "refuse"}
    return str(answer[REASON[talk.program]])


def limited(talk: Conversation, tmp_path: Path, limits: str) -> None:
    """Set limits of the person."""
    folder = tmp_path / "config" / "agentforge"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f"[budget]\n{limits}\n")
    talk.environment = {"XDG_CONFIG_HOME": str(folder.parent)}


def prompts(repository: Repository, session_id: str) -> int:
    return repository.actions(session_id).count("agent_prompted")


def ids(repository: Repository) -> list[str]:
    return sorted(repository.store.list_sessions())


@pytest.mark.parametrize(
    "form", ["agentforge:new", "/agentforge:new", "/agentforge/new", " agentforge:new\t"]
)
@pytest.mark.parametrize(
    "talk_of", [Conversation, CodexConversation, GeminiConversation, OpencodeConversation]
)
def test_new_begins_another_session_with_a_goal(
    repository: Repository, talk_of: type[Conversation], form: str
) -> None:
    talk = talk_of(repository)
    talk.prompt("the first task")
    said = tell(talk, f"{form} the second task")
    first, second = ids(repository)
    assert said == (
        f"session {second[-4:]}: 'the second task', 0 % of 1,000,000 tokens; agentforge ui"
    )
    talk.prompt("go on")
    assert [prompts(repository, one) for one in (first, second)] == [1, 1]


def test_new_without_a_goal_takes_the_next_prompt_as_goal(
    repository: Repository, talk: Conversation
) -> None:
    said = tell(talk, "agentforge:new\n(If you can read this, the hook did not run.)")
    assert said.endswith("The next prompt becomes its goal.")
    (session_id,) = ids(repository)
    assert (repository.session(session_id).goal, repository.session(session_id).title) == (
        None,
        None,
    )
    talk.prompt("Make it\nwork")
    session = repository.session(session_id)
    assert (session.goal, session.title) == ("Make it\nwork", "Make it")


def test_other_conversations_stay_and_new_ones_go_to_what_the_person_chose_last(
    repository: Repository, talk: Conversation
) -> None:
    another = Conversation(repository, "conversation-2")
    another.prompt("the first task")
    tell(talk, "agentforge:new the second task")
    another.prompt("still the first")
    later = Conversation(repository, "conversation-3")
    assert "the second task" in later.start()
    first, _ = ids(repository)
    assert prompts(repository, first) == 2


def test_done_completes_the_session_and_charges_it_and_the_next_prompt_begins_another(
    repository: Repository, talk: Conversation
) -> None:
    talk.prompt("the first task")
    talk.spend(100)
    (first,) = ids(repository)
    assert first[-4:] in tell(talk, "agentforge:done")
    session = repository.session(first)
    assert (session.state, session.token_budget.tokens_used) == (SessionState.COMPLETED, 100)
    talk.prompt("the second task")
    assert repository.goals() == ["the first task", "the second task"]


def test_done_withdraws_the_questions_that_wait_and_says_so(
    repository: Repository, talk: Conversation, tmp_path: Path
) -> None:
    talk.prompt("the first task")
    (session_id,) = ids(repository)
    place = repository.store.session_directory(session_id).absolute()
    questions = open_questions(tmp_path / "questions")
    asked = questions.create_session(QUESTIONS, asker=Asker.current(session=place))
    answer = json.dumps({"session_id": asked, "status": "pending", "text": ""})
    talk.use_tool("mcp__agentforge__ask", question="Which database?", response=answer)
    assert "1 waiting question withdrawn." in tell(talk, "agentforge:done")
    assert repository.actions(session_id)[-2:] == ["question_abandoned", "session_completed"]
    assert questions.pending() == []
    ended = questions.get(asked)
    assert ended.status is SessionStatus.ABANDONED
    assert "withdrawn" not in tell(talk, "agentforge:done")


def test_done_without_a_session_changes_nothing(repository: Repository, talk: Conversation) -> None:
    assert "no session" in tell(talk, "agentforge:done")
    assert ids(repository) == []


def test_switch_goes_to_another_session_and_back_and_its_briefing_is_in_the_next_prompt(
    repository: Repository, talk: Conversation
) -> None:
    talk.prompt("the first task")
    talk.spend(100)
    tell(talk, "agentforge:new the second task")
    first, second = ids(repository)
    assert "'the first task'" in tell(talk, f"agentforge:switch {first[8:]}")
    answer = talk.prompt("go on")
    assert "the first task" in answer["hookSpecificOutput"]["additionalContext"]
    assert "hookSpecificOutput" not in talk.prompt("and on")
    assert "the first task" in Conversation(repository, "conversation-2").start()
    used = [repository.session(one).token_budget.tokens_used for one in (first, second)]
    assert used == [100, 0]


def test_switch_chooses_one_of_several_that_are_open_on_a_branch(
    repository: Repository, talk: Conversation
) -> None:
    for _ in range(2):
        session_id = repository.begin(goal="from another machine")
        repository.open(session_id).describe(add_tags=["branch:main"])
    assert "2 sessions of this branch are open" in talk.prompt("go on")["systemMessage"]
    tell(talk, f"agentforge:switch {session_id}")
    talk.prompt("go on")
    assert prompts(repository, session_id) == 1


@pytest.mark.parametrize(
    "named", ["", "nosuch", "../..", "session_20000101_000000_000000", "\x1b[2J"]
)
def test_switch_to_what_is_not_there_changes_nothing(
    repository: Repository, talk: Conversation, named: str
) -> None:
    talk.prompt("the first task")
    assert "nothing was changed" in tell(talk, f"agentforge:switch {named}")
    talk.prompt("go on")
    (session_id,) = ids(repository)
    assert prompts(repository, session_id) == 2


def test_switch_to_an_ended_session_changes_nothing(
    repository: Repository, talk: Conversation
) -> None:
    talk.prompt("the first task")
    tell(talk, "agentforge:done")
    (session_id,) = ids(repository)
    assert f"{session_id} is completed" in tell(talk, f"agentforge:switch {session_id}")


def test_budget_shows_what_is_spent_and_extends_the_session(
    repository: Repository, talk: Conversation
) -> None:
    assert "no session" in tell(talk, "agentforge:budget")
    talk.prompt("the first task")
    (session_id,) = ids(repository)
    talk.spend(1_000_000)
    assert "agentforge:budget TOKENS" in talk.prompt("go on")["reason"]
    first = f"session {session_id[-4:]}: 'the first task', "
    assert tell(talk, "agentforge:budget") == f"{first}100 % of 1,000,000 tokens; agentforge ui"
    said = tell(talk, "/agentforge:budget 1,000k")
    assert said == f"{first}50 % of 2,000,000 tokens; agentforge ui"
    assert talk.prompt("go on") == {}
    assert repository.session(session_id).state is SessionState.ACTIVE
    assert prompts(repository, session_id) == 2


@pytest.mark.parametrize("scope", ["session", "project", "day", "person"])
def test_budget_extends_a_limit_of_the_person(
    repository: Repository, talk: Conversation, tmp_path: Path, scope: str
) -> None:
    limited(talk, tmp_path, f"{scope}_usd = 2")
    talk.prompt("the first task")
    usage = {"input_tokens": 0, "output_tokens": 300_000}
    message = {"id": "message-1", "model": "claude-sonnet-5-5", "usage": usage}
    talk.write({"type": "assistant", "message": message})
    stopped = talk.use_tool()[0]["stopReason"]
    assert f"agentforge:budget 5usd {scope}" in stopped
    assert tell(talk, "agentforge:budget").endswith(f"$3.00 of $2.00 for {SCOPE_NAMES[scope]}")
    said = tell(talk, f"agentforge:budget 5usd {scope}")
    assert said.endswith(f"$3.00 of $7.00 for {SCOPE_NAMES[scope]}")
    assert talk.prompt("go on") == {}


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        *((one, "is not tokens") for one in ("lots", "0", "-5usd", "2,50usd", "5usd week", "day")),
        ("5usd", "no limit session_usd"),
        ("200k person", "no limit person_tokens"),
        ("9223372036854775807", "is more than"),
    ],
)
def test_what_budget_can_not_extend_changes_nothing(
    repository: Repository, talk: Conversation, tmp_path: Path, rest: str, why: str
) -> None:
    limited(talk, tmp_path, "day_usd = 2")
    talk.prompt("the first task")
    (session_id,) = ids(repository)
    said = tell(talk, f"agentforge:budget {rest}")
    assert said.startswith("AgentForge: nothing was ")
    assert why in said
    assert tell(talk, "agentforge:budget").endswith("$0.0000 of $2.00 for today")
    assert repository.session(session_id).token_budget.total_budget == 1_000_000


def test_budget_says_that_an_extension_could_not_be_recorded(
    repository: Repository, talk: Conversation, tmp_path: Path
) -> None:
    (tmp_path / "state" / "agentforge" / "spending.db").mkdir(parents=True)
    limited(talk, tmp_path, "day_usd = 2")
    talk.prompt("the first task")
    said = tell(talk, "agentforge:budget 5usd day")
    assert said.startswith("AgentForge: nothing was changed: ")
    assert "spending.db" in said


def test_budget_says_that_the_session_has_ended(repository: Repository, talk: Conversation) -> None:
    talk.prompt("the first task")
    (session_id,) = ids(repository)
    repository.open(session_id).complete()
    assert "has ended" in tell(talk, "agentforge:budget 200k")


def test_what_a_command_of_a_repository_expands_to_extends_nothing(
    repository: Repository,
) -> None:
    opencode = OpencodeConversation(repository)
    opencode.hook("chat.message", text="the first task")
    (session_id,) = ids(repository)
    said = json.dumps(opencode.hook("chat.message", text="agentforge:budget 200k"))
    assert repository.session(session_id).token_budget.total_budget == 1_000_000
    words = re.search(r"agentforge:budget 200k [0-9a-f]{6}", said)
    assert words is not None
    opencode.hook("chat.message", text=f"{words[0][:-1]}x")
    assert repository.session(session_id).token_budget.total_budget == 1_000_000
    opencode.hook("chat.message", text=words[0].replace("200k", '"200k') + '"')
    assert repository.session(session_id).token_budget.total_budget == 1_200_000


def test_only_a_prompt_of_the_person_extends(repository: Repository, talk: Conversation) -> None:
    talk.prompt("the first task")
    (session_id,) = ids(repository)
    words = "agentforge:budget 200k"
    talk.hook("UserPromptSubmit", prompt=words, agent_id="sub")
    talk.hook("Stop", last_assistant_message=words)
    talk.use_tool(command=words, response={"stdout": words})
    talk.prompt(f"Say this:\n{words}")
    opencode = OpencodeConversation(repository)
    opencode.hook("chat.message", text=words, by_person=False)
    assert repository.session(session_id).token_budget.total_budget == 1_000_000


def test_sessions_lists_the_open_ones_with_their_branches(
    repository: Repository, talk: Conversation
) -> None:
    talk.prompt("on main")
    repository.check_out("topic")
    talk.prompt("on topic")
    main, topic = ids(repository)
    assert sorted(tell(talk, "agentforge:sessions").splitlines()) == sorted(
        [
            "2 open sessions (this is topic):",
            f"* {topic}  active  0 %  branch:topic  on topic",
            f"  {main}  active  0 %  branch:main  on main",
        ]
    )


def test_a_spent_budget_refuses_no_command(repository: Repository, talk: Conversation) -> None:
    talk.prompt("the first task")
    talk.spend(1_000_000)
    assert "budget" in str(talk.prompt("go on"))
    tell(talk, "agentforge:new the second task")
    assert talk.prompt("go on") == {}


def test_a_session_that_cannot_be_read_is_said_and_no_other_one_begins_until_the_person_says_so(
    repository: Repository, talk: Conversation
) -> None:
    talk.prompt("the first task")
    (first,) = ids(repository)
    repository.store.session_path(first).write_bytes(b"\x00")
    for one in (talk, Conversation(repository, "conversation-2")):
        assert first in one.hook("SessionStart", source="startup")["systemMessage"]
        assert first in one.prompt("go on")["systemMessage"]
        assert ids(repository) == [first]
    tell(talk, "agentforge:new the second task")
    assert len(ids(repository)) == 2
    assert "second task" in talk.start()


def test_a_session_that_cannot_be_read_and_of_which_no_branch_is_known_is_said(
    repository: Repository, talk: Conversation
) -> None:
    session_id = repository.begin()
    repository.store.session_path(session_id).write_bytes(b"\x00")
    said = talk.prompt("go on")["systemMessage"]
    assert all(one in said for one in (session_id, "can't be read", "agentforge:new"))
    assert ids(repository) == [session_id]


@pytest.mark.parametrize(
    "text",
    [
        *("agentforge:news", "agentforge", "please agentforge:new x", "agentforge:newest x"),
        *("/agentforge:brief", "```\nagentforge:done\n```"),
    ],
)
def test_other_prompts_are_prompts(repository: Repository, talk: Conversation, text: str) -> None:
    talk.prompt(text)
    assert repository.goals() == [text]


def test_what_a_subagent_or_the_program_says_is_no_command(
    repository: Repository, talk: Conversation
) -> None:
    talk.prompt("the first task")
    talk.hook("UserPromptSubmit", prompt="agentforge:done", agent_id="sub")
    opencode = OpencodeConversation(repository)
    opencode.hook("chat.message", text="agentforge:done", by_person=False)
    (session_id,) = ids(repository)
    assert repository.session(session_id).state is SessionState.ACTIVE
