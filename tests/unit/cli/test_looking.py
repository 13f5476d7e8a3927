from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentforge_sessions.agents.transcripts.entries import (
    encoded,
    masked,
    plan_entry,
    stream_of,
    text_entry,
    tool_call,
)
from agentforge_sessions.base.files import FileLock, OsFileSystem
from agentforge_sessions.entrypoints.cli.commands.session.find import OrderName
from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.harness import SessionOrder
from agentforge_sessions.harness.domain.history_events import (
    AgentPrompted,
    PhaseFailed,
    PhaseSucceeded,
)
from tests.support.clock import START
from tests.unit.cli.conftest import CommandLine

BUDGET_KEYS = {
    "total_budget",
    "tokens_used",
    "remaining",
    "tokens_remaining",
    "utilization_percent",
    "is_warning",
    "is_exhausted",
}


# ------------------------------------------------------------------------------------------ list


def test_list_without_sessions_says_so_and_makes_nothing(agentforge: CommandLine) -> None:
    ended = agentforge("list")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == f"No session is there in {agentforge.base}.\n"
    assert not agentforge.base.exists()


def test_list_shows_the_last_changed_first(agentforge: CommandLine) -> None:
    old = agentforge.new(workflow_type="spec", initial_phase="red")
    agentforge.later(hours=3)
    new = agentforge.new(workflow_type="tdflow", initial_phase=None)
    agentforge.later(minutes=2)
    lines = agentforge("list").out.splitlines()
    assert lines[0].split() == ["ID", "STATE", "WORKFLOW", "PHASE", "BUDGET", "UPDATED"]
    assert lines[1].split() == [new, "active", "tdflow", "0", "%", "2", "min", "ago"]
    assert lines[2].split() == [old, "active", "spec", "red", "0", "%", "3", "h", "ago"]
    assert not any(line.endswith(" ") for line in lines)


def test_list_in_json_has_every_field_of_the_head(agentforge: CommandLine) -> None:
    session_id = agentforge.new()
    ended = agentforge("list", "--json")
    assert set(ended.document) == {"base", "sessions", "unreadable", "next"}
    assert ended.document["base"] == str(agentforge.base)
    (one,) = ended.document["sessions"]
    assert one["session_id"] == session_id
    assert one["state"] == "active"
    assert one["path"] == str(agentforge.store.session_path(session_id))
    assert set(one["token_budget"]) == BUDGET_KEYS
    assert set(one) == {
        "session_id",
        "parent_id",
        "title",
        "tags",
        "state",
        "own",
        "interrupted",
        "workflow_type",
        "current_phase",
        "attempt_number",
        "token_budget",
        "created_at",
        "updated_at",
        "completed_at",
        "revision",
        "path",
        "size_bytes",
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {"active", "paused", "completed", "aborted"}),
        (["--state", "paused"], {"paused"}),
        (["--state", "completed"], {"completed"}),
        (["--state", "paused", "--state", "completed"], {"paused", "completed"}),
        (["--workflow", "tdflow"], {"aborted"}),
        (["--older-than", "24h"], {"active", "paused"}),
        (["--younger-than", "1d"], {"completed", "aborted"}),
        (["--older-than", "24h", "--younger-than", "2d"], {"paused"}),
        (["--workflow", "nothing"], set()),
    ],
)
def test_list_narrows_by_state_workflow_and_age(
    agentforge: CommandLine, options: list[str], expected: set[str]
) -> None:
    agentforge.begin()
    agentforge.later(days=1)
    agentforge.begin().pause()
    agentforge.later(days=1)
    agentforge.begin().complete()
    agentforge.begin(workflow_type="tdflow").abort()
    agentforge.later(hours=12)
    ended = agentforge("list", "--json", *options)
    assert {one["state"] for one in ended.document["sessions"]} == expected


def test_list_knows_the_orders_of_the_domain() -> None:
    assert [one.value.replace("-", "_") for one in OrderName] == list(SessionOrder)


def test_list_narrows_by_what_is_left_of_the_budget(agentforge: CommandLine) -> None:
    spent = {}
    for tokens in (100, 900, 1_200):
        manager = agentforge.begin(token_budget=1_000)
        manager.record_tokens(tokens)
        spent[manager.store.list_sessions()[-1]] = tokens
    for text, expected in (
        ("..20%", [900, 1_200]),
        ("100..", [100, 900]),
        ("..-1", [1_200]),
        ("10%..899", [900]),
    ):
        found = agentforge("list", "--json", "--budget-left", text, "--order", "least-spent")
        assert [
            one["token_budget"]["tokens_used"] for one in found.document["sessions"]
        ] == expected, text
    refused = agentforge("list", "--budget-left", "20%")
    assert refused.code == 2
    assert "..20%" in refused.err


def test_list_is_in_the_order_that_is_asked_for_on_every_page(agentforge: CommandLine) -> None:
    for tokens in (300, 100, 200):
        agentforge.begin(token_budget=1_000).record_tokens(tokens)
    whole = agentforge("list", "--json", "--order", "most-left").document["sessions"]
    assert [one["token_budget"]["tokens_used"] for one in whole] == [100, 200, 300]
    first = agentforge("list", "--json", "--order", "most-left", "--limit", "2").document
    assert first["sessions"] == whole[:2]
    page = ("--limit", "2", "--after", first["next"], "--json")
    assert agentforge("list", "--order", "most-left", *page).document["sessions"] == whole[2:]
    refused = agentforge("list", *page)
    assert refused.code == 2
    assert refused.document["error"]["type"] == "InvalidCursor"
    assert "in the order most_left" in refused.document["error"]["message"]
    refused = agentforge("list", "--order", "most-left", "--state", "active", *page)
    assert "filtered otherwise" in refused.document["error"]["message"]


def test_list_shows_an_unreadable_session_among_good_ones(agentforge: CommandLine) -> None:
    good = agentforge.new()
    bad = agentforge.new()
    path = agentforge.corrupt(bad, b"schema_version: 1\nsession_id: \x1b[31m\n")
    ended = agentforge("list")
    assert (ended.code, ended.err) == (0, "")
    assert any(line.startswith(good) and " active " in line for line in ended.out.splitlines())
    (told,) = [line for line in ended.out.splitlines() if line.startswith(bad)]
    assert f"{bad}  unreadable  {path} is not a readable session" in told
    in_json = agentforge("list", "--json").document
    assert [one["session_id"] for one in in_json["sessions"]] == [good]
    (unreadable,) = in_json["unreadable"]
    assert unreadable["session_id"] == bad
    assert unreadable["path"] == str(path)
    assert unreadable["error"]["type"] == "SessionCorrupted"
    assert "not a readable session" in unreadable["error"]["message"]


def test_list_of_unreadable_sessions_only_does_not_say_there_are_none(
    agentforge: CommandLine,
) -> None:
    bad = agentforge.new()
    agentforge.corrupt(bad)
    out = agentforge("list").out
    assert out.startswith(f"{bad}  unreadable")
    assert "No session" not in out


def test_list_tells_every_event_when_it_is_verbose(agentforge: CommandLine) -> None:
    bad = agentforge.new()
    agentforge.corrupt(bad)
    ended = agentforge("-v", "list", "--json")
    assert f"warning: session.unreadable session_id={bad}" in ended.err
    assert ended.document["unreadable"]


# ------------------------------------------------------------------------------------------ show


def test_show_tells_all_about_a_session(agentforge: CommandLine) -> None:
    manager = agentforge.begin(goal="Ship it", token_budget=1000)
    manager.record_tokens(900)
    manager.add_artifact("src/app.py", "created")
    agentforge.later(seconds=90)
    manager.advance_phase("green")
    manager.retry_phase("again")
    session = manager.current_session
    assert session is not None
    agentforge.later(minutes=5)
    out = agentforge("show", session.session_id).out
    for expected in (
        session.session_id,
        "active",
        "Ship it",
        "green, attempt 2",
        "90 %  900 of 1,000 tokens",
        "2026-03-01 12:01:30Z (5 min ago)",
        f"{agentforge.store.session_path(session.session_id)} (revision 5)",
        str(agentforge.store.workspace_path(session.session_id)),
        "src/app.py  created  red    2026-03-01 12:00:00Z",
        "phase_retried  [green]  attempt 2: again",
    ):
        assert expected in out
    assert "██████████████████████░░ 90 %" in out


def test_show_reads_the_phases_from_the_history(agentforge: CommandLine) -> None:
    manager = agentforge.begin()
    manager.record(PhaseFailed(attempt=1, seconds=1.5, tokens=30), "5.00 s; 7 tokens")
    manager.retry_phase()
    manager.add_history("phase_failed", "attempt 2; exit code 1; 9.50 s; 9 tokens")
    manager.record(PhaseSucceeded(attempt=2, seconds=0.25, tokens=30))
    manager.advance_phase("green")
    session_id = agentforge.new_id(manager)
    lines = [line.split() for line in agentforge("show", session_id).out.splitlines()]
    assert ["red", "succeeded", "2", "1.75", "s", "60"] in lines
    assert ["green", "running", "1"] in lines


def test_show_in_json_is_the_whole_session(agentforge: CommandLine) -> None:
    manager = agentforge.begin(goal="a\x1b goal")
    manager.add_artifact("a.txt", "modified")
    session_id = agentforge.new_id(manager)
    document = agentforge("show", session_id, "--json").document
    assert document["goal"] == "a\x1b goal"
    assert document["created_at"] == "2026-03-01T12:00:00+00:00"
    assert document["workspace"] == str(agentforge.store.workspace_path(session_id))
    assert document["artifacts"] == [
        {
            "path": "a.txt",
            "artifact_type": "modified",
            "phase": "red",
            "timestamp": "2026-03-01T12:00:00+00:00",
        }
    ]
    assert document["history"] == [
        {
            "index": 0,
            "timestamp": "2026-03-01T12:00:00+00:00",
            "action": "session_created",
            "phase": "red",
            "details": None,
            "data": {"workflow_type": "spec", "token_budget": 100_000},
        }
    ]


def test_a_session_is_found_by_a_part_of_its_id(agentforge: CommandLine) -> None:
    session_id = agentforge.new()
    for part in (session_id, session_id[:-3], session_id[-8:], session_id[10:-2]):
        assert agentforge("show", part, "--json").document["session_id"] == session_id


def test_a_part_of_an_id_that_several_sessions_have_is_refused(agentforge: CommandLine) -> None:
    ids = sorted([agentforge.new(), agentforge.new()])
    ended = agentforge("show", "session_")
    assert ended.code == 4
    assert ended.out == ""
    assert ended.err.startswith(f"error: session_ fits 2 sessions: {ids[0]}, {ids[1]}. Give more")
    error = agentforge("show", "session_", "--json").document["error"]
    assert (error["type"], error["candidates"]) == ("AmbiguousId", ids)


@pytest.mark.parametrize(
    "command",
    [
        ["show"],
        ["session", "log"],
        ["session", "brief"],
        ["session", "artifacts"],
        ["session", "pause"],
        ["session", "abort", "--yes"],
        ["session", "complete"],
        ["session", "budget"],
        ["resume"],
        ["session", "retry"],
    ],
)
def test_a_session_that_is_not_there_is_told_by_every_command(
    agentforge: CommandLine, command: list[str]
) -> None:
    agentforge.new()
    ended = agentforge(*command, "nosuch")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err == (
        f"error: there is no session nosuch in {agentforge.base}. "
        "`agentforge list` shows those that are.\n"
    )
    in_json = agentforge(*command, "nosuch", "--json")
    assert (in_json.code, in_json.err) == (3, "")
    assert set(in_json.document) == {"error"}
    error = in_json.document["error"]
    assert error["type"] == "SessionNotFound"
    assert error["session_id"] == "nosuch"
    assert error["path"] == str(agentforge.base)
    assert error["exit_code"] == 3


def test_an_id_that_leads_out_of_the_base_is_refused(agentforge: CommandLine) -> None:
    ended = agentforge("show", "../../etc/passwd")
    assert ended.code == 2
    assert "is not a session's id" in ended.err


def test_show_of_a_corrupted_session_names_the_faults(agentforge: CommandLine) -> None:
    bad = agentforge.new()
    path = agentforge.corrupt(bad, b"schema_version: 1\nsession_id: x\n...\n")
    ended = agentforge("show", bad)
    assert (ended.code, ended.out) == (7, "")
    assert ended.err.count("\n") == 1
    error = agentforge("show", bad, "--json").document["error"]
    assert error["type"] == "SessionCorrupted"
    assert error["path"] == str(path)
    assert len(error["faults"]) > 3


# ------------------------------------------------------------------------------------- following


def test_show_follows_each_revision_until_the_session_has_ended(agentforge: CommandLine) -> None:
    session_id = agentforge.new()
    steps = {2: lambda m: m.pause("lunch"), 5: lambda m: m.resume(), 6: lambda m: m.complete()}

    def act(pause: int) -> None:
        if pause in steps:
            agentforge.later(seconds=1)
            steps[pause](agentforge.manager(session_id))

    agentforge.during_pause = act
    ended = agentforge("show", session_id, "--follow")
    assert ended.code == 0
    assert [line.split()[3:5] for line in ended.out.splitlines()] == [
        ["1", "active"],
        ["2", "paused"],
        ["3", "active"],
        ["4", "completed"],
    ]
    assert "session_paused: lunch" in ended.out
    assert agentforge.pauses == 6


def test_following_reads_the_file_only_when_it_changed(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentforge_sessions.harness import SessionStore

    session_id = agentforge.new()
    loads = []
    load = SessionStore.load

    def counting(store: SessionStore, one: str) -> object:
        loads.append(one)
        return load(store, one)

    monkeypatch.setattr(SessionStore, "load", counting)

    def act(pause: int) -> None:
        if pause == 20:
            loads.clear()
            agentforge.manager(session_id).complete()
            assert len(loads) == 1
        elif pause > 1:
            assert loads == [session_id, session_id]

    agentforge.during_pause = act
    assert agentforge("show", session_id, "-f").code == 0
    assert agentforge.pauses == 20


def test_following_does_not_redraw_a_file_that_was_only_touched(agentforge: CommandLine) -> None:
    session_id = agentforge.new()

    def act(pause: int) -> None:
        if pause == 1:
            os.utime(agentforge.store.session_path(session_id), (1, 1))
        else:
            agentforge.manager(session_id).complete()

    agentforge.during_pause = act
    assert len(agentforge("show", session_id, "-f").out.splitlines()) == 2


def test_following_a_session_that_is_deleted_ends_with_an_error(agentforge: CommandLine) -> None:
    session_id = agentforge.new()
    agentforge.during_pause = lambda _: agentforge.store.delete(session_id)
    ended = agentforge("show", session_id, "--follow", "--json")
    assert ended.code == 3
    first, _, rest = ended.out.partition("\n")
    assert session_id in first
    assert "SessionNotFound" in rest


def test_following_ends_well_at_ctrl_c(agentforge: CommandLine) -> None:
    session_id = agentforge.new()

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    agentforge.during_pause = interrupt
    for command in (["show"], ["session", "log"]):
        agentforge.pauses = 0
        ended = agentforge(*command, session_id, "--follow")
        assert (ended.code, ended.err) == (0, "")
        assert ended.out


def test_log_follows_with_the_new_entries_only(agentforge: CommandLine) -> None:
    session_id = agentforge.new()

    def act(pause: int) -> None:
        manager = agentforge.manager(session_id)
        if pause == 1:
            manager.record_tokens(5)  # a revision without an entry
        else:
            manager.complete()

    agentforge.during_pause = act
    ended = agentforge("session", "log", session_id, "--follow", "--json")
    assert [(one["index"], one["action"]) for one in ended.documents] == [
        (0, "session_created"),
        (1, "session_completed"),
    ]
    again = agentforge("session", "log", session_id, "--follow", "-n", "1")
    assert again.out == "2026-03-01 12:00:00Z  session_completed  [red]\n"


# ------------------------------------------------------------------------- log, brief, artifacts


def test_log_tells_the_history_with_all_lines_of_the_details(agentforge: CommandLine) -> None:
    manager = agentforge.begin()
    agentforge.later(seconds=1)
    manager.add_history("noted", "first line\n  second line\nthird")
    session_id = agentforge.new_id(manager)
    assert agentforge("session", "log", session_id).out == (
        "2026-03-01 12:00:00Z  session_created  [red]\n"
        "2026-03-01 12:00:01Z  noted  [red]  first line\n"
        "      second line\n"
        "    third\n"
    )


@pytest.mark.parametrize(("number", "expected"), [(0, []), (1, ["c"]), (2, ["b", "c"]), (99, None)])
def test_log_shows_as_many_of_the_last_entries_as_asked(
    agentforge: CommandLine, number: int, expected: list[str] | None
) -> None:
    manager = agentforge.begin()
    for action in "abc":
        manager.add_history(action)
    session_id = agentforge.new_id(manager)
    document = agentforge("session", "log", session_id, "-n", number, "--json").document
    assert document["total"] == 4
    assert [one["action"] for one in document["history"]] == (
        expected if expected is not None else ["session_created", "a", "b", "c"]
    )


def test_log_shows_what_was_said_and_done_in_an_agents_conversation(
    agentforge: CommandLine,
) -> None:
    manager = agentforge.begin()
    session_id = agentforge.new_id(manager)
    session = manager.store.load(session_id)
    assert session is not None
    session.add_event(AgentPrompted(program="gemini", agent_session="c1", text="x"), now=START)
    manager.store.save(session)
    entries = [
        *text_entry("user", "u1", "2026-03-01T12:00:00Z", "Count\x1b[2J\nthem"),
        *tool_call("t1", "2026-03-01T12:00:01Z", "Bash", {"command": "false"}),
        *plan_entry("p1", "2026-03-01T12:00:02Z", [{"content": "one", "status": "completed"}]),
    ]
    stored = [encoded(masked(one, 1)) for one in entries]
    manager.store.append_entries(session_id, stream_of("gemini", "c1"), stored)
    assert agentforge("session", "log", session_id, "--transcript").out == (
        "gemini c1: 3 entries\n"
        "2026-03-01T12:00:00  turn 1  user\n"
        "    Count\\x1b[2J\n"
        "    them\n"
        "2026-03-01T12:00:01  turn 1  tool  Bash\n"
        "    false\n"
        "2026-03-01T12:00:02  turn 1  plan\n"
        "    completed: one\n"
    )
    document = agentforge("session", "log", session_id, "--transcript", "-n", 1, "--json").document
    (talk,) = document["transcripts"]
    assert [one["kind"] for one in talk["entries"]] == ["plan"]


def test_brief_writes_the_briefing_within_its_limit(agentforge: CommandLine) -> None:
    manager = agentforge.begin(goal="Count things")
    for number in range(100):
        manager.add_history("noted", f"entry {number}")
    session_id = agentforge.new_id(manager)
    whole = agentforge("session", "brief", session_id)
    assert whole.out == f"{manager.briefing(2000)}\n"
    assert "Goal: “Count things" in whole.out
    short = agentforge("session", "brief", session_id, "--max-tokens", 100, "--json").document
    assert short["briefing"] == manager.briefing(100)
    assert short["estimated_tokens"] <= short["max_tokens"] == 100


def test_artifacts_can_be_narrowed_to_a_phase(agentforge: CommandLine) -> None:
    manager = agentforge.begin()
    manager.add_artifact("a.txt", "created")
    manager.advance_phase("green")
    manager.add_artifact("b.txt", "modified")
    session_id = agentforge.new_id(manager)
    out = agentforge("session", "artifacts", session_id).out
    assert "a.txt  created   red" in out
    assert f"They are in {agentforge.store.workspace_path(session_id)}" in out
    one = agentforge("session", "artifacts", session_id, "--phase", "green", "--json").document
    assert [artifact["path"] for artifact in one["artifacts"]] == ["b.txt"]
    assert agentforge("session", "artifacts", session_id, "--phase", "blue").out == (
        "No artifact is recorded.\n"
    )


# ------------------------------------------------------------------------------ hostile contents


HOSTILE = "\x1b]0;pwned\x07\x1b[2J[bold red]bold[/bold red]:skull:\u202eevil\x9b31m\r\x08\u2028end"


@pytest.fixture
def hostile(agentforge: CommandLine) -> str:
    """A session in which everything that can be is hostile."""
    marked = "ph\u202ease[red]x[/red]"
    manager = agentforge.begin(goal=HOSTILE, workflow_type="wo\u2066rk", initial_phase=marked)
    manager.add_artifact(f"dir/{HOSTILE}.txt", "created")
    manager.add_history("no\u202dted", f"{HOSTILE}\n{HOSTILE}")
    return agentforge.new_id(manager)


@pytest.mark.parametrize(
    ("command", "plain"),
    [
        (["list"], True),
        (["show", "ID"], False),
        (["session", "log", "ID"], False),
        (["session", "brief", "ID"], True),
        (["session", "artifacts", "ID"], False),
        (["show", "ID", "--follow"], True),
        (["session", "log", "ID", "--follow"], False),
        (["prune", "--kind", "agent", "--older-than", "0s", "--dry-run"], True),
        (["session", "budget", "ID"], True),
    ],
)
def test_hostile_contents_reach_no_terminal(
    agentforge: CommandLine, hostile: str, command: list[str], plain: bool
) -> None:
    agentforge.manager(hostile).complete()
    ended = agentforge(*(hostile if word == "ID" else word for word in command))
    assert ended.code == 0
    assert all(line.isprintable() for line in (ended.out + ended.err).split("\n"))
    if not plain:
        assert "[bold red]bold[/bold red]:skull:" in ended.out, "markup must not be interpreted"
        assert "\\x1b]0;pwned\\x07" in ended.out


def test_hostile_contents_reach_a_coloured_terminal_only_as_text(
    agentforge: CommandLine, hostile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import re

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "2000")
    out = agentforge("show", hostile).out
    assert "\x1b[" in out
    assert all(line.isprintable() for line in re.sub(r"\x1b\[[0-9;]*m", "", out).split("\n")), (
        "only colours may be left"
    )
    assert "\\x1b]0;pwned\\x07" in out


def test_hostile_arguments_reach_no_terminal(agentforge: CommandLine, tmp_path: Path) -> None:
    evil = f"{tmp_path}/\x1b[31m\u202e"
    for arguments in (
        ["show", "\x1b[31m"],
        ["\x1b[31m"],
        ["list", "--state", "\x1b[31m"],
        ["--base", evil, "list"],
        ["--base", evil, "show", "x"],
        ["run", evil],
    ):
        ended = agentforge(*arguments)
        assert all(line.isprintable() for line in (ended.out + ended.err).split("\n"))
        assert "x1b[31m" in ended.out + ended.err


def test_a_hostile_file_reaches_no_terminal(agentforge: CommandLine) -> None:
    agentforge.base = agentforge.base / "\x1b]0;pwned\x07\u202e"
    bad = agentforge.new()
    agentforge.corrupt(bad, b'state: "\\e]0;pwned\\a\\u202e"\n"\\e[2J": 1\n')
    for arguments in (["list"], ["show", bad], ["-v", "list"]):
        ended = agentforge(*arguments)
        assert all(line.isprintable() for line in (ended.out + ended.err).split("\n"))


# ----------------------------------------------------------------------------------- interrupted


def test_an_active_run_without_a_worker_is_shown_as_interrupted(agentforge: CommandLine) -> None:
    cut_off = agentforge.new(attachments={"workflow.yaml": b"name: x\n"})
    agentforge.later(minutes=1)
    embedded = agentforge.new()
    table = agentforge("list").out.splitlines()
    assert table[1].split()[:2] == [embedded, "active"]
    assert table[2].split()[:2] == [cut_off, "interrupted"]
    shown = agentforge("show", cut_off).out
    assert "state      interrupted  no worker is at it; go on with: agentforge" in shown
    assert f"resume {cut_off}" in shown
    assert agentforge("show", cut_off, "--json").document["interrupted"] is True
    assert agentforge("show", embedded, "--json").document["interrupted"] is False
    listed = agentforge("list", "--json").document["sessions"]
    assert {one["session_id"]: one["interrupted"] for one in listed} == {
        cut_off: True,
        embedded: False,
    }


def test_a_run_with_a_worker_is_active(agentforge: CommandLine) -> None:
    session_id = agentforge.new(attachments={"workflow.yaml": b"name: x\n"})
    file = agentforge.store.session_path(session_id).with_name("workflow.yaml")
    with FileLock(OsFileSystem(), file):
        assert agentforge("list").out.splitlines()[1].split()[1] == "active"


def test_list_shows_the_first_of_many_and_says_how_many_more_fit(agentforge: CommandLine) -> None:
    ids = []
    for _ in range(3):
        ids.append(agentforge.new())
        agentforge.later(minutes=1)
    ended = agentforge("list", "--limit", "2")
    assert [line.split()[0] for line in ended.out.splitlines()[1:]] == [ids[2], ids[1]]
    said, _, rest = ended.err.partition(" --after ")
    assert said == "1 more fit; --limit 2"
    cursor, _, rest = rest.partition(" ")
    assert rest == "lists the next\n"
    first = agentforge("list", "--limit", "2", "--json").document
    assert first["next"] == cursor
    following = agentforge("list", "--limit", "2", "--after", cursor, "--json").document
    assert [one["session_id"] for one in following["sessions"]] == [ids[0]]
    assert following["next"] is None


def test_list_finds_sessions_by_phase_and_by_a_part_of_the_goal(agentforge: CommandLine) -> None:
    parser = agentforge.new(goal="Make the Parser\nfaster")
    other = agentforge.new(goal="Write the docs")
    found = agentforge("list", "--goal", "PARSER\nfast", "--json").document["sessions"]
    assert [one["session_id"] for one in found] == [parser]
    found = agentforge("list", "--goal", "the", "--limit", "1", "--json").document["sessions"]
    assert [one["session_id"] for one in found] == [other]
    assert agentforge("list", "--phase", "no such").out.startswith("No session fits")


def test_list_refuses_a_goal_too_short_and_what_is_no_cursor(agentforge: CommandLine) -> None:
    for words, said in (
        (["--goal", "ab"], "too short to search for"),
        (["--limit", "1", "--after", "x"], "not where a page ended"),
        (["--after", "x"], "it needs --limit"),
    ):
        ended = agentforge("list", *words)
        assert ended.code == 2
        assert said in ended.err


def test_commands_in_a_folder_of_a_project_work_on_the_projects_sessions(
    agentforge: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, deep = tmp_path / "project", tmp_path / "project" / "src"
    deep.mkdir(parents=True)
    (root / ".agentforge").mkdir()
    monkeypatch.chdir(root)
    monkeypatch.delenv("AGENTFORGE_BASE", raising=False)
    line = CommandLine(base=root / ".agentforge" / "sessions", capture=agentforge.capture)
    session_id = line.new()
    monkeypatch.chdir(deep)
    agentforge.capture.readouterr()
    assert run(["list"]) == 0
    assert session_id in agentforge.capture.readouterr().out
    assert not (deep / ".agentforge").exists()
