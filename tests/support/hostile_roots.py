"""Roots of sessions as an enemy, or a bad day, would leave them, with canaries beside."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from attrs import define, field

from tests.support.mounts import immutable, mounted_tmpfs

OLD = timedelta(days=30)
FIFTY = 50


def name_of(number: int) -> str:
    """The id of a session by a number."""
    return str(uuid.UUID(int=number, version=4))


def metadata(session_id: str, /, **changes: object) -> dict[str, object]:
    """The fields of an old session's metadata, some of them changed."""
    moment = (datetime.now(UTC) - OLD).isoformat().replace("+00:00", "Z")
    fields = {
        "session_id": session_id,
        "created_at": moment,
        "updated_at": moment,
        "version": 1,
    }
    return {**fields, **changes}


def snapshot(top: Path) -> dict[str, tuple[object, ...]]:
    """All that is in a tree, and the tree itself, without following a link."""
    found: dict[str, tuple[object, ...]] = {}
    stack = [os.fsencode(top)]
    while stack:
        path = stack.pop()
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        shown: object = None
        if stat.S_ISLNK(status.st_mode):
            shown = os.readlink(path)
        elif stat.S_ISREG(status.st_mode):
            with open(path, "rb") as file:
                shown = file.read()
        elif stat.S_ISDIR(status.st_mode):
            stack += [path + b"/" + name for name in os.listdir(path)]
        about = (status.st_mode, status.st_ino, status.st_uid, status.st_mtime_ns)
        found[os.fsdecode(path)] = (*about, shown)
    return found


@define(slots=False)
class HostileRoot:
    """A root with an old session, a young one, and whatever a case plants.

    Attributes:
        top: Where all of it is: the root, and `outside` with the canaries.
        stack: Undoes mounts and the like.
        planted: What the case is about; its names in the root.
    """

    top: Path
    stack: ExitStack
    planted: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.root = self.top / "root"
        self.outside = self.top / "outside"
        self.root.mkdir()
        for directory in (self.outside, self.outside / "deep" / "deeper"):
            directory.mkdir(parents=True)
            (directory / "canary.txt").write_text("alive\n")
            (directory / "link").symlink_to(self.root)
        (self.outside / ".metadata.json").write_text(json.dumps(metadata(name_of(FIFTY))))
        self.old = self.session(1).name
        self.young = self.session(2, updated_at=datetime.now(UTC).isoformat()).name

    def session(self, number: int, **changes: object) -> Path:
        """Make an old session, of which the metadata may be changed."""
        made = self.root / name_of(number)
        made.mkdir()
        (made / "work.txt").write_text("work\n")
        (made / "src" / "deep").mkdir(parents=True)
        (made / "src" / "deep" / "module.py").write_text("x = 1\n")
        (made / ".metadata.json").write_text(json.dumps(metadata(made.name, **changes)))
        return made

    def hostile(self, **changes: object) -> Path:
        """Make the old session that the case is about."""
        made = self.session(FIFTY, **changes)
        self.planted.append(made.name)
        return made

    def called(self, name: str | bytes) -> Path:
        """Name something in the root that the case is about."""
        text = os.fsdecode(name)
        self.planted.append(text)
        return self.root / text

    def with_metadata(self, content: bytes) -> None:
        """Make the session that the case is about, with such metadata."""
        (self.hostile() / ".metadata.json").write_bytes(content)

    def without_metadata(self) -> Path:
        """Make the session that the case is about; return where its metadata would be."""
        path = self.hostile() / ".metadata.json"
        path.unlink()
        return path

    def private(self, *names: str) -> Path:
        """Make the private directory, and one in it."""
        made = self.root / ".prune"
        made.mkdir(mode=0o700, exist_ok=True)
        for name in names:
            made /= name
            made.mkdir(mode=0o700, exist_ok=True)
        return made

    def bind(self, source: Path, point: Path) -> None:
        """Bind something of the same file system to a place in the root."""
        if os.geteuid() != 0:
            pytest.skip("mounting takes root")
        done = subprocess.run(
            ["mount", "--bind", str(source), str(point)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            pytest.skip(f"nothing can be bound here: {done.stderr.strip()}")
        self.stack.callback(self._unmount_all)

    def _unmount_all(self) -> None:
        """Unmount all below the root, wherever it was renamed to."""
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            points = [line.split()[4] for line in mounts]
        for point in reversed([one for one in points if one.startswith(f"{self.top}/")]):
            subprocess.run(["umount", "--lazy", point], check=True, capture_output=True)

    def mount(self, point: Path) -> None:
        """Mount another file system, with a file in it."""
        self.stack.enter_context(mounted_tmpfs(point, options="size=64k"))
        self.stack.callback(self._unmount_all)
        (point / "canary.txt").write_text("alive\n")

    def freeze(self, path: Path) -> None:
        """Make something immutable."""
        thaw = ["chattr", "-R", "-f", "-i", str(self.top)]  # wherever it was renamed to
        self.stack.callback(subprocess.run, thaw, check=False, capture_output=True)
        self.stack.enter_context(immutable(path))


# ------------------------------------------------------------------------------ what can be planted

Plant = Callable[[HostileRoot], object]
STAYS: dict[str, Plant] = {}
"""What no prune touches, and nobody hears an error of."""
GOES: dict[str, Plant] = {}
"""Old sessions, however odd what they hold."""
RESISTS: dict[str, Plant] = {}
"""Old sessions, or what was on its way out, that can't all go; it is reported and all else goes."""
REFUSED: dict[str, Plant] = {}
"""Roots in which nothing can be pruned, which is said before anything is."""


def _in(cases: dict[str, Plant]) -> Callable[[Plant], Plant]:
    def add(plant: Plant) -> Plant:
        cases[plant.__name__.lstrip("_")] = plant
        return plant

    return add


def fifo(path: Path) -> None:
    os.mkfifo(path)


def sock(path: Path) -> None:
    """Leave a socket at a path, however long it is."""
    here = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)


def device(path: Path) -> None:
    """Make a device as harmless as there is: /dev/null's."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("devices can't be made here")


def _link_to_outside(root: HostileRoot) -> None:
    root.called(name_of(FIFTY)).symlink_to(root.outside)


STAYS |= {
    "a session's name as a link to a directory outside": _link_to_outside,
    "a session's name as a link to another session": lambda root: root.called(
        name_of(FIFTY)
    ).symlink_to(root.young),
    "a session's name as a link to nothing": lambda root: root.called(name_of(FIFTY)).symlink_to(
        "nothing"
    ),
    "a session's name as a link to itself": lambda root: root.called(name_of(FIFTY)).symlink_to(
        name_of(FIFTY)
    ),
    "a session's name as a link to the root": lambda root: root.called(name_of(FIFTY)).symlink_to(
        "."
    ),
    "a session's name as a file": lambda root: root.called(name_of(FIFTY)).write_text("x"),
    "a session's name as a FIFO": lambda root: fifo(root.called(name_of(FIFTY))),
    "a session's name as a socket": lambda root: sock(root.called(name_of(FIFTY))),
    "a session's name as a device": lambda root: device(root.called(name_of(FIFTY))),
    "metadata that is missing": lambda root: root.without_metadata(),
    "metadata that is a directory": lambda root: root.without_metadata().mkdir(),
    "metadata that is a FIFO": lambda root: fifo(root.without_metadata()),
    "metadata that is a socket": lambda root: sock(root.without_metadata()),
    "metadata that is a device": lambda root: device(root.without_metadata()),
    "metadata that is a link to some outside": lambda root: root.without_metadata().symlink_to(
        root.outside / ".metadata.json"
    ),
    "metadata that is a link to nothing": lambda root: root.without_metadata().symlink_to("no"),
    "metadata that is a link to itself": lambda root: root.without_metadata().symlink_to(
        ".metadata.json"
    ),
}


def _locked_metadata(root: HostileRoot) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (root.hostile() / ".metadata.json").chmod(0)


STAYS["metadata that nobody may read"] = _locked_metadata


def _text(**changes: object) -> bytes:
    return json.dumps(metadata(name_of(FIFTY), **changes)).encode()


def _with_metadata(content: bytes) -> Plant:
    return lambda root: root.with_metadata(content)


_NAMED = b'{"session_id": "%s", ' % name_of(FIFTY).encode()
STAYS |= {
    f"metadata {what}": _with_metadata(content)
    for what, content in {
        "of nothing": b"",
        "of one byte": b"{",
        "of 10 MB": _text(extra="x" * 10_000_000),
        "of 10 MB of zeros": bytes(10_000_000),
        "of invalid UTF-8": _text().replace(b"session_id", b"session\xff\xfe"),
        "of UTF-16": _text().decode().encode("utf-16"),
        "nested 30,000 deep": b"[" * 30_000 + b"]" * 30_000,
        "with a field nested 30,000 deep": _text()[:-1] + b', "x": ' + b'{"y":' * 30_000 + b"1",
        "with a name twice": _text()[:-1] + b', "version": 1}',
        "with NaN": _text(extra=float("nan")),
        "with infinity": _text(extra=float("inf")),
        "with a number beyond all floats": _text()[:-1] + b', "x": 1e999}',
        "with a number of 30,000 digits": _text()[:-1] + b', "x": ' + b"9" * 30_000 + b"}",
        "that is a list": b"[" + _text() + b"]",
        "that is a string": b'"' + name_of(FIFTY).encode() + b'"',
        "of another session": json.dumps(metadata(name_of(51))).encode(),
        "of a later version": _text(version=2),
        "with a version that is true": _text(version=True),
        "with an id of another type": _text(session_id=[name_of(FIFTY)]),
        "in the future": _text(updated_at="2999-01-01T00:00:00Z"),
        "an hour in the future": _text(
            updated_at=(datetime.now(UTC) + timedelta(hours=1)).isoformat()
        ),
        "at the end of time": _text(updated_at="9999-12-31T23:59:59.999999Z"),
        "beyond the end of time": _text(updated_at="9999-12-31T23:59:59-23:59"),
        "before the beginning of time": _text(updated_at="0001-01-01T00:00:00+23:59"),
        "in year 10,000": _text(updated_at="10000-01-01T00:00:00Z"),
        "with a time that is a number": _text(updated_at=0),
        "with a time that is null": _text(updated_at=None),
        "with a time of 100,000 characters": _text(updated_at="2" * 100_000),
        "with a time of other digits": _text(updated_at="\uff12\uff10\uff12\uff10-01-01T00:00:00Z"),
        "used before it was created": _text(updated_at="2020-01-01T00:00:00Z"),
        "used just now, in local time": _text(
            updated_at=datetime.now(UTC).astimezone().isoformat()
        ),
    }.items()
}


def _other_name(name: str | bytes) -> Plant:
    def plant(root: HostileRoot) -> None:
        made = root.session(FIFTY)
        made.rename(root.called(name))

    return plant


STAYS |= {
    f"a directory called {what}": _other_name(name)
    for what, name in {
        "like an id in uppercase": "ABCDEFAB-CDEF-4BCD-8FAB-CDEFABCDEFAB",
        "like an id in braces": "{" + name_of(FIFTY) + "}",
        "like an id without hyphens": name_of(FIFTY).replace("-", ""),
        "like a URN": f"urn:uuid:{name_of(FIFTY)}",
        "like an id and a newline": name_of(FIFTY) + "\n",
        "like an id after a newline": "\n" + name_of(FIFTY),
        "like an id and a blank": name_of(FIFTY) + " ",
        "like an id with a suffix": name_of(FIFTY) + ".bak",
        "like an id in other digits": name_of(FIFTY).replace("0", "\uff10"),
        "like an id with a byte that is no UTF-8": name_of(FIFTY).encode()[:-1] + b"\xff",
        "with bytes that are no UTF-8": b"\xff\xfe\xfd",
        "with 255 bytes": "x" * 255,
        "like escape sequences of a terminal": "\x1b[2J\x1b]0;owned\x07",
        "like an option": "-rf",
        "like a discarded one": ".discarded-" + name_of(FIFTY),
        "like one on its way out": name_of(FIFTY) + "~0123456789abcdef",
    }.items()
}


# ------------------------------------------------------------------------------- sessions that go


def _filled(fill: Callable[[Path, HostileRoot], object], **changes: object) -> Plant:
    def plant(root: HostileRoot) -> None:
        fill(root.hostile(**changes), root)

    return plant


def _links(session: Path, root: HostileRoot) -> None:
    for at in (session, session / "src", session / "src" / "deep"):
        (at / "to a directory").symlink_to(root.outside)
        (at / "to a file").symlink_to(root.outside / "canary.txt")
        (at / "to nothing").symlink_to("nothing")
        (at / "to itself").symlink_to("to itself")
        (at / "up and out").symlink_to("../" * 40)
        (at / "to the system").symlink_to("/")


def _hard_links(session: Path, root: HostileRoot) -> None:
    for at in (session, session / "src" / "deep"):
        (at / "hard").hardlink_to(root.outside / "canary.txt")
        (at / "harder").hardlink_to(root.outside / "deep" / "deeper" / "canary.txt")


def _hard_metadata(session: Path, root: HostileRoot) -> None:
    (session / ".metadata.json").unlink()
    (session / ".metadata.json").hardlink_to(root.outside / ".metadata.json")


def _specials(session: Path, root: HostileRoot) -> None:
    fifo(session / "fifo")
    sock(session / "src" / "socket")
    device(session / "src" / "deep" / "device")


def _modes(session: Path, root: HostileRoot) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root deletes these")
    (session / "work.txt").chmod(0)
    for path in (session / "src" / "deep", session / "src", session):
        path.chmod(0)


def _odd_names(session: Path, root: HostileRoot) -> None:
    names = [b"\n", b"\xff\xfe", b"x" * 255, b"-rf", b" ", b"~", b"*", b"\x1b[2J", b"..."]
    for at in (session, session / "src"):
        for name in names:
            (at / os.fsdecode(name)).mkdir()
            (at / os.fsdecode(name) / os.fsdecode(name)).write_text("x")
    (session / ".discarded-1").mkdir()
    (session / f".discarded-{os.getpid()}-1").mkdir()
    (session / f".discarded-{os.getpid()}-2").write_text("x")


def deep(levels: int) -> Callable[[Path, HostileRoot], None]:
    """Nest directories deeper than any path can be."""

    def fill(session: Path, root: HostileRoot) -> None:
        fd = os.open(session, os.O_RDONLY | os.O_DIRECTORY)
        for _ in range(levels):
            os.mkdir("d", dir_fd=fd)
            below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = below
        os.close(os.open("bottom", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=fd))
        os.symlink(root.outside, "link", dir_fd=fd)
        os.close(fd)

    return fill


def wide(entries: int) -> Callable[[Path, HostileRoot], None]:
    """Put many entries into one directory."""

    def fill(session: Path, root: HostileRoot) -> None:
        fd = os.open(session / "src", os.O_RDONLY | os.O_DIRECTORY)
        for number in range(entries):
            os.close(os.open(f"{number}", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=fd))
        os.close(fd)

    return fill


def _nothing(session: Path, root: HostileRoot) -> None:
    pass


def _local(session: Path, root: HostileRoot) -> None:
    moment = (datetime.now(UTC) - OLD).replace(tzinfo=None).isoformat()
    fields = metadata(session.name, created_at=f"{moment}+14:00", updated_at=f"{moment}-11:30")
    (session / ".metadata.json").write_text(json.dumps(fields))


def _naive(session: Path, root: HostileRoot) -> None:
    fields = metadata(session.name, created_at="2020-01-01", updated_at="2020-02-01T00:00:00")
    (session / ".metadata.json").write_text(json.dumps(fields))


GOES |= {
    f"a session {what}": _filled(fill)
    for what, fill in {
        "like any other": _nothing,
        "with links to everything": _links,
        "with hard links to files outside": _hard_links,
        "whose metadata is a hard link to some outside": _hard_metadata,
        "with a FIFO, a socket and a device": _specials,
        "whose directories nobody may read": _modes,
        "with names that are hard to say": _odd_names,
        "dated in local time": _local,
        "dated without a zone": _naive,
    }.items()
} | {
    "a session of the year 1": _filled(
        _nothing, created_at="0001-01-01T00:00:00Z", updated_at="0001-01-01T00:00:00Z"
    )
}


# ------------------------------------------------------------------------------- what can't all go


def _immutable_file(session: Path, root: HostileRoot) -> None:
    root.freeze(session / "src" / "deep" / "module.py")


def _immutable_directory(session: Path, root: HostileRoot) -> None:
    root.freeze(session / "src")


def _immutable_session(session: Path, root: HostileRoot) -> None:
    root.freeze(session)


RESISTS |= {
    "a file that can't be deleted": _filled(_immutable_file),
    "a directory that can't be changed": _filled(_immutable_directory),
    "a session's directory that can't be changed": _filled(_immutable_session),
}


def _mounted(where: str) -> Plant:
    def plant(root: HostileRoot) -> None:
        session = root.hostile()
        root.mount(session / where)

    return plant


def _bound(where: str) -> Plant:
    def plant(root: HostileRoot) -> None:
        session = root.hostile()
        (session / where).mkdir(exist_ok=True)
        root.bind(root.outside, session / where)

    return plant


def _bound_file(where: str, source: str) -> Plant:
    def plant(root: HostileRoot) -> None:
        session = root.hostile()
        root.bind(root.outside / source, session / where)

    return plant


STAYS |= {
    "a session that another file system is mounted at": _mounted("."),
    "a session with another file system in it": _mounted("src"),
    "a session with another file system deep in it": _mounted("src/deep"),
    "a session that a directory outside is bound to": _bound("."),
    "a session that a directory outside is bound into": _bound("src"),
    "a session that a directory outside is bound deep into": _bound("src/deep"),
    "a session that a file outside is bound into": _bound_file("src/deep/module.py", "canary.txt"),
    "a session that metadata outside is bound into": _bound_file(
        ".metadata.json", ".metadata.json"
    ),
}


def _foreign(where: str) -> Plant:
    def plant(root: HostileRoot) -> None:
        if os.geteuid() != 0:
            pytest.skip("giving files away takes root")
        os.lchown(root.hostile() / where, 12345, 12345)

    return plant


STAYS |= {
    "another user's session": _foreign("."),
    "a session with a file of another user": _foreign("work.txt"),
    "a session with a directory of another user": _foreign("src"),
    "a session with a file of another user deep in it": _foreign("src/deep/module.py"),
}


def _bound_on_its_way(kind: str) -> Plant:
    def plant(root: HostileRoot) -> None:
        expired = ".sandbox.1.2.1" if kind == "trash" else ""
        root.bind(root.outside, root.private(kind, f"{name_of(FIFTY)}~0123456789abcdef{expired}"))

    return plant


def _mounted_on_its_way(kind: str) -> Plant:
    def plant(root: HostileRoot) -> None:
        root.mount(root.private(kind, f"{name_of(FIFTY)}~0123456789abcdef"))

    return plant


RESISTS |= {
    "something bound to a session on its way out": _bound_on_its_way("going"),
    "something bound to a session in the trash": _bound_on_its_way("trash"),
    "something mounted at a session on its way out": _mounted_on_its_way("going"),
}


# ------------------------------------------------------------------------ what nothing is pruned in


def _private_is(make: Callable[[Path, HostileRoot], object], *below: str) -> Plant:
    """Have something else in the place of the private directory, or of something in it."""

    def plant(root: HostileRoot) -> None:
        path = root.root.joinpath(".prune", *below)
        if below:
            root.private(*below[:-1])
        make(path, root)

    return plant


def _link_out(path: Path, root: HostileRoot) -> None:
    path.symlink_to(root.outside)


def _link_to_a_file(path: Path, root: HostileRoot) -> None:
    path.symlink_to(root.outside / "canary.txt")


def _hard_link_to_a_file(path: Path, root: HostileRoot) -> None:
    path.hardlink_to(root.outside / "canary.txt")


def _a_file(path: Path, root: HostileRoot) -> None:
    path.write_text("in the way")


def _a_fifo(path: Path, root: HostileRoot) -> None:
    fifo(path)


def _a_device(path: Path, root: HostileRoot) -> None:
    device(path)


def _a_directory(path: Path, root: HostileRoot) -> None:
    path.mkdir()


def _bound_place(path: Path, root: HostileRoot) -> None:
    path.mkdir()
    root.bind(root.outside, path)


def _mounted_place(path: Path, root: HostileRoot) -> None:
    root.mount(path)


def _of_another(path: Path, root: HostileRoot) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving files away takes root")
    path.mkdir()
    os.chown(path, 12345, 12345)


REFUSED |= {
    f".prune {what}": _private_is(make)
    for what, make in {
        "is a link to a directory outside": _link_out,
        "is a file": _a_file,
        "is a FIFO": _a_fifo,
        "is a device": _a_device,
        "is another user's": _of_another,
        "is bound to a directory outside": _bound_place,
        "is another file system": _mounted_place,
    }.items()
}
REFUSED |= {
    f".prune/{name} {what}": _private_is(make, name)
    for name in ("going", "coming", "trash")
    for what, make in {
        "is a link to a directory outside": _link_out,
        "is a file": _a_file,
        "is a FIFO": _a_fifo,
        "is bound to a directory outside": _bound_place,
    }.items()
}
REFUSED |= {
    f".prune/audit.jsonl {what}": _private_is(make, "audit.jsonl")
    for what, make in {
        "is a link to a file outside": _link_to_a_file,
        "is a link to a directory outside": _link_out,
        "is a hard link to a file outside": _hard_link_to_a_file,
        "is a FIFO": _a_fifo,
        "is a device": _a_device,
        "is a directory": _a_directory,
    }.items()
}
REFUSED |= {
    f".prune/pins {what}": _private_is(make, "pins")
    for what, make in {
        "is a link to a directory outside": _link_out,
        "is a file": _a_file,
        "is a FIFO": _a_fifo,
    }.items()
}


def plant_on_its_way(root: HostileRoot, kind: str) -> None:
    """Plant all kinds of things among what is on its way out, or in the trash."""
    place = root.private(kind)
    (place / f"{name_of(60)}~link").symlink_to(root.outside)
    (place / "no id").symlink_to(root.outside / "canary.txt")
    (place / f"{name_of(61)}~file").write_text("x")
    fifo(place / f"{name_of(62)}~fifo")
    sock(place / "socket")
    for name in (b"~", b"x" * 255, b"\xff\xfe~1", b"\n", b"a~b~c", b"x.json"):
        made = place / os.fsdecode(name)
        made.mkdir()
        (made / "link").symlink_to(root.outside)
        (made / "hard").hardlink_to(root.outside / "canary.txt")
    if kind == "trash":
        for number, times in enumerate(
            ("", "..", "1.2", "-1.2.1", "1.2.1.json", "g.2.1", f"1.{'f' * 20}.1", "1.2.1~")
        ):
            (place / f"{name_of(70 + number)}~x.sandbox.{times}").mkdir()
        (place / f"{name_of(80)}~x.sandbox.1.2.1").symlink_to(root.outside)
        (place / f"{name_of(81)}~x.sandbox.1.2.1").write_text("x")
        fifo(place / f"{name_of(82)}~x.sandbox.1.2.1")
        (place / "\udcff~x.sandbox.1.2.1").symlink_to(root.outside)
