"""The host's operations on the files of a session."""

from __future__ import annotations

import inspect
import os
import stat
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.sandbox import (
    InvalidSessionId,
    PathEscapesWorkspace,
    create_session_sandbox,
    delete_session_path,
    list_session_files,
    read_session_file,
    read_session_text,
    write_session_file,
)
from agentforge_sessions.sandbox.session_workspaces.session_paths import validate_session_path
from tests.support.contained import contained
from tests.support.listing import names_in

S = "abc-123"

# Every operation on one path, with what it needs beside it.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "read": lambda path, root, **kw: read_session_file(S, path, root, **kw),
    "read text": lambda path, root, **kw: read_session_text(S, path, root, **kw),
    "write": lambda path, root, **kw: write_session_file(S, path, b"data", root, **kw),
    "write new": lambda path, root, **kw: write_session_file(S, path, b"x", root, False, **kw),
    "delete": lambda path, root, **kw: delete_session_path(S, path, root, **kw),
    "delete all": lambda path, root, **kw: delete_session_path(S, path, root, True, **kw),
}
each_operation = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)


def place(folder: Path) -> tuple[Path, Path]:
    """A workspace root in a folder, deep enough that paths which climb stay in it; a session's."""
    root = folder / "d1" / "d2" / "d3" / "d4" / "workspace"
    _, sandbox = create_session_sandbox(workspace_root=root, new_id=lambda: S)
    return root, sandbox.workspace


@pytest.fixture
def fill(abc: Path) -> Callable[..., None]:
    def put(*names: str, content: str = "x") -> None:
        for name in names:
            (abc / name).parent.mkdir(parents=True, exist_ok=True)
            (abc / name).write_text(content)

    return put


def tree(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


# ---------------------------------------------------------------- list


def test_scenario_list_all_files_in_session(root: Path, fill: Any) -> None:
    fill("data.csv", "output.txt", "results/summary.json")
    assert list_session_files(S, root) == ["data.csv", "output.txt", "results/summary.json"]


def test_scenario_list_files_with_pattern_filter(root: Path, fill: Any) -> None:
    fill("data.csv", "results.csv", "output.txt")
    assert list_session_files(S, root, pattern="*.csv") == ["data.csv", "results.csv"]


def test_scenario_list_empty_session_workspace(root: Path, abc: Path) -> None:
    assert list_session_files(S, root) == []
    (abc / "empty").mkdir()
    assert list_session_files(S, root) == []


def test_scenario_list_files_with_custom_workspace_root(tmp_path: Path) -> None:
    (tmp_path / "custom" / S).mkdir(parents=True)
    (tmp_path / "custom" / S / "there.txt").write_text("x")
    assert list_session_files(S, workspace_root=tmp_path / "custom") == ["there.txt"]


# ---------------------------------------------------------------- read


def test_scenario_read_text_file_from_session(root: Path, abc: Path, fill: Any) -> None:
    fill("output.txt", content="Hello World")
    before = (abc / "output.txt").stat()
    assert read_session_file(S, "output.txt", root) == b"Hello World"
    assert read_session_text(S, "output.txt", root) == "Hello World"
    after = (abc / "output.txt").stat()
    assert (before.st_mtime_ns, before.st_ctime_ns) == (after.st_mtime_ns, after.st_ctime_ns)


def test_scenario_read_binary_file_from_session(root: Path, abc: Path) -> None:
    content = bytes(range(256)) * 5 + b"\r\n\xff\xfe\0"
    (abc / "data.bin").write_bytes(content)
    assert read_session_file(S, "data.bin", root) == content


def test_scenario_read_nested_file(root: Path, fill: Any) -> None:
    fill("results/analysis/report.csv", content="a,b")
    assert read_session_file(S, "results/analysis/report.csv", root) == b"a,b"


def test_scenario_read_nonexistent_file(root: Path, abc: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.txt"):
        read_session_file(S, "missing.txt", root)


def test_scenario_reject_path_traversal_in_read(root: Path, abc: Path, tmp_path: Path) -> None:
    outside = tmp_path / "d1" / "d2" / "etc"
    outside.mkdir()
    (outside / "passwd").write_text("secret")
    assert (abc / "../../../../etc/passwd").resolve() == (outside / "passwd")
    for path in ("../../../etc/passwd", "../../../../etc/passwd"):
        with pytest.raises(ValueError, match="escapes the session's workspace"):
            read_session_file(S, path, root)


# ---------------------------------------------------------------- write


def test_scenario_write_new_file_to_session(root: Path, abc: Path) -> None:
    write_session_file(S, "config.json", b'{"setting": "value"}', root)
    assert (abc / "config.json").read_bytes() == b'{"setting": "value"}'


def test_scenario_write_nested_file_with_directory_creation(root: Path, abc: Path) -> None:
    write_session_file(S, "reports/summary.txt", b"Summary", root)
    assert (abc / "reports").is_dir()
    assert (abc / "reports" / "summary.txt").read_bytes() == b"Summary"


def test_scenario_overwrite_existing_file_with_overwrite_true(
    root: Path, abc: Path, fill: Any
) -> None:
    fill("data.txt", content="old content")
    write_session_file(S, "data.txt", b"new content", root, overwrite=True)
    assert (abc / "data.txt").read_bytes() == b"new content"
    assert names_in(root) == [S]


def test_scenario_reject_overwrite_with_overwrite_false(root: Path, abc: Path, fill: Any) -> None:
    fill("data.txt", content="existing")
    with pytest.raises(FileExistsError, match=r"data\.txt"):
        write_session_file(S, "data.txt", b"new", root, overwrite=False)
    assert (abc / "data.txt").read_text() == "existing"


def test_scenario_reject_path_traversal_in_write(tmp_path: Path) -> None:
    contained(write_outside, tmp_path)


def write_outside(folder: Path) -> None:
    root, _ = place(folder)
    before = tree(folder)
    for path in ("../../../tmp/evil.txt", "../evil.txt", "sub/../../evil.txt"):
        with pytest.raises(ValueError, match="escapes"):
            write_session_file(S, path, b"data", root)
    assert tree(folder) == before
    assert not list(folder.rglob("evil.txt"))
    assert not list(folder.rglob("tmp"))


# ---------------------------------------------------------------- delete


def test_scenario_delete_single_file(root: Path, abc: Path, fill: Any) -> None:
    fill("temp.txt")
    delete_session_path(S, "temp.txt", root)
    assert not (abc / "temp.txt").exists()
    with pytest.raises(FileNotFoundError):
        read_session_file(S, "temp.txt", root)


def test_scenario_delete_empty_directory(root: Path, abc: Path) -> None:
    (abc / "empty_folder").mkdir()
    delete_session_path(S, "empty_folder/", root)
    assert not (abc / "empty_folder").exists()


def test_scenario_delete_directory_with_recursive_true(root: Path, abc: Path, fill: Any) -> None:
    fill("data/file1.txt", "data/file2.txt", "data/deep/er/file3.txt", "beside.txt")
    delete_session_path(S, "data/", root, recursive=True)
    assert not (abc / "data").exists()
    assert list_session_files(S, root) == ["beside.txt"]
    assert names_in(root) == [S]


def test_scenario_reject_non_recursive_delete_of_non_empty_directory(
    root: Path, abc: Path, fill: Any
) -> None:
    fill("data/file1.txt")
    with pytest.raises(OSError, match="not empty"):
        delete_session_path(S, "data/", root, recursive=False)
    assert list_session_files(S, root) == ["data/file1.txt"]


def test_scenario_reject_path_traversal_in_delete(tmp_path: Path) -> None:
    contained(delete_outside, tmp_path)


def delete_outside(folder: Path) -> None:
    root, _ = place(folder)
    outside = folder / "d1" / "d2" / "tmp"
    outside.mkdir()
    (outside / "target").write_text("precious")
    for path in ("../../../../tmp/target", "../../../tmp/target", "../../../../tmp"):
        for recursive in (False, True):
            with pytest.raises(ValueError, match="escapes"):
                delete_session_path(S, path, root, recursive)
    assert (outside / "target").read_text() == "precious"


def test_scenario_delete_nonexistent_path(root: Path, abc: Path) -> None:
    for recursive in (False, True):
        with pytest.raises(FileNotFoundError, match=r"nonexistent\.txt"):
            delete_session_path(S, "nonexistent.txt", root, recursive)


# ---------------------------------------------------------------- paths


def test_scenario_validate_relative_paths(root: Path, fill: Any) -> None:
    fill("file.txt", "data/inner.txt", content="inside")
    assert read_session_file(S, "data/../file.txt", root) == b"inside"  # resolved, and within
    assert read_session_file(S, "./data//./inner.txt", root) == b"inside"
    for path in ("..", "data/../..", f"../{S}/file.txt", "data/../../file.txt"):
        with pytest.raises(ValueError, match="escapes"):
            read_session_file(S, path, root)


def test_scenario_reject_absolute_paths(tmp_path: Path) -> None:
    contained(name_absolute_paths, tmp_path)


def name_absolute_paths(folder: Path) -> None:
    root, abc = place(folder)
    inside = str(abc / "file.txt")  # absolute, even if it leads back in
    for path in (inside, "\\file.txt", "//server/share", "C:\\file.txt", "c:/file.txt", "/etc"):
        for operation in OPERATIONS.values():
            with pytest.raises(ValueError, match="absolute paths are not allowed"):
                operation(path, root)


def test_scenario_resolve_symlinks_safely(tmp_path: Path) -> None:
    contained(go_through_links, tmp_path)


def go_through_links(folder: Path) -> None:
    for name, operation in OPERATIONS.items():
        (folder / name).mkdir()
        go_through_links_by(operation, folder / name)


def go_through_links_by(operation: Callable[..., Any], folder: Path) -> None:
    root, abc = place(folder)
    outside = folder / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (abc / "inside.txt").write_text("inside")
    (abc / "link.txt").symlink_to(outside / "secret.txt")
    (abc / "inner").symlink_to("inside.txt")  # refused as well: it may point elsewhere tomorrow
    (abc / "linked").symlink_to(outside)
    (abc / "dangling").symlink_to(outside / "new.txt")
    for path in ("link.txt", "inner", "linked", "linked/secret.txt", "linked/new", "dangling"):
        with pytest.raises(PathEscapesWorkspace, match="symbolic link"):
            operation(path, root)
    assert tree(outside) == {"secret.txt": b"secret"}
    assert sorted(os.listdir(abc)) == sorted(
        [".metadata.json", "dangling", "inner", "inside.txt", "link.txt", "linked"]
    )
    assert list_session_files(S, root) == ["inside.txt"]


def test_scenario_normalize_path_separators(tmp_path: Path) -> None:
    contained(use_both_separators, tmp_path)


def use_both_separators(folder: Path) -> None:
    root, abc = place(folder)
    write_session_file(S, "data\\subdir/file.txt", b"x", root)
    assert (abc / "data" / "subdir" / "file.txt").read_bytes() == b"x"
    assert read_session_file(S, "data/subdir\\file.txt", root) == b"x"
    for path in ("..\\..\\evil", "data\\..\\..\\evil", "data/..\\../evil"):
        with pytest.raises(ValueError, match="escapes"):
            write_session_file(S, path, b"x", root)


# ---------------------------------------------------------------- events


def test_scenario_log_file_list_operation(root: Path, fill: Any, recorder: Any) -> None:
    fill("a.csv", "b.csv", "c.txt")
    list_session_files(S, root, pattern="*.csv", logger=recorder)
    assert recorder.told == [
        ("info", "session.file.list", {"session_id": S, "pattern": "*.csv", "count": 2})
    ]


def test_scenario_log_file_read_operation(root: Path, fill: Any, recorder: Any) -> None:
    fill("data.txt", content="12345")
    read_session_file(S, "data.txt", root, recorder)
    assert recorder.told == [
        ("info", "session.file.read", {"session_id": S, "path": "data.txt", "size_bytes": 5})
    ]


def test_scenario_log_file_write_operation(root: Path, abc: Path, recorder: Any) -> None:
    write_session_file(S, "output.txt", "ünf", root, logger=recorder)
    assert recorder.told == [
        ("info", "session.file.write", {"session_id": S, "path": "output.txt", "size_bytes": 4})
    ]


def test_scenario_log_file_delete_operation(root: Path, fill: Any, recorder: Any) -> None:
    fill("temp.txt")
    delete_session_path(S, "temp.txt", root, logger=recorder)
    assert recorder.told == [
        ("info", "session.file.delete", {"session_id": S, "path": "temp.txt", "recursive": False})
    ]


@each_operation
def test_an_operation_that_failed_is_no_event(
    operation: Any, root: Path, abc: Path, recorder: Any
) -> None:
    (abc / "file").write_text("x")
    with pytest.raises(OSError):
        operation("file/below", root, logger=recorder)
    assert recorder.told == []


# ---------------------------------------------------------------- errors


def test_scenario_file_not_found_error(root: Path, abc: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        read_session_file(S, "missing.txt", root)
    assert "missing.txt" in str(caught.value)
    assert caught.value.filename == "missing.txt"
    assert str(tmp_path) not in str(caught.value)
    assert "/" not in str(caught.value)


@each_operation
def test_no_error_names_a_path_of_the_host(
    operation: Any, root: Path, abc: Path, tmp_path: Path
) -> None:
    (abc / "link").symlink_to(tmp_path)
    (abc / "file").write_text("x")
    for path in ("file/x", "link", "../up", "file/x/y", ".metadata.json", "n" * 300):
        with pytest.raises((OSError, ValueError)) as caught:
            operation(path, root)
        assert str(tmp_path) not in str(caught.value)
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_scenario_permission_error(root: Path, abc: Path, fill: Any) -> None:
    fill("readonly.txt", content="kept")
    (abc / "readonly.txt").chmod(0o444)
    with pytest.raises(PermissionError, match="Permission denied") as caught:
        write_session_file(S, "readonly.txt", b"data", root, overwrite=True)
    assert caught.value.filename == "readonly.txt"
    assert (abc / "readonly.txt").read_text() == "kept"
    assert stat.S_IMODE((abc / "readonly.txt").stat().st_mode) == 0o444


class Forbidden:
    """A file system that may not be touched."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was called")


def test_scenario_invalid_session_id(root: Path) -> None:
    fs: Any = Forbidden()
    for call in (
        lambda: list_session_files("../invalid", root, fs=fs),
        lambda: read_session_file("../invalid", "a.txt", root, fs=fs),
        lambda: write_session_file("../invalid", "a.txt", b"x", root, fs=fs),
        lambda: delete_session_path("../invalid", "a.txt", root, fs=fs),
    ):
        with pytest.raises(ValueError, match="was refused") as caught:
            call()
        assert isinstance(caught.value, InvalidSessionId)
    assert not root.exists()


# ---------------------------------------------------------------- types


def hints(function: Callable[..., Any]) -> dict[str, Any]:
    found = typing.get_type_hints(function)
    assert set(found) == {*inspect.signature(function).parameters, "return"}
    return found


def test_scenario_list_session_files_type_hints() -> None:
    assert hints(list_session_files)["return"] == list[str]


def test_scenario_read_session_file_type_hints() -> None:
    assert hints(read_session_file)["return"] is bytes


def test_scenario_write_session_file_type_hints() -> None:
    found = hints(write_session_file)
    assert found["return"] is type(None)
    assert found["data"] == bytes | str
    hints(delete_session_path)


def test_scenario_path_validation_helper_type_hints() -> None:
    assert hints(validate_session_path)["return"] is Path
    assert "Raises:" in (validate_session_path.__doc__ or "")
