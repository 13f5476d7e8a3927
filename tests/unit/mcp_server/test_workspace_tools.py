"""Looking at workspaces, going back, beginning anew and bringing home, as a client does it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult

from agentforge_sessions.base.settings.configuration import RepositoryConfiguration
from agentforge_sessions.entrypoints.mcp_server.offer import EVERYTHING, Offer, ToolSet
from agentforge_sessions.entrypoints.mcp_server.server import HarnessServer
from agentforge_sessions.entrypoints.mcp_server.serving import McpPlaces, McpServices, all_tools
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.wiring.bootstrap import open_snapshots
from tests.support.mcp_processes import text_of, values_of
from tests.support.repositories import new_checkout, plain_git, write_files

pytestmark = pytest.mark.anyio

READING = {"session_checkpoints", "session_diff"}
CHANGING: dict[str, dict[str, object]] = {
    "session_rewind": {"to": "1"},
    "session_fork": {"at": "1"},
    "session_apply": {},
    "session_export": {"folder": "out"},
}
CHANGES: dict[str, dict[str, object]] = {
    **CHANGING,
    "session_advance": {"phase": "green"},
    "session_retry": {},
    "session_record": {"action": "noted", "tokens": 5},
    "session_record_tokens": {"tokens": 5},
    "session_checkpoint": {},
    "session_pause": {},
    "session_resume": {},
    "session_complete": {},
    "session_abort": {},
    "run_code": {"code": "x", "tokens": 5},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return new_checkout(tmp_path / "project", {"a.txt": "base\n", "pkg/b.py": "b\n"})


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions")


@asynccontextmanager
async def client_of(
    store: SessionStore,
    project: Path,
    *,
    offer: Offer = EVERYTHING,
    repository: RepositoryConfiguration | None = None,
) -> AsyncIterator[Client]:
    places = McpPlaces(
        sessions=store.base_path,
        questions=store.base_path.parent / "questions",
        project=project,
        repository=repository or RepositoryConfiguration(path=project),
    )
    async with Client(HarnessServer(all_tools(McpServices.at(places), offer))) as client:
        yield client


def error_of(result: CallToolResult) -> str:
    assert result.is_error
    assert result.meta is not None
    return str(result.meta["agentforge/error"]["type"])


def with_checkpoints(store: SessionStore) -> str:
    """A session with two checkpoints; a.txt was "one" at the first and "two" at the second."""
    manager = SessionManager(store, snapshots=open_snapshots(store))
    session_id = manager.create("work", "red", goal="g").session_id
    store.workspace_path(session_id).mkdir()
    for text in ("one\n", "two\n"):
        write_files(store.workspace_path(session_id), {"a.txt": text})
        manager.checkpoint_session()
    return session_id


async def test_a_session_begins_from_the_projects_repository_and_comes_home(
    store: SessionStore, project: Path
) -> None:
    async with client_of(store, project) as client:
        created = values_of(await client.call_tool("session_create", {"goal": "g", "repo": "."}))
        session_id, workspace = created["session_id"], Path(created["workspace"])
        assert (workspace / "a.txt").read_text() == "base\n"
        write_files(workspace, {"a.txt": "changed\n", "new.txt": "n\n"})
        planned = await client.call_tool(
            "session_apply", {"session_id": session_id, "dry_run": True}
        )
        assert values_of(planned)["paths"] == [
            {"path": "a.txt", "change": "modified"},
            {"path": "new.txt", "change": "added"},
        ]
        assert "Nothing was done; 2 paths would change" in text_of(planned)
        assert (project / "a.txt").read_text() == "base\n"
        applied = await client.call_tool(
            "session_apply",
            {"session_id": session_id, "files": ["a.txt"], "commit": True, "message": "m"},
        )
        done = values_of(applied)
        assert (done["checkout"], done["left_out"]) == (str(project), 1)
        assert done["commit"] in plain_git(project, "log", "--format=%H").stdout.decode()
    assert (project / "a.txt").read_text() == "changed\n"
    assert not (project / "new.txt").exists()


async def test_work_that_is_not_committed_is_not_overwritten(
    store: SessionStore, project: Path
) -> None:
    async with client_of(store, project) as client:
        made = values_of(await client.call_tool("session_create", {"goal": "g", "repo": "."}))
        write_files(Path(made["workspace"]), {"a.txt": "changed\n"})
        write_files(project, {"a.txt": "mine\n"})
        refused = await client.call_tool("session_apply", {"session_id": made["session_id"]})
        assert error_of(refused) == "ApplyRefused"
    assert (project / "a.txt").read_text() == "mine\n"


async def test_where_the_configuration_says_so_sessions_begin_from_it(
    store: SessionStore, project: Path
) -> None:
    plain_git(project, "tag", "v1")
    write_files(project, {"a.txt": "uncommitted\n"})
    said = RepositoryConfiguration(use=True, path=project, base="v1", with_uncommitted=True)
    async with client_of(store, project, repository=said) as client:

        async def content(**more: object) -> str | None:
            made = values_of(await client.call_tool("session_create", {"goal": "g", **more}))
            file = Path(made["workspace"], "a.txt")
            return file.read_text() if file.exists() else None

        assert await content() == "uncommitted\n"
        assert await content(repo=".") == "base\n"
        assert await content(repo="none") is None


@pytest.mark.parametrize("repo", ["/", "..", "../project", "link", "\0"])
async def test_only_repositories_of_the_project_can_be_named(
    store: SessionStore, project: Path, repo: str
) -> None:
    new_checkout(project.parent / "other", {"secret.txt": "s\n"})
    (project / "link").symlink_to(project.parent / "other")
    async with client_of(store, project) as client:
        refused = await client.call_tool("session_create", {"goal": "g", "repo": repo})
        assert error_of(refused) == "OutsideProject"
        unnamed = await client.call_tool("session_create", {"goal": "g", "base": "HEAD"})
        assert error_of(unnamed) == "InvalidArguments"
    assert store.list_sessions() == []


async def test_checkpoints_are_listed_and_compared(store: SessionStore, project: Path) -> None:
    session_id = with_checkpoints(store)
    async with client_of(store, project, offer=Offer(read_only=True)) as client:
        listed = await client.call_tool("session_checkpoints", {"session_id": session_id})
        found = values_of(listed)
        assert [one["number"] for one in found["checkpoints"]] == [1, 2]
        assert found["checkpoints"][0]["snapshot"][:12] in text_of(listed)
        last = await client.call_tool("session_checkpoints", {"session_id": session_id, "limit": 1})
        assert [one["number"] for one in values_of(last)["checkpoints"]] == [2]
        changed = await client.call_tool(
            "session_diff", {"session_id": session_id, "before": "1", "after": "2"}
        )
        told = values_of(changed)
        assert (told["files_total"], told["insertions"], told["deletions"]) == (1, 1, 1)
        assert "+two\n" in told["patch"]
        assert text_of(changed).startswith("a.txt (modified, +1 -1)\ndiff --git")
        none = await client.call_tool(
            "session_diff", {"session_id": session_id, "paths": ["b"], "patch_chars": 0}
        )
        assert (text_of(none), values_of(none)["patch"]) == ("Nothing changed.", "")


async def test_a_long_patch_and_names_that_are_no_text_come_back_in_bounds(
    store: SessionStore, project: Path
) -> None:
    session_id = with_checkpoints(store)
    workspace = store.workspace_path(session_id)
    write_files(workspace, {"long.txt": "x" * 79 + "\n" + "y\n" * 5000, "\udcff\n": "raw\n"})
    async with client_of(store, project) as client:
        changed = values_of(
            await client.call_tool("session_diff", {"session_id": session_id, "patch_chars": 300})
        )
    assert changed["truncated"] is True
    assert len(changed["patch"]) < 400
    assert "\\udcff\n" in [one["path"] for one in changed["files"]]
    json.dumps(changed).encode()


async def test_a_session_goes_back_and_another_begins_there(
    store: SessionStore, project: Path
) -> None:
    session_id = with_checkpoints(store)
    file = store.workspace_path(session_id) / "a.txt"
    async with client_of(store, project) as client:
        back = await client.call_tool("session_rewind", {"session_id": session_id, "to": "1"})
        assert values_of(back)["checkpoint"]["number"] == 1
        assert "It is back at 1: red-1, attempt 1" in text_of(back)
        assert file.read_text() == "one\n"
        forked = values_of(
            await client.call_tool(
                "session_fork", {"session_id": session_id, "at": "2", "token_budget": 7}
            )
        )
        assert forked["parent_id"] == session_id
        assert forked["session"]["token_budget"]["total_budget"] == 7
        new = store.workspace_path(forked["session"]["session_id"])
        assert (new / "a.txt").read_text() == "two\n"
        unknown = await client.call_tool("session_rewind", {"session_id": session_id, "to": "99"})
        assert error_of(unknown) == "CheckpointNotFound"
    assert file.read_text() == "one\n"


async def test_what_clients_do_is_kept_at_checkpoints(store: SessionStore, project: Path) -> None:
    async with client_of(store, project) as client:
        made = values_of(await client.call_tool("session_create", {"goal": "g"}))
        write_files(Path(made["workspace"]), {"a.txt": "a\n"})
        session_id = made["session_id"]
        await client.call_tool("session_checkpoint", {"session_id": session_id})
        await client.call_tool("session_advance", {"session_id": session_id, "phase": "green"})
        listed = values_of(
            await client.call_tool("session_checkpoints", {"session_id": session_id})
        )
    assert [one["snapshot"] is not None for one in listed["checkpoints"]] == [True, True]


async def test_a_sessions_files_become_a_new_folder(store: SessionStore, project: Path) -> None:
    session_id = with_checkpoints(store)
    async with client_of(store, project) as client:
        done = await client.call_tool(
            "session_export", {"session_id": session_id, "folder": "out", "at": "1"}
        )
        assert values_of(done)["folder"] == str(project / "out")
        assert (project / "out" / "a.txt").read_text() == "one\n"
        for folder in ("out", "/tmp/x", "../out", ".git/hooks", "pkg/.vscode", "."):
            refused = await client.call_tool(
                "session_export", {"session_id": session_id, "folder": folder}
            )
            expected = "RestoreFailed" if folder == "out" else "OutsideProject"
            assert error_of(refused) == expected, folder
    assert not (project.parent / "out").exists()


@pytest.mark.parametrize(
    "arguments", [{"branch": "b", "commit": True}, {"message": "m"}, {"commit": 1}, {"hooks": True}]
)
async def test_what_does_not_go_together_is_refused_before_anything_is_done(
    store: SessionStore, project: Path, arguments: dict[str, object]
) -> None:
    session_id = with_checkpoints(store)
    async with client_of(store, project) as client:
        refused = await client.call_tool("session_apply", {"session_id": session_id, **arguments})
    assert error_of(refused) == "InvalidArguments"


@pytest.mark.parametrize("tool", CHANGES)
async def test_a_call_for_a_missing_session_or_a_part_of_an_id_changes_no_other_one(
    store: SessionStore, project: Path, tool: str
) -> None:
    manager = SessionManager(store)
    missing = manager.create(goal="g").session_id
    assert manager.delete(missing)
    other = manager.create("work", "red", goal="g").session_id
    before = store.session_path(other).read_bytes()
    async with client_of(store, project) as client:
        shown = await client.call_tool("session_show", {"session_id": other})
        assert not shown.is_error
        result = await client.call_tool(tool, {"session_id": missing, **CHANGES[tool]})
        part = await client.call_tool(tool, {"session_id": other[:-1], **CHANGES[tool]})
    assert error_of(result) == "SessionNotFound"
    assert (result.meta or {})["agentforge/error"]["fields"]["session_id"] == missing
    assert part.is_error
    assert store.session_path(other).read_bytes() == before
    assert not (project / "out").exists()


async def test_a_server_that_only_reads_goes_nowhere(store: SessionStore, project: Path) -> None:
    offer = Offer(sets=ToolSet.named("workspaces"), read_only=True)
    async with client_of(store, project, offer=offer) as client:
        assert {one.name for one in (await client.list_tools()).tools} == READING
        for tool in CHANGING:
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool(tool, {"session_id": "x"})
            assert tool not in (client.instructions or "")
    async with client_of(store, project, offer=Offer(sets=offer.sets)) as client:
        listed = {one.name for one in (await client.list_tools()).tools}
    assert listed == READING | set(CHANGING)
