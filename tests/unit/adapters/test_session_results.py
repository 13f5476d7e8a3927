"""A session's result is brought to the checkout that it began from, or exported."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionContext, SessionManager, SessionStore
from agentforge_sessions.repository.apply.apply_plan import ApplyOptions
from agentforge_sessions.repository.snapshots.snapshot_repository import NoSnapshots
from agentforge_sessions.repository.snapshots.snapshot_restore import RestoreFailed
from agentforge_sessions.wiring.workspaces.session_results import SessionResults
from agentforge_sessions.wiring.workspaces.session_snapshots import SessionSnapshots
from tests.support.applying import files_of, lay, seen, services_in
from tests.support.repositories import commit_all, new_checkout

BEGIN = {"a.txt": "1\n2\n3\n", "pkg/b.py": "b\n"}
PLAIN = ApplyOptions()
COMMIT = ApplyOptions(commit=True)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return new_checkout(tmp_path / "checkout", dict(BEGIN))


@pytest.fixture
def keeper(tmp_path: Path) -> SessionSnapshots:
    return SessionSnapshots(SessionStore(tmp_path / "sessions"))


@pytest.fixture
def manager(keeper: SessionSnapshots) -> SessionManager:
    return SessionManager(keeper._store, snapshots=keeper)


@pytest.fixture
def results(keeper: SessionSnapshots, tmp_path: Path) -> SessionResults:
    return SessionResults(keeper, services_in(tmp_path))


def begun(
    manager: SessionManager,
    keeper: SessionSnapshots,
    top: Path | None,
    *,
    uncommitted: bool = False,
) -> SessionContext:
    attachments = {}
    if top is not None:
        attachments = keeper.attachments(top, "HEAD", with_uncommitted=uncommitted)
    return manager.create("work", "one", attachments=attachments)


def workspace(manager: SessionManager, session: SessionContext) -> Path:
    return manager.store.workspace_path(session.session_id)


def test_what_the_session_changed_reaches_the_checkout_it_began_from(
    manager: SessionManager, keeper: SessionSnapshots, results: SessionResults, top: Path
) -> None:
    session = begun(manager, keeper, top)
    lay(workspace(manager, session), {"a.txt": "1\n2\nthree\n", "pkg/new.py": "n\n"})
    before = seen(top)

    planned = results.apply(session, PLAIN, dry_run=True)
    assert [one.path for one in planned.paths] == ["a.txt", "pkg/new.py"]
    assert seen(top) == before
    results.apply(session, COMMIT)

    expected = {"a.txt": b"1\n2\nthree\n", "pkg/b.py": b"b\n", "pkg/new.py": b"n\n"}
    assert files_of(top) == expected
    assert results.apply(session, COMMIT).nothing_to_do


@pytest.mark.parametrize("again", [COMMIT, ApplyOptions(merge=True)])
def test_what_came_after_a_committed_result_is_applied_upon_it(
    manager: SessionManager,
    keeper: SessionSnapshots,
    results: SessionResults,
    top: Path,
    again: ApplyOptions,
) -> None:
    session = begun(manager, keeper, top)
    lay(workspace(manager, session), {"a.txt": "1\n2\nthree\n"})
    manager.checkpoint_session()
    results.apply(session, COMMIT)
    lay(workspace(manager, session), {"a.txt": "1\n2\nthree, again\n"})

    results.apply(session, again)

    assert (top / "a.txt").read_text() == "1\n2\nthree, again\n"


def test_a_checkpoint_can_be_brought_home_or_exported(
    manager: SessionManager,
    keeper: SessionSnapshots,
    results: SessionResults,
    top: Path,
    tmp_path: Path,
) -> None:
    session = begun(manager, keeper, top)
    lay(workspace(manager, session), {"a.txt": "first\n"})
    manager.checkpoint_session()
    lay(workspace(manager, session), {"a.txt": "second\n", "pkg/b.py": None})
    number = len(manager.checkpoints())

    results.export(session, tmp_path / "then", at=number)
    results.export(session, tmp_path / "now")
    results.apply(session, PLAIN, at=number)

    assert files_of(top)["a.txt"] == b"first\n"
    assert (tmp_path / "then" / "a.txt").read_text() == "first\n"
    assert (tmp_path / "now" / "a.txt").read_text() == "second\n"
    assert not (tmp_path / "now" / "pkg" / "b.py").exists()
    with pytest.raises(RestoreFailed):
        results.export(session, tmp_path / "now")


def test_a_session_of_no_repository_brings_all_of_its_files(
    manager: SessionManager, keeper: SessionSnapshots, results: SessionResults, top: Path
) -> None:
    session = begun(manager, keeper, None)
    with pytest.raises(NoSnapshots):
        results.apply(session, PLAIN, checkout=top)
    lay(workspace(manager, session), {"made.py": "m\n"})
    lay(top, {"other": "o\n"})
    commit_all(top, "moved")

    results.apply(session, PLAIN, checkout=top)

    assert files_of(top)["made.py"] == b"m\n"
