"""`agentforge prune`: shows what would go and why, asks, and does exactly that."""

from __future__ import annotations

import io
import json
import os
import sys
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.cli.conftest import CommandLine, Ended
from tools.sandbox.metadata import SessionMetadata, encode_metadata

Prune = Callable[..., Ended]


@pytest.fixture
def workspaces(tmp_path: Path) -> Path:
    root = tmp_path / "workspaces"
    root.mkdir()
    return root


@pytest.fixture
def prune(agentforge: CommandLine, workspaces: Path) -> Prune:
    return lambda *words: agentforge("prune", "--workspace-root", workspaces, *words)


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


class Person(io.StringIO):
    def isatty(self) -> bool:
        return True


def says(word: str, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(sys, "stdin", Person(f"{word}\n"))


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
    assert "harness: Deleted 1 session" in done.out
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
        (["--older-than", "3h"], 2),
        (["--keep-last", "1"], 1),
        (["--max-size", "2500B"], 2),
        (["--older-than", "1h", "--limit", "1"], 3),
        (["--min-free", "0"], 4),
        (["--keep-last", "0", "--keep-state", "nothing"], 0),
    ],
)
def test_the_oldest_go_until_the_rules_hold(
    prune: Prune, made: Callable[..., str], workspaces: Path, words: list[str], left: int
) -> None:
    by_age = [made(hours=hours) for hours in (4, 3, 2, 1)]
    assert prune(*words, "--yes").code == 0
    assert there(workspaces) == by_age[4 - left :]


def test_the_trash_gives_back_what_it_was_given(
    prune: Prune, made: Callable[..., str], workspaces: Path
) -> None:
    old = made(hours=48)
    assert prune("--trash", "--yes").code == 0
    assert there(workspaces) == []
    (kept,) = prune("--list-trash", "--json").document["trash"]
    assert kept["session_id"] == old

    back = prune("--restore", old[:8])

    assert back.code == 0
    assert (workspaces / old / "data").stat().st_size == 1000
    assert prune("--list-trash").out == "The trash is empty.\n"


def test_what_was_in_the_trash_for_its_time_goes_for_good(
    agentforge: CommandLine, prune: Prune, made: Callable[..., str]
) -> None:
    old = made(hours=48)
    prune("--trash", "--trash-for", "1h", "--yes")
    agentforge.later(hours=2)

    done = prune("--yes", "--json").document["kinds"]["sandbox"]

    assert done["purged"] == [old]
    gone = prune("--restore", old)
    assert gone.code == 3
    assert f"there is no '{old}' in the trash" in gone.err


def test_a_pinned_session_stays_until_it_is_unpinned(
    prune: Prune, made: Callable[..., str], workspaces: Path
) -> None:
    old = made(hours=48)
    assert prune("--pin", old).out == f"{old} is pinned.\n"
    assert prune("--pin", old).out == f"{old} is already pinned.\n"
    prune("--yes")
    assert there(workspaces) == [old]
    assert prune("--unpin", old).code == 0
    prune("--yes")
    assert there(workspaces) == []


def test_an_archive_is_kept_of_each_and_brings_it_back(
    prune: Prune, made: Callable[..., str], workspaces: Path, tmp_path: Path
) -> None:
    old = made(hours=48)
    done = prune("--archive", tmp_path / "kept", "--yes", "--json").document["kinds"]["sandbox"]
    assert there(workspaces) == []

    back = prune("--restore", done["archives"][old])

    assert back.code == 0
    assert (workspaces / old / "data").stat().st_size == 1000


def test_a_damaged_archive_is_refused_with_its_name(
    prune: Prune, made: Callable[..., str], workspaces: Path, tmp_path: Path
) -> None:
    old = made(hours=48)
    done = prune("--archive", tmp_path / "kept", "--yes", "--json").document["kinds"]["sandbox"]
    archive = Path(done["archives"][old])
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 1
    archive.write_bytes(content)

    refused = prune("--restore", archive)

    assert refused.code == 7
    assert str(archive) in refused.err
    assert there(workspaces) == []


def test_repair_dates_what_has_no_metadata_after_asking(
    prune: Prune, made: Callable[..., str], workspaces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    legacy = made(hours=0, metadata=False)
    tried = prune("--repair", "--dry-run")
    assert "Nothing was written" in tried.out
    assert not (workspaces / legacy / ".metadata.json").exists()
    says("y", monkeypatch)

    done = prune("--repair")

    assert done.out.endswith("Repaired 1 session.\n")
    assert json.loads((workspaces / legacy / ".metadata.json").read_text())["version"] == 1
    assert prune("--repair", "--yes").out == "All metadata is in order.\n"


def test_a_kind_whose_directory_is_missing_is_an_error_only_when_it_was_asked_for(
    agentforge: CommandLine, tmp_path: Path
) -> None:
    nowhere = tmp_path / "nowhere"
    assert agentforge("prune", "--workspace-root", nowhere, "--yes").code == 0
    asked = agentforge("prune", "--workspace-root", nowhere, "--kind", "sandbox", "--yes")
    assert asked.code == 3
    assert str(nowhere) in asked.err


@pytest.mark.parametrize(
    "words",
    [
        ["--kind", "everything"],
        ["--older-than", "soon"],
        ["--max-size", "much"],
        ["--pin", "a", "--unpin", "a"],
        ["--keep-last", "-1"],
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_looked_at(
    prune: Prune, made: Callable[..., str], workspaces: Path, words: list[str]
) -> None:
    old = made(hours=48)
    assert prune(*words, "--yes").code == 2
    assert os.listdir(workspaces) == [old]
