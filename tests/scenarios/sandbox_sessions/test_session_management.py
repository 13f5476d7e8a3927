"""Sessions: their ids, workspaces, sandboxes, isolation, deletion and events."""

from __future__ import annotations

import asyncio
import json
import os
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

import agentforge_sessions.sandbox as public
from agentforge_sessions.sandbox import (
    BaseSandbox,
    ExecutionPolicy,
    InvalidSessionId,
    RuntimeType,
    SandboxError,
    create_sandbox,
    create_session_sandbox,
    delete_session_workspace,
    get_session_sandbox,
    list_session_files,
    read_session_metadata,
    write_session_file,
)
from agentforge_sessions.sandbox.executor import UnsupportedRuntime
from agentforge_sessions.sandbox.sandbox_logging import SandboxLogger
from tests.support.contained import contained
from tests.support.listing import names_in

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("interpreter")]

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def make(root: Path, session_id: str, **options: Any) -> BaseSandbox:
    made, sandbox = create_session_sandbox(
        workspace_root=root, new_id=lambda: session_id, **options
    )
    assert made == session_id
    return sandbox


# ---------------------------------------------------------------- ids


def test_scenario_generate_unique_session_id(root: Path) -> None:
    made = {create_session_sandbox(workspace_root=root)[0] for _ in range(50)}
    assert len(made) == 50
    for session_id in made:
        assert uuid.UUID(session_id).version == 4
        assert re.fullmatch(r"[0-9A-Za-z-]+", session_id)


def test_scenario_session_id_format_validation(root: Path) -> None:
    session_id, _ = create_session_sandbox(workspace_root=root)
    assert UUID4.fullmatch(session_id)
    assert (root / session_id).is_dir()


# ---------------------------------------------------------------- workspaces


def test_scenario_create_session_workspace(root: Path) -> None:
    assert not root.exists()
    sandbox = make(root, "abc-123")
    workspace = root / "abc-123"
    assert workspace.is_dir()
    assert sandbox.workspace == workspace
    assert workspace.stat().st_mode & 0o700 == 0o700
    (workspace / "from-host.txt").write_text("x")


def test_scenario_resolve_existing_session_workspace(root: Path, abc: Path) -> None:
    (abc / "kept.txt").write_text("kept")
    first = get_session_sandbox("abc-123", workspace_root=root)
    second = get_session_sandbox("abc-123", workspace_root=root)
    assert first.workspace == second.workspace == abc
    assert names_in(root) == ["abc-123"]
    assert (abc / "kept.txt").read_text() == "kept"


def test_scenario_custom_workspace_root(tmp_path: Path) -> None:
    session_id, sandbox = create_session_sandbox(workspace_root=tmp_path / "custom")
    assert sandbox.workspace == tmp_path / "custom" / session_id
    assert sandbox.workspace.is_dir()


def test_the_default_workspace_root_is_the_directory_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session_id, sandbox = create_session_sandbox()
    assert sandbox.workspace == tmp_path / "workspace" / session_id
    assert list_session_files(session_id) == []
    delete_session_workspace(session_id)
    assert names_in(tmp_path / "workspace") == []


# ---------------------------------------------------------------- sandboxes


def test_scenario_create_new_session_with_sandbox(root: Path) -> None:
    made = create_session_sandbox(runtime=RuntimeType.PYTHON, workspace_root=root)
    session_id, sandbox = made
    assert isinstance(made, tuple)
    assert isinstance(sandbox, BaseSandbox)
    assert sandbox.workspace == root / session_id
    assert UUID4.fullmatch(session_id)


def test_scenario_create_session_with_custom_policy(root: Path) -> None:
    policy = ExecutionPolicy(fuel_budget=500_000_000)
    _, sandbox = create_session_sandbox(policy=policy, workspace_root=root)
    assert sandbox.policy is policy
    assert sandbox.policy.fuel_budget == 500_000_000
    assert sandbox.execute("while True: pass").trapped == "fuel"


def test_a_language_without_an_interpreter_is_refused_before_anything_is_made(root: Path) -> None:
    for wanted in ("javascript", "PYTHON", "", None):
        with pytest.raises(UnsupportedRuntime) as caught:
            create_session_sandbox(runtime=wanted, workspace_root=root)  # type: ignore[arg-type]
        assert isinstance(caught.value, SandboxError)
        with pytest.raises(UnsupportedRuntime):
            get_session_sandbox("abc-123", runtime=wanted, workspace_root=root)  # type: ignore[arg-type]
    assert not root.exists()


def test_scenario_create_session_with_custom_logger(root: Path, recorder: Any) -> None:
    sandbox = make(root, "abc-123", logger=SandboxLogger(recorder))
    sandbox.execute("pass")
    assert [event for _, event, _ in recorder.told] == [
        "session.created",
        "session.metadata.created",
        "execution.start",
        "execution.complete",
        "session.metadata.updated",
    ]
    assert {fields["session_id"] for _, _, fields in recorder.told} == {"abc-123"}


def test_scenario_retrieve_sandbox_for_existing_session(root: Path, abc: Path) -> None:
    write_session_file("abc-123", "before.txt", "from before", root)
    sandbox = get_session_sandbox(session_id="abc-123", workspace_root=root)
    assert isinstance(sandbox, BaseSandbox)
    assert sandbox.workspace == abc
    assert sandbox.execute("print(open('before.txt').read())").stdout == "from before\n"


# ---------------------------------------------------------------- isolation


def test_scenario_files_isolated_between_sessions(root: Path) -> None:
    sandboxes = {"A": make(root, "aaa-111"), "B": make(root, "bbb-222")}
    for name, sandbox in sandboxes.items():
        assert sandbox.execute(f"open('data.txt', 'w').write('Session {name} data')").success
    for name, sandbox in sandboxes.items():
        told = sandbox.execute(
            "import os\n"
            "print(open('/app/data.txt').read())\n"
            "for path in ('/app/../bbb-222/data.txt', '/app/../aaa-111/data.txt',\n"
            f"             {str(root / 'aaa-111' / 'data.txt')!r},\n"
            f"             {str(root / 'bbb-222' / 'data.txt')!r}):\n"
            "    print(os.path.exists(path))\n"
        )
        assert told.stdout.splitlines() == [f"Session {name} data", *["False"] * 4]


def test_scenario_wasi_preopen_scoped_to_session(root: Path) -> None:
    sandbox = make(root, "abc-123")
    make(root, "other-456")
    (root / "beside.txt").write_text("secret")
    told = sandbox.execute(
        "import os\n"
        "open('/app/mine.txt', 'w').close()\n"
        f"for path in ('/app', '/app/..', {str(root)!r}, {str(root / 'other-456')!r}):\n"
        "    try: print(sorted(os.listdir(path)))\n"
        "    except OSError as error: print(type(error).__name__)\n"
    )
    own, above, whole, other = told.stdout.splitlines()
    assert "mine.txt" in own
    for seen in (above, whole, other):
        assert "beside.txt" not in seen
        assert "other-456" not in seen
    assert whole == other == "FileNotFoundError"
    assert (root / "abc-123" / "mine.txt").exists()


# ---------------------------------------------------------------- persistence


def test_scenario_persist_files_across_executions(root: Path) -> None:
    sandbox = make(root, "abc-123")
    first = sandbox.execute("with open('/app/state.json', 'w') as f: f.write('{\"count\": 1}')")
    second = sandbox.execute("with open('/app/state.json', 'r') as f: print(f.read())")
    assert '{"count": 1}' in second.stdout
    assert "state.json" in (*first.files_created, *first.files_modified)


def test_scenario_track_file_changes_per_execution(root: Path, abc: Path) -> None:
    write_session_file("abc-123", "data.csv", "a,b\n", root)
    result = get_session_sandbox("abc-123", workspace_root=root).execute(
        "open('data.csv', 'a').write('1,2\\n'); open('output.txt', 'w').write('done')"
    )
    assert result.files_modified == ("data.csv",)
    assert result.files_created == ("output.txt",)
    assert result.files_deleted == ()


# ---------------------------------------------------------------- deletion


def test_scenario_delete_session_workspace(root: Path, abc: Path) -> None:
    (abc / "deep" / "er").mkdir(parents=True)
    (abc / "deep" / "er" / "file.txt").write_text("x")
    (abc / "top.txt").write_text("x")
    delete_session_workspace("abc-123", workspace_root=root)
    assert names_in(root) == []
    fresh = get_session_sandbox("abc-123", workspace_root=root)
    assert fresh.workspace == abc
    assert list_session_files("abc-123", root) == []


def test_scenario_prevent_path_traversal_in_deletion(tmp_path: Path) -> None:
    contained(delete_by_climbing, tmp_path)


def delete_by_climbing(folder: Path) -> None:
    root = folder / "d1" / "d2" / "d3" / "d4" / "workspace"
    root.mkdir(parents=True)
    target = folder / "d1" / "d2" / "tmp"  # where root/../../../tmp leads
    target.mkdir()
    (target / "precious").write_text("x")
    assert (root / "../../../tmp").resolve() == target
    with pytest.raises(ValueError, match="was refused") as caught:
        delete_session_workspace("../../../tmp", workspace_root=root)
    assert isinstance(caught.value, InvalidSessionId)
    assert (target / "precious").read_text() == "x"


def test_scenario_safe_deletion_when_workspace_missing(root: Path) -> None:
    delete_session_workspace("nonexistent-123", workspace_root=root)  # nor is there a root
    root.mkdir(parents=True)
    for _ in range(2):
        delete_session_workspace("nonexistent-123", workspace_root=root)
    assert names_in(root) == []


# ---------------------------------------------------------------- events


def test_scenario_log_session_creation(root: Path, recorder: Any) -> None:
    make(root, "abc-123", logger=recorder)
    assert recorder.of("session.created") == [
        {"session_id": "abc-123", "workspace_path": str(root / "abc-123")}
    ]


def test_scenario_log_session_retrieval(root: Path, abc: Path, recorder: Any) -> None:
    get_session_sandbox("abc-123", workspace_root=root, logger=recorder)
    assert recorder.told == [
        ("info", "session.retrieved", {"session_id": "abc-123", "workspace_path": str(abc)})
    ]


def test_scenario_log_session_deletion(root: Path, abc: Path, recorder: Any) -> None:
    delete_session_workspace("abc-123", workspace_root=root, logger=recorder)
    assert recorder.told == [("info", "session.deleted", {"session_id": "abc-123"})]
    delete_session_workspace("abc-123", workspace_root=root, logger=recorder)
    assert len(recorder.told) == 1  # nothing was deleted the second time


def test_scenario_include_session_id_in_execution_logs(root: Path, recorder: Any) -> None:
    make(root, "abc-123", logger=recorder).execute("print('never in a log')")
    (start,) = recorder.of("execution.start")
    (complete,) = recorder.of("execution.complete")
    assert start["session_id"] == complete["session_id"] == "abc-123"
    assert complete["success"] is True
    assert "never in a log" not in str(recorder.told)


# ---------------------------------------------------------------- results


def test_scenario_include_session_id_in_result_metadata(root: Path) -> None:
    result = make(root, "abc-123").execute("pass")
    assert result.metadata["session_id"] == "abc-123"
    assert result.metadata["changes_complete"] is True  # what else it holds is kept


def test_scenario_workspace_path_reflects_session(root: Path) -> None:
    assert make(root, "abc-123").execute("pass").workspace_path == root / "abc-123"


def test_an_execution_that_is_awaited_belongs_to_the_session_as_well(
    root: Path, recorder: Any
) -> None:
    sandbox = make(root, "abc-123", logger=recorder)
    result = asyncio.run(sandbox.execute_async("print('awaited')"))
    assert result.stdout == "awaited\n"
    assert result.metadata["session_id"] == "abc-123"
    assert [event for _, event, _ in recorder.told][-3:] == [
        "execution.start",
        "execution.complete",
        "session.metadata.updated",
    ]


def test_a_stateful_session_keeps_its_variables_and_its_metadata(root: Path) -> None:
    with make(root, "abc-123", stateful=True) as sandbox:
        sandbox.execute("kept = 41")
        first = read_session_metadata("abc-123", root)
        result = sandbox.execute("print(kept + 1)")
        second = read_session_metadata("abc-123", root)
    assert result.stdout == "42\n"
    assert result.metadata["session_id"] == "abc-123"
    assert first is not None
    assert second is not None
    assert first.created_at < first.updated_at < second.updated_at


# ---------------------------------------------------------------- what was there before


def test_scenario_non_session_sandbox_usage_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sandbox = create_sandbox(runtime=RuntimeType.PYTHON)
    assert isinstance(sandbox, BaseSandbox)
    result = sandbox.execute("open('out.txt', 'w').write('x')")
    assert sandbox.workspace == tmp_path / "workspace"
    assert "session_id" not in result.metadata
    assert sorted(os.listdir(sandbox.workspace)) == ["out.txt"]


def test_a_sandbox_without_a_session_tells_its_own_logger(tmp_path: Path, recorder: Any) -> None:
    for logger in (recorder, SandboxLogger(recorder, tenant="one")):
        create_sandbox(workspace=tmp_path / "w", logger=logger).execute("1")
    assert [event for _, event, _ in recorder.told] == 2 * ["execution.start", "execution.complete"]
    assert ["tenant" in fields for _, _, fields in recorder.told] == [False, False, True, True]
    assert all("session_id" not in fields for _, _, fields in recorder.told)


def test_scenario_explicit_workspace_parameter_still_works(tmp_path: Path) -> None:
    result = create_sandbox(workspace=tmp_path / "custom_workspace").execute(
        "open('out.txt', 'w').write('x')"
    )
    assert result.workspace_path == tmp_path / "custom_workspace"
    assert os.listdir(result.workspace_path) == ["out.txt"]
    assert "session_id" not in result.metadata


def test_scenario_public_api_surface_extended_additively() -> None:
    before = {
        "ExecutionPolicy",
        "InvalidExecution",
        "InvalidPolicy",
        "RuntimeInfo",
        "Sandbox",
        "SandboxError",
        "SandboxResult",
        "SandboxUnavailable",
        "Trap",
        "WorkspaceError",
        "create_sandbox",
        "open_workspace_file",
        "prepare",
        "runtime_info",
    }
    added = {
        "BaseSandbox",
        "PruneResult",
        "RuntimeType",
        "SandboxLogger",
        "create_session_sandbox",
        "delete_session_path",
        "delete_session_workspace",
        "get_session_sandbox",
        "list_session_files",
        "prune_sessions",
        "read_session_file",
        "read_session_metadata",
        "repair_session_metadata",
        "write_session_file",
    }
    assert before | added <= set(public.__all__)
    for name in public.__all__:
        assert getattr(public, name) is not None
    json.dumps(public.__all__)
