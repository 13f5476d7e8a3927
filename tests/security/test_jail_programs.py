"""Each jail program, started by root and by an ordinary user, with control groups and watched.

What a program says of itself is one part of the judgement; the others are the host's own: how it
ended, the secret in what was printed, what is outside, and that nothing of it lives any more.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
from attrs import frozen

from agentforge_sessions.jail import JailLimits, JailPolicy, JailResult
from tests.security.jail_programs import BY_THE_WAY, KIT, LIMITS, PROGRAMS, Program
from tests.support.jail_starters import PYTHON, USER, Starter, ground, require_jails
from tests.support.soak import SOAKING

SECRET: Final = "the-secret-of-the-host-91c4"
TIGHT: Final = {
    "deadline_s": 100.0,
    "memory_bytes": 200 << 20,
    "processes": 64,
    "file_bytes": 16 << 20,
    "workspace_bytes": 100 << 20,
    "workspace_files": 2000,
    "output_bytes": 1 << 20,
    "open_files": 256,
    "scratch_bytes": 32 << 20,
}
WAYS: Final = {
    "this user": (None, True),
    "this user, watched": (None, False),
    "an ordinary user": (USER, False),
}
pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="a jail needs Linux"),
]


QUICK: Final = {"this user": 0, "an ordinary user": 1}
CASES: Final = [  # in a soak each in each way, else in one; always where the way is what limits
    (way, name)
    for way in WAYS
    for number, name in enumerate(PROGRAMS)
    if SOAKING or name in BY_THE_WAY or number % 2 == QUICK.get(way)
]


@pytest.fixture(scope="module")
def starters() -> Iterator[dict[int | None, Starter]]:
    made: dict[int | None, Starter] = {}
    try:
        yield made
    finally:
        for one in made.values():
            one.close()


def starter_of(starters: dict[int | None, Starter], user: int | None) -> Starter:
    """The starter of a user; skips the test where that user can make no jails."""
    if user is not None and os.geteuid() != 0:
        pytest.skip("only root can start jails as another user; this one is ordinary itself")
    if user not in starters:
        made = Starter(user)
        try:
            require_jails(made)
        except BaseException:
            made.close()
            raise
        starters[user] = made
    return starters[user]


@frozen(kw_only=True)
class Ground:
    """Where a program runs, and what is beside its workspace."""

    base: Path
    workspace: Path
    environment: dict[str, str]

    def outside(self) -> set[tuple[str, int, int, bytes]]:
        """What is beside the workspace."""
        found = set()
        for folder, folders, names in os.walk(self.base):
            if Path(folder) == self.base:
                folders.remove("workspace")
            for name in [*folders, *names]:
                path = Path(folder, name)
                seen = path.lstat()
                content = path.read_bytes() if path.is_file() else b""
                found.add((str(path), seen.st_mode, seen.st_nlink, content))
        return found


@contextmanager
def prepared(user: int | None) -> Iterator[Ground]:
    with ground(user) as base, ExitStack() as held:
        (base / "secret.txt").write_text(SECRET)
        (base / "other-session").mkdir()
        (base / "other-session" / "work.txt").write_text(SECRET)
        (base / "home" / ".ssh").mkdir(parents=True)
        (base / "home" / ".ssh" / "id_rsa").write_text(SECRET)
        workspace = base / "workspace"
        workspace.mkdir(mode=0o700)
        tcp = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        name = f"agentforge-{os.getpid()}-{base.name}"
        abstract = held.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0{name}")
        abstract.listen()
        named = held.enter_context(socket.socket(socket.AF_UNIX))
        named.bind(str(base / "host.sock"))
        named.listen()
        if user is not None:
            for folder, folders, names in os.walk(base):
                for each in [*folders, *names]:
                    os.chown(Path(folder, each), user, user, follow_symlinks=False)
        yield Ground(
            base=base,
            workspace=workspace,
            environment={
                "BASE": str(base),
                "PORT": str(tcp.getsockname()[1]),
                "ABSTRACT": name,
                "HOST_PID": str(os.getpid()),
            },
        )


def lives(marker: str) -> list[str]:
    """The processes of this machine whose command line has a text in it."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            continue
        if marker.encode() in line and int(pid) != os.getpid():
            found.append(pid)
    return found


def tried(starter: Starter, control_groups: bool, place: Ground, program: Program) -> JailResult:
    source = f"{KIT}\n{program.source}\nprint('DONE', flush=True)\n"
    return starter.run(
        policy=JailPolicy(
            limits=JailLimits(**{**TIGHT, **program.limits}),  # type: ignore[arg-type]
            environment=place.environment,
        ),
        command=(PYTHON, "-I", "-c", source, f"marker-{place.base.name}"),
        workspace=place.workspace,
        control_groups=control_groups,
    )


@pytest.fixture(autouse=True)
def _host_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_ONLY", SECRET)


@pytest.mark.parametrize(("way", "name"), CASES)
def test_a_program_is_contained(starters: dict[int | None, Starter], way: str, name: str) -> None:
    user, control_groups = WAYS[way]
    by = starter_of(starters, user)
    program = PROGRAMS[name]
    with prepared(user) as place:
        before = place.outside()
        result = tried(by, control_groups, place, program)
        said = (result.stdout + result.stderr).decode("utf-8", "replace")
        end = result.exit_code if result.stopped is None else result.stopped
        assert end in program.ends, (result, said[-3000:])
        assert "ESCAPED" not in said, said[-3000:]
        assert not program.done or "DONE" in said, said[-3000:]
        assert SECRET not in said
        assert result.started
        assert result.sealed
        assert place.outside() == before
        assert lives(f"marker-{place.base.name}") == []
        assert not list(place.workspace.glob("core*"))


@pytest.mark.parametrize("way", WAYS)
def test_after_the_worst_the_next_jail_runs(starters: dict[int | None, Starter], way: str) -> None:
    user, control_groups = WAYS[way]
    by = starter_of(starters, user)
    with prepared(user) as place:
        tried(by, control_groups, place, LIMITS["make_many_files"])
        result = by.run(policy=JailPolicy(), command=("true",), workspace=place.workspace)
        assert result.exit_code == 0


def test_there_are_sixty_programs() -> None:
    assert len(PROGRAMS) >= 60
