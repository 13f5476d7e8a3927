"""Hostile ids and paths, races with links, and what a broken disk does to a session's files."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.sandbox import (
    InvalidSessionId,
    PathEscapesWorkspace,
    ReservedSessionPath,
    SandboxError,
    SessionWorkspaceMissing,
    create_session_sandbox,
    delete_session_path,
    delete_session_workspace,
    get_session_sandbox,
    list_session_files,
    read_session_file,
    read_session_metadata,
    read_session_text,
    repair_session_metadata,
    write_session_file,
)
from agentforge_sessions.sandbox.session_workspaces.session_directory import (
    OS_FILES,
    OsSessionFileSystem,
    open_session,
    walk_files,
)
from agentforge_sessions.sandbox.session_workspaces.session_files import MAX_READ_BYTES
from agentforge_sessions.sandbox.session_workspaces.session_paths import (
    validate_session_id,
    validate_session_path,
)
from tests.support.descriptors import held_below
from tests.support.listing import names_in

S = "abc-123"


class Forbidden:
    """A file system that may not be touched."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was called")


FORBIDDEN: Any = Forbidden()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "d1" / "d2" / "d3" / "workspace"
    (path / S).mkdir(parents=True)
    return path


@pytest.fixture
def workspace(root: Path) -> Path:
    return root / S


# ---------------------------------------------------------------- ids

GOOD_IDS = [
    "abc-123",
    "nonexistent-123",
    "aaa-111",
    "a",
    "0",
    "A_b-C",
    "a" * 128,
    "550e8400-e29b-41d4-a716-446655440000",
]
BAD_IDS: list[object] = [
    "",
    ".",
    "..",
    "../invalid",
    "../../../tmp",
    "/",
    "/etc",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "..\\x",
    "-abc",
    "_abc",
    ".hidden",
    ".incoming-1",
    ".discarded-1",
    "a.b",
    "a b",
    " a",
    "a ",
    "a\n",
    "\na",
    "a\0",
    "\0",
    "a" * 129,
    "ä",
    "\u0661",
    "\uff41",
    "a\u202e",
    "\ud800",
    "~",
    "~root",
    "$HOME",
    "*",
    "a*",
    "a:b",
    "C:",
    "con.",
    "%2e%2e",
    "a%2fb",
    "a;b",
    "a|b",
    "a'b",
    'a"b',
    None,
    5,
    b"abc",
    Path("abc"),
    ["a"],
]

BY_ID: dict[str, Callable[[Any, Path], object]] = {
    "get": lambda i, root: get_session_sandbox(i, workspace_root=root, fs=FORBIDDEN),
    "create": lambda i, root: create_session_sandbox(
        workspace_root=root, new_id=lambda: i, fs=FORBIDDEN
    ),
    "delete workspace": lambda i, root: delete_session_workspace(i, root, fs=FORBIDDEN),
    "list": lambda i, root: list_session_files(i, root, fs=FORBIDDEN),
    "read": lambda i, root: read_session_file(i, "f", root, fs=FORBIDDEN),
    "read text": lambda i, root: read_session_text(i, "f", root, fs=FORBIDDEN),
    "write": lambda i, root: write_session_file(i, "f", b"", root, fs=FORBIDDEN),
    "delete": lambda i, root: delete_session_path(i, "f", root, fs=FORBIDDEN),
    "delete all": lambda i, root: delete_session_path(i, "f", root, True, fs=FORBIDDEN),
    "metadata": lambda i, root: read_session_metadata(i, root, fs=FORBIDDEN),
    "repair": lambda i, root: repair_session_metadata(i, root, fs=FORBIDDEN),
}


@pytest.mark.parametrize("session_id", GOOD_IDS)
def test_an_id_that_can_name_a_workspace_is_taken(session_id: str) -> None:
    assert validate_session_id(session_id) == session_id


@pytest.mark.parametrize("call", BY_ID.values(), ids=BY_ID)
def test_a_hostile_id_is_refused_before_the_file_system_is_touched(
    call: Callable[[Any, Path], object], tmp_path: Path
) -> None:
    for session_id in BAD_IDS:
        with pytest.raises(InvalidSessionId) as caught:
            call(session_id, tmp_path / "none")
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, SandboxError)
        assert len(str(caught.value)) < 400
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- paths

ESCAPES = [
    "",
    ".",
    "/",
    "//",
    "./",
    "..",
    "../",
    "../x",
    "x/../..",
    "x/../../y",
    "../abc-123",
    "../abc-123/f",
    "../../../etc/passwd",
    "..\\..\\x",
    "x\\..\\..\\y",
    "\\",
    "\\x",
    "\\\\server\\share",
    "/etc/passwd",
    "/app/f",
    "//etc/passwd",
    "C:\\x",
    "c:/x",
    "Z:",
    "a\0b",
    "\0",
    "f\0/../../x",
    "a/..",
    "a/./..",
    "\ud800",
    "a/\udfff/../../..\ud834",
]
RESERVED = [
    ".metadata.json",
    "./.metadata.json",
    ".metadata.json/",
    "sub/../.metadata.json",
    ".\\.metadata.json",
    ".metadata.json/x",
    "a/b/../../.metadata.json",
    ".METADATA.JSON",
    ".Metadata.json",
]
BY_PATH: dict[str, Callable[[Any, Path, Any], object]] = {
    "read": lambda p, root, fs: read_session_file(S, p, root, fs=fs),
    "read text": lambda p, root, fs: read_session_text(S, p, root, fs=fs),
    "write": lambda p, root, fs: write_session_file(S, p, b"new", root, fs=fs),
    "write new": lambda p, root, fs: write_session_file(S, p, "new", root, False, fs=fs),
    "delete": lambda p, root, fs: delete_session_path(S, p, root, fs=fs),
    "delete all": lambda p, root, fs: delete_session_path(S, p, root, True, fs=fs),
}
each_operation = pytest.mark.parametrize("call", BY_PATH.values(), ids=BY_PATH)


@each_operation
@pytest.mark.parametrize("path", [*ESCAPES, None, 5, b"f", Path("f")], ids=ascii)
def test_a_path_that_leads_out_is_refused_before_the_file_system_is_touched(
    call: Callable[[Any, Path, Any], object], path: Any, root: Path
) -> None:
    with pytest.raises(PathEscapesWorkspace) as caught:
        call(path, root, FORBIDDEN)
    assert isinstance(caught.value, ValueError)
    assert "escapes the session's workspace" in str(caught.value)
    assert str(root) not in str(caught.value)


@each_operation
@pytest.mark.parametrize("path", RESERVED)
def test_the_metadata_is_no_file_of_the_session(
    call: Callable[[Any, Path, Any], object], path: str, root: Path
) -> None:
    with pytest.raises(ReservedSessionPath):
        call(path, root, FORBIDDEN)


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("f", "f"),
        ("a/b/c", "a/b/c"),
        ("a\\b/c", "a/b/c"),
        ("./a", "a"),
        ("a//b/", "a/b"),
        ("a/../b", "b"),
        ("a/b/../../c", "c"),
        ("...", "..."),
        ("..a", "..a"),
        ("a..", "a.."),
        ("sub/.metadata.json", "sub/.metadata.json"),
        (".metadata.jsonl", ".metadata.jsonl"),
        ("ü/日本", "ü/日本"),
        (" ", " "),
        ("a:b", "a:b"),
        ("-rf", "-rf"),
        ("~", "~"),
        ("\udcff", "\udcff"),
        ("new\nline", "new\nline"),
        (".hidden", ".hidden"),
    ],
)
def test_the_normal_form_of_a_path(path: str, normal: str) -> None:
    assert validate_session_path(path) == Path(normal)


def test_names_of_every_kind_go_in_and_come_out(root: Path) -> None:
    names = [
        "...",
        "..a",
        "sub/.metadata.json",
        "ü/日本",
        " ",
        "-rf",
        "\udcff",
        "new\nline",
        ".dot",
    ]
    for name in names:
        write_session_file(S, name, name.encode("utf-8", "surrogateescape"), root)
    assert list_session_files(S, root) == sorted(names)
    for name in names:
        read = read_session_file(S, name, root)
        assert read == name.encode("utf-8", "surrogateescape")
        delete_session_path(S, name, root)
    assert list_session_files(S, root) == []


def test_a_session_that_is_not_there_is_told_apart_from_a_file_that_is_not(
    root: Path, tmp_path: Path
) -> None:
    for calls, where in ((BY_PATH, tmp_path / "no root"), (BY_PATH, root)):
        for call in calls.values():
            if where == root:
                delete_session_workspace(S, root)
            with pytest.raises(SessionWorkspaceMissing) as caught:
                call("f", where, OS_FILES)
            assert isinstance(caught.value, FileNotFoundError)
            assert str(tmp_path) not in str(caught.value)
    with pytest.raises(SessionWorkspaceMissing):
        list_session_files(S, root)
    assert not (tmp_path / "no root").exists()
    assert names_in(root) == []


@each_operation
def test_a_link_in_place_of_a_workspace_is_not_followed(
    call: Callable[[Any, Path, Any], object], tmp_path: Path
) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (elsewhere / "f").write_text("precious")
    (root / S).symlink_to(elsewhere)
    with pytest.raises(PathEscapesWorkspace):
        call("f", root, OS_FILES)
    with pytest.raises(PathEscapesWorkspace):
        list_session_files(S, root)
    with pytest.raises(PathEscapesWorkspace):
        delete_session_workspace(S, root)
    with pytest.raises(SandboxError, match="symbolic link"):
        get_session_sandbox(S, workspace_root=root)
    assert (elsewhere / "f").read_text() == "precious"
    assert (root / S).is_symlink()


def test_a_workspace_root_may_be_reached_over_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    session_id, sandbox = create_session_sandbox(workspace_root=tmp_path / "link")
    assert sandbox.workspace == tmp_path / "real" / session_id
    write_session_file(session_id, "f", b"x", tmp_path / "link")
    assert list_session_files(session_id, tmp_path / "link") == ["f"]
    delete_session_workspace(session_id, tmp_path / "link")
    assert names_in(tmp_path / "real") == []


# ---------------------------------------------------------------- races


class Race:
    """Another thread that swaps paths, and how often it has."""

    def __init__(self, outside: Path) -> None:
        self.outside = outside
        self.turns = 0

    def rounds(self, least: int) -> Iterator[int]:
        """Count rounds of a test, as many as asked for and until the paths were swapped often."""
        for done in itertools.count():
            if done >= least and self.turns > 10:
                return
            yield done


@pytest.fixture
def swapping(workspace: Path, tmp_path: Path) -> Iterator[Race]:
    """While the test runs, `sub` and `sub/f` are now real and now links that lead out."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("secret")
    (workspace / "sub").mkdir()
    (workspace / "sub" / "f").write_text("inside")
    stop = threading.Event()
    race = Race(outside)
    spare = tmp_path / "spare"

    def stay() -> None:
        """Let the other side come upon what is there now, each few turns and on one core, too."""
        if race.turns % 5 == 0:
            stop.wait(0.001)

    def swap() -> None:
        while not stop.is_set():
            try:
                os.rename(workspace / "sub", spare)
                os.symlink(outside, workspace / "sub")
                stay()
                os.unlink(workspace / "sub")
                os.rename(spare, workspace / "sub")
                os.rename(workspace / "sub" / "f", workspace / "kept")
                os.symlink(outside / "f", workspace / "sub" / "f")
                stay()
                os.unlink(workspace / "sub" / "f")
                os.rename(workspace / "kept", workspace / "sub" / "f")
                stay()
            except OSError:  # the operation under test got in between: set all up again
                with contextlib.suppress(OSError):
                    for path in (workspace / "sub", workspace / "sub" / "f"):
                        if path.is_symlink():
                            path.unlink()
                    shutil.rmtree(spare, ignore_errors=True)
                    (workspace / "sub").mkdir(exist_ok=True)
                    (workspace / "sub" / "f").write_text("inside")
            race.turns += 1

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield race
    finally:
        stop.set()
        thread.join()


def attempt(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (PathEscapesWorkspace, FileNotFoundError, NotADirectoryError, IsADirectoryError) as bad:
        return type(bad).__name__


def test_a_path_swapped_for_links_never_leads_out(root: Path, swapping: Race) -> None:
    seen: set[object] = set()
    while not {b"inside", "PathEscapesWorkspace"} <= seen:  # until then the race was none
        for _ in swapping.rounds(500):
            seen.add(attempt(lambda: read_session_file(S, "sub/f", root)))
            attempt(lambda: list_session_files(S, root, "**"))
    assert b"secret" not in seen
    assert (swapping.outside / "f").read_text() == "secret"


@pytest.mark.parametrize("overwrite", [True, False])
def test_writes_and_deletions_under_swapped_links_stay_inside(
    root: Path, swapping: Race, overwrite: bool
) -> None:
    for _ in swapping.rounds(300):
        attempt(lambda: write_session_file(S, "sub/new", b"evil", root, True))
        if overwrite:
            attempt(lambda: write_session_file(S, "sub/f", b"inside", root))
        else:
            attempt(lambda: delete_session_path(S, "sub/new", root))
            attempt(lambda: delete_session_path(S, "sub", root, recursive=True))
        assert os.listdir(swapping.outside) == ["f"]
        assert (swapping.outside / "f").read_text() == "secret"


class Swapping(OsSessionFileSystem):
    """A file system on which somebody is quicker: a name becomes a link just before it is used."""

    def __init__(self, path: Path, target: Path, call: str) -> None:
        real = getattr(self, call)

        def swapped(name: str, *args: Any, **kw: Any) -> Any:
            if path.name in (name, *args[:1]) and not path.is_symlink():
                path.rename(path.with_name("swapped"))
                path.symlink_to(target)
            return real(name, *args, **kw)

        setattr(self, call, swapped)


def test_a_name_swapped_for_a_link_at_the_last_moment_leads_nowhere(
    workspace: Path, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("secret")

    def fresh() -> Path:
        delete_session_workspace(S, root)
        (workspace / "dir").mkdir(parents=True)
        (workspace / "dir" / "f").write_text("inside")
        return workspace / "dir"

    with pytest.raises(PathEscapesWorkspace):
        read_session_file(S, "dir/f", root, fs=Swapping(fresh() / "f", outside / "f", "open"))
    for call in BY_PATH.values():
        with pytest.raises(PathEscapesWorkspace):
            call("dir/f", root, Swapping(fresh(), outside, "open"))
    fs = Swapping(fresh() / "f", outside / "f", "rename")
    write_session_file(S, "dir/f", b"new", root, fs=fs)  # takes the place of the link
    assert not (workspace / "dir" / "f").is_symlink()
    assert read_session_file(S, "dir/f", root) == b"new"
    delete_session_path(
        S, "dir/f", root, fs=Swapping(fresh() / "f", outside / "f", "unlink")
    )  # deletes the link
    delete_session_path(S, "dir", root, True, fs=Swapping(fresh(), outside, "rename"))
    assert not os.path.lexists(workspace / "dir")
    assert list_session_files(S, root, fs=Swapping(fresh(), outside, "open")) == []
    assert os.listdir(outside) == ["f"]
    assert (outside / "f").read_text() == "secret"


def test_two_writers_that_may_not_overwrite_never_both_win(root: Path) -> None:
    for turn in range(40):
        won: list[bytes] = []
        barrier = threading.Barrier(3)

        def write(
            content: bytes,
            name: str = f"f{turn}",
            barrier: threading.Barrier = barrier,
            won: list[bytes] = won,
        ) -> None:
            barrier.wait()
            try:
                write_session_file(S, name, content, root, overwrite=False)
            except FileExistsError:
                return
            won.append(content)

        threads = [threading.Thread(target=write, args=(bytes([n]) * 9,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert read_session_file(S, f"f{turn}", root) == won[0]
    assert names_in(root) == [S]


# ---------------------------------------------------------------- list


def test_a_listing_holds_regular_files_and_nothing_else(workspace: Path, root: Path) -> None:
    (workspace / ".metadata.json").write_text("{}")
    (workspace / "sub").mkdir()
    (workspace / "sub" / ".metadata.json").write_text("{}")
    (workspace / "file").write_text("x")
    (workspace / "inner").symlink_to("file")
    (workspace / "up").symlink_to("..")
    (workspace / "loop").symlink_to(".")
    os.mkfifo(workspace / "pipe")
    assert list_session_files(S, root) == ["file", "sub/.metadata.json"]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("*", "a.csv b.CSV .dot"),
        ("*.csv", "a.csv"),
        ("**", "all"),
        ("**/*", "all"),
        ("**/*.csv", "a.csv s/c.csv s/t/d.csv"),
        ("s/*", "s/c.csv"),
        ("s/**", "s/c.csv s/t/d.csv s/t/e"),
        ("s/**/*.csv", "s/c.csv s/t/d.csv"),
        ("**/t/*", "s/t/d.csv s/t/e"),
        ("[ab].*", "a.csv b.CSV"),
        ("?.csv", "a.csv"),
        ("[!a].*", "b.CSV"),
        ("s/?.csv", "s/c.csv"),
        ("*/*", "s/c.csv"),
        ("s", ""),
        ("s/t", ""),
        ("s\\t\\e", "s/t/e"),
        ("./a.csv", "a.csv"),
        ("**/**/e", "s/t/e"),
        ("a.csv/**", ""),
        (".*", ".dot"),
        ("*/**/e", "s/t/e"),
        ("[", ""),
        ("s*", ""),
        ("**csv", "a.csv"),
    ],
)
def test_patterns(workspace: Path, root: Path, pattern: str, matched: str) -> None:
    names = ["a.csv", "b.CSV", ".dot", "s/c.csv", "s/t/d.csv", "s/t/e"]
    (workspace / "s" / "t").mkdir(parents=True)
    for name in names:
        (workspace / name).write_text("x")
    wanted = names if matched == "all" else matched.split()
    assert list_session_files(S, root, pattern) == sorted(wanted)


@pytest.mark.parametrize(
    "pattern", ["", "/", "/*", "../*", "a/../../*", "*\0", "..", "\\*", "C:/*"]
)
def test_a_pattern_that_leads_out_is_refused(root: Path, pattern: str) -> None:
    with pytest.raises(PathEscapesWorkspace):
        list_session_files(S, root, pattern, fs=FORBIDDEN)


def test_a_pattern_of_many_stars_costs_little(workspace: Path, root: Path) -> None:
    deep = workspace.joinpath(*["a"] * 40)
    deep.mkdir(parents=True)
    (deep / ("a" * 200)).write_text("x")
    assert list_session_files(S, root, "/".join(["**", "a"] * 15) + "/*a*a*a*a*a*a*a*b") == []


def test_a_listing_is_bounded(workspace: Path, root: Path) -> None:
    for n in range(5):
        (workspace / f"{n}").write_text("x")
    (workspace / "d" / "e").mkdir(parents=True)
    with open_session(S, root) as session:
        assert len(list(walk_files(OS_FILES, session.fd, max_entries=7))) == 5
        for limit in ({"max_entries": 6}, {"max_bytes": 5}, {"max_depth": 1}):
            with pytest.raises(OSError) as caught:
                list(walk_files(OS_FILES, session.fd, **limit))
            assert caught.value.errno == errno.EOVERFLOW


def test_a_tree_too_deep_to_list_can_be_deleted(workspace: Path, root: Path) -> None:
    here = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(1500):  # far past the longest path the system takes
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    with pytest.raises(OSError, match="too deep") as caught:
        list_session_files(S, root)
    assert caught.value.errno == errno.EOVERFLOW
    delete_session_path(S, "deep", root, recursive=True)
    assert os.listdir(workspace) == []
    assert names_in(root) == [S]


# ---------------------------------------------------------------- read, write, delete


def test_what_is_no_regular_file_is_not_read_and_does_not_block(
    workspace: Path, root: Path
) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "dir").mkdir()
    with pytest.raises(OSError, match="no regular file") as caught:
        read_session_file(S, "pipe", root)
    assert caught.value.errno == errno.EINVAL
    with pytest.raises(IsADirectoryError):
        read_session_file(S, "dir", root)
    with pytest.raises(OSError, match="no regular file"):
        write_session_file(S, "pipe", b"x", root)
    with pytest.raises(IsADirectoryError):
        write_session_file(S, "dir", b"x", root)
    delete_session_path(S, "pipe", root)
    assert os.listdir(workspace) == ["dir"]


def test_a_file_too_large_is_not_read(workspace: Path, root: Path) -> None:
    with open(workspace / "sparse", "wb") as file:
        file.truncate(MAX_READ_BYTES + 1)
    with pytest.raises(OSError, match="268,435,457 bytes") as caught:
        read_session_file(S, "sparse", root)
    assert caught.value.errno == errno.EFBIG
    (workspace / "small").write_bytes(b"12345")
    assert read_session_file(S, "small", root, max_bytes=5) == b"12345"
    with pytest.raises(OSError, match="the limit is 4"):
        read_session_file(S, "small", root, max_bytes=4)


def test_text_is_decoded_as_it_is(workspace: Path, root: Path) -> None:
    write_session_file(S, "t", "ü\r\n", root)
    assert read_session_file(S, "t", root) == b"\xc3\xbc\r\n"
    assert read_session_text(S, "t", root) == "ü\r\n"
    assert read_session_text(S, "t", root, encoding="latin-1") == "Ã¼\r\n"
    (workspace / "bad").write_bytes(b"\xff")
    with pytest.raises(UnicodeDecodeError):
        read_session_text(S, "bad", root)
    assert read_session_text(S, "bad", root, errors="replace") == "\ufffd"


def test_data_that_is_neither_bytes_nor_text_is_refused(root: Path) -> None:
    for data in (None, 5, ["x"]):
        with pytest.raises(TypeError):
            write_session_file(S, "f", data, root, fs=FORBIDDEN)
    with pytest.raises(UnicodeEncodeError):
        write_session_file(S, "f", "\ud800", root, fs=FORBIDDEN)


def test_a_replaced_file_keeps_its_mode_and_leaves_its_other_names_alone(
    workspace: Path, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_text("kept")
    os.link(tmp_path / "outside", workspace / "f")
    (workspace / "f").chmod(0o640)
    write_session_file(S, "f", b"new", root)
    assert stat.S_IMODE((workspace / "f").stat().st_mode) == 0o640
    assert (tmp_path / "outside").read_text() == "kept"
    write_session_file(S, "sub/g", b"new", root)
    assert stat.S_IMODE((workspace / "sub" / "g").stat().st_mode) == 0o600
    assert stat.S_IMODE((workspace / "sub").stat().st_mode) == 0o700


def test_a_reader_sees_the_old_content_or_the_new(root: Path) -> None:
    old, new = b"o" * 300_000, b"n" * 400_000
    write_session_file(S, "f", old, root)
    stop = threading.Event()
    seen: set[bytes] = set()

    def look() -> None:
        while not (stop.is_set() and seen):
            seen.add(read_session_file(S, "f", root))

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(50):
        write_session_file(S, "f", new, root)
        write_session_file(S, "f", old, root)
    stop.set()
    thread.join()
    assert seen <= {old, new}


class Failing(OsSessionFileSystem):
    """A file system on which one call fails, and one kind of write comes in pieces."""

    def __init__(self, call: str, number: int = errno.EIO) -> None:
        self.call, self.number, self.calls = call, number, 0

    def __getattribute__(self, name: str) -> Any:
        if name in ("call", "number", "calls") or name.startswith("__"):
            return object.__getattribute__(self, name)
        real = object.__getattribute__(self, name)
        if name != self.call:
            return real

        def fail(*args: Any, **kw: Any) -> Any:
            self.calls += 1
            if name == "close":
                real(*args, **kw)
            raise OSError(self.number, os.strerror(self.number), "/host/path")

        return fail


@pytest.mark.parametrize("call", ["writev", "rename", "fchmod"])
def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(
    workspace: Path, root: Path, call: str
) -> None:
    write_session_file(S, "f", b"old", root)
    (workspace / "f").chmod(0o644)
    with pytest.raises(OSError, match="'f'") as caught:
        write_session_file(S, "f", b"new", root, fs=Failing(call, errno.ENOSPC))
    assert caught.value.errno == errno.ENOSPC
    assert "/host/path" not in str(caught.value)
    assert read_session_file(S, "f", root) == b"old"
    assert names_in(root) == [S]


def test_a_close_that_fails_after_reading_is_no_failure(workspace: Path, root: Path) -> None:
    (workspace / "f").write_bytes(b"x")
    assert read_session_file(S, "f", root, fs=Failing("close")) == b"x"
    assert list_session_files(S, root, fs=Failing("close")) == ["f"]
    with pytest.raises(OSError, match="'g'"):
        write_session_file(S, "g", b"lost?", root, fs=Failing("close"))
    assert list_session_files(S, root) == ["f"]


class Sipping(OsSessionFileSystem):
    """A file system that takes a few bytes at a time."""

    @staticmethod
    def writev(fd: int, buffers: Any) -> int:  # type: ignore[override]
        return os.write(fd, bytes(buffers[0][:7]))


def test_a_write_goes_on_until_all_is_written(root: Path) -> None:
    content = bytes(range(256))
    write_session_file(S, "f", content, root, fs=Sipping())
    assert read_session_file(S, "f", root) == content


def test_a_deletion_that_fails_names_the_path_and_keeps_or_hides(
    workspace: Path, root: Path
) -> None:
    (workspace / "data").mkdir()
    (workspace / "data" / "f").write_text("x")
    with pytest.raises(OSError, match="'data'"):
        delete_session_path(S, "data", root, True, fs=Failing("rename"))
    assert list_session_files(S, root) == ["data/f"]
    with pytest.raises(OSError, match="'data'") as caught:
        delete_session_path(S, "data", root, True, fs=Failing("unlink", errno.EPERM))
    assert isinstance(caught.value, PermissionError)
    assert str(root) not in str(caught.value)
    assert list_session_files(S, root) == []  # out of sight, and swept by the next removal
    delete_session_workspace(S, root)
    assert names_in(root) == []


def test_no_descriptor_is_left_open(workspace: Path, root: Path) -> None:
    (workspace / "f").write_text("x")
    (workspace / "dir" / "sub").mkdir(parents=True)
    (workspace / "link").symlink_to("f")

    for _ in range(3):
        for path in ("f", "dir", "link", "none", "f/x", "dir/none", "link/x", "dir/sub/x"):
            for call in (BY_PATH["read"], BY_PATH["write new"]):
                attempt_any(lambda call=call, path=path: call(path, root, OS_FILES))
        list_session_files(S, root)
        with open_session(S, root) as session:
            attempt_any(lambda fd=session.fd: list(walk_files(OS_FILES, fd, max_depth=0)))
    assert held_below(root) == []


def attempt_any(call: Callable[[], Any]) -> None:
    with contextlib.suppress(OSError, ValueError):
        call()
