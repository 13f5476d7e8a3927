"""The installed program in processes of its own, without a terminal."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from agentforge_sessions.entrypoints.cli.output.errors import ExitCode
from tests.e2e.cli.conftest import DEADLINE_S, Installed
from tests.support.clock import START
from tests.support.mounts import mounted_tmpfs
from tests.support.prune_sites import metadata, uuid_of, write_files
from tests.support.soak import SOAKING

full = pytest.mark.skipif(not SOAKING, reason="as the cases beside it, which are two of four")


def test_a_workflow_runs_and_everything_about_it_can_be_seen(
    agentforge: Installed, cold: Installed, workflows: Path
) -> None:
    ran = cold("run", "hello.yaml")
    assert (ran.code, ran.err) == (0, "")
    (session_id,) = agentforge.store.list_sessions()
    assert f"Running hello in session {session_id}\n[1/2] greet: running, attempt 1\n" in ran.out
    assert ran.out.endswith(f"next       agentforge session artifacts {session_id}\n")
    workspace = agentforge.store.workspace_path(session_id)
    assert (workspace / "greeting.txt").read_text() == "hello there"

    listed = agentforge("list", "--state", "completed", "--json").document
    assert [one["session_id"] for one in listed["sessions"]] == [session_id]
    shown = agentforge("show", session_id[-8:])
    assert "greet  succeeded        1" in shown.out
    assert "greeting.txt  created  greet" in agentforge("session", "artifacts", session_id).out
    assert "    written\n" in agentforge("session", "log", session_id).out
    assert "Goal: “Greet." in agentforge("session", "brief", session_id).out
    assert agentforge("resume", session_id).code == 6
    cleaned = agentforge(
        "prune", "--kind", "agent", "--older-than", "0d", "--yes", "--json"
    ).document
    assert cleaned["kinds"]["agent"]["deleted"] == [session_id]
    assert not workspace.exists()


def test_a_phase_that_fails_pauses_and_a_retry_finishes_it(
    agentforge: Installed, workflows: Path
) -> None:
    ran = agentforge("run", "flaky.yaml", "--json")
    assert (ran.code, ran.err) == (1, "")
    document = ran.document
    assert document["state"] == "paused"
    assert document["last_result"]["stderr"].strip() == "not yet"
    assert document["next"] == f"agentforge session retry {document['session_id']}"
    exhausted = agentforge("resume", document["session_id"], "--json")
    assert exhausted.code == 6
    assert exhausted.document["error"]["type"] == "AttemptsExhausted"
    assert (
        agentforge("session", "retry", document["session_id"][-8:], "--reason", "again").code == 0
    )


def test_ctrl_c_keeps_the_session_and_resume_finishes_it(
    agentforge: Installed, workflows: Path
) -> None:
    process = agentforge.started("run", "slow.yaml")
    assert process.stdout is not None
    for line in process.stdout:
        if "wait: running" in line:
            break
    (session_id,) = agentforge.store.list_sessions()
    begun_file = agentforge.store.workspace_path(session_id) / "begun"
    deadline = time.monotonic() + DEADLINE_S
    while not begun_file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - begun < 30, "Ctrl-C must end it, not the phase's own end"
    assert process.returncode == 130
    assert f"session {session_id} is kept" in err
    assert err.endswith(f"To go on: agentforge resume {session_id}\n")
    assert err.count("\n") == 1
    (agentforge.store.workspace_path(session_id) / "go").touch()
    resumed = agentforge("resume", session_id, "--json").document
    assert [one["name"] for one in resumed["phases"]] == ["quick", "wait"]
    assert resumed["state"] == "completed"


def test_output_into_a_pipe_that_closes_is_silent(agentforge: Installed) -> None:
    manager = agentforge.begin()
    for number in range(50):
        manager.add_history("noted", f"{number} " + "x" * 4000)
    session = manager.current_session
    assert session is not None
    for arguments in (
        ["session", "log", session.session_id],
        ["show", session.session_id, "--json"],
    ):
        process = agentforge.started(*arguments)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        assert (process.wait(60), err) == (0, "")


def test_closed_standard_streams_do_no_harm(agentforge: Installed) -> None:
    session_id = agentforge.new()
    script = f'"{agentforge_path()}" session pause {session_id} >&- 2>&-'
    assert os.WEXITSTATUS(os.system(f"cd {agentforge.directory} && {script}")) == 0
    session = agentforge.store.load(session_id)
    assert session is not None
    assert session.state.value == "paused"


@pytest.mark.parametrize(
    ("to", "ends"),
    [
        pytest.param(">/dev/full", ExitCode.STORAGE, marks=full),
        (">/dev/full 2>/dev/full", ExitCode.STORAGE),
        ("2>/dev/full", ExitCode.OK),
        pytest.param(">&- 2>&-", ExitCode.OK, marks=full),
    ],
)
def test_a_log_on_a_full_disk_keeps_no_prune_from_freeing_it(
    agentforge: Installed, to: str, ends: ExitCode
) -> None:
    workspaces = agentforge.directory / "workspace"
    for number in range(3):
        at = START - timedelta(days=number)
        write_files(workspaces / uuid_of(number), {".metadata.json": metadata(uuid_of(number), at)})
    (workspaces / uuid_of(9)).mkdir()  # is left alone, which is said on standard error

    script = f'cd {agentforge.directory} && "{agentforge_path()}" prune --yes {to}'
    code = os.WEXITSTATUS(os.system(script))

    assert sorted(os.listdir(workspaces)) == [".prune", uuid_of(9)]
    assert code == ends


def test_a_log_on_the_disk_that_is_nearly_full_does_not_take_the_last_room(
    agentforge: Installed,
) -> None:
    """What a timer logs comes after the audit log, which is what a removal can't do without."""
    with mounted_tmpfs(agentforge.directory / "disk", options="size=1m,mode=700") as disk:
        for number in range(100):
            session_id, at = uuid_of(number), START - timedelta(days=number)
            files = {".metadata.json": metadata(session_id, at), "data": bytes(4096)}
            write_files(disk / "workspace" / session_id, files)
        with open(disk / "fill", "wb", buffering=0) as fill, suppress(OSError):
            while fill.write(bytes(4096)):
                pass
        os.truncate(disk / "fill", (disk / "fill").stat().st_size - 8192)

        script = f'cd {disk} && "{agentforge_path()}" prune --yes >prune.log 2>&1'
        code = os.WEXITSTATUS(os.system(script))

        assert (disk / "prune.log").read_text().endswith(", skipped 0.\n")
        assert code == ExitCode.OK
        assert os.listdir(disk / "workspace") == [".prune"]


def agentforge_path() -> Path:
    from tests.e2e.cli.conftest import PROGRAM

    return PROGRAM


def test_text_that_the_terminal_can_not_write_is_spelled_out(agentforge: Installed) -> None:
    session_id = agentforge.new(goal="Größe 日本")
    done = agentforge("show", session_id, environment={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert (done.code, done.err) == (0, "")
    assert "Gr\\xf6\\xdfe \\u65e5\\u672c" in done.out


def test_show_follow_tells_what_another_process_does(
    agentforge: Installed, cold: Installed
) -> None:
    manager = cold.begin()
    session = manager.current_session
    assert session is not None
    process = cold.started("show", session.session_id, "--follow", "--json")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["revision"] == 1
    assert agentforge("session", "pause", session.session_id, "--reason", "x").code == 0
    assert json.loads(process.stdout.readline())["state"] == "paused"
    assert agentforge("session", "abort", session.session_id, "--yes").code == 0
    assert json.loads(process.stdout.readline())["state"] == "aborted"
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")


def test_the_shell_completes_commands_and_session_ids(agentforge: Installed) -> None:
    first = agentforge.new()
    broken = agentforge.new()
    agentforge.store.session_path(broken).write_text("broken")
    begun = next(one for n in range(len(first)) if not broken.startswith(one := first[: n + 1]))
    completing = {"_AGENTFORGE_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    ids = agentforge(environment={**completing, "COMP_WORDS": f"agentforge show {begun}"})
    assert (ids.out.split(), ids.err) == ([first], "")
    word = {"COMP_CWORD": "1", "COMP_WORDS": "agentforge doc"}
    words = agentforge(environment={**completing, **word})
    assert words.out.split() == ["doctor"]
    elsewhere = agentforge(
        environment={
            **completing,
            "COMP_CWORD": "4",
            "COMP_WORDS": "agentforge --base file show session",
        }
    )
    assert (elsewhere.out.strip(), elsewhere.err) == ("", "")


def test_doctor_and_setup_work_where_nothing_is_yet(agentforge: Installed, cold: Installed) -> None:
    before = cold("doctor", "--json").document
    assert before["ok"] is True
    assert not cold.base.exists()
    assert agentforge("setup").code == 0
    assert (cold.base / ".gitkeep").exists()
