"""`agentforge prune`: shows what would go and why, asks, and does exactly that."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from attrs import frozen

from agentforge_sessions.base.files.process_owner import OsProcesses
from agentforge_sessions.entrypoints.cli.context import CliEnvironment
from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.harness.stream_port import NewEntry
from agentforge_sessions.questions import Asker, Option, Question, QuestionSessions
from agentforge_sessions.sandbox import prune_sessions
from agentforge_sessions.sandbox.session_workspaces.session_metadata import (
    SessionMetadata,
    encode_metadata,
)
from tests.support.listing import names_in
from tests.support.mounts import mounted_tmpfs
from tests.support.trusting import trusted
from tests.unit.cli.conftest import CommandLine, Ended, Terminal

Prune = Callable[..., Ended]
OPTIONS = ("--option", "this", "--option", "that")
COMMANDS = ("restore", "trash", "pin", "unpin", "repair")


@pytest.fixture
def workspaces(tmp_path: Path) -> Path:
    root = tmp_path / "workspaces"
    root.mkdir()
    return root


@pytest.fixture
def prune(agentforge: CommandLine, workspaces: Path) -> Prune:
    def act(*words: object) -> Ended:
        command = words[:1] if words[:1] and words[0] in COMMANDS else ()
        where = ("--workspace-root", workspaces)
        return agentforge("prune", *command, *where, *words[len(command) :])

    return act


@pytest.fixture
def made(agentforge: CommandLine, workspaces: Path) -> Callable[..., str]:
    def make(*, hours: float, size: int = 1000, metadata: bool = True) -> str:
        session_id = str(uuid.UUID(int=len(list(workspaces.iterdir())) + 1, version=4))
        directory = workspaces / session_id
        directory.mkdir()
        (directory / "data").write_bytes(bytes(size))
        if metadata:
            at = agentforge.now - timedelta(hours=hours)
            described = SessionMetadata(session_id=session_id, created_at=at, updated_at=at)
            (directory / ".metadata.json").write_bytes(encode_metadata(described))
        return session_id

    return make


def says(word: str, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(sys, "stdin", Terminal(f"{word}\n"))


def there(workspaces: Path) -> list[str]:
    return sorted(name for name in os.listdir(workspaces) if not name.startswith("."))


def test_both_kinds_go_by_their_own_default_age(
    agentforge: CommandLine, prune: Prune, made: Callable[..., str], workspaces: Path
) -> None:
    ended, young = agentforge.new(), agentforge.new()
    agentforge.manager(ended).complete()
    agentforge.later(days=31)
    agentforge.manager(young).complete()
    old, recent = made(hours=25), made(hours=23)

    done = prune("--yes")

    assert done.code == 0
    assert "sandbox: Deleted 1 session" in done.out
    assert "agent: Deleted 1 session" in done.out
    assert there(workspaces) == [recent]
    assert agentforge.store.list_sessions() == [young]
    assert old not in there(workspaces)


def test_it_shows_what_would_go_and_why_and_a_no_keeps_all(
    prune: Prune, made: Callable[..., str], workspaces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = made(hours=48)
    legacy = made(hours=0, metadata=False)
    says("no", monkeypatch)

    done = prune()

    assert done.code == 1
    assert f"{old}" in done.out
    assert "too old" in done.out
    assert f"left alone, no metadata: {legacy}" in done.err
    assert "Remove for good 1 session" in done.err
    assert there(workspaces) == [old, legacy]


def test_nobody_to_ask_means_nothing_is_removed(
    prune: Prune, made: Callable[..., str], workspaces: Path
) -> None:
    old = made(hours=48)
    done = prune("--json")
    assert done.code == 2
    assert done.document["error"]["type"] == "ConfirmationNeeded"
    assert there(workspaces) == [old]


def test_a_dry_run_changes_nothing_and_names_what_the_run_removes(
    prune: Prune, made: Callable[..., str], workspaces: Path
) -> None:
    old = [made(hours=48 + number) for number in range(3)]
    named = prune("--dry-run", "--json").document["kinds"]["sandbox"]
    assert sorted(os.listdir(workspaces)) == sorted(old)

    removed = prune("--yes", "--json").document["kinds"]["sandbox"]

    assert named["deleted"] == removed["deleted"] == list(reversed(old))
    assert named["reclaimed_bytes"] == removed["reclaimed_bytes"] > 3000
    assert there(workspaces) == []


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["--older-than", "3h"], 3),
        (["--older-than", "179m"], 2),
        (["--keep-last", "1", "--min-age", "150m"], 2),
        (["--keep-last", "1"], 1),
        (["--max-size", "2500B"], 2),
        (["--older-than", "1h", "--limit", "1"], 3),
        (["--min-free", "0"], 4),
        (["--keep-last", "0", "--keep-state", "completed"], 0),
    ],
)
def test_the_oldest_go_until_the_rules_hold(
    prune: Prune, made: Callable[..., str], workspaces: Path, words: list[str], left: int
) -> None:
    by_age = [made(hours=hours) for hours in (4, 3, 2, 1)]
    assert prune(*words, "--yes").code == 0
    assert there(workspaces) == by_age[4 - left :]


def test_kinds_on_one_disk_free_it_together_and_no_more_than_is_asked_for(
    agentforge: CommandLine, made: Callable[..., str], workspaces: Path, tmp_path: Path
) -> None:
    ended = agentforge.new()
    agentforge.manager(ended).complete()
    by_age = [made(hours=hours, size=40_000) for hours in (4, 3, 2, 1)]
    with mounted_tmpfs(tmp_path / "disk", options="size=4m,mode=700") as disk:
        for place in (workspaces, agentforge.base):
            shutil.copytree(place, disk / place.name)
        status = os.statvfs(disk)
        wanted = status.f_bavail * status.f_frsize + 60_000
        words = ["--workspace-root", disk / workspaces.name, "--min-free", f"{wanted}B"]
        run_at = CommandLine(disk / agentforge.base.name, agentforge.capture, agentforge.now)

        shown = run_at("prune", *words, "--dry-run", "--json").document["kinds"]
        done = run_at("prune", *words, "--yes")

        assert shown["sandbox"]["deleted"] == by_age[:2]
        assert shown["agent"]["deleted"] == []
        assert (done.code, done.err) == (0, "")
        assert there(disk / workspaces.name) == by_age[2:]
        assert run_at.store.list_sessions() == [ended]


def test_what_no_rule_asks_for_any_more_stays_and_is_no_failure(
    prune: Prune, made: Callable[..., str], workspaces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest, old, new = made(hours=50), made(hours=49), made(hours=48)
    monkeypatch.setattr(sys, "stdin", Meanwhile(lambda: shutil.rmtree(workspaces / new)))

    done = prune("--keep-last", "1")

    assert done.code == 0
    assert f"1 session no longer had to be removed: {old}" in done.err
    assert there(workspaces) == [old]
    assert oldest in done.out


def test_the_trash_gives_back_what_it_was_given(
    prune: Prune, made: Callable[..., str], workspaces: Path
) -> None:
    old = made(hours=48)
    assert prune("--trash", "--yes").code == 0
    assert there(workspaces) == []
    (kept,) = prune("trash", "--json").document["trash"]
    assert kept["session_id"] == old

    back = prune("restore", old[:8])

    assert back.code == 0
    assert (workspaces / old / "data").stat().st_size == 1000
    assert prune("trash").out == "The trash is empty.\n"


def test_what_was_in_the_trash_for_its_time_goes_for_good(
    agentforge: CommandLine, prune: Prune, made: Callable[..., str]
) -> None:
    old = made(hours=48)
    prune("--trash", "--trash-for", "1h", "--yes")
    agentforge.later(hours=2)

    done = prune("--yes", "--json").document["kinds"]["sandbox"]

    assert done["purged"] == [old]
    gone = prune("restore", old)
    assert gone.code == 3
    assert f"there is no '{old}' in the trash" in gone.err


def test_a_pinned_session_stays_until_it_is_unpinned(
    prune: Prune, made: Callable[..., str], workspaces: Path
) -> None:
    old = made(hours=48)
    assert prune("pin", old).out == f"{old} is pinned.\n"
    assert prune("pin", old).out == f"{old} is already pinned.\n"
    prune("--yes")
    assert there(workspaces) == [old]
    assert prune("unpin", old).code == 0
    prune("--yes")
    assert there(workspaces) == []


def test_an_archive_is_kept_of_each_and_brings_it_back(
    prune: Prune, made: Callable[..., str], workspaces: Path, tmp_path: Path
) -> None:
    old = made(hours=48)
    done = prune("--archive", tmp_path / "kept", "--yes", "--json").document["kinds"]["sandbox"]
    assert there(workspaces) == []

    back = prune("restore", done["archives"][old])

    assert back.code == 0
    assert (workspaces / old / "data").stat().st_size == 1000
    assert f"prune pin --workspace-root {workspaces} {old}\n" in back.out


def test_an_archive_whose_root_is_missing_says_which(
    agentforge: CommandLine,
    prune: Prune,
    made: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a new machine, where other kinds have their directories already."""
    old = made(hours=48)
    done = prune("--archive", tmp_path / "kept", "--yes", "--json").document["kinds"]["sandbox"]
    agentforge.new()
    monkeypatch.chdir(tmp_path)
    refused = agentforge("prune", "restore", done["archives"][old])
    assert refused.code == 3
    assert "there is no directory workspace" in refused.err


def test_repair_dates_what_has_no_metadata_after_asking(
    prune: Prune, made: Callable[..., str], workspaces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    legacy = made(hours=0, metadata=False)
    tried = prune("repair", "--dry-run")
    assert "Nothing was written" in tried.out
    assert not (workspaces / legacy / ".metadata.json").exists()
    says("y", monkeypatch)

    done = prune("repair")

    assert done.out.endswith("Repaired 1 session.\n")
    assert json.loads((workspaces / legacy / ".metadata.json").read_text())["version"] == 1
    assert prune("repair", "--yes").out == "All metadata is in order.\n"


def test_a_kind_whose_directory_is_missing_is_an_error_only_when_it_was_asked_for(
    agentforge: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert agentforge("prune", "--yes").out.endswith("There are no sessions here.\n")
    nowhere = tmp_path / "nowhere"
    for words in (["--workspace-root", nowhere], ["--kind", "sandbox"]):
        asked = agentforge("prune", *words, "--yes")
        assert asked.code == 3
        assert "is missing may be a disk that is not mounted" in asked.err


def test_a_root_that_was_named_and_is_missing_keeps_no_other_kind_from_being_pruned(
    agentforge: CommandLine, tmp_path: Path
) -> None:
    agentforge.manager(agentforge.new()).complete()
    agentforge.later(days=31)
    done = agentforge("prune", "--workspace-root", tmp_path / "nowhere", "--yes")
    assert done.code == 3
    assert f"warning: sandbox: there is no directory {tmp_path / 'nowhere'}" in done.err
    assert "agent: Deleted 1 session" in done.out
    assert agentforge.store.list_sessions() == []


@frozen
class Then:
    """This machine when this process's number was another one's."""

    here: tuple[str, str, str] = OsProcesses().here

    def start_time(self, pid: int) -> int:
        return 1

    def start_moment(self, pid: int) -> float | None:
        return None


def test_a_question_that_nobody_waits_for_is_ended_before_it_is_judged(
    agentforge: CommandLine, tmp_path: Path
) -> None:
    place = tmp_path / "questions"
    sessions = QuestionSessions(place, clock=lambda: agentforge.now)
    question = Question(
        prompt="Which?", title="Which", options=[Option(label="this"), Option(label="that")]
    )
    killed = sessions.create_session([question], asker=Asker.current(processes=Then()))
    waits = sessions.create_session([question])
    words = ("prune", "--kind", "questions", "--questions", place)
    agentforge.later(days=8)

    assert agentforge(*words, "--dry-run").code == 0
    assert sessions.get(killed).status == "pending"  # a dry run changes nothing
    assert agentforge(*words, "--yes").code == 0
    assert sessions.get(killed).status == "abandoned"
    agentforge.later(days=7)
    assert agentforge(*words, "--yes").code == 0
    assert sessions.exists(killed)  # exactly as old as they are kept is not older
    agentforge.later(seconds=1)
    assert agentforge(*words, "--yes").code == 0
    assert not sessions.exists(killed)
    assert sessions.get(waits).status == "pending"


def test_question_sessions_are_pruned_where_they_are_said_to_be(
    agentforge: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    for place in (elsewhere, tmp_path / ".agentforge" / "questions"):
        asked = agentforge(
            "questions", "ask", "Which?", *OPTIONS, "--no-wait", "--questions", place, "--json"
        )
        session_id = json.loads(asked.out)["session_id"]
        assert agentforge("questions", "reject", session_id, "--questions", place).code == 0
    done = agentforge("prune", "--questions", elsewhere, "--older-than", "0s", "--yes")
    assert done.code == 0, done.err
    assert [one.name for one in elsewhere.iterdir() if one.name != ".prune"] == []
    back = agentforge("prune", "--questions", "", "--yes")
    assert (back.code, "nothing was done" in back.err) == (2, True)
    missing = agentforge("prune", "--questions", tmp_path / "nowhere", "--yes")
    assert (missing.code, str(tmp_path / "nowhere") in missing.err) == (3, True)
    assert len(names_in(tmp_path / ".agentforge" / "questions")) == 1


@pytest.mark.parametrize("as_json", [False, True], ids=["for people", "for programs"])
@pytest.mark.parametrize("bad", ["sandbox", "agent"])
def test_a_root_that_is_refused_while_pruning_is_told_beside_what_went_in_the_others(
    agentforge: CommandLine,
    prune: Prune,
    made: Callable[..., str],
    workspaces: Path,
    bad: str,
    as_json: bool,
) -> None:
    ended = agentforge.new()
    agentforge.manager(ended).complete()
    agentforge.later(days=31)
    old = made(hours=25)
    private = {"sandbox": workspaces, "agent": agentforge.base}[bad] / ".prune"
    (private / "audit.jsonl").unlink(missing_ok=True)
    (private / "audit.jsonl").mkdir(parents=True)

    done = prune("--yes", *(["--json"] if as_json else []))

    assert done.code == 8
    assert (old in there(workspaces)) is (bad == "sandbox")
    assert (ended in agentforge.store.list_sessions()) is (bad == "agent")
    good, its = ("agent", ended) if bad == "sandbox" else ("sandbox", old)
    if as_json:
        kinds = done.document["kinds"]
        assert kinds[bad]["failed"]["type"] == "PruneRootUnusable"
        assert kinds[bad]["deleted"] == []
        assert kinds[good]["failed"] is None
        assert kinds[good]["deleted"] == [its]
    else:
        assert f"{good}: Deleted 1 session" in done.out
        said = [line for line in done.err.splitlines() if line.startswith("error: ")]
        assert len(said) == 1
        assert "the audit log audit.jsonl can't be opened" in said[0]


@pytest.mark.parametrize(
    "words",
    [
        ["restore", ""],
        ["pin", ""],
        ["unpin", " "],
        ["restore", "--workspace-root", "", "a"],
        ["repair", "--workspace-root", ""],
        ["restore", "a", "--dry-run"],
        ["pin", "a", "--dry-run"],
        ["trash", "--older-than", "1h"],
        ["repair", "--trash"],
        ["--archive", ""],
        ["--workspace-root", ""],
        ["--trash-for", "3d"],
        ["--keep-state", "complete"],
        ["--kind", "everything"],
        ["--older-than", "soon"],
        ["--trash-for", "24", "--trash"],
        ["--max-size", "much"],
        ["--keep-last", "-1"],
    ],
    ids=" ".join,
)
def test_what_would_be_taken_for_something_else_is_refused_and_nothing_goes(
    agentforge: CommandLine,
    made: Callable[..., str],
    workspaces: Path,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An id out of a variable that is not set prunes nothing; a grace without a trash neither."""
    monkeypatch.chdir(workspaces)
    old = made(hours=48)
    command = words[:1] if words[0] in COMMANDS else []
    where = [] if "--workspace-root" in words else ["--workspace-root", "."]
    yes = ["--yes"] if not command or command == ["repair"] else []
    refused = agentforge("prune", *command, *where, *words[len(command) :], *yes)
    assert refused.code == 2
    assert words[0] in refused.err
    assert os.listdir(workspaces) == [old]


@pytest.mark.parametrize("option", [["--yes"], ["--older-than", "1h"], ["--kind", "sandbox"]])
def test_options_of_prune_before_one_of_its_commands_are_refused(
    prune: Prune, made: Callable[..., str], workspaces: Path, option: list[str]
) -> None:
    old = made(hours=48)
    refused = prune(*option, "pin", old)
    assert refused.code == 2
    assert "does not apply to 'agentforge prune pin'" in refused.err
    assert os.listdir(workspaces) == [old]


class Meanwhile(Terminal):
    """A person who says yes after something else happened."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__("y\n")
        self._act = act

    def readline(self, *_: object) -> str:
        self._act()
        return super().readline()


def test_what_another_prune_removed_before_the_yes_is_told_as_gone_and_is_no_failure(
    prune: Prune, made: Callable[..., str], workspaces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        made(hours=48 + number)
    other = Meanwhile(lambda: prune_sessions(24, workspaces))
    monkeypatch.setattr(sys, "stdin", other)

    done = prune()

    assert done.code == 0
    [said] = done.err.splitlines()
    assert "9 sessions had been removed by another process: " in said
    assert said.endswith(" and 6 more")
    assert "kept" not in done.err


def test_what_is_taken_or_spoiled_before_the_yes_is_told_as_kept(
    prune: Prune, made: Callable[..., str], workspaces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, spoiled = made(hours=49), made(hours=48)

    def act() -> None:
        os.truncate(workspaces / spoiled / ".metadata.json", 5)
        holder = os.open(workspaces / used, os.O_RDONLY)
        fcntl.flock(holder, fcntl.LOCK_SH)
        held.append(holder)

    held: list[int] = []
    monkeypatch.setattr(sys, "stdin", Meanwhile(act))
    try:
        done = prune()
    finally:
        for holder in held:
            os.close(holder)

    assert done.code == 1
    assert f"warning: {used} was kept: in use" in done.err
    assert f"warning: {spoiled} was kept: corrupted metadata" in done.err
    assert there(workspaces) == sorted([used, spoiled])


def test_one_reason_that_holds_for_many_is_told_once(
    prune: Prune, made: Callable[..., str], workspaces: Path, tmp_path: Path
) -> None:
    for number in range(9):
        made(hours=48 + number)
    (tmp_path / "file").touch()
    done = prune("--yes", "--archive", tmp_path / "file" / "kept")
    assert done.code == 1
    [said] = done.err.splitlines()
    assert said.startswith("warning: 9 sessions: it could not be archived, so it was kept: ")
    assert said.endswith(" and 6 more")
    assert len(there(workspaces)) == 9


@pytest.mark.parametrize(
    ("asked", "out"), [(2, 0), (7, 9)], ids=["before they are announced", "while they are told of"]
)
def test_ctrl_c_says_how_many_went_and_what_becomes_of_the_rest(
    agentforge: CommandLine,
    made: Callable[..., str],
    workspaces: Path,
    capsys: pytest.CaptureFixture[str],
    asked: int,
    out: int,
) -> None:
    for number in range(9):
        made(hours=48 + number)
    calls = iter(range(100))

    def clock() -> datetime:
        if next(calls) == asked:  # to look, to look again, to announce, to tell of each
            raise KeyboardInterrupt
        return agentforge.now

    words = ["--base", str(agentforge.base), "prune", "--workspace-root", str(workspaces), "--yes"]
    assert run(words, CliEnvironment(clock=clock)) == 130
    said = capsys.readouterr().err
    assert (
        f"interrupted: {out} of 9 sessions were removed or hidden, the others are unchanged" in said
    )
    assert len(there(workspaces)) == 9 - out


def test_a_dry_run_names_what_the_run_finishes_and_purges(
    agentforge: CommandLine, prune: Prune, made: Callable[..., str], workspaces: Path
) -> None:
    old = made(hours=48)
    trashed = prune("--trash", "--trash-for", "1h", "--yes")
    assert (
        "1 session would be moved to the trash: 1.1 KB, which is free once its time" in trashed.out
    )
    assert "sandbox: Trashed 1 session (1.1 KB), skipped 0.\n" in trashed.out
    (workspaces / ".prune" / "going" / "left~1").mkdir(parents=True)
    agentforge.later(hours=2)

    shown = prune("--dry-run")

    assert "1 session that an interrupted prune left would be removed." in shown.out
    assert "1 session would be deleted from the trash: the time there is over." in shown.out
    named = prune("--dry-run", "--json").document["kinds"]["sandbox"]
    assert (named["finished"], named["purged"]) == (["left"], [old])


def test_a_session_comes_back_from_the_trash_without_its_dates(
    prune: Prune, made: Callable[..., str], workspaces: Path
) -> None:
    old = made(hours=48)
    prune("--trash", "--yes")
    [hidden] = (workspaces / ".prune" / "trash").iterdir()
    hidden.rename(hidden.with_name(f"{old}~1"))
    listed = prune("trash")
    assert "empty" not in listed.out
    assert f"its name in the trash has no dates: {old}" in listed.err
    assert prune("trash", "--json").document == {"trash": [], "unrecorded": [old]}
    assert prune("restore", old).code == 0
    assert there(workspaces) == [old]


def test_a_session_that_is_not_there_can_not_be_pinned(
    agentforge: CommandLine, prune: Prune, workspaces: Path
) -> None:
    agentforge.new()
    refused = prune("pin", "nosuch")
    assert refused.code == 3
    assert refused.err == (
        f"error: there is no session nosuch in {workspaces} or {agentforge.base}; "
        "nothing was changed.\n"
    )


def test_a_pin_that_outlived_its_session_can_be_taken_away(
    prune: Prune, made: Callable[..., str], workspaces: Path
) -> None:
    old = made(hours=48)
    prune("pin", old)
    (workspaces / old).rename(workspaces / "elsewhere")
    assert prune("unpin", old).out == f"{old} is not pinned.\n"
    assert prune("unpin", old).code == 3


# ------------------------------------------------------------------------------- what it tells


def test_repair_that_can_not_repair_does_not_say_so(
    prune: Prune, made: Callable[..., str], workspaces: Path
) -> None:
    newer = made(hours=1)
    path = workspaces / newer / ".metadata.json"
    path.write_bytes(path.read_bytes().replace(b'"version": 1', b'"version": 2'))
    before = path.read_bytes()

    done = prune("repair", "--yes")

    assert done.code == 1
    assert done.out == "Nothing was repaired.\n"
    assert newer in done.err
    assert path.read_bytes() == before


@pytest.mark.parametrize("dry_run", [True, False])
def test_it_tells_the_events_that_the_function_tells(
    agentforge: CommandLine,
    made: Callable[..., str],
    workspaces: Path,
    dry_run: bool,
) -> None:
    old, legacy = made(hours=48), made(hours=0, metadata=False)
    words = ["--dry-run"] if dry_run else ["--yes"]

    done = agentforge(
        "-v", "prune", "--kind", "sandbox", "--workspace-root", workspaces, "--json", *words
    )

    told = [line for line in done.err.splitlines() if "session.prune." in line]
    names = [line.split()[1] for line in told]
    assert names == [
        "session.prune.started",
        "session.prune.skipped",
        "session.prune.candidate",
        *([] if dry_run else ["session.prune.deleted"]),
        "session.prune.completed",
    ]
    assert f"session_id={legacy} reason=no_metadata" in told[1]
    assert f"session_id={old}" in told[2]
    assert all("kind=sandbox" in line for line in told)
    assert "session.prune" not in agentforge("prune", "--workspace-root", workspaces).err


def test_the_audit_log_goes_where_it_is_told_to(
    prune: Prune, made: Callable[..., str], workspaces: Path, tmp_path: Path
) -> None:
    old = made(hours=48)
    log = tmp_path / "elsewhere.jsonl"

    assert prune("--yes", "--audit-log", log).code == 0

    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["event"], line["session_id"]) for line in lines] == [
        ("removing", old),
        ("removed", old),
    ]
    assert {line["root"] for line in lines} == {str(workspaces)}
    assert prune("trash", "--audit-log", log).code == 2


def test_a_limit_says_how_many_more_are_due(prune: Prune, made: Callable[..., str]) -> None:
    for hours in range(48, 53):
        made(hours=hours)
    shown = prune("--dry-run", "--limit", "2")
    assert "2 sessions would be removed" in shown.out
    assert "3 sessions more are due, beyond the limit." in shown.out
    done = prune("--yes", "--limit", "2", "--json")
    assert done.document["kinds"]["sandbox"]["due"] == 3
    assert "2 more due" in prune("--yes", "--limit", "1").out


def test_a_bound_that_is_not_met_is_told(prune: Prune, made: Callable[..., str]) -> None:
    for _ in range(3):
        made(hours=0, metadata=False)
    made(hours=1)
    done = prune("--keep-last", "2", "--yes")
    assert done.code == 0
    assert "warning: sandbox: 4 sessions stay, more than 2" in done.err
    [unmet] = prune("--keep-last", "2", "--yes", "--json").document["kinds"]["sandbox"]["unmet"]
    assert unmet == {"rule": "max_sessions", "bound": 2, "stays": 4}


def test_what_dead_processes_left_is_named_and_removed(
    prune: Prune, made: Callable[..., str], workspaces: Path
) -> None:
    made(hours=1)
    left = workspaces / ".discarded-0123456789abcdef"
    left.mkdir()
    (left / "data").write_bytes(b"x" * 1000)
    shown = prune("--dry-run")
    assert f"Leftovers of dead processes that would be removed: {left.name}." in shown.out
    assert left.exists()
    assert "swept 1 left half done" in prune("--yes").out
    assert not left.exists()


def test_what_is_in_use_is_told_before_anything_is_asked(
    prune: Prune, made: Callable[..., str], workspaces: Path
) -> None:
    used = made(hours=48)
    fd = os.open(workspaces / used, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        done = prune("--yes")
    finally:
        os.close(fd)
    assert done.code == 0
    assert f"left alone, in use: {used}" in done.err
    assert there(workspaces) == [used]


def test_free_space_out_of_reach_keeps_what_was_used_within_the_hour_unless_asked(
    prune: Prune, made: Callable[..., str], workspaces: Path
) -> None:
    old, young = made(hours=2), made(hours=0.5)
    done = prune("--yes", "--min-free", "8000000GB")
    assert done.code == 0
    assert there(workspaces) == [young]
    assert f"left alone, used within --min-age (1h with --min-free): {young}" in done.err
    assert "would be free, less than" in done.err
    assert prune("--yes", "--min-free", "8000000GB", "--min-age", "0s").code == 0
    assert there(workspaces) == []
    assert old != young


def test_a_default_directory_that_is_missing_is_told(
    agentforge: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    agentforge.new()
    done = agentforge("prune", "--yes")
    assert done.code == 0
    assert "sandbox: there is no directory workspace." in done.out
    assert agentforge("prune", "--yes", "--json").document["missing"] == {
        "sandbox": "workspace",
        "questions": ".agentforge/questions",
    }


def test_for_ever_in_the_configuration_wins_over_the_nightly_line(
    agentforge: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".agentforge").mkdir()
    trusted(tmp_path, "[questions]\nretention_s = 0\n")
    asked = agentforge("questions", "ask", "Which?", *OPTIONS, "--no-wait", "--json")
    session_id = json.loads(asked.out)["session_id"]
    assert agentforge("questions", "reject", session_id).code == 0
    agentforge.later(days=999)
    for words in (["--older-than", "7d"], ["--keep-last", "0"], ["--kind", "questions"]):
        done = agentforge("prune", "--yes", *words)
        assert done.code == 0, done.err
        assert "left alone, questions: the configuration keeps them for ever" in done.err
    assert names_in(tmp_path / ".agentforge" / "questions") == [session_id]


def test_a_prune_beside_another_one_reports_and_does_not_fail(
    agentforge: CommandLine, prune: Prune, made: Callable[..., str], workspaces: Path
) -> None:
    old = made(hours=48)
    (workspaces / ".prune").mkdir(mode=0o700)
    fd = os.open(workspaces / ".prune", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        done = prune("--yes", "--wait", "0s")
        document = prune("--yes", "--wait", "0s", "--json").document["kinds"]["sandbox"]
    finally:
        os.close(fd)
    assert done.code == 0
    assert "sandbox: another prune is at work there; 1 session is left to it" in done.err
    assert (document["busy"], document["due"]) == (True, 1)
    assert there(workspaces) == [old]


def a_transcript(agentforge: CommandLine, *, days: float) -> tuple[str, str]:
    """Make a session with a transcript that was last added to so long ago; return both names."""
    session_id = agentforge.new()
    at = agentforge.now - timedelta(days=days)
    head = json.dumps({"copied": at.isoformat()}).encode()
    agentforge.store.append_entries(session_id, "agent-codex-1", [NewEntry(head, b"{}")])
    return session_id, f"{session_id}/agent-codex-1"


@pytest.mark.parametrize("kind", ["transcripts", "all"])
def test_old_transcripts_are_removed_and_their_sessions_stay(
    agentforge: CommandLine, prune: Prune, kind: str
) -> None:
    session_id, old = a_transcript(agentforge, days=31)
    a_transcript(agentforge, days=29)
    ended = prune("--kind", kind, "--yes", "--json")
    assert ended.code == 0
    assert ended.document["kinds"]["transcripts"]["deleted"] == [old]
    assert agentforge.store.load(session_id) is not None
    assert agentforge.store.read_entries(session_id, "agent-codex-1").entries == []


def test_transcripts_have_no_trash(agentforge: CommandLine, prune: Prune) -> None:
    session_id, _ = a_transcript(agentforge, days=31)
    assert prune("--kind", "transcripts", "--trash", "--yes").code == 2
    assert prune("--trash", "--yes").code == 0
    assert agentforge.store.read_entries(session_id, "agent-codex-1").entries


def test_without_transcripts_there_is_nothing_to_remove(
    agentforge: CommandLine, prune: Prune
) -> None:
    agentforge.new()
    ended = prune("--kind", "transcripts", "--yes")
    assert (ended.code, ended.err) == (0, "")
