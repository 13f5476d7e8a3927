"""`agentforge do` from the task to the result, by processes of its own and a scripted agent."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.do.conftest import BAD, FILES, GOOD, Desk, desk_of, repository
from tests.support.own_project import require_jail
from tests.support.repositories import plain_git, write_files

CHECKED = ("--check", "sh check.sh")


def test_a_task_that_fails_twice_and_then_succeeds_is_applied_as_a_whole(desk: Desk) -> None:
    before = desk.state()
    agent = desk.agent(BAD, f"{BAD}; echo x > more.txt", f"{GOOD}; rm more.txt")
    done = desk.do("improve it", "--agent", agent, *CHECKED)
    assert desk.state() == before, "nothing is applied, and nothing of ours is there"
    assert "attempt 3 of 3" in done.out
    assert "The check passed after 3 tries: sh check.sh." in done.out
    assert desk.actions.count("phase_failed") == 2
    assert desk.session.state.value == "completed"
    prompt = (desk.store.session_directory(desk.session.session_id) / "steps").glob("*prompt*")
    assert any("work.txt is not done" in one.read_text() for one in prompt)

    applied = desk.do("--continue", "--yes")
    assert "Applied 1 path" in applied.out
    assert (desk.checkout / "work.txt").read_text() == "better\ndone\n"
    tree, said = desk.state()
    assert said == b"M  work.txt\n"
    assert set(tree) == set(before[0])
    assert "Applied already" in desk.do("--continue").out


def test_it_works_from_a_folder_of_the_repository_and_says_what_it_did_to_a_program(
    desk: Desk,
) -> None:
    folder = desk.checkout / "src" / "deep"
    done = desk.do("x", "--agent", desk.agent(GOOD), *CHECKED, "--yes", "--json", folder=folder)
    document = done.document
    assert document["state"] == "completed"
    assert document["checked"] is True
    assert [one["path"] for one in document["files"]] == ["work.txt"]
    assert document["applied"]["paths"] == [{"path": "work.txt", "change": "modified"}]
    assert document["verdicts"][0]["passed"] is True
    assert (desk.checkout / "work.txt").read_text() == "better\ndone\n"


def test_without_a_check_the_result_is_unchecked_and_not_applied_unasked(desk: Desk) -> None:
    before = desk.state()
    done = desk.do("x", "--agent", desk.agent(BAD), "--check", "none", "--yes")
    assert "Unchecked: no command judged it" in done.out
    assert desk.state() == before
    assert f"agentforge apply {desk.session.session_id}" in done.out


def test_a_branch_gets_the_result_and_the_checkout_stays(desk: Desk) -> None:
    before = desk.state()
    done = desk.do("x", "--agent", desk.agent(GOOD), *CHECKED, "--branch", "better")
    assert "Committed 1 path on branch better" in done.out
    assert desk.state() == before
    shown = plain_git(desk.checkout, "show", "better:work.txt").stdout
    assert shown == b"better\ndone\n"


def test_a_refused_check_ends_after_three_tries_and_goes_on_when_the_person_says_so(
    desk: Desk,
) -> None:
    before = desk.state()
    done = desk.do("x", "--agent", desk.agent(BAD), *CHECKED, "--yes", code=1)
    assert desk.actions.count("phase_failed") == 3
    assert "work.txt is not done" in done.out
    assert f"agentforge do --continue {desk.session.session_id}" in done.out
    assert desk.state() == before
    desk.do("--continue", "--agent", desk.agent(GOOD), "--yes")
    assert (desk.checkout / "work.txt").read_text() == "better\ndone\n"


def test_an_empty_budget_is_extended_and_the_task_goes_on(desk: Desk) -> None:
    usage = "```agentforge:usage\\n{input_tokens: 9000, output_tokens: 900}\\n```\\n"
    agent = desk.agent(f"{BAD}; printf '{usage}'", GOOD)
    stopped = desk.document("x", "--agent", agent, *CHECKED, "--budget", "10k", code=11)
    assert stopped["cause"] == "budget"
    assert stopped["token_budget"]["total_budget"] == 10_000
    words = stopped["next"].split()
    assert words[:4] == ["agentforge", "do", "--continue", stopped["session_id"]]
    assert words[4] == "--budget"
    desk.do("--continue", "--budget", "20k", "--yes")
    assert desk.session.token_budget.total_budget == 30_000
    assert (desk.checkout / "work.txt").read_text() == "better\ndone\n"


def test_uncommitted_work_is_named_and_included_only_when_asked_for(desk: Desk) -> None:
    (desk.checkout / "src" / "deep" / "note.txt").write_text("my note\n")
    before = desk.state()
    copy = "cp src/deep/note.txt seen.txt; " + GOOD
    without = desk.document("x", "--agent", desk.agent(copy), *CHECKED)
    workspace = Path(without["workspace"])
    assert (workspace / "seen.txt").read_text() == "a note\n"
    told = desk.do("x", "--agent", desk.agent(copy), *CHECKED, "--with-uncommitted", "--json")
    assert "--with-uncommitted" not in told.err
    assert (Path(told.document["workspace"]) / "seen.txt").read_text() == "my note\n"
    assert desk.state() == before


def test_tests_come_first_and_are_fixed_then(desk: Desk) -> None:
    red = "printf 'grep -q new work.txt\\n' >> check.sh"
    cheat = f"printf 'true\\n' > check.sh; {GOOD}"
    phases = f"if [ $AGENTFORGE_PHASE = red ]; then {red}; else {cheat}; fi"
    later = "printf 'new\\ndone\\n' > work.txt"
    done = desk.document("x", "--agent", desk.agent(phases, later), *CHECKED, "--tests-first")
    assert done["phases_done"] == ["red", "work"]
    judged = [(one["phase"], one["passed"]) for one in done["verdicts"]]
    assert judged == [("red", True), ("work", False), ("work", True)]
    assert done["verdicts"][1]["facts"]["put_back"] == ["check.sh"]


def test_a_plan_asks_first_and_the_work_sees_the_answer_and_the_plan(desk: Desk) -> None:
    ask = (
        "printf '```agentforge:questions\\n- prompt: Which?\\n  title: Way\\n  options:\\n"
        "    - {label: this, description: one}\\n    - {label: that, description: two}\\n```\\n'"
    )
    plan = (
        "if [ $AGENTFORGE_PHASE = work ]; then "
        f"{GOOD}; elif [ $AGENTFORGE_CALL = 1 ]; then {ask}; else echo The plan is this.; fi"
    )
    waiting = desk.do("x", "--agent", desk.agent(plan), *CHECKED, "--plan", "--no-wait", code=10)
    command = next(line for line in waiting.out.splitlines() if line.startswith("To go on: "))
    question = command.split()[-1]
    before = desk.state()
    desk.agentforge("answer", question, "--select", "this")
    done = desk.document("--continue")
    assert done["phases_done"] == ["plan", "work"]
    steps = desk.store.session_directory(done["session_id"]) / "steps"
    prompts = [one.read_text() for one in sorted(steps.glob("*prompt*"))]
    assert "Q: Which?" in prompts[-1]
    assert "The plan is this." in prompts[-1]
    assert [one["path"] for one in done["files"]] == ["work.txt"]
    assert desk.state() == before


def test_a_check_that_fails_before_anything_was_changed_is_told_and_the_task_goes_on(
    tmp_path: Path,
) -> None:
    require_jail()
    desk = desk_of(repository(tmp_path / "project", {**FILES, "work.txt": "broken\n"}))
    done = desk.do("mend it", "--agent", desk.agent(GOOD), *CHECKED, "--yes")
    assert "The check fails already, and the task goes on." in done.err
    assert (desk.checkout / "work.txt").read_text() == "better\ndone\n"


def test_a_test_that_fails_as_before_is_named_and_nothing_is_applied_unasked(
    tmp_path: Path,
) -> None:
    require_jail()
    tap = "echo 1..2; grep -q '^done$' work.txt && echo ok 1 - done || echo not ok 1 - done\n"
    files = {**FILES, "tap.sh": f"{tap}echo not ok 2 - old\nexit 1\n"}
    desk = desk_of(repository(tmp_path / "project", files))
    before = desk.state()
    check = ("--check", "sh tap.sh --reporter=tap")
    done = desk.do("x", "--agent", desk.agent(BAD, GOOD), *check, "--yes")
    assert "after 2 tries, but 1 test failed as before" in done.out
    assert "Not applied" in done.out
    assert desk.state() == before


def test_without_a_jail_by_the_persons_word_alone(desk: Desk) -> None:
    done = desk.document("x", "--agent", desk.agent(GOOD), *CHECKED, "--no-jail", "--yes")
    assert done["applied"]["paths"] == [{"path": "work.txt", "change": "modified"}]
    assert [one["facts"]["sealed"] for one in done["verdicts"]] == [False]


def test_a_check_that_hangs_begins_nothing(desk: Desk) -> None:
    write_files(desk.checkout, {"check.sh": "sleep 100\n"})
    plain_git(desk.checkout, "commit", "-qam", "slow")
    before = desk.state()
    done = desk.do("x", "--agent", desk.agent(GOOD), *CHECKED, "--check-timeout", "0.5", code=1)
    assert "Nothing was started" in done.err
    assert "--check-timeout" in done.err
    assert desk.session.state.value == "aborted"
    assert "agent_answered" not in desk.actions
    assert desk.state() == before


def test_ctrl_c_keeps_the_task_and_names_the_command_that_goes_on(desk: Desk) -> None:
    before = desk.state()
    process = desk.started("x", "--agent", desk.agent("sleep 100"), *CHECKED)
    _read_until(process, "attempt 1 of 3")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"agentforge do --continue {desk.session.session_id}" in err
    assert desk.state() == before
    desk.do("--continue", "--agent", desk.agent(GOOD), "--yes")
    assert (desk.checkout / "work.txt").read_text() == "better\ndone\n"


@pytest.mark.parametrize(
    "moment",
    ["in session", "attempt 1 of 3", "answered", "failed", "attempt 2 of 3", "passed", "added"],
)
def test_a_task_that_is_killed_goes_on_and_is_applied_once(desk: Desk, moment: str) -> None:
    before = desk.state()
    agent = desk.agent(BAD, GOOD)
    process = desk.started("x", "--agent", agent, *CHECKED)
    _read_until(process, moment)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert desk.state() == before
    desk.do("--continue", "--yes")
    assert desk.session.state.value == "completed"
    assert desk.actions.count("phase_failed") == 1
    assert desk.actions.count("phase_succeeded") == 1
    assert desk.actions.count("agent_answered") == 2
    assert (desk.checkout / "work.txt").read_text() == "better\ndone\n"
    assert desk.state()[1] == b"M  work.txt\n"


def _read_until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"it never said {text!r}")
