"""What makes a session survive a power failure: every sync, and in this order.

The order is asserted twice: at the port, and from the kernel's side, as `strace` sees a process.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.harness.stream_port import NewEntry
from tests.support.clock import FakeClock, FakeTokens
from tests.support.filesystem import FaultyFileSystem

ROOT = Path(__file__).parents[2]
FIRST = "session_20260301_093000_000000"
SECOND = "session_20260301_093000_000001"

NEW_BASE = [
    "mkdir new",
    "fsync .",
    "mkdir new/base",
    "fsync new",
    "create new/base/.gitkeep",
]
FIRST_SAVE = [
    "mkdir new/base/HIDDEN",
    "create new/base/HIDDEN/session.yaml",
    "write new/base/HIDDEN/session.yaml",
    "fsync new/base/HIDDEN/session.yaml",
    "fsync new/base/HIDDEN",
    "rename new/base/HIDDEN to new/base/SESSION",
    "fsync new/base",
]
SAVE = [
    "create new/base/SESSION/TEMPORARY",
    "write new/base/SESSION/TEMPORARY",
    "fsync new/base/SESSION/TEMPORARY",
    "rename new/base/SESSION/TEMPORARY to new/base/SESSION/session.yaml",
    "fsync new/base/SESSION",
]
ANNOUNCED = [
    "write new/base/.prune/audit.jsonl",
    "fsync new/base/.prune/audit.jsonl",
]
DISCARDED = [
    "rename new/base/SESSION to new/base/HIDDEN",
    "fsync new/base",
    "unlink new/base/HIDDEN/session.yaml",
    "rmdir new/base/HIDDEN",
    "fsync new/base",
]
TOLD = ["write new/base/.prune/audit.jsonl"]
DELETION = [*ANNOUNCED, *DISCARDED, *TOLD]


def deletion(lines: list[str]) -> list[str]:
    """Leave out what makes and opens the audit log, which is there before the first line is."""
    begin = lines.index(ANNOUNCED[0])
    assert all(".prune" in line or line == "fsync new/base" for line in lines[:begin])
    return lines[begin:]


def plainly(line: str) -> str:
    line = re.sub(r"session_\d{8}_\d{6}_[0-9]{6}", "SESSION", line)
    line = re.sub(r"session_\d{8}_\d{6}_[0-9a-f]{8}", "SESSION", line)
    line = re.sub(r"\.session\.yaml\.new-[0-9a-f]+\.tmp", "TEMPORARY", line)
    return re.sub(r"\.discarded-[0-9a-z-]+", "HIDDEN", line)


class NamingFileSystem(FaultyFileSystem):
    """Tells each call that changes something or syncs it, as one line."""

    def __init__(self, top: Path) -> None:
        super().__init__()
        self.top = top
        self.lines: list[str] = []

    def told(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines

    def _tell(self, operation: str, path: str, more: str = "") -> None:
        self.lines.append(plainly(f"{operation} {os.path.relpath(path, self.top)}{more}"))

    def open(self, path: str, flags: int, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
        fd = super().open(path, flags, mode, dir_fd=dir_fd)
        if flags & os.O_CREAT:
            self._tell("create", self.names[fd])
        return fd

    def writev(self, fd: int, buffers: object) -> int:
        self._tell("write", self.names[fd])
        return super().writev(fd, buffers)  # type: ignore[arg-type]

    def fsync(self, fd: int) -> None:
        super().fsync(fd)
        self._tell("fsync", self.names[fd])

    def rename(
        self, source: str, target: str, *, src_dir_fd: int | None, dst_dir_fd: int | None
    ) -> None:
        super().rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        into = os.path.relpath(self._name(target, dst_dir_fd), self.top)
        self._tell("rename", self._name(source, src_dir_fd), f" to {into}")

    def mkdir(self, path: str, mode: int = 0o700, *, dir_fd: int | None = None) -> None:
        super().mkdir(path, mode, dir_fd=dir_fd)
        self._tell("mkdir", self._name(path, dir_fd))

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        super().unlink(path, dir_fd=dir_fd)
        self._tell("unlink", self._name(path, dir_fd))

    def rmdir(self, path: str, *, dir_fd: int | None = None) -> None:
        super().rmdir(path, dir_fd=dir_fd)
        self._tell("rmdir", self._name(path, dir_fd))


def test_the_port_sees_every_sync_in_order(tmp_path: Path) -> None:
    (tmp_path / "more").touch()  # or the folder may have been made just now, by a killed process
    fs = NamingFileSystem(tmp_path)
    manager = SessionManager(
        SessionStore(tmp_path / "new" / "base", fs=fs, token=FakeTokens()),
        clock=FakeClock(),
    )

    session = manager.create()
    assert fs.told() == NEW_BASE + FIRST_SAVE
    manager.add_history("noted")
    assert fs.told() == SAVE
    manager.complete()
    assert fs.told() == SAVE
    manager.create()
    assert fs.told() == FIRST_SAVE
    manager.store.delete(session.session_id)
    assert deletion(fs.told()) == DELETION


def test_attachments_are_synced_before_the_session_appears(tmp_path: Path) -> None:
    fs = NamingFileSystem(tmp_path)
    store = SessionStore(tmp_path / "new" / "base", fs=fs)
    store.ensure_directory()
    fs.told()

    SessionManager(store).create(attachments={"plan.yaml": b"steps: []\n"})

    assert fs.told() == [
        "mkdir new/base/HIDDEN",
        "create new/base/HIDDEN/plan.yaml",
        "write new/base/HIDDEN/plan.yaml",
        "fsync new/base/HIDDEN/plan.yaml",
        *FIRST_SAVE[1:],
    ]


# ---------------------------------------------------- what a killed process made and did not sync


@pytest.mark.parametrize("left", ["new", "new/base"])
def test_a_base_that_a_killed_process_made_is_synced_before_it_is_used(
    tmp_path: Path, left: str
) -> None:
    (tmp_path / "more").touch()
    (tmp_path / left).mkdir(parents=True)
    fs = NamingFileSystem(tmp_path)

    SessionStore(tmp_path / "new" / "base", fs=fs).ensure_directory()

    above = os.path.dirname(left) or "."
    rest = NEW_BASE[2:] if left == "new" else NEW_BASE[4:]
    assert fs.told() == [f"fsync {above}", *rest]


FRAME = ["write new/base/SESSION/streams/turns.log", "fsync new/base/SESSION/streams/turns.log"]
BEGUN = ["fsync new/base/SESSION", "fsync new/base/SESSION/streams"]


def streaming(top: Path) -> tuple[NamingFileSystem, SessionStore, Path]:
    fs = NamingFileSystem(top)
    store = SessionStore(top / "new" / "base", fs=fs)
    session = SessionManager(store).create()
    fs.told()
    return fs, store, store.session_directory(session.session_id) / "streams"


def test_a_streams_names_are_synced_before_its_first_entry(tmp_path: Path) -> None:
    fs, store, folder = streaming(tmp_path)
    entry = [NewEntry(b"head", b"body")]

    store.append_entries(folder.parent.name, "turns", entry)
    assert fs.told() == [
        "mkdir new/base/SESSION/streams",
        "create new/base/SESSION/streams/turns.log",
        *BEGUN,
        *FRAME,
    ]
    store.append_entries(folder.parent.name, "turns", entry)
    assert fs.told() == FRAME


@pytest.mark.parametrize("left", ["folder", "log"])
def test_what_a_killed_process_made_of_a_stream_is_synced_by_the_next_append(
    tmp_path: Path, left: str
) -> None:
    fs, store, folder = streaming(tmp_path)
    folder.mkdir()
    if left == "log":
        (folder / "turns.log").touch()

    store.append_entries(folder.parent.name, "turns", [NewEntry(b"head", b"body")])

    made = [] if left == "log" else ["create new/base/SESSION/streams/turns.log"]
    assert fs.told() == [*made, *BEGUN, *FRAME]


def test_a_stream_is_replaced_in_a_folder_that_is_synced(tmp_path: Path) -> None:
    fs, store, folder = streaming(tmp_path)
    folder.mkdir()

    store.replace_entries(folder.parent.name, "turns", [NewEntry(b"head", b"body")])

    told = fs.told()
    renamed = next(one for one in told if one.startswith("rename"))
    assert told.index("fsync new/base/SESSION") < told.index(renamed)


def test_steps_that_a_killed_process_began_are_synced(tmp_path: Path) -> None:
    fs, store, folder = streaming(tmp_path)
    folder.with_name("steps").mkdir()

    store.keep_step(folder.parent.name, "one.json", b"{}")

    told = fs.told()
    renamed = next(one for one in told if one.startswith("rename"))
    assert told.index("fsync new/base/SESSION") < told.index(renamed)
    store.keep_step(folder.parent.name, "two.json", b"{}")
    assert "fsync new/base/SESSION" not in fs.told()


WORK = """
import os, sys
from pathlib import Path
from agentforge_sessions.harness import (SessionManager, SessionStore)

manager = SessionManager(SessionStore(Path(sys.argv[1]) / "new" / "base"))
def mark(name):
    try:
        os.rmdir(f"/nowhere/{name}")
    except OSError:
        pass
mark("created")
session = manager.create()
mark("saved")
manager.add_history("noted")
mark("second")
manager.release(); manager.create()
mark("deleted")
manager.store.delete(session.session_id)
mark("end")
"""

_CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)(?:<(.*)>)?(?: .*)?$")
_DIR_FD = re.compile(r"(?:AT_FDCWD(?:<[^>]*>)?|\d+<([^>]*)>)")
_TRACED = "open,openat,write,writev,pwrite64,fsync,fdatasync,sync,syncfs,rename,renameat,renameat2"
_REMOVING = "mkdir,mkdirat,unlink,unlinkat,rmdir,link,linkat,ftruncate,truncate,sync_file_range"


def from_strace(output: str, top: Path) -> dict[str, list[str]]:
    """Turn what strace says of changes under `top` into lines like those of the port."""
    parts: dict[str, list[str]] = {}
    lines: list[str] = []

    def told(path: str) -> str:
        return os.path.relpath(path, top)

    for raw in output.splitlines():
        match = _CALL.match(raw)
        if match is None:
            continue
        call, arguments, result, result_path = match.groups()
        if "/nowhere/" in arguments:
            found = re.search(r"/nowhere/(\w+)", arguments)
            assert found is not None
            lines = parts.setdefault(found[1], [])
            continue
        if int(result) < 0:
            continue
        paths = []
        directory = None
        for piece in re.finditer(
            r'AT_FDCWD(?:<[^>]*>)?|(\d+)<([^>]*)>|"((?:[^"\\]|\\.)*)"', arguments
        ):
            if piece[3] is not None:
                paths.append(os.path.join(directory or "", piece[3]))
                directory = None
            else:
                directory = piece[2]
                if call in {"write", "writev", "fsync", "fdatasync"}:
                    paths.append(piece[2])
                    break
        if not paths or not paths[0].startswith(str(top)):
            continue
        if call == "openat":
            if "O_CREAT" in arguments:
                lines.append(plainly(f"create {told(result_path or paths[0])}"))
        elif call.startswith("rename"):
            lines.append(plainly(f"rename {told(paths[0])} to {told(paths[1])}"))
        else:
            name = {"mkdirat": "mkdir", "writev": "write", "unlinkat": "unlink"}.get(call, call)
            if "AT_REMOVEDIR" in arguments:
                name = "rmdir"
            lines.append(plainly(f"{name} {told(paths[0])}"))
    return parts


def test_the_kernel_sees_every_sync_in_order(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    log = tmp_path / "strace.log"
    top = (tmp_path / "top").resolve()
    top.mkdir()
    done = subprocess.run(
        [
            *(strace, "-f", "-y", "-s", "4096", "-o", str(log)),
            *("-e", f"trace={_TRACED},{_REMOVING}"),
            *(sys.executable, "-B", "-c", WORK, str(top)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    if done.returncode != 0 and "ptrace" in done.stderr.lower():
        pytest.skip(f"strace may not trace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr

    parts = from_strace(log.read_text(errors="replace"), top)

    whole = NEW_BASE + FIRST_SAVE
    assert parts["created"][: len(whole)] == whole
    assert parts["created"][len(whole)] == "mkdir new/base/.prune"  # for a prune of a full disk
    assert parts["saved"] == SAVE
    assert parts["second"] == FIRST_SAVE
    assert deletion(parts["deleted"]) == DELETION
