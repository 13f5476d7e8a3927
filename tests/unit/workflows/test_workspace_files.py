"""The host's hand in a workspace: what it makes durable, what it leaves open, what it refuses."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from agentforge_sessions.base.files import OsFileSystem, WriteError
from agentforge_sessions.harness import SessionState, SessionStore
from agentforge_sessions.harness.store.session_folders import make_folder
from agentforge_sessions.workflows import Input, Phase, Script, Workflow
from agentforge_sessions.workflows.prompts.workspace_files import (
    MAX_FILES,
    WorkspaceFiles,
    WorkspaceTooLarge,
)
from tests.support.descriptors import held_below
from tests.unit.workflows.fakes import Ground

INPUTS = [Input(target="a/b/one.txt", content=b"1"), Input(target="two.txt", content=b"2")]


class Syncs(OsFileSystem):
    """Remembers which files and directories were synced; may refuse some."""

    def __init__(self, refuse: str = "") -> None:
        self.names: list[str] = []
        self.refuse = refuse

    def fsync(self, fd: int) -> None:  # type: ignore[override]
        name = Path(os.readlink(f"/proc/self/fd/{fd}")).name
        if name == self.refuse:
            raise OSError(errno.EIO, "the disk is gone")
        self.names.append(name)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "session" / "workspace"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def root_fd(root: Path) -> int:  # type: ignore[misc]
    fd = os.open(root, os.O_RDONLY)
    yield fd  # type: ignore[misc]
    os.close(fd)


def test_workspace_is_made_for_its_owner_only_and_durably(tmp_path: Path) -> None:
    fs = Syncs()
    make_folder(fs, tmp_path / "workspace")
    assert (tmp_path / "workspace").stat().st_mode & 0o777 == 0o700
    assert fs.names == [tmp_path.name]
    assert held_below(tmp_path) == []


def test_workspace_that_is_there_is_left_as_it_is(root: Path) -> None:
    root.chmod(0o750)
    make_folder(Syncs(), root)
    assert root.stat().st_mode & 0o777 == 0o750


def test_workspace_is_never_made_without_its_session(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        make_folder(Syncs(), tmp_path / "gone" / "workspace")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(WriteError):
        make_folder(Syncs(), tmp_path / "link" / "workspace")
    assert not (tmp_path / "workspace").exists()


def test_workspace_that_is_not_durable_is_told(tmp_path: Path) -> None:
    with pytest.raises(WriteError) as caught:
        make_folder(Syncs(refuse=tmp_path.name), tmp_path / "workspace")
    assert caught.value.operation == "fsync of the session's directory"
    assert caught.value.errno == errno.EIO


def test_inputs_and_the_directories_on_their_way_are_durable(root: Path, root_fd: int) -> None:
    fs = Syncs()
    WorkspaceFiles(fs=fs, fd=root_fd, root=root).place(INPUTS)
    assert (root / "a/b/one.txt").read_bytes() == b"1"
    names = [re.sub(r"\.new-[0-9a-f]{16}\.", ".new-RANDOM.", name) for name in fs.names]
    one, two = ".one.txt.new-RANDOM.tmp", ".two.txt.new-RANDOM.tmp"
    assert names == ["workspace", "a", one, "b", two, "workspace"]
    assert held_below(root) == [str(root)]


def test_inputs_replace_what_an_interrupted_placement_left(root: Path, root_fd: int) -> None:
    (root / "a").mkdir()
    (root / "two.txt").write_bytes(b"half")
    left = root / ".two.txt.new-0011223344556677.tmp"
    left.write_bytes(b"ha")
    os.utime(left, (0, 0))
    WorkspaceFiles(fs=OsFileSystem(), fd=root_fd, root=root).place(INPUTS)
    assert (root / "two.txt").read_bytes() == b"2"
    assert sorted(path.name for path in root.rglob("*")) == ["a", "b", "one.txt", "two.txt"]


@pytest.mark.parametrize("planted", ["link", "file"])
def test_inputs_go_through_no_link_and_no_file(
    root: Path, root_fd: int, planted: str, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    (outside / "b").mkdir(parents=True)
    if planted == "link":
        (root / "a").symlink_to(outside)
    else:
        (root / "a").write_text("no directory")
    with pytest.raises(WriteError) as caught:
        WorkspaceFiles(fs=OsFileSystem(), fd=root_fd, root=root).place(INPUTS)
    assert caught.value.path == root / "a/b/one.txt"
    assert list((outside / "b").iterdir()) == []
    assert held_below(root) == [str(root)]


def test_input_replaces_a_link_and_not_what_it_leads_to(
    root: Path, root_fd: int, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (root / "two.txt").symlink_to(victim)
    WorkspaceFiles(fs=OsFileSystem(), fd=root_fd, root=root).place(INPUTS[1:])
    assert victim.read_text() == "mine"
    assert (root / "two.txt").read_bytes() == b"2"


def test_artifacts_that_are_there_are_synced_with_their_directory(root: Path, root_fd: int) -> None:
    (root / "d").mkdir()
    (root / "d" / "x").write_text("x")
    fs = Syncs()
    assert WorkspaceFiles(fs=fs, fd=root_fd, root=root).missing(["d/x", "d/y"]) == [
        "d/y is missing"
    ]
    assert fs.names == ["x", "d"]
    assert held_below(root) == [str(root)]


def test_artifact_that_cannot_be_synced_is_told_and_no_success_recorded(ground: Ground) -> None:
    phase = Phase(name="only", gate=Script(code="write d/x x", artifacts=["d/x"]))
    workflow = Workflow(name="w", workflow_type="t", phases=[phase])
    runner = ground.worker()
    runner._fs = Syncs(refuse="x")
    with pytest.raises(WriteError) as caught:
        runner.start(workflow)
    session_id = ground.diary.session_id
    assert caught.value.path == ground.workspace(session_id) / "d/x"
    session = SessionStore(ground.base).load(session_id)
    assert session is not None
    assert session.state is SessionState.ACTIVE
    assert [entry.action for entry in session.history] == ["session_created"]
    assert ground.worker().resume(session_id).state is SessionState.COMPLETED


# --- an agent's answer ------------------------------------------------------------------------


@pytest.fixture
def files(root: Path, root_fd: int) -> WorkspaceFiles:
    return WorkspaceFiles(fs=OsFileSystem(), fd=root_fd, root=root)


def test_regular_files_are_read_and_nothing_else(
    root: Path, files: WorkspaceFiles, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (root / "pkg").mkdir()
    (root / "pkg" / "a.py").write_text("a")
    (root / "b.bin").write_bytes(b"\xff")
    (root / "link").symlink_to(secret)
    (root / "away").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    (root / ".hidden").write_text("x")
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "a.pyc").write_text("x")
    assert files.read() == {"b.bin": b"\xff", "pkg/a.py": b"a"}


def test_too_much_is_refused(root: Path, files: WorkspaceFiles) -> None:
    for number in range(MAX_FILES + 1):
        (root / str(number)).touch()
    with pytest.raises(WorkspaceTooLarge, match="more than 2,000 files"):
        files.read()


def test_applying_twice_gives_the_same_and_writes_once(root: Path, files: WorkspaceFiles) -> None:
    (root / "old.py").write_text("old")
    written = {"pkg/a.py": b"a", "b.py": b"b"}
    times = []
    for _ in range(2):
        there = files.read()
        files.apply(written, ["old.py", "never.py"], there=there)
        assert files.read() == written
        times.append([(root / path).stat().st_ino for path in written])
    assert times[0] == times[1]
    assert (root / "b.py").stat().st_mode & 0o777 == 0o600


def test_links_in_the_way_are_not_followed(
    root: Path, files: WorkspaceFiles, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "pkg").symlink_to(outside)
    with pytest.raises(WriteError):
        files.apply({"pkg/a.py": b"a"}, (), there={})
    target = tmp_path / "target"
    target.write_text("kept")
    (root / "b.py").symlink_to(target)
    files.apply({"b.py": b"b"}, (), there={})
    assert target.read_text() == "kept"
    assert (root / "b.py").read_text() == "b"
    assert list(outside.iterdir()) == []
    (outside / "c.py").write_text("kept")
    with pytest.raises(WriteError):
        files.apply({}, ["pkg/c.py"], there={"pkg/c.py": b""})
    assert (outside / "c.py").exists(), "a deletion does not go through a link either"


def test_a_file_that_is_replaced_keeps_its_permissions(root: Path, files: WorkspaceFiles) -> None:
    (root / "run.sh").write_text("old")
    (root / "run.sh").chmod(0o755)
    (root / "plain").write_text("old")
    (root / "plain").chmod(0o640)
    there = {"run.sh": b"old", "plain": b"old"}
    files.apply({"run.sh": b"new", "plain": b"new", "fresh": b"new"}, (), there=there)
    modes = {path.name: path.stat().st_mode & 0o777 for path in root.iterdir()}
    assert modes == {"run.sh": 0o755, "plain": 0o640, "fresh": 0o600}


def test_what_is_to_run_is_made_so_whatever_it_holds(root: Path, files: WorkspaceFiles) -> None:
    (root / "run.sh").write_text("same")
    (root / "run.sh").chmod(0o644)
    (root / "not.sh").write_text("same")
    (root / "not.sh").chmod(0o755)
    written = {"run.sh": b"same", "not.sh": b"same", "new.sh": b"x"}
    there = {"run.sh": b"same", "not.sh": b"same"}
    runs = {"run.sh": True, "not.sh": False, "new.sh": True}
    for _ in range(2):
        files.apply(written, (), there=there, executable=runs)
        modes = {path.name: path.stat().st_mode & 0o777 for path in root.iterdir()}
        assert modes == {"run.sh": 0o755, "not.sh": 0o644, "new.sh": 0o755}


def test_a_file_takes_the_place_of_a_directory_and_the_other_way_round(
    root: Path, files: WorkspaceFiles
) -> None:
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "one").write_text("1")
    (root / "a" / "two").write_text("2")
    (root / "c").write_text("3")
    deleted = ["a/b/one", "a/two", "c"]
    written = {"a/b": b"file", "c/d": b"below"}
    there = files.read([*deleted, *written])
    assert there == {"a/b/one": b"1", "a/two": b"2", "c": b"3"}
    for _ in range(2):
        files.apply(written, deleted, there=there)
        assert files.read() == {"a/b": b"file", "c/d": b"below"}
        there = files.read([*deleted, *written])


def test_what_is_named_is_read_and_nothing_else(root: Path, files: WorkspaceFiles) -> None:
    for path in (".hidden", "a/one.py", "a/b/two.py", "a/.skipped", "c/three.js", "d.py"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    (root / "link").symlink_to("d.py")
    (root / "to").symlink_to("a")
    assert set(files.read([".hidden", "a/", "link", "to/", "to/one.py", "missing", "d.py/x"])) == {
        ".hidden",
        "a/one.py",
        "a/b/two.py",
    }
    assert set(files.read(["**/*.py", "c/*.js"])) == {
        "a/one.py",
        "a/b/two.py",
        "d.py",
        "c/three.js",
    }
    assert files.read([]) == {}
    assert set(files.names()) == {
        *(".hidden", "a/.skipped", "a/b/two.py", "a/one.py", "c/three.js", "d.py"),
        *("link", "to"),
    }


def test_paths_that_are_not_there_are_judged_by_the_rules_of_ignoring(
    root: Path, files: WorkspaceFiles
) -> None:
    (root / ".gitignore").write_text("build/\n*.log\n!kept.log\n")
    (root / "a").mkdir()
    (root / "a" / ".gitignore").write_text("/only\n")
    paths = ["build/x/y", "a/deep/x.log", "kept.log", "a/only", "a/b/only", "a/__pycache__/x.pyc"]
    assert files.ignored(paths) == ("a/__pycache__/x.pyc", "a/deep/x.log", "a/only", "build/x/y")
